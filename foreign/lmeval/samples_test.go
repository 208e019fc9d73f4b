package lmeval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes"
	"olmes/foreign/results"
	"olmes/foreign/taskfile"
	"olmes/record"
	"olmes/task"
)

// sample is a line of samples about made-up questions.
type sample map[string]any

// newSample makes a sample of a cloze task: choices are continuations.
func newSample(doc int, target string, logprobs []float64, choices ...string) sample {
	args, resps := map[string]any{}, []any{}
	for i, c := range choices {
		args[fmt.Sprint("gen_args_", i)] = map[string]any{"arg_0": fmt.Sprintf("Question: number %d?\nAnswer:", doc), "arg_1": c}
		resps = append(resps, []any{fmt.Sprint(logprobs[i]), "False"})
	}
	return sample{"doc_id": doc, "doc": map[string]any{"id": "x"}, "target": target, "arguments": args, "filtered_resps": resps, "filter": "none", "metrics": []string{"acc"}}
}

func (s sample) with(key string, v any) sample {
	out := sample{}
	for k, v := range s {
		out[k] = v
	}
	out[key] = v
	return out
}

func (s sample) without(key string) sample {
	out := s.with(key, nil)
	delete(out, key)
	return out
}

// file writes samples and returns the file's path.
func file(t testing.TB, name string, lines ...any) string {
	t.Helper()
	var b strings.Builder
	for _, l := range lines {
		if s, ok := l.(string); ok {
			b.WriteString(s + "\n")
			continue
		}
		doc, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(doc)
		b.WriteString("\n")
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) *Samples {
	t.Helper()
	s, err := ReadSamples(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t testing.TB, res *Results, samples ...*Samples) *results.Run {
	t.Helper()
	r, err := Run(samples, res)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every fault is named with its line; the first sample is sound.
func TestFaults(t *testing.T) {
	good := newSample(0, "1", []float64{-3, -1}, " a", " bb")
	next := newSample(1, "0", []float64{-1, -2}, " a", " bb")
	logprob := func(v string) sample {
		return next.with("filtered_resps", []any{[]any{v, "False"}, []any{"-2.0", "False"}})
	}
	for name, c := range map[string]struct {
		line any
		want string // "" is no error
	}{
		"sound":               {next, ""},
		"no JSON":             {"{", "line 2: the JSON is cut off"},
		"no object":           {"[1]", "line 2: want an object, got a list"},
		"other file":          {`{"a": 1}`, "line 2: no doc_id or no filtered_resps"},
		"twice":               {good, "line 2: doc_id 0 is there twice, first in line 1"},
		"negative":            {next.with("doc_id", -1), "line 2: doc_id is -1"},
		"doc_id a text":       {next.with("doc_id", "1"), "line 2: doc_id: want a whole number, got a text"},
		"half a doc_id":       {next.with("doc_id", 1.5), "line 2: doc_id: want a whole number, got number 1.5"},
		"huge doc_id":         {`{"doc_id": 99999999999999999999, "filtered_resps": []}`, "line 2: doc_id: want a whole number"},
		"nan":                 {logprob("nan"), "line 2: choice 0 has the log-probability NaN; --keep-failed"},
		"infinite":            {logprob("-inf"), "line 2: choice 0 has the log-probability -Inf; --keep-failed"},
		"python's NaN":        {`{"doc_id": 1, "filtered_resps": [[NaN, false], [-1, false]], "arguments": [["q", " a"], ["q", " b"]], "target": 0}`, "line 2: choice 0 has the log-probability NaN"},
		"above 0":             {logprob("3.5"), "line 2: filtered_resps: the log-probability of request 0 is 3.5; a log-probability is at most 0"},
		"a number above 0":    {next.with("filtered_resps", []any{[]any{-1, false}, []any{1e300, false}}), "line 2: filtered_resps: the log-probability of request 1 is 1e+300; a log-probability"},
		"within rounding":     {next.with("filtered_resps", []any{[]any{5e-7, true}, []any{-2, false}}), ""},
		"true":                {next.with("filtered_resps", []any{[]any{true, true}, []any{-2, false}}), "line 2: filtered_resps: request 0: want a log-probability, got true"},
		"key twice":           {`{"doc_id": 1, "filtered_resps": [[-1, false], [-1, false]], "arguments": [["q", " a"], ["q", " b"]], "target": 0, "filtered_resps": [[-1, false], [-2, false]]}`, `line 2: the key "filtered_resps" is there twice`},
		"no number":           {logprob("high"), "line 2: it is not multiple choice"},
		"overflow":            {logprob("1e999"), "line 2: it is not multiple choice"},
		"texts":               {next.with("filtered_resps", []string{"Paris", "Rome"}), "line 2: it is not multiple choice: its responses are texts or single numbers, unlike the lines before"},
		"one choice":          {newSample(1, "0", []float64{-1}, " a"), "line 2: it is not multiple choice: one request an instance, unlike the lines before"},
		"no responses":        {next.with("filtered_resps", []any{}), "line 2: its responses are no list of log-probabilities, unlike"},
		"missing request":     {next.with("arguments", map[string]any{"gen_args_0": map[string]any{"arg_0": "q", "arg_1": " a"}}), "line 2: 1 requests (arguments) and 2 responses"},
		"gap in requests":     {next.with("arguments", map[string]any{"gen_args_0": map[string]any{"arg_0": "q", "arg_1": " a"}, "gen_args_2": map[string]any{"arg_0": "q", "arg_1": " b"}}), "line 2: arguments: 2 of them, but no gen_args_1"},
		"no texts":            {next.without("arguments"), "line 2: no arguments"},
		"chat":                {next.with("arguments", [][]any{{[]string{"hi"}, "x"}, {[]string{"hi"}, "x"}}), "line 2: arguments: request 0 has no text before and after"},
		"arguments a number":  {next.with("arguments", 3), "line 2: arguments: want a list of pairs"},
		"target outside":      {next.with("target", "2"), "line 2: the right answer is none of the choices"},
		"target negative":     {next.with("target", "-1"), "line 2: which choice is right cannot be told"},
		"target of no choice": {next.with("target", "zzz"), "line 2: which choice is right cannot be told"},
		"no target":           {next.without("target"), "line 2: which choice is right cannot be told"},
		"several targets":     {next.with("target", "[0, 1]"), "line 2: which choice is right cannot be told"},
		"half a pair":         {`{"doc_id": 1, "filtered_resps": [["-1", "False"], ["-1", "False"]], "arguments": [["q", "\ud800"], ["q", " b"]], "target": 0}`, `line 2: a text has half of a surrogate pair, \ud800`},
		"bad UTF-8":           {"{\"doc_id\": 1, \"target\": \"\xff\"}", "line 2: a text is not valid UTF-8"},
	} {
		path := file(t, "samples_toy.jsonl", good, c.line)
		s, err := ReadSamples(context.Background(), path, Options{})
		if err == nil {
			_, err = Run([]*Samples{s}, nil)
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), path+": "+c.want)):
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

// Files of other kinds of tasks are left out with the reason.
func TestOtherKinds(t *testing.T) {
	for name, line := range map[string]any{
		"generated": newSample(0, "x", []float64{-1, -2}, " a", " b").with("filtered_resps", []string{"Paris"}),
		"one":       newSample(0, "x", []float64{-1}, " a"),
		"rolling":   newSample(0, "x", []float64{-1}, " a").with("filtered_resps", []string{"-123.5"}),
	} {
		s := read(t, file(t, "samples_toy.jsonl", line))
		if s.Skipped == "" {
			t.Errorf("%s is not left out", name)
		}
		if _, err := Run([]*Samples{s}, nil); err == nil || !strings.Contains(err.Error(), "none of the files holds multiple-choice instances") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := ReadSamples(context.Background(), file(t, "samples_toy.jsonl", "", " "), Options{}); err == nil || !strings.Contains(err.Error(), "holds no samples") {
		t.Errorf("error %v", err)
	}
}

// What older versions wrote is read too: lists of pairs, numbers, a number as target.
func TestOldForm(t *testing.T) {
	path := file(t, "pretrained__m_arc_easy.jsonl",
		`{"doc_id": 0, "doc": {"id": "x"}, "target": 1, "arguments": [["Question: a?\nAnswer:", " b"], ["Question: a?\nAnswer:", " ccc"]], "resps": [[[-2.5, false]], [[-1.5, true]]], "filtered_resps": [[-2.5, false], [-1.5, true]], "acc": 1.0}`,
		`{"doc_id": 1, "doc": {"id": "y"}, "target": 0, "arguments": [["Question: b?\nAnswer:", " d"], ["Question: b?\nAnswer:", " e"]], "resps": [[[-2.5, false]], [[-1.5, true]]], "acc": 0.0}`)
	r := run(t, nil, read(t, path))
	f := r.Forms[0]
	if f.Formulation != olmes.CF || r.Variant != Variant || len(f.Predictions) != 2 {
		t.Fatalf("%+v", f)
	}
	p := f.Predictions[0]
	if p.Gold != 1 || *p.Choices[1].LogProb != -1.5 || p.Choices[1].Chars != 4 || p.Choices[1].RequestSHA256 != results.Digest("Question: a?\nAnswer:", " ccc") || p.Predictions[olmes.Character] != 1 {
		t.Errorf("%+v", p)
	}
}

// The right answer is told by position, by text or by the harness's marks, and
// never guessed.
func TestGold(t *testing.T) {
	two := func(doc int, target string, acc any) sample {
		return newSample(doc, target, []float64{-1, -2}, " a", " bb").with("acc", acc)
	}
	one := func(doc int, target string, acc any) sample { // one continuation, two contexts
		s := newSample(doc, target, []float64{-1, -2}, " rest", " rest").with("acc", acc)
		s["arguments"] = map[string]any{"gen_args_0": map[string]any{"arg_0": "He x", "arg_1": " rest"}, "gen_args_1": map[string]any{"arg_0": "He y", "arg_1": " rest"}}
		return s
	}
	for name, c := range map[string]struct {
		lines []any
		want  []int
		note  string
	}{
		"position":          {[]any{two(0, "0", 1.0), two(1, "1", 0.0)}, []int{0, 1}, ""},
		"text":              {[]any{two(0, "a", 1.0), two(1, " bb", 0.0)}, []int{0, 1}, ""},
		"marks":             {[]any{one(0, " rest", 1.0), one(1, " rest", 0.0)}, []int{0, 1}, ""},
		"without marks":     {[]any{two(0, "0", nil), two(1, "1", nil)}, []int{0, 1}, ""},
		"mark against it":   {[]any{two(0, "0", 1.0), two(1, "0", 0.0)}, []int{0, 0}, "on 1 instances the harness's mark (acc)"},
		"digits as choices": {[]any{newSample(0, "1", []float64{-1, -2}, " 1", " 0").with("acc", 1.0), newSample(1, "0", []float64{-1, -2}, " 1", " 0").with("acc", 0.0)}, []int{0, 1}, ""},
	} {
		r := run(t, nil, read(t, file(t, "samples_toy.jsonl", c.lines...)))
		var got []int
		for _, p := range r.Forms[0].Predictions {
			got = append(got, p.Gold)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if notes := strings.Join(r.Notes, "\n"); (c.note == "") != (notes == "") || !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", name, notes, c.note)
		}
	}
	// Three choices and no mark of their own leave it open.
	s := one(0, " rest", 0.0)
	s["arguments"].(map[string]any)["gen_args_2"] = map[string]any{"arg_0": "He z", "arg_1": " rest"}
	s["filtered_resps"] = append(s["filtered_resps"].([]any), []any{"-3.0", "False"})
	if _, err := Run([]*Samples{read(t, file(t, "samples_toy.jsonl", s))}, nil); err == nil || !strings.Contains(err.Error(), "cannot be told") {
		t.Errorf("error %v", err)
	}
}

func TestUnconditional(t *testing.T) {
	double := func(short string) sample {
		s := newSample(0, "0", []float64{-3, -2}, " a", " bb")
		for i, c := range []string{" a", " bb"} {
			s["arguments"].(map[string]any)[fmt.Sprint("gen_args_", 2+i)] = map[string]any{"arg_0": short, "arg_1": c}
		}
		s["filtered_resps"] = append(s["filtered_resps"].([]any), []any{"-5.0", "False"}, []any{"-3.0", "False"})
		return s
	}
	p := run(t, nil, read(t, file(t, "samples_toy.jsonl", double("Answer:")))).Forms[0].Predictions[0]
	if len(p.Choices) != 2 || *p.Choices[0].Unconditional != -5 || p.Predictions[olmes.PMI] != 0 || p.Predictions[olmes.None] != 1 {
		t.Errorf("after Answer: %+v", p)
	}
	r := run(t, nil, read(t, file(t, "samples_toy.jsonl", double(""))))
	p = r.Forms[0].Predictions[0]
	if _, ok := p.Predictions[olmes.PMI]; len(p.Choices) != 2 || p.Choices[0].Unconditional != nil || ok || !strings.Contains(strings.Join(r.Lacks, "\n"), "have an empty context") {
		t.Errorf("after nothing: %+v, lacks %v", p, r.Lacks)
	}
	// Four choices with one context are four choices.
	s := newSample(0, "3", []float64{-1, -2, -3, -4}, " a", " b", " a", " b")
	if p := run(t, nil, read(t, file(t, "samples_toy.jsonl", s))).Forms[0].Predictions[0]; len(p.Choices) != 4 {
		t.Errorf("%d choices", len(p.Choices))
	}
}

func TestKeepFailed(t *testing.T) {
	path := file(t, "samples_toy.jsonl", newSample(0, "0", []float64{-1, -2}, " a", " b"), newSample(1, "0", []float64{math.NaN(), -2}, " a", " b"))
	s, err := ReadSamples(context.Background(), path, Options{KeepFailed: true})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, nil, s)
	m, err := r.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	if f := m.Tasks[0].Formulations[olmes.CF]; f.Errors != 1 || f.Accuracy[olmes.None].N != 1 || m.Tasks[0].Score != nil {
		t.Errorf("%+v", f)
	}
}

// resultsFile is a results file for the samples of one task.
func resultsFile(t testing.TB, name string, values, extra map[string]any) *Results {
	t.Helper()
	doc := map[string]any{"results": map[string]any{name: values}, "versions": map[string]any{name: 1}, "lm_eval_version": "0.4.13", "model_name": "org/model",
		"config":  map[string]any{"model": "hf", "model_args": map[string]any{"pretrained": "org/model", "add_bos_token": false}, "model_dtype": "torch.bfloat16", "model_sha": "abc", "model_num_parameters": 1234},
		"configs": map[string]any{name: map[string]any{"test_split": "test", "target_delimiter": " ", "output_type": "multiple_choice"}}, "max_length": 2048, "date": 1796026931.5, "total_evaluation_time_seconds": "113.5"}
	for k, v := range extra {
		doc[k] = v
	}
	r, err := ReadResults(file(t, "results_2026-11-30T08-22-47.043283.json", doc))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Accuracies are computed again by the harness's own definition and compared.
func TestPrinted(t *testing.T) {
	// By the sum the first wins, per character without the space the second
	// (with the space the first would, too), per byte the third.
	lines := []any{newSample(0, "1", []float64{-1, -3.2, -3}, " a", " abcd", " ééé").with("acc", 0.0).with("acc_norm", 1.0).with("acc_bytes", 0.0),
		newSample(1, "1", []float64{-1, -3.2, -3}, " a", " abcd", " ééé").with("acc", 0.0).with("acc_norm", 1.0).with("acc_bytes", 0.0)}
	path := file(t, "samples_arc_easy_2026-11-30T08-22-47.043283.jsonl", lines...)
	values := map[string]any{"acc,none": 0.0, "acc_stderr,none": 0.5, "acc_norm,none": 1.0, "acc_bytes,none": 0.0, "f1,none": 0.25, "alias": "arc_easy", "sample_len": 2, "acc_norm_stderr,none": "N/A"}
	r := run(t, resultsFile(t, "arc_easy", values, nil), read(t, path))
	want := map[string]string{"acc,none": "true log-probabilities 0", "acc_norm,none": "true log-probabilities 1", "acc_bytes,none": "true log-probabilities 0", "f1,none": "false  -"}
	for _, p := range r.Printed {
		again := "-"
		if p.Again != nil {
			again = fmt.Sprint(*p.Again)
		}
		if got := fmt.Sprintf("%v %s %s", p.Equal, p.From, again); got != want[p.Metric] {
			t.Errorf("%s: %s, want %s", p.Metric, got, want[p.Metric])
		}
		delete(want, p.Metric)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
	id := r.Identity()
	if id.Model.Name != "org/model" || id.Model.Source != "hf:org/model@abc" || id.Model.Parameters != 1234 || id.Window != 2048 || id.Precision.Computed != "bf16" || id.Precision.Published != "" ||
		id.BOS.Policy != "never" || id.BOS.Added || id.Product != "lm-eval 0.4.13" || id.Standard != "" || id.Variant != Variant || id.Tasks[0].Split != "test" || id.Tasks[0].Complete || len(id.Model.Fingerprint) != 64 {
		t.Errorf("%+v", id)
	}
	if r.WallSeconds != 113.5 || r.Finished.Unix() != 1796026931+113+1 {
		t.Errorf("%v %v", r.WallSeconds, r.Finished)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "computed in bf16") || strings.Contains(notes, "printed") {
		t.Errorf("notes %q", notes)
	}

	// What was printed and is not so is said with both numbers.
	values["acc,none"] = 0.25
	r = run(t, resultsFile(t, "arc_easy", values, nil), read(t, path))
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "arc_easy cf: the tool printed acc,none 0.25, its instances give 0 (log-probabilities)") {
		t.Errorf("notes %q", notes)
	}
	// In the last digit, too.
	values["acc,none"], values["acc_norm,none"] = 0.0, math.Nextafter(1, 0)
	if r = run(t, resultsFile(t, "arc_easy", values, nil), read(t, path)); !strings.Contains(strings.Join(r.Notes, "\n"), "0.9999999999999999, its instances give 1") {
		t.Errorf("notes %q", r.Notes)
	}
	// Samples of another run, and fewer of them, are noticed.
	sum := sha256.Sum256([]byte("abc" + "def"))
	hashed := []any{lines[0].(sample).with("doc_hash", "a").with("prompt_hash", "b").with("target_hash", "c"), lines[1].(sample).with("doc_hash", "d").with("prompt_hash", "e").with("target_hash", "f")}
	for _, c := range []struct {
		hash string
		n    int
		want string
	}{
		{hex.EncodeToString(sum[:]), 2, ""},
		{strings.Repeat("0", 64), 2, "are not those that the results were made of"},
		{hex.EncodeToString(sum[:]), 3, "the results are of 3 instances, the samples hold 2"},
	} {
		values["acc_norm,none"] = 1.0
		extra := map[string]any{"task_hashes": map[string]string{"arc_easy": c.hash}, "n-samples": map[string]any{"arc_easy": map[string]int{"original": 9, "effective": c.n}}, "config": map[string]any{"model": "hf", "model_args": "pretrained=org/model,dtype=float32"}}
		r := run(t, resultsFile(t, "arc_easy", values, extra), read(t, file(t, "samples_arc_easy.jsonl", hashed...)))
		if notes := strings.Join(r.Notes, "\n"); (c.want == "") != (notes == "") || !strings.Contains(notes, c.want) {
			t.Errorf("notes %q, want %q", notes, c.want)
		}
		if r.Model.Name != "org/model" || r.BOS.Policy != "" {
			t.Errorf("%+v", r.Model)
		}
	}
}

// Samples of exported tasks are the standard's where every request is what was
// exported.
func TestExported(t *testing.T) {
	name := taskfile.Name("arc_easy", olmes.CF)
	row := func(doc, real, gold int, changed bool) sample {
		s := newSample(doc, fmt.Sprint(gold), []float64{-1, -2}, " a", " bb")
		var sums []string
		for _, c := range []string{" a", " bb"} {
			sums = append(sums, results.Digest(fmt.Sprintf("Question: number %d?\nAnswer:", doc), c))
		}
		if changed {
			sums[1] = strings.Repeat("0", 64)
		}
		return s.with("doc", map[string]any{"standard": task.Standard, "task": "arc_easy", "formulation": "cf", "split": "test", "doc_id": real, "native_id": "q", "gold": gold, "request_sha256": sums})
	}
	r := run(t, nil, read(t, file(t, "samples_"+name+".jsonl", row(0, 700, 1, false), row(1, 3, 0, false))))
	f := r.Forms[0]
	if r.Variant != "" || r.Standard != task.Standard || f.Task != "arc_easy" || f.Formulation != olmes.CF || f.Split != "test" || f.Predictions[0].DocID != 700 || f.Predictions[0].NativeID != "q" || f.Predictions[0].Gold != 1 {
		t.Errorf("%q %q %+v", r.Variant, r.Standard, f)
	}
	r = run(t, nil, read(t, file(t, "samples_"+name+".jsonl", row(0, 700, 1, false), row(1, 3, 0, true))))
	if r.Variant != Variant || r.Standard != "" || !strings.Contains(strings.Join(r.Notes, "\n"), "1 requests are not those that were exported") {
		t.Errorf("%q %q %v", r.Variant, r.Standard, r.Notes)
	}
	if _, err := ReadSamples(context.Background(), file(t, "samples_"+name+".jsonl", row(0, 700, 1, false), row(1, 700, 0, false)), Options{}); err == nil || !strings.Contains(err.Error(), "doc_id 700 is there twice") {
		t.Errorf("error %v", err)
	}
}

// A results file alone becomes metrics; acc_norm only is per character with the
// leading space where the delimiter is empty.
func TestAggregate(t *testing.T) {
	values := map[string]any{"acc,none": 0.25, "acc_stderr,none": 0.01, "acc_norm,none": 0.5, "sample_len": 1000}
	for _, c := range []struct {
		task, delimiter string
		character       bool
	}{{"arc_easy", " ", false}, {taskfile.Name("arc_easy", olmes.CF), "", true}} {
		res := resultsFile(t, c.task, values, map[string]any{"configs": map[string]any{c.task: map[string]any{"target_delimiter": c.delimiter, "output_type": "multiple_choice"}}})
		r := run(t, res)
		m, err := r.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		if !r.Aggregate() || m.Tasks[0].Task != "arc_easy" || m.Suite != nil {
			t.Errorf("%+v", m)
		}
		for _, f := range m.Tasks[0].Formulations {
			_, has := f.Accuracy[olmes.Character]
			e := f.Accuracy[olmes.None]
			if has != c.character || e.Accuracy != 0.25 || e.N != 1000 || *e.SE != 0.01 || *e.Correct != 250 {
				t.Errorf("%s: %+v", c.task, f)
			}
		}
		id := r.Identity()
		if p, err := r.Provenance(r.Finished, nil); err != nil || p.Evidence != record.ImportedAggregates || id.Variant != Variant {
			t.Errorf("%v %v", p.Evidence, err)
		}
	}
	if _, err := ReadResults(file(t, "results_x.json", map[string]any{"a": 1})); err == nil || !strings.Contains(err.Error(), "not a results file") {
		t.Errorf("error %v", err)
	}
}

// FuzzSample: whatever a line holds, it is refused or becomes a sound prediction.
func FuzzSample(f *testing.F) {
	for _, s := range []sample{newSample(0, "1", []float64{-3, -1}, " a", " bb"), newSample(1, "a", []float64{-3, -1, -2}, " a", " bb", " c").with("acc", 1),
		newSample(2, "0", []float64{-1, -2}, " A", " B").with("arguments", [][]string{{"q", " A"}, {"q", " B"}})} {
		doc, _ := json.Marshal(s)
		f.Add(doc)
	}
	f.Add([]byte(`{"doc_id": 0, "filtered_resps": [[NaN, false], ["-inf", "True"]], "arguments": {"gen_args_0": {"arg_0": "", "arg_1": ""}, "gen_args_1": {"arg_0": "", "arg_1": ""}}, "target": "0"}`))
	f.Add([]byte(`{"doc_id": 3, "doc": {"standard": "olmes-record", "task": "t", "doc_id": 5, "gold": 1, "lengths": [{"tokens": 1}, {"chars": 2}]}, "filtered_resps": [["-1", "None"], ["-2", "None"]], "arguments": {}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, keep := range []bool{false, true} {
			s := &Samples{Task: "toy", others: map[string]int{}, exported: true}
			r := reader{Samples: s, options: Options{KeepFailed: keep}, lines: map[int]int{}, hash: sha256.New()}
			if err := r.line(1, data); err != nil || len(s.instances) == 0 {
				continue
			}
			run, err := Run([]*Samples{s}, nil)
			if err != nil {
				continue
			}
			checkRun(t, run)
		}
	})
}

// checkRun fails where a run could not be sealed and verified.
func checkRun(t *testing.T, run *results.Run) {
	t.Helper()
	if _, err := run.Metrics(); err != nil {
		t.Fatal(err)
	}
	for _, p := range run.Predictions() {
		if p.Gold < 0 || p.Gold >= len(p.Choices) {
			t.Fatalf("gold %d of %d", p.Gold, len(p.Choices))
		}
		for _, c := range p.Choices {
			if (c.LogProb == nil) != (c.Error != "") || c.LogProb != nil && (math.IsNaN(*c.LogProb) || math.IsInf(*c.LogProb, 0)) || c.Chars < 0 || c.Tokens < 0 {
				t.Fatalf("%+v", c)
			}
		}
	}
	if _, err := json.Marshal(run.Printed); err != nil {
		t.Fatal(err)
	}
	if run.Identity().ID() == "" {
		t.Fatal("no id")
	}
}

// FuzzResults: a results file is refused or becomes sound metrics.
func FuzzResults(f *testing.F) {
	f.Add([]byte(`{"results": {"arc_easy": {"acc,none": 0.5, "acc_stderr,none": "N/A", "acc_norm,none": NaN}}, "configs": {"arc_easy": {"target_delimiter": "", "output_type": "multiple_choice"}}, "n-samples": {"arc_easy": {"effective": 2}}}`))
	f.Add([]byte(`{"results": {"g": {"acc,none": 0.5}, "a": {"acc,none": 0.5}}, "group_subtasks": {"g": ["a", "g"]}, "config": {"model_args": "a=b,c"}, "date": "x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &Results{}
		if results.Decode(data, &r.doc) != nil || len(r.doc.Results) == 0 {
			return
		}
		r.Groups()
		run, err := Run(nil, r)
		if err != nil {
			return
		}
		checkRun(t, run)
	})
}

// Printed numbers that cannot be what they are called end the reading, by file and key.
func TestResultsFaults(t *testing.T) {
	for name, c := range map[string]struct {
		part string // of the results
		want string // "" is no error
	}{
		"sound":             {`"acc,none": 1.0, "acc_stderr,none": 0, "acc_norm,none": 0, "acc_norm_stderr,none": "N/A", "word_perplexity,none": 1e300, "alias": "toy"`, ""},
		"no numbers":        {`"acc,none": NaN, "acc_stderr,none": NaN`, ""},
		"percent":           {`"acc,none": 25.0`, "results.toy.acc,none is 25; it is a fraction from 0 to 1, so divide percentages by 100"},
		"old percent":       {`"acc": 25.0`, "results.toy.acc is 25; it is a fraction"},
		"huge":              {`"acc,none": 1e308`, "results.toy.acc,none is 1e+308; it is a fraction from 0 to 1"},
		"beyond":            {`"acc,none": 1e999`, "the number 1e999 is beyond what 64 bits hold"},
		"negative":          {`"acc_norm,none": -3`, "results.toy.acc_norm,none is -3; it is a fraction"},
		"true":              {`"acc,none": true`, "results.toy.acc,none is true; want a number"},
		"text":              {`"acc,none": "0.5"`, `results.toy.acc,none is the text "0.5"; want a number`},
		"huge error":        {`"acc_norm,none": 0.5, "acc_norm_stderr,none": 1e308`, "results.toy.acc_norm_stderr,none is 1e+308; the standard error of an accuracy is at most 1"},
		"negative error":    {`"acc,none": 0.5, "acc_stderr,none": -1`, "results.toy.acc_stderr,none is -1; a standard error is a number from 0 on"},
		"infinite error":    {`"f1,none": 0.5, "f1_stderr,none": Infinity`, "results.toy.f1_stderr,none is +Inf"},
		"key twice":         {`"acc,none": 0.5, "acc,none": 0.6`, `the key "acc,none" is there twice`},
		"object for number": {`"alias": "toy"}}, "config": {"model_num_parameters": {}}, "x": {"y": {`, "config.model_num_parameters: want a number, got {}"},
	} {
		path := filepath.Join(t.TempDir(), "results_2026-11-30T08-22-47.json")
		if err := os.WriteFile(path, []byte(`{"results": {"toy": {`+c.part+`}}, "versions": {}}`), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadResults(path)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "results_x.json")
	if err := os.WriteFile(path, []byte(`{"results": {"toy": {"acc,none": 0.5}}, "groups": {"all": {"acc,none": 50}}, "versions": {}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadResults(path); err == nil || !strings.Contains(err.Error(), "groups.all.acc,none is 50") {
		t.Errorf("error %v", err)
	}
}
