package ai2

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"olmes/foreign/results"
	"olmes/record"
)

// Metrics is a file of metrics: of one task (…-metrics.json), of a whole run
// (metrics.json, metrics-all.jsonl), or olmo-eval's metrics.json.
type Metrics struct {
	Stem  string
	File  record.ImportFile
	Tasks []*TaskMetrics
	later bool // olmo-eval's
	model map[string]any
}

// TaskMetrics is what was printed of one task.
type TaskMetrics struct {
	name      string // task_name
	alias     string // metadata's alias: "arc_easy:mc::olmes"
	config    taskConfig
	rawConfig map[string]any
	values    map[string]results.Number
	nested    map[string]results.Number // olmo-eval's, by "metric:scorer"
	n         int
	taskHash  string
	modelHash string
	model     map[string]any
	date      string
	seconds   float64
	group     bool // a mean over other tasks
}

type taskConfig struct {
	Split         string        `json:"split"`
	Limit         results.Loose `json:"limit"`
	SubsampleSeed results.Loose `json:"random_subsample_seed"`
	Shots         results.Loose `json:"num_shots"`
	FewshotSource *string       `json:"fewshot_source"`
	Primary       string        `json:"primary_metric"`
	Metadata      struct {
		Alias    string   `json:"alias"`
		Regimes  []string `json:"regimes"`
		NumTasks *int     `json:"num_tasks"`
	} `json:"metadata"`
}

// taskDoc is one task in a file of metrics.
type taskDoc struct {
	Name       string                     `json:"task_name"`
	Alias      string                     `json:"alias"` // in the whole run's metrics.json
	Task       string                     `json:"task"`  // olmo-eval's
	TaskHash   string                     `json:"task_hash"`
	ModelHash  string                     `json:"model_hash"`
	Model      map[string]any             `json:"model_config"`
	Config     map[string]any             `json:"task_config"`
	Later      map[string]any             `json:"config"` // olmo-eval's task_config
	Metrics    map[string]json.RawMessage `json:"metrics"`
	N          results.Number             `json:"num_instances"`
	Date       string                     `json:"current_date"`
	Seconds    results.Loose              `json:"processing_time"`
	Primary    string                     `json:"primary_metric"` // olmo-eval's
	AllPrimary json.RawMessage            `json:"all_primary_scores"`
	Tasks      []taskDoc                  `json:"tasks"`
	Summary    json.RawMessage            `json:"summary"` // olmo-eval's
}

// ReadMetrics reads a file of metrics.
func ReadMetrics(ctx context.Context, path string) (*Metrics, error) {
	m := &Metrics{Stem: Stem(path)}
	add := func(doc *taskDoc) error {
		switch {
		case doc.Later["models"] != nil:
			return errors.New("it holds several models; import them one by one")
		case doc.Tasks != nil:
			m.later = doc.Summary != nil
			m.model = doc.Model
			if m.later {
				m.model = doc.Later
			}
			for i := range doc.Tasks {
				t, err := doc.Tasks[i].task(m.later)
				if err != nil {
					return err
				}
				m.Tasks = append(m.Tasks, t)
			}
			return nil
		case doc.Name != "" && doc.Metrics != nil:
			t, err := doc.task(false)
			if err == nil {
				m.Tasks = append(m.Tasks, t)
			}
			return err
		case doc.Name != "" && doc.Config != nil:
			return errors.New("it has the task's configuration and no metrics: the run was made without a model")
		}
		return errors.New("no task_name with metrics, and no list of tasks: not AI2's metrics")
	}
	var err error
	if strings.Contains(path, ".jsonl") {
		m.File, err = results.Lines(ctx, path, MetricsFormat, func(_ int, data []byte) error {
			var doc taskDoc
			if err := results.Decode(data, &doc); err != nil {
				return err
			}
			return add(&doc)
		})
		return m, err
	}
	var doc taskDoc
	if m.File, err = results.Whole(path, MetricsFormat, &doc); err != nil {
		return nil, err
	}
	if err := add(&doc); err != nil {
		return nil, &results.Error{File: path, Err: err}
	}
	return m, nil
}

// task makes the metrics of one task.
func (d *taskDoc) task(later bool) (*TaskMetrics, error) {
	t := &TaskMetrics{name: d.Name, alias: d.Alias, taskHash: d.TaskHash, modelHash: d.ModelHash, model: d.Model, date: d.Date,
		values: map[string]results.Number{}, nested: map[string]results.Number{}, rawConfig: d.Config}
	if later {
		t.name, t.alias, t.rawConfig = d.Task, d.Task, d.Later
	}
	if raw, err := json.Marshal(t.rawConfig); err == nil {
		// Fields of other types are some version's own and are left out.
		if json.Unmarshal(raw, &t.config) != nil {
			t.config = taskConfig{}
		}
	}
	if t.alias == "" {
		t.alias = t.config.Metadata.Alias
	}
	if t.name == "" {
		t.name = t.alias
	}
	if t.name == "" {
		return nil, errors.New("a task without a name")
	}
	t.group = t.config.Metadata.NumTasks != nil
	if d.N.Set {
		if !d.N.Finite() || d.N.Value < 0 || d.N.Value != math.Trunc(d.N.Value) || d.N.Value > math.MaxInt32 {
			return nil, errors.New("num_instances is " + d.N.String())
		}
		t.n = int(d.N.Value)
	}
	if d.Seconds.Finite() && d.Seconds.Value > 0 && d.Seconds.Value < 1e9 {
		t.seconds = d.Seconds.Value
	}
	for _, name := range slices.Sorted(maps.Keys(d.Metrics)) {
		raw := d.Metrics[name]
		var v results.Number
		var inner map[string]results.Number
		accuracy := results.IsAccuracy(name) || name == "primary_score" && results.IsAccuracy(t.config.Primary)
		err := json.Unmarshal(raw, &v)
		switch {
		case err == nil && v.Set:
			t.values[name] = v
			if accuracy {
				err = results.CheckAccuracy(name, v)
			}
		case err == nil:
		case later && json.Unmarshal(raw, &inner) == nil:
			err = nil
			for _, scorer := range slices.Sorted(maps.Keys(inner)) {
				if v := inner[scorer]; v.Set {
					t.nested[name+":"+scorer] = v
					if accuracy {
						err = cmp.Or(err, results.CheckAccuracy(name+":"+scorer, v))
					}
				}
			}
		case accuracy && raw[0] != '{' && raw[0] != '[':
			err = fmt.Errorf("%s: want a number, got %.40s", name, raw)
		default:
			err = nil // settings and texts
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmp.Or(t.alias, t.name), err)
		}
	}
	return t, nil
}

// spec is the task as its names tell it: the alias tells more than the name. In
// the bare names of oe-eval only the multiple-choice form has a suffix.
func (t *TaskMetrics) spec() spec {
	s := parseSpec(t.name)
	if a := parseSpec(t.alias); t.alias != "" {
		s.regime = a.regime
		if s.formulation == "" {
			s.formulation = a.formulation
		}
		if a.base != "" {
			s.base = a.base
		}
	}
	return s
}

// standard reports whether the file says that the task was made by OLMES v0.1.
func (t *TaskMetrics) standard() bool {
	s := t.spec()
	return slices.Contains(t.config.Metadata.Regimes, "OLMES-v0.1") || s.regime == "olmes" || strings.HasPrefix(s.regime, "olmes:")
}

// finished is when the task was done, zero where the file does not tell.
func (t *TaskMetrics) finished() time.Time {
	at, err := time.Parse("2006-01-02 15:04:05 MST", t.date)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// text returns a text of a configuration.
func text(config map[string]any, key string) string {
	s, _ := config[key].(string)
	return s
}

// Whole reports whether the file is of a whole run and not of one task.
func (m *Metrics) Whole() bool { return m.Stem == filepath.Base(m.File.Name) }

// Repeats reports whether everything in the file is also in files of one task.
func (m *Metrics) Repeats(all []*Metrics) bool {
	for _, t := range m.Tasks {
		if !slices.ContainsFunc(all, func(o *Metrics) bool {
			return !o.Whole() && slices.ContainsFunc(o.Tasks, func(u *TaskMetrics) bool { return u.spec() == t.spec() })
		}) {
			return false
		}
	}
	return true
}
