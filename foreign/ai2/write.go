package ai2

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"olmes"
	"olmes/folder"
	"olmes/foreign/results"
	"olmes/record"
	"olmes/score"
	"olmes/task"
)

// settings is what an import kept of such files' configurations.
type settings struct {
	ModelHash string                  `json:"model_hash"`
	Model     map[string]any          `json:"model_config"`
	Tasks     map[string]taskSettings `json:"tasks"`
}

type taskSettings struct {
	Name    string         `json:"task_name"`
	Hash    string         `json:"task_hash"`
	Config  map[string]any `json:"task_config"`
	Date    string         `json:"current_date"`
	Seconds float64        `json:"processing_time"`
	Natives string         `json:"native_ids"` // "int", "text", "none" or "mixed"
}

// WriteRecord writes a record as oe-eval's files into a folder: predictions and
// metrics of each task and formulation, and with texts the requests. An instance
// that failed is left out, as the tool knows none; the result says how many were.
// A failure leaves no file in the folder.
func WriteRecord(dir string, rec *record.Record, texts results.Texts) (failed int, err error) {
	err = folder.Write(dir, func(temp string) error {
		failed, err = writeRecord(temp, rec, texts)
		return err
	})
	return failed, err
}

func writeRecord(dir string, rec *record.Record, texts results.Texts) (failed int, err error) {
	w := &writer{dir: dir, rec: rec}
	if im := rec.Provenance.Import; im != nil && im.Tool == Earlier && len(rec.Provenance.Resolved) > 0 {
		if json.Unmarshal(rec.Provenance.Resolved, &w.kept) != nil {
			w.kept = settings{}
		}
	}
	m, err := rec.Metrics()
	if err != nil {
		return 0, err
	}
	if !rec.HasPredictions() {
		return 0, w.aggregates(m)
	}
	for p, err := range rec.Predictions() {
		if err == nil {
			err = w.add(&p, texts)
		}
		if err != nil {
			w.abandon()
			return 0, err
		}
	}
	if err := w.finish(); err != nil {
		return 0, err
	}
	return w.failed, nil
}

// writer writes the files of one task and formulation after the other.
type writer struct {
	dir    string
	rec    *record.Record
	kept   settings
	n      int // tasks begun
	failed int

	task        string
	formulation olmes.Formulation
	split       string
	set         taskSettings
	alias       string
	stem        string
	place       map[int]int // doc_id of the file by position in the split; nil: the same
	files       []*os.File
	predictions *bufio.Writer
	requests    *bufio.Writer
	lines       []line           // of the predictions, to be sorted by the file's doc_ids
	alone       []map[string]any // unconditional requests, which come last
}

// line is one prediction of a file.
type line struct {
	doc     int
	text    map[string]any
	metrics map[string]any
}

// names are the task's names in the tool.
func names(t string, f olmes.Formulation, variant string) (name, alias string) {
	name = t
	form := "rc"
	if f == olmes.MCF {
		name, form = t+":mc", "mc"
	}
	alias = t + ":" + form
	if _, ok := task.Lookup(t); ok && variant == "" {
		alias += "::olmes"
	}
	return name, alias
}

// begin opens the files of a task and formulation.
func (w *writer) begin(p *olmes.Prediction, texts results.Texts) error {
	if err := w.finish(); err != nil {
		return err
	}
	w.task, w.formulation, w.split = p.Task, p.Formulation, p.Split
	var name string
	name, w.alias = names(p.Task, p.Formulation, p.Variant)
	w.set = taskSettings{Name: name}
	for alias, s := range w.kept.Tasks {
		if k := parseSpec(alias); k.base == p.Task && (cmp.Or(k.formulation, olmes.CF) == p.Formulation || k.formulation == p.Formulation) {
			w.set, w.alias = s, alias
			w.set.Name = cmp.Or(s.Name, name)
		}
	}
	if w.set.Config == nil {
		w.set.Config = w.config(name, p)
	}
	if err := w.places(); err != nil {
		return err
	}
	w.stem = fmt.Sprintf("task-%03d-%s", w.n, results.FileName(w.set.Name))
	w.n++
	var err error
	if w.predictions, err = w.create("predictions.jsonl"); err != nil {
		return err
	}
	if texts != nil {
		w.requests, err = w.create("requests.jsonl")
	}
	return err
}

func (w *writer) create(end string) (*bufio.Writer, error) {
	f, err := os.Create(filepath.Join(w.dir, w.stem+"-"+end))
	if err != nil {
		return nil, err
	}
	w.files = append(w.files, f)
	return bufio.NewWriterSize(f, 1<<20), nil
}

// config is a task's configuration as the tool would have it.
func (w *writer) config(name string, p *olmes.Prediction) map[string]any {
	c := map[string]any{"task_name": name, "split": p.Split, "num_shots": nil, "limit": nil, "primary_metric": "acc_raw", "metric_kwargs": map[string]any{},
		"metadata": map[string]any{"alias": w.alias}}
	t, ok := task.Lookup(p.Task)
	if !ok {
		return c
	}
	c["task_core"] = t.Name
	if p.Formulation == olmes.CF {
		for _, r := range rules {
			if r.n == t.Normalization {
				c["primary_metric"] = r.metric
			}
		}
		if t.PMI {
			c["metric_kwargs"] = map[string]any{"uncond_docid_offset": uncondOffset}
		}
	}
	if p.Variant == "" {
		c["num_shots"] = len(t.FewShot)
		c["metadata"] = map[string]any{"alias": w.alias, "regimes": []string{"OLMES-v0.1"}}
	}
	for _, s := range w.rec.Identity.Tasks {
		// Only the standard's own sample is one that the tool can name.
		if s.Name == t.Name && s.Split == t.Split && s.Complete && t.Sample > 0 && s.Instances == t.Sample {
			c["limit"], c["random_subsample_seed"] = t.Sample, 1234
		}
	}
	return c
}

// places finds out how the file counts the instances of a sample.
func (w *writer) places() error {
	raw, err := json.Marshal(w.set.Config)
	if err != nil {
		return fmt.Errorf("encode task_config: %w", err)
	}
	t := &TaskMetrics{}
	w.place = nil
	if json.Unmarshal(raw, &t.config) != nil {
		return nil
	}
	n := 0
	for _, s := range w.rec.Identity.Tasks {
		if s.Name == w.task && s.Split == w.split {
			n = s.Instances
		}
	}
	list, why := positions(w.task, t, n)
	if why != "" || list == nil {
		return nil
	}
	w.place = map[int]int{}
	for i, doc := range list {
		w.place[doc] = i
	}
	return nil
}

func (w *writer) add(p *olmes.Prediction, texts results.Texts) error {
	if !score.Scores(p) {
		return nil
	}
	if score.Failed(p) {
		w.failed++
		return nil
	}
	if w.predictions == nil || p.Task != w.task || p.Formulation != w.formulation || p.Split != w.split {
		if err := w.begin(p, texts); err != nil {
			return err
		}
	}
	doc := p.DocID
	if w.place != nil {
		var ok bool
		if doc, ok = w.place[p.DocID]; !ok {
			return fmt.Errorf("%s: doc_id %d is not in the sample that its settings name", p.Task, p.DocID)
		}
	}
	native := w.native(p.NativeID)
	outputs := make([]map[string]any, len(p.Choices))
	for i := range p.Choices {
		outputs[i] = choiceOut(&p.Choices[i])
	}
	metrics := metricsOf(p)
	out := map[string]any{"doc_id": doc, "native_id": native, "metrics": metrics, "model_output": outputs, "label": p.Gold}
	if w.set.Hash != "" {
		out["task_hash"] = w.set.Hash
	}
	if w.kept.ModelHash != "" {
		out["model_hash"] = w.kept.ModelHash
	}
	w.lines = append(w.lines, line{doc, out, metrics})
	if texts == nil {
		return nil
	}
	return w.ask(p, doc, native, texts)
}

// native is an instance's own id in the type that the files have it in.
func (w *writer) native(id string) any {
	// Of the standard's tasks two have numbers; texts of digits are texts.
	numbers := w.set.Natives == "int" || w.set.Natives == "mixed" || w.set.Natives == "" && (w.task == "boolq" || w.task == "hellaswag")
	n, err := strconv.Atoi(id)
	switch {
	case id == "":
		return nil
	case numbers && err == nil && strconv.Itoa(n) == id:
		return n
	}
	return id
}

// choiceOut is what the tool writes of a choice, as far as it is known.
func choiceOut(c *olmes.Choice) map[string]any {
	out := map[string]any{"sum_logits": *c.LogProb}
	if c.Tokens > 0 {
		out["num_tokens"] = c.Tokens
		out["logits_per_token"] = *c.LogProb / float64(c.Tokens)
		if c.ContextTokens > 0 {
			out["num_tokens_all"] = c.ContextTokens + c.Dropped + c.Tokens
		}
	}
	if c.Chars > 0 {
		out["num_chars"] = c.Chars
		out["logits_per_char"] = *c.LogProb / float64(c.Chars)
	}
	if c.Bytes > 0 {
		out["bits_per_byte"] = bitsPerByte(c)
	}
	if c.Unconditional != nil {
		out["sum_logits_uncond"] = *c.Unconditional
	}
	return out
}

func bitsPerByte(c *olmes.Choice) float64 { return -log2e * (*c.LogProb / float64(c.Bytes)) }

// metricsOf is what the tool writes of an instance.
func metricsOf(p *olmes.Prediction) map[string]any {
	in := instance{choices: p.Choices, label: p.Gold}
	out := map[string]any{"correct_choice": p.Gold, "no_answer": 0, "sum_logits_corr": *p.Choices[p.Gold].LogProb, "predicted_index_uncond": nil, "acc_uncond": nil}
	right := func(best int) int {
		if best == p.Gold {
			return 1
		}
		return 0
	}
	for _, r := range rules {
		if best, ok := in.best(r.n); ok {
			suffix := strings.TrimPrefix(r.metric, "acc_")
			out["predicted_index_"+suffix], out[r.metric] = best, right(best)
		}
	}
	gold := &p.Choices[p.Gold]
	if gold.Tokens > 0 {
		out["logits_per_token_corr"] = *gold.LogProb / float64(gold.Tokens)
	}
	if gold.Chars > 0 {
		out["logits_per_char_corr"] = *gold.LogProb / float64(gold.Chars)
	}
	if !slices.ContainsFunc(p.Choices, func(c olmes.Choice) bool { return c.Bytes == 0 }) {
		for i := range p.Choices {
			in.perByte = append(in.perByte, bitsPerByte(&p.Choices[i]))
		}
		best, _ := in.bestPerByte()
		out["predicted_index_per_byte"], out["acc_per_byte"], out["bits_per_byte_corr"] = best, right(best), bitsPerByte(gold)
	}
	if best, ok := in.best(olmes.None); ok && *p.Choices[best].LogProb == -999 {
		out["no_answer"] = 1
	}
	return out
}

// ask writes the requests of an instance.
func (w *writer) ask(p *olmes.Prediction, doc int, native any, texts results.Texts) error {
	requests, alone, err := texts(p)
	if err != nil {
		return err
	}
	uncond := !slices.ContainsFunc(p.Choices, func(c olmes.Choice) bool { return c.Unconditional == nil })
	for k, list := range [][]olmes.Request{requests, alone} {
		if k == 1 && !uncond {
			break
		}
		for i, r := range list {
			line := map[string]any{"request_type": "loglikelihood", "doc": map[string]any{"id": native, "gold": p.Gold},
				"request": map[string]any{"context": r.Prompt.Text, "continuation": r.Continuation},
				"idx":     i, "task_name": w.set.Name, "doc_id": doc + k*uncondOffset, "native_id": native, "label": p.Gold}
			if k == 1 {
				w.alone = append(w.alone, line)
			} else if err := encode(w.requests, line); err != nil {
				return err
			}
		}
	}
	return nil
}

func encode(w *bufio.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// summed are the metrics whose mean is a metric of the task.
var summed = []string{"acc_raw", "acc_per_token", "acc_per_char", "acc_per_byte", "acc_uncond", "sum_logits_corr", "logits_per_token_corr", "logits_per_char_corr", "bits_per_byte_corr"}

// finish writes what is left of the task whose files are open, closes them and
// writes its metrics.
func (w *writer) finish() error {
	if w.predictions == nil {
		return nil
	}
	slices.SortFunc(w.lines, func(a, b line) int { return a.doc - b.doc })
	sums, unknown := map[string]float64{}, map[string]bool{}
	var err error
	for _, l := range w.lines {
		for _, name := range summed {
			switch v := l.metrics[name].(type) {
			case int:
				sums[name] += float64(v)
			case float64:
				sums[name] += v
			default:
				unknown[name] = true
			}
		}
		err = errors.Join(err, encode(w.predictions, l.text))
	}
	for _, l := range w.alone {
		err = errors.Join(err, encode(w.requests, l))
	}
	err = errors.Join(err, w.predictions.Flush())
	if w.requests != nil {
		err = errors.Join(err, w.requests.Flush())
	}
	for _, f := range w.files {
		err = errors.Join(err, f.Close())
	}
	n := len(w.lines)
	w.files, w.predictions, w.requests, w.lines, w.alone = nil, nil, nil, nil, nil
	if err != nil || n == 0 {
		return err
	}
	values := map[string]any{}
	for name, sum := range sums {
		if !unknown[name] {
			values[name] = sum / float64(n)
		}
	}
	return w.metrics(values, n)
}

// metrics writes a task's file of metrics.
func (w *writer) metrics(values map[string]any, n int) error {
	if primary, ok := values[text(w.set.Config, "primary_metric")]; ok {
		values["primary_score"] = primary
	}
	model := w.kept.Model
	if model == nil {
		model = map[string]any{"model": w.rec.Identity.Model.Name, "revision": nil, "model_type": w.rec.Identity.Engine.Name}
		if w.rec.Identity.Window > 0 {
			model["max_length"] = w.rec.Identity.Window
		}
	}
	doc := map[string]any{"task_name": w.set.Name, "model_config": model, "task_config": w.set.Config, "num_instances": n, "metrics": values, "task_idx": w.n - 1}
	for key, v := range map[string]string{"task_hash": w.set.Hash, "model_hash": w.kept.ModelHash, "current_date": w.set.Date} {
		if v != "" {
			doc[key] = v
		}
	}
	if w.set.Seconds > 0 {
		doc["processing_time"] = w.set.Seconds
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encode metrics: %w", err)
	}
	return os.WriteFile(filepath.Join(w.dir, w.stem+"-metrics.json"), append(out, '\n'), 0o644)
}

func (w *writer) abandon() {
	for _, f := range w.files {
		f.Close()
	}
}

// aggregates writes the metrics of a record without instances.
func (w *writer) aggregates(m score.Metrics) error {
	for _, t := range m.Tasks {
		for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF, olmes.Formulation(olmes.KindScore)} {
			form, ok := t.Formulations[f]
			if !ok || len(form.Accuracy) == 0 {
				continue
			}
			p := olmes.Prediction{Task: t.Task, Split: t.Split, Variant: t.Variant, Formulation: f}
			if f == olmes.Formulation(olmes.KindScore) {
				p.Formulation = ""
			}
			if err := w.begin(&p, nil); err != nil {
				return err
			}
			for _, file := range w.files {
				file.Close()
				os.Remove(file.Name()) // there are no predictions
			}
			w.files, w.predictions = nil, nil
			values := map[string]any{}
			n := form.Instances
			for _, r := range rules {
				if e, ok := form.Accuracy[r.n]; ok {
					values[r.metric] = e.Accuracy
					n = max(n, e.N)
				}
			}
			if err := w.metrics(values, n); err != nil {
				return err
			}
		}
	}
	return nil
}
