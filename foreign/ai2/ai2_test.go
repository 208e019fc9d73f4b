package ai2

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes"
	"olmes/foreign/results"
	"olmes/pyrandom"
	"olmes/record"
	"olmes/task"
)

type object = map[string]any

// prediction is a line as oe-eval writes it, about a made-up instance with one
// continuation of each length given.
func prediction(doc, label int, uncond bool, logprobs []float64, chars []int) object {
	var outputs []object
	raw, perChar, alone := 0, 0, 0
	for i, v := range logprobs {
		out := object{"sum_logits": v, "num_tokens": 2, "num_tokens_all": 40, "is_greedy": false, "logits_per_token": v / 2, "logits_per_char": v / float64(chars[i]),
			"num_chars": chars[i], "bits_per_byte": -log2e * (v / float64(chars[i]+1))}
		if uncond {
			out["sum_logits_uncond"] = -float64(3 + i)
		}
		outputs = append(outputs, out)
		if v > logprobs[raw] {
			raw = i
		}
		if v/float64(chars[i]) > logprobs[perChar]/float64(chars[perChar]) {
			perChar = i
		}
		if v+float64(3+i) > logprobs[alone]+float64(3+alone) {
			alone = i
		}
	}
	right := func(i int) int {
		if i == label {
			return 1
		}
		return 0
	}
	m := object{"predicted_index_raw": raw, "predicted_index_per_token": raw, "predicted_index_per_char": perChar, "correct_choice": label, "acc_raw": right(raw),
		"acc_per_token": right(raw), "acc_per_char": right(perChar), "no_answer": 0, "sum_logits_corr": logprobs[label], "predicted_index_uncond": nil, "acc_uncond": nil}
	if uncond {
		m["predicted_index_uncond"], m["acc_uncond"] = alone, right(alone)
	}
	return object{"doc_id": doc, "native_id": 1000 + doc, "metrics": m, "model_output": outputs, "label": label, "task_hash": "th", "model_hash": "mh"}
}

// metricsFile is a file of one task's metrics as oe-eval writes it.
func metricsFile(name, alias string, config, values object, n int) object {
	c := object{"task_name": name, "split": "validation", "limit": nil, "random_subsample_seed": 1234, "num_shots": 5, "primary_metric": "acc_raw", "metadata": object{"alias": alias, "regimes": []string{"OLMES-v0.1"}}}
	for k, v := range config {
		c[k] = v
	}
	return object{"task_name": name, "task_hash": "th", "model_hash": "mh", "model_config": object{"model": "org/m", "revision": "r1", "max_length": 2048, "model_type": "hf"},
		"task_config": c, "num_instances": n, "metrics": values, "processing_time": 1.5, "current_date": "2024-12-19 12:16:07 UTC", "task_idx": 0}
}

func write(t testing.TB, dir, name string, lines ...any) string {
	t.Helper()
	var b strings.Builder
	for _, l := range lines {
		s, ok := l.(string)
		if !ok {
			doc, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			s = string(doc)
		}
		b.WriteString(s + "\n")
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func files(t testing.TB, paths ...string) Files {
	t.Helper()
	var f Files
	for _, p := range paths {
		switch {
		case strings.Contains(p, "predictions"):
			x, err := ReadPredictions(context.Background(), p, Options{})
			if err != nil {
				t.Fatal(err)
			}
			f.Predictions = append(f.Predictions, x)
		case strings.Contains(p, "requests"):
			x, err := ReadRequests(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			f.Requests = append(f.Requests, x)
		default:
			x, err := ReadMetrics(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			f.Metrics = append(f.Metrics, x)
		}
	}
	return f
}

func run(t testing.TB, f Files) *results.Run {
	t.Helper()
	r, err := Run(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFaults(t *testing.T) {
	good := prediction(0, 1, false, []float64{-3, -1}, []int{2, 3})
	next := func(change func(object)) object {
		p := prediction(1, 0, false, []float64{-1, -2}, []int{2, 3})
		change(p)
		return p
	}
	output := func(p object, i int) object { return p["model_output"].([]object)[i] }
	for name, c := range map[string]struct {
		line any
		want string
	}{
		"sound":           {next(func(object) {}), ""},
		"no JSON":         {"{", "line 2: the JSON is cut off"},
		"other file":      {`{"doc_id": 1}`, "line 2: no doc_id or no model_output"},
		"twice":           {good, "line 2: doc_id 0 is there twice, first in line 1"},
		"negative":        {next(func(p object) { p["doc_id"] = -1 }), "line 2: doc_id is -1"},
		"unconditional":   {next(func(p object) { p["doc_id"] = 1000001 }), "line 2: doc_id is 1000001"},
		"another model":   {next(func(p object) { p["model_hash"] = "x" }), "line 2: its task_hash or model_hash is another"},
		"nan":             {next(func(p object) { output(p, 1)["sum_logits"] = "nan" }), "line 2: choice 1: sum_logits is NaN; --keep-failed"},
		"python's NaN":    {`{"doc_id": 1, "model_output": [{"sum_logits": NaN}, {"sum_logits": -1}], "label": 0, "task_hash": "th", "model_hash": "mh"}`, "line 2: choice 0: sum_logits is NaN"},
		"nan after":       {next(func(p object) { output(p, 0)["sum_logits_uncond"] = "-inf" }), "line 2: choice 0: sum_logits_uncond is -Inf"},
		"above 0":         {next(func(p object) { output(p, 1)["sum_logits"] = 5.0 }), "line 2: choice 1: sum_logits is 5; a log-probability is at most 0"},
		"within rounding": {next(func(p object) { output(p, 0)["sum_logits"] = 1e-7 }), ""},
		"above 0 after":   {next(func(p object) { output(p, 1)["sum_logits_uncond"] = 99999999999999999999.0 }), "line 2: choice 1: sum_logits_uncond is 1e+20; a log-probability"},
		"true":            {next(func(p object) { output(p, 1)["sum_logits"] = true }), "line 2: model_output.sum_logits: want a number, got true"},
		"text":            {next(func(p object) { output(p, 1)["sum_logits"] = "-1.5" }), `line 2: model_output.sum_logits: want a number, got "-1.5"`},
		"true after":      {next(func(p object) { output(p, 1)["sum_logits_uncond"] = false }), "line 2: model_output.sum_logits_uncond: want a number, got false"},
		"key twice":       {`{"doc_id": 1, "model_output": [{"sum_logits": -2, "sum_logits": -3}, {"sum_logits": -1}], "label": 0, "task_hash": "th", "model_hash": "mh"}`, `line 2: the key "sum_logits" is there twice`},
		"choice true":     {next(func(p object) { p["label"] = nil; p["metrics"] = object{"correct_choice": true} }), "line 2: metrics.correct_choice: want a number, got true"},
		"half a choice":   {next(func(p object) { p["label"] = nil; p["metrics"] = object{"correct_choice": 0.5} }), "line 2: correct_choice is 0.5; it is a whole number"},
		"mark true":       {next(func(p object) { p["metrics"] = object{"acc_raw": true} }), ""},
		"no sum":          {next(func(p object) { delete(output(p, 1), "sum_logits") }), "line 2: choice 1: no sum_logits"},
		"negative count":  {next(func(p object) { output(p, 0)["num_tokens"] = -2 }), "line 2: choice 0: num_tokens is -2"},
		"half a count":    {next(func(p object) { output(p, 0)["num_tokens"] = 1.5 }), "line 2: model_output.num_tokens: want a whole number"},
		"less than all":   {next(func(p object) { output(p, 0)["num_tokens_all"] = 1 }), "line 2: choice 0: num_tokens_all is 1 with 2 tokens"},
		"label outside":   {next(func(p object) { p["label"] = 2; p["metrics"] = object{} }), "line 2: the right choice is 2 of 2"},
		"no label":        {next(func(p object) { p["label"] = nil; p["metrics"] = object{} }), "line 2: no label and no correct_choice"},
		"two labels":      {next(func(p object) { p["label"] = 1 }), "line 2: label is 1 and correct_choice 0"},
		"label a text":    {next(func(p object) { p["label"] = "yes" }), "line 2: label is a text that is no letter"},
		"label an object": {next(func(p object) { p["label"] = object{} }), "line 2: label: want the right choice's position"},
		"several labels":  {next(func(p object) { p["label"] = []int{0, 1} }), "line 2: several answers are right at once, unlike"},
		"generated":       {next(func(p object) { p["model_output"] = []object{{"continuation": "x", "sum_logits": -1}} }), "line 2: it is not multiple choice"},
		"id an object":    {next(func(p object) { p["native_id"] = object{} }), "line 2: native_id: want a text or a number"},
	} {
		path := write(t, t.TempDir(), "arc_easy-predictions.jsonl", good, c.line)
		p, err := ReadPredictions(context.Background(), path, Options{})
		if c.want == "" && (err != nil || len(p.instances) != 2) || c.want != "" && (err == nil || !strings.Contains(err.Error(), path+": "+c.want)) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

func TestRequestFaults(t *testing.T) {
	line := func(doc, idx int, context, continuation any) object {
		return object{"request_type": "loglikelihood", "doc": object{}, "request": object{"context": context, "continuation": continuation}, "idx": idx, "task_name": "arc_easy", "doc_id": doc, "label": 0}
	}
	good := line(0, 0, "q", " a")
	for name, c := range map[string]struct {
		line any
		want string
	}{
		"sound":           {line(0, 1, "q", " b"), ""},
		"unconditional":   {line(1000000, 0, "Answer:", " a"), ""},
		"gap":             {line(0, 2, "q", " b"), "line 2: idx is 2 after 1 requests of doc_id 0"},
		"twice":           {line(0, 0, "q", " a"), "line 2: idx is 0 after 1 requests of doc_id 0"},
		"no continuation": {line(0, 1, "q", nil), "line 2: no request.continuation"},
		"another task":    {`{"request_type": "loglikelihood", "doc_id": 0, "idx": 1, "task_name": "b", "request": {"context": "q", "continuation": "x"}}`, `line 2: task_name is "b", in the lines before "arc_easy"`},
		"other file":      {`{"a": 1}`, "line 2: no doc_id or no request_type"},
		"negative":        {line(-1, 0, "q", " a"), "line 2: doc_id is -1"},
	} {
		path := write(t, t.TempDir(), "arc_easy-requests.jsonl", good, c.line)
		_, err := ReadRequests(context.Background(), path)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), path+": "+c.want)) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

func TestMetricsFaults(t *testing.T) {
	for name, c := range map[string]struct{ doc, want string }{
		"other file": {`{"a": 1}`, "no task_name with metrics"},
		"no model":   {`{"task_name": "a", "task_config": {}}`, "the run was made without a model"},
		"cut":        {`{"task_name": "a"`, "the JSON is cut off"},
		"half":       {`{"task_name": "a", "metrics": {}, "num_instances": 1.5}`, "num_instances is 1.5"},
		"percent":    {`{"task_name": "a", "metrics": {"acc_raw": 25.0}, "num_instances": 1}`, "a: acc_raw is 25; it is a fraction from 0 to 1, so divide percentages by 100"},
		"huge":       {`{"task_name": "a", "metrics": {"acc_uncond": 1e308}, "num_instances": 1}`, "a: acc_uncond is 1e+308; it is a fraction"},
		"beyond":     {`{"task_name": "a", "metrics": {"acc_uncond": 1e999}, "num_instances": 1}`, "a: acc_uncond: want a number, got 1e999"},
		"negative":   {`{"task_name": "a", "metrics": {"primary_score": -1}, "task_config": {"primary_metric": "acc_raw"}, "num_instances": 1}`, "a: primary_score is -1"},
		"true":       {`{"task_name": "a", "metrics": {"acc_raw": true}, "num_instances": 1}`, "a: acc_raw: want a number, got true"},
		"text":       {`{"task_name": "a", "metrics": {"acc_raw": "0.5"}, "num_instances": 1}`, `a: acc_raw: want a number, got "0.5"`},
		"later":      {`{"tasks": [{"task": "a", "metrics": {"accuracy": {"logprob": 25}}}], "summary": {}}`, "a: accuracy:logprob is 25"},
		"key twice":  {`{"task_name": "a", "metrics": {"acc_raw": 0.5, "acc_raw": 0.6}, "num_instances": 1}`, `the key "acc_raw" is there twice`},
		"nameless":   {`{"all_primary_scores": [], "tasks": [{"metrics": {}}]}`, "a task without a name"},
		"models":     {`{"config": {"models": {}}, "tasks": [], "summary": {}}`, "several models"},
		"later line": {"{\n\"task_name\": \"a\",\n\"metrics\": 1}", "line 3: metrics: want an object, got number"},
	} {
		path := write(t, t.TempDir(), "metrics.json", c.doc)
		if _, err := ReadMetrics(context.Background(), path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

// What oe-eval sampled is put back where it stands in its split; one that cannot
// be put back keeps the file's own doc_ids and no split.
func TestPositions(t *testing.T) {
	piqa, _ := task.Lookup("piqa")
	want := piqa.Order(piqa.Size)
	for name, c := range map[string]struct {
		config object
		first  int // position of doc_id 1
		split  string
	}{
		"the standard's":  {object{"limit": 1000}, want[1], "validation"},
		"another seed":    {object{"limit": 1000, "random_subsample_seed": 7}, pyrandom.New(7).Sample(1838, 1000)[1], "validation"},
		"more than all":   {object{"limit": 10000000000000000000.0}, 1, "validation"},
		"no limit":        {object{"limit": nil}, 1, "validation"},
		"no seed":         {object{"limit": 1000, "random_subsample_seed": nil}, 1, ""},
		"a share":         {object{"limit": 0.5}, 1, ""},
		"unknown split":   {object{"limit": 1, "split": "train"}, 1, ""},
		"fewer than that": {object{"limit": 5, "split": "train"}, 1, "train"},
	} {
		dir := t.TempDir()
		r := run(t, files(t, write(t, dir, "task-003-piqa-predictions.jsonl", prediction(0, 1, false, []float64{-3, -1}, []int{2, 3}), prediction(1, 1, false, []float64{-3, -1}, []int{2, 3})),
			write(t, dir, "task-003-piqa-metrics.json", metricsFile("piqa", "piqa:rc::olmes", c.config, object{"acc_raw": 1.0, "primary_score": 1.0}, 2))))
		f := r.Forms[0]
		found := false
		for _, p := range f.Predictions {
			found = found || p.DocID == c.first
		}
		if !found || f.Split != c.split || f.Task != "piqa" || f.Formulation != olmes.CF || r.Variant != "" {
			t.Errorf("%s: split %q, doc_ids %d and %d, want %d; %v", name, f.Split, f.Predictions[0].DocID, f.Predictions[1].DocID, c.first, r.Notes)
		}
	}
}

// Without metrics nothing tells split, formulation or what doc_ids count; with
// requests the formulation, the digests and the lengths are there.
func TestPredictionsAlone(t *testing.T) {
	dir := t.TempDir()
	p := write(t, dir, "openbookqa-predictions.jsonl", prediction(0, 1, true, []float64{-3, -1}, []int{2, 2}))
	r := run(t, files(t, p))
	f := r.Forms[0]
	if f.Split != "" || f.Formulation != "" || r.Variant != Earlier || f.Predictions[0].Choices[0].Chars != 2 || f.Predictions[0].Choices[0].Bytes != 3 || *f.Predictions[0].Choices[1].Unconditional != -4 {
		t.Errorf("%q %+v %+v", r.Variant, f, f.Predictions[0].Choices)
	}
	if f.Predictions[0].Choices[0].ContextTokens != 38 || f.Predictions[0].NativeID != "1000" {
		t.Errorf("%+v", f.Predictions[0])
	}
	ask := func(i int, c string) object {
		return object{"request_type": "loglikelihood", "request": object{"context": "Question: q?\n A. x\n B. y\nAnswer:", "continuation": c}, "idx": i, "task_name": "openbookqa:mc", "doc_id": 0}
	}
	r = run(t, files(t, p, write(t, dir, "openbookqa-requests.jsonl", ask(0, " A"), ask(1, " B"))))
	f = r.Forms[0]
	if f.Formulation != olmes.MCF || f.Predictions[0].Choices[1].RequestSHA256 != results.Digest("Question: q?\n A. x\n B. y\nAnswer:", " B") || f.Predictions[0].Choices[1].Bytes != 2 {
		t.Errorf("%+v", f.Predictions[0].Choices[1])
	}
	// Requests of other lengths are not those of these predictions.
	if _, err := Run(files(t, p, write(t, dir, "openbookqa-requests.jsonl", ask(0, " A"), ask(1, " Bcd")))); err == nil || !strings.Contains(err.Error(), "choice 1 has 2 characters, its request in") {
		t.Errorf("error %v", err)
	}
	if _, err := Run(files(t, p, write(t, dir, "openbookqa-requests.jsonl", ask(0, " A")))); err == nil || !strings.Contains(err.Error(), "doc_id 0 has 2 choices and 1 requests") {
		t.Errorf("error %v", err)
	}
}

// Printed accuracies are computed again; stored predictions are checked.
func TestPrinted(t *testing.T) {
	dir := t.TempDir()
	lines := []any{prediction(0, 1, true, []float64{-4, -4.5, -5}, []int{2, 4, 9}), prediction(1, 0, true, []float64{-4, -4.5, -5}, []int{2, 4, 9})}
	p := write(t, dir, "task-000-arc_challenge-predictions.jsonl", lines...)
	values := object{"acc_raw": 0.5, "acc_per_token": 0.5, "acc_per_char": 0.0, "acc_uncond": 0.0, "primary_score": 0.0, "sum_logits_corr": -4.25}
	config := object{"primary_metric": "acc_uncond", "split": "test", "metric_kwargs": object{"uncond_docid_offset": 1000000}}
	m := func() string {
		return write(t, dir, "task-000-arc_challenge-metrics.json", metricsFile("arc_challenge", "arc_challenge:rc::olmes", config, values, 2))
	}
	r := run(t, files(t, p, m()))
	equal := 0
	for _, p := range r.Printed {
		if p.Equal {
			equal++
		} else if p.Metric != "sum_logits_corr" {
			t.Errorf("%+v", p)
		}
	}
	if equal != 5 || len(r.Notes) != 0 {
		t.Errorf("%d equal, notes %q", equal, r.Notes)
	}
	if id := r.Identity(); id.Model.Name != "org/m" || id.Model.Source != "hf:org/m@r1" || id.Window != 2048 || id.Engine.Name != "hf" || id.Tasks[0].Split != "test" || id.Tasks[0].Complete {
		t.Errorf("%+v", id)
	}
	values["acc_raw"] = 0.75
	lines[1].(object)["metrics"].(object)["predicted_index_raw"] = 2
	p = write(t, dir, "task-000-arc_challenge-predictions.jsonl", lines...)
	notes := strings.Join(run(t, files(t, p, m())).Notes, "\n")
	for _, want := range []string{"printed acc_raw 0.75, its instances give 0.5", "1 stored predictions are not what the log-probabilities"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes %q, want %q", notes, want)
		}
	}
}

// Metrics alone, of one task or of a whole run, become metrics.
func TestAggregate(t *testing.T) {
	dir := t.TempDir()
	one := metricsFile("arc_easy:mc", "arc_easy:mc::olmes", object{"split": "test", "limit": 1000}, object{"acc_raw": 0.25, "acc_per_char": 0.5, "primary_score": 0.25}, 1000)
	two := metricsFile("arc_easy", "arc_easy:rc::olmes", object{"split": "test", "limit": 1000}, object{"acc_raw": 0.5, "acc_per_char": 0.75, "primary_score": 0.5}, 1000)
	mean := metricsFile("mmlu", "mmlu:rc::olmes", object{"metadata": object{"alias": "mmlu:rc::olmes", "num_tasks": 57}}, object{"primary_score": 0.3}, 14042)
	for _, path := range []string{
		write(t, dir, "metrics-all.jsonl", mean, one, two),
		write(t, dir, "metrics.json", object{"all_primary_scores": []string{"x"}, "model_config": object{"model": "org/m"}, "tasks": []object{
			{"alias": "arc_easy:mc::olmes", "metrics": one["metrics"], "num_instances": 1000, "task_config": one["task_config"]},
			{"alias": "arc_easy:rc::olmes", "metrics": two["metrics"], "num_instances": 1000, "task_config": two["task_config"]}}}),
	} {
		r := run(t, files(t, path))
		m, err := r.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		s := m.Tasks[0].Score
		if !r.Aggregate() || r.Variant != "" || len(m.Tasks) != 1 || s == nil || s.Formulation != olmes.CF || s.Normalization != olmes.Character || s.Accuracy != 0.75 || *s.Correct != 750 || !m.Tasks[0].Complete {
			t.Errorf("%s: %+v %+v", path, m, s)
		}
		if _, ok := m.Tasks[0].Formulations[olmes.MCF].Accuracy[olmes.Character]; ok {
			t.Error("the multiple-choice form has an accuracy per character")
		}
	}
}

func TestTwoModels(t *testing.T) {
	dir := t.TempDir()
	other := prediction(0, 1, false, []float64{-3, -1}, []int{2, 3})
	other["model_hash"] = "other"
	_, err := Run(files(t, write(t, dir, "piqa-predictions.jsonl", prediction(0, 1, false, []float64{-3, -1}, []int{2, 3})), write(t, dir, "csqa-predictions.jsonl", other)))
	if err == nil || !strings.Contains(err.Error(), "are of two models (model_hash)") {
		t.Errorf("error %v", err)
	}
}

// olmo-eval's outputs hold the unconditional ones in their second half.
func TestLater(t *testing.T) {
	dir := t.TempDir()
	out := func(text string, v float64, all int) object {
		return object{"text": text, "extracted_answer": nil, "sum_logits": v, "num_tokens": 1, "num_tokens_all": all, "num_chars": len(text), "bits_per_byte": -v / (float64(len(text)) * math.Ln2)}
	}
	line := object{"doc_id": 0, "native_id": "doc_0", "label": 1, "instance_metrics": object{}, "model_output": []object{out(" a", -3, 50), out(" bc", -2, 50), out(" a", -9, 4), out(" bc", -1, 4)}}
	r := run(t, files(t, write(t, dir, "csqa_rc_abc123-predictions.jsonl", line)))
	p := r.Forms[0].Predictions[0]
	if r.Tool != Later || r.Variant != Later || len(p.Choices) != 2 || *p.Choices[0].Unconditional != -9 || p.Predictions[olmes.PMI] != 0 || p.Predictions[olmes.None] != 1 || p.Choices[1].Bytes != 3 {
		t.Errorf("%q %+v", r.Tool, p)
	}
}

func TestSpec(t *testing.T) {
	for name, want := range map[string]string{
		"arc_easy:mc::olmes": "arc_easy mcf olmes", "arc_easy:rc": "arc_easy cf ", "arc_easy": "arc_easy  ", "arc_easy_mc": "arc_easy mcf ",
		"mmlu_anatomy:mc::olmes:full": "mmlu_anatomy mcf olmes:full", "commonsense_qa": "csqa  ", "naturalqs_mc": "naturalqs mcf ", "": "  ",
	} {
		if s := parseSpec(name); fmt.Sprint(s.base, " ", s.formulation, " ", s.regime) != want {
			t.Errorf("%s: %+v, want %s", name, s, want)
		}
	}
}

// FuzzPrediction: whatever a line holds, it is refused or becomes a sound prediction.
func FuzzPrediction(f *testing.F) {
	for _, o := range []object{prediction(0, 1, true, []float64{-3, -1}, []int{2, 3}), prediction(7, 0, false, []float64{-3, -1, -999}, []int{2, 3, 4})} {
		doc, _ := json.Marshal(o)
		f.Add(doc)
	}
	f.Add([]byte(`{"doc_id": 0, "instance_metrics": {}, "label": "B", "model_output": [{"sum_logits": -1, "text": "a", "num_tokens_all": 9}, {"sum_logits": NaN, "text": "b"}, {"sum_logits": -1, "text": "a"}, {"sum_logits": -2, "text": "b"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, keep := range []bool{false, true} {
			var l predictionLine
			if results.Decode(data, &l) != nil {
				return
			}
			p := &Predictions{Stem: "arc_easy"}
			in, err := p.instance(&l, Options{KeepFailed: keep})
			if err != nil {
				continue
			}
			p.instances = append(p.instances, in)
			p.halve()
			p.Marks()
			r, err := Run(Files{Predictions: []*Predictions{p}})
			if err != nil {
				continue
			}
			check(t, r)
		}
	})
}

// check fails where a run could not be sealed and verified.
func check(t *testing.T, r *results.Run) {
	t.Helper()
	if _, err := r.Metrics(); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Predictions() {
		if p.Gold < 0 || p.Gold >= len(p.Choices) {
			t.Fatalf("gold %d of %d", p.Gold, len(p.Choices))
		}
		for _, c := range p.Choices {
			bad := func(v *float64) bool { return v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) }
			if (c.LogProb == nil) != (c.Error != "") || bad(c.LogProb) || bad(c.Unconditional) || c.Chars < 0 || c.Tokens < 0 || c.Bytes < 0 || c.ContextTokens < 0 || c.Dropped < 0 ||
				c.Chars > math.MaxInt32 || c.Bytes > math.MaxInt32 || c.ContextTokens > math.MaxInt32 {
				t.Fatalf("%+v", c)
			}
		}
	}
	if _, err := json.Marshal(r.Printed); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Provenance(r.Finished, nil); err != nil {
		t.Fatal(err)
	}
	if r.Identity().ID() == "" {
		t.Fatal("no id")
	}
}

// FuzzMetrics: a file of metrics is refused or becomes sound metrics.
func FuzzMetrics(f *testing.F) {
	doc, _ := json.Marshal(metricsFile("arc_easy", "arc_easy:rc::olmes", object{"limit": 1000}, object{"acc_raw": 0.5, "acc_per_char": 0.75}, 1000))
	f.Add(doc)
	f.Add([]byte(`{"config": {"provider": {"model": "m"}}, "summary": {}, "tasks": [{"task": "piqa:mc", "metrics": {"accuracy": {"logprob": 0.5}}, "num_instances": 2, "config": {"limit": "x"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d taskDoc
		if results.Decode(data, &d) != nil {
			return
		}
		m := &Metrics{Stem: "x", File: record.ImportFile{Name: "x"}, later: d.Summary != nil}
		for _, sub := range append(d.Tasks, d) {
			if task, err := sub.task(m.later); err == nil {
				m.Tasks = append(m.Tasks, task)
			}
		}
		m.Describe()
		m.Groups()
		if r, err := Run(Files{Metrics: []*Metrics{m}}); err == nil {
			check(t, r)
		}
	})
}

// FuzzRequest: a line of requests is refused or counted.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"request_type": "loglikelihood", "request": {"context": "q", "continuation": " a"}, "idx": 0, "task_name": "t", "doc_id": 0}`))
	f.Add([]byte(`{"request_type": "loglikelihood", "request": {"context": [{"role": "user"}], "continuations": [" a", " b"], "continuation_prompts": ["x"]}, "doc_id": 3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var l Line
		if results.Decode(data, &l) != nil {
			return
		}
		r := &Requests{docs: map[int]*asked{}}
		if r.add(&l) != nil {
			return
		}
		for _, a := range r.docs {
			if len(a.digests) != len(a.chars) || len(a.chars) != len(a.bytes) {
				t.Fatalf("%+v", a)
			}
		}
	})
}
