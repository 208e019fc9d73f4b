package lmeval

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"olmes/foreign/results"
	"olmes/record"
)

// ResultsFormat names the kind of file.
const ResultsFormat = "lm-eval results"

// Results is a results file.
type Results struct {
	File  record.ImportFile
	Stamp string
	doc   resultsDoc
	more  []record.ImportFile // that were merged in
}

type resultsDoc struct {
	Results      map[string]map[string]any  `json:"results"`
	Groups       map[string]map[string]any  `json:"groups"`
	Subtasks     map[string][]string        `json:"group_subtasks"`
	Configs      map[string]json.RawMessage `json:"configs"`
	Versions     map[string]any             `json:"versions"`
	Shots        map[string]any             `json:"n-shot"`
	Samples      map[string]sampleCount     `json:"n-samples"`
	Config       config                     `json:"config"`
	GitHash      *string                    `json:"git_hash"`
	Date         results.Loose              `json:"date"`
	Version      string                     `json:"lm_eval_version"`
	ExportedBy   string                     `json:"exported_by"` // of what olmes export wrote
	Transformers string                     `json:"transformers_version"`
	MaxLength    *int                       `json:"max_length"`
	ModelSource  string                     `json:"model_source"`
	ModelName    string                     `json:"model_name"`
	ChatTemplate *string                    `json:"chat_template"`
	System       *string                    `json:"system_instruction"`
	TaskHashes   map[string]string          `json:"task_hashes"`
	Seconds      results.Loose              `json:"total_evaluation_time_seconds"`
}

type sampleCount struct {
	Original  int `json:"original"`
	Effective int `json:"effective"`
}

// config is how the model was run.
type config struct {
	Model      any           `json:"model"`
	ModelArgs  any           `json:"model_args"` // a text "a=b,c=d" or an object
	Parameters results.Loose `json:"model_num_parameters"`
	DType      string        `json:"model_dtype"`
	Revision   string        `json:"model_revision"`
	SHA        string        `json:"model_sha"`
	BatchSize  any           `json:"batch_size"`
	Device     any           `json:"device"`
	Limit      any           `json:"limit"`
}

// taskFacts is what is read of a task's configuration.
type taskFacts struct {
	DatasetPath     string  `json:"dataset_path,omitempty"`
	DatasetName     string  `json:"dataset_name,omitempty"`
	TestSplit       string  `json:"test_split,omitempty"`
	ValidationSplit string  `json:"validation_split,omitempty"`
	FewshotSplit    string  `json:"fewshot_split,omitempty"`
	Shots           *int    `json:"num_fewshot,omitempty"`
	OutputType      string  `json:"output_type,omitempty"`
	TargetDelimiter *string `json:"target_delimiter,omitempty"`
	ShotDelimiter   *string `json:"fewshot_delimiter,omitempty"`
}

// stamp is the time in a results file's name.
var stamp = regexp.MustCompile(`(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.json(?:\.gz)?$`)

// ReadResults reads a results file.
func ReadResults(path string) (*Results, error) {
	r := &Results{}
	var err error
	if r.File, err = results.Whole(path, ResultsFormat, &r.doc); err != nil {
		return nil, err
	}
	if len(r.doc.Results) == 0 {
		return nil, &results.Error{File: path, Err: errors.New(`no "results": not a results file of lm-eval`)}
	}
	if err := r.check(); err != nil {
		return nil, &results.Error{File: path, Err: err}
	}
	if m := stamp.FindStringSubmatch(filepath.Base(path)); m != nil {
		r.Stamp = m[1]
	}
	return r, nil
}

// check refuses printed numbers that cannot be what their names say.
func (r *Results) check() error {
	for i, all := range []map[string]map[string]any{r.doc.Results, r.doc.Groups} {
		part := [...]string{"results", "groups"}[i]
		for _, task := range slices.Sorted(maps.Keys(all)) {
			for _, key := range slices.Sorted(maps.Keys(all[task])) {
				if err := checkNumber(key, all[task][key]); err != nil {
					return fmt.Errorf("%s.%s.%w", part, task, err)
				}
			}
		}
	}
	return nil
}

func checkNumber(key string, v any) error {
	metric, _, _ := strings.Cut(key, ",")
	name, se := strings.CutSuffix(metric, "_stderr")
	accuracy := results.IsAccuracy(name)
	f, ok := toFloat(v)
	n := results.Number{Value: f, Set: ok}
	switch {
	case se:
		return results.CheckSE(key, n, accuracy)
	case !accuracy:
		return nil
	case ok:
		return results.CheckAccuracy(key, n)
	}
	switch v := v.(type) {
	case bool:
		return fmt.Errorf("%s is %v; want a number", key, v)
	case string:
		if _, is := results.ParseNumber(v); is {
			return fmt.Errorf("%s is the text %.40q; want a number", key, v)
		}
	}
	return nil
}

// facts returns what the configuration says of a task.
func (r *Results) facts(task string) (f taskFacts, known bool) {
	if r == nil {
		return f, false
	}
	raw, ok := r.doc.Configs[task]
	if !ok {
		return f, false
	}
	// Fields of other types than these are some version's own and are left out.
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return f, false
	}
	for name, to := range map[string]any{
		"dataset_path": &f.DatasetPath, "dataset_name": &f.DatasetName, "test_split": &f.TestSplit, "validation_split": &f.ValidationSplit,
		"fewshot_split": &f.FewshotSplit, "num_fewshot": &f.Shots, "output_type": &f.OutputType, "target_delimiter": &f.TargetDelimiter, "fewshot_delimiter": &f.ShotDelimiter,
	} {
		_ = json.Unmarshal(fields[name], to)
	}
	return f, true
}

// split is the one that the harness evaluates: test where there is one.
func (f taskFacts) split() string {
	if f.TestSplit != "" {
		return f.TestSplit
	}
	return f.ValidationSplit
}

// number is one printed number.
type number struct {
	metric string // "acc,none", or "acc" in old versions
	name   string // "acc"
	value  float64
	se     *float64
}

// numbers returns a task's printed numbers by name. odd counts those that are
// not finite.
func numbers(values map[string]any) (out []number, odd int) {
	for key, v := range values {
		name, filter, _ := strings.Cut(key, ",")
		if strings.HasSuffix(name, "_stderr") || name == "sample_len" || name == "name" || name == "alias" || name == "sample_count" {
			continue
		}
		value, ok := toFloat(v)
		if !ok {
			continue
		}
		if math.IsNaN(value) || math.IsInf(value, 0) {
			odd++
			continue
		}
		n := number{metric: key, name: name, value: value}
		seKey := name + "_stderr"
		if filter != "" {
			seKey += "," + filter
		}
		if se, ok := toFloat(values[seKey]); ok && !math.IsNaN(se) && !math.IsInf(se, 0) {
			n.se = &se
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b number) int { return strings.Compare(a.metric, b.metric) })
	return out, odd
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		switch v { // as Decode leaves what is no number
		case "NaN", "Infinity", "-Infinity":
			return results.ParseNumber(v)
		}
	}
	return 0, false
}

// count is the number of instances of a task that the file tells, 0 for none.
func (r *Results) count(task string) int {
	if n, ok := r.doc.Samples[task]; ok && n.Effective > 0 {
		return n.Effective
	}
	if n, ok := toFloat(r.doc.Results[task]["sample_len"]); ok && n > 0 && n == math.Trunc(n) && n < math.MaxInt32 {
		return int(n)
	}
	return 0
}

// arguments returns the model's arguments as texts.
func (c config) arguments() map[string]string {
	out := map[string]string{}
	switch a := c.ModelArgs.(type) {
	case string:
		for _, part := range strings.Split(a, ",") {
			if key, value, ok := strings.Cut(part, "="); ok {
				out[strings.TrimSpace(key)] = strings.TrimSpace(value)
			}
		}
	case map[string]any:
		for key, v := range a {
			switch v := v.(type) {
			case string:
				out[key] = v
			case bool:
				out[key] = map[bool]string{true: "True", false: "False"}[v]
			case float64:
				out[key] = strconv.FormatFloat(v, 'f', -1, 64)
			}
		}
	}
	return out
}

// types are torch's names of what numbers are kept in, as records name them.
var types = map[string]string{"float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16", "float64": "f64"}

// describe fills what the file says of model, engine and time into a run.
func (r *Results) describe(run *results.Run) {
	d := &r.doc
	run.Version = d.Version
	args := d.Config.arguments()
	run.Model.Name = d.ModelName
	for _, key := range []string{"pretrained", "model"} {
		if run.Model.Name == "" || run.Model.Name == args[key] {
			run.Model.Name = args[key]
		}
	}
	run.Model.Name = results.ModelName(run.Model.Name)
	if d.Config.SHA != "" && run.Model.Name != "" {
		run.Model.Source = "hf:" + run.Model.Name + "@" + d.Config.SHA
	}
	if n := d.Config.Parameters; n.Finite() && n.Value > 0 && n.Value == math.Trunc(n.Value) && n.Value <= 1<<53 {
		run.Model.Parameters = int64(n.Value)
	}
	if peft := args["peft"]; peft != "" {
		run.Model.Adapter = results.ModelName(peft)
	}
	run.Precision.Computed = types[strings.TrimPrefix(d.Config.DType, "torch.")]
	switch strings.ToLower(args["add_bos_token"]) {
	case "false":
		run.BOS = record.BOS{Policy: "never"}
	case "true":
		run.BOS = record.BOS{Policy: "always", Added: true}
	}
	if d.MaxLength != nil && *d.MaxLength > 0 {
		run.Window = *d.MaxLength
	}
	run.Engine.Name = d.ModelSource
	if run.Engine.Name == "" {
		run.Engine.Name, _ = d.Config.Model.(string)
	}
	if run.Engine.Name == "hf" {
		run.Engine.Version = d.Transformers
		if t := run.Precision.Computed; (t == "bf16" || t == "f16") && types[strings.TrimPrefix(args["softmax_dtype"], "torch.")] != "f32" {
			run.Note("log-probabilities were computed in %s (no softmax_dtype=float32), which keeps about three digits", t)
		}
	}
	if d.Date.Finite() && d.Date.Value > 0 && d.Date.Value < 1e11 {
		run.Finished = time.UnixMilli(int64(1000 * d.Date.Value)).UTC()
		if s := d.Seconds; s.Finite() && s.Value > 0 && s.Value < 1e9 {
			run.WallSeconds = s.Value
			run.Finished = run.Finished.Add(time.Duration(s.Value * float64(time.Second)))
		}
	}
	if d.ChatTemplate != nil && *d.ChatTemplate != "" {
		run.Note("requests were put into a chat template")
	}
	if d.System != nil && *d.System != "" {
		run.Note("a system instruction stood before the requests")
	}
	tasks := map[string]any{}
	for name := range d.Configs {
		if f, ok := r.facts(name); ok {
			tasks[name] = f
		}
	}
	run.Settings = map[string]any{
		"model": d.Config.Model, "model_args": d.Config.ModelArgs, "batch_size": d.Config.BatchSize, "device": d.Config.Device, "limit": d.Config.Limit,
		"git_hash": d.GitHash, "versions": d.Versions, "n_shot": d.Shots, "tasks": tasks,
	}
}

// names returns the tasks that are no groups, sorted.
func (r *Results) names() []string {
	var out []string
	for name := range r.doc.Results {
		if _, group := r.doc.Groups[name]; group || len(r.doc.Subtasks[name]) > 0 {
			continue
		}
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// groupNames returns the groups that have numbers, sorted.
func (r *Results) groupNames() []string {
	var out []string
	for name := range r.doc.Results {
		if _, group := r.doc.Groups[name]; group || len(r.doc.Subtasks[name]) > 0 {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// Stamp is the time in the name of a file of samples or results, "" where it has none.
func Stamp(path string) string {
	if m := stamp.FindStringSubmatch(filepath.Base(path)); m != nil {
		return m[1]
	}
	_, s := nameOf(path)
	return s
}

// Merge takes the tasks of another results file of the same model.
func (r *Results) Merge(o *Results) error {
	if r.doc.ModelName != o.doc.ModelName {
		return &results.Error{File: o.File.Name, Err: errors.New("it is of another model than " + r.File.Name)}
	}
	for name, v := range o.doc.Results {
		if _, twice := r.doc.Results[name]; twice {
			return &results.Error{File: o.File.Name, Err: errors.New(name + " is in " + r.File.Name + " too; import one run at a time")}
		}
		r.doc.Results[name] = v
	}
	merge(&r.doc.Groups, o.doc.Groups)
	merge(&r.doc.Subtasks, o.doc.Subtasks)
	merge(&r.doc.Configs, o.doc.Configs)
	merge(&r.doc.Versions, o.doc.Versions)
	merge(&r.doc.Shots, o.doc.Shots)
	merge(&r.doc.Samples, o.doc.Samples)
	merge(&r.doc.TaskHashes, o.doc.TaskHashes)
	r.more = append(r.more, o.File)
	return nil
}

func merge[V any](to *map[string]V, from map[string]V) {
	if *to == nil {
		*to = map[string]V{}
	}
	for name, v := range from {
		(*to)[name] = v
	}
}

// Version is lm-eval's version, "" where the file does not tell it.
func (r *Results) Version() string { return r.doc.Version }

// ExportedBy is the program that wrote the file in lm-eval's form, "" for lm-eval.
func (r *Results) ExportedBy() string { return r.doc.ExportedBy }

// Listed is a task of a results file.
type Listed struct {
	Name     string
	Exported bool // its name is one that exported tasks have
}

// Listed returns the tasks that are no groups.
func (r *Results) Listed() []Listed {
	var out []Listed
	for _, name := range r.names() {
		out = append(out, Listed{name, Exported(name)})
	}
	return out
}

// Groups returns the printed means over tasks, with the tasks that they are of.
func (r *Results) Groups() []results.Mean {
	var out []results.Mean
	for _, group := range r.groupNames() {
		printed, _ := numbers(r.doc.Results[group])
		for _, p := range printed {
			m := results.Mean{Name: group, Metric: p.metric, Value: p.value}
			for _, member := range r.leaves(group, 0) {
				values, _ := numbers(r.doc.Results[member])
				for _, v := range values {
					if v.metric == p.metric {
						base, _ := name(member)
						m.Members = append(m.Members, results.Member{Task: base, Value: v.value, N: r.count(member)})
					}
				}
			}
			out = append(out, m)
		}
	}
	return out
}

// leaves are the tasks of a group and of the groups within it.
func (r *Results) leaves(group string, depth int) []string {
	var out []string
	for _, member := range r.doc.Subtasks[group] {
		if len(r.doc.Subtasks[member]) > 0 && depth < 8 {
			out = append(out, r.leaves(member, depth+1)...)
		} else {
			out = append(out, member)
		}
	}
	return out
}
