package foreign

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"olmes"
	"olmes/foreign/ai2"
	"olmes/foreign/lmeval"
	"olmes/foreign/results"
	"olmes/foreign/table"
	"olmes/outcome/outcometest"
	"olmes/record"
)

// scored writes a record as this program makes it.
func scored(t *testing.T) *record.Record {
	t.Helper()
	forms := map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: 0.5}, olmes.MCF: {Accuracy: 0.7}}
	piqa := make([]int, 30)
	for i := range piqa {
		piqa[i] = 7 * i
	}
	return outcometest.Write(t, filepath.Join(t.TempDir(), "run"), outcometest.Spec{Model: "org/m", Seed: 1, Tasks: []outcometest.Task{
		{Name: "arc_easy", N: 20, Normalization: olmes.Character, Forms: forms},
		{Name: "openbookqa", N: 20, Normalization: olmes.PMI, Forms: forms},
		{Name: "piqa", Split: "validation", DocIDs: piqa, Choices: 2, Incomplete: true, Normalization: olmes.Character, Forms: forms},
	}})
}

// imports reads files and seals the one run that they hold; the record must verify.
func imports(t *testing.T, paths ...string) (*record.Record, *results.Run) {
	t.Helper()
	runs, err := Read(context.Background(), paths, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	rec, err := Save(filepath.Join(t.TempDir(), "imported"), runs[0], time.Unix(1e9, 0), []string{"olmes", "import"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := rec.Verify()
	if err != nil || v.Damaged() || !v.Complete || v.Compliant() {
		t.Fatalf("verification %+v, %v", v, err)
	}
	return rec, runs[0]
}

// predictions of a record with what no other tool's files hold taken out.
func predictions(t *testing.T, rec *record.Record) []olmes.Prediction {
	t.Helper()
	var out []olmes.Prediction
	for p, err := range rec.Predictions() {
		if err != nil {
			t.Fatal(err)
		}
		p.Chunk, p.Env = "", 0
		for i := range p.Choices {
			p.Choices[i].TokenLogProbs, p.Choices[i].ContinuationIDs, p.Choices[i].UnconditionalLogProbs = nil, nil, nil
		}
		out = append(out, p)
	}
	return out
}

// What is exported comes back as it was, in every form.
func TestRoundTrip(t *testing.T) {
	rec := scored(t)
	want := predictions(t, rec)
	wantMetrics, err := rec.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	for name, export := range map[string]func(dir string) error{
		"csv": func(dir string) error {
			var b bytes.Buffer
			if err := table.WriteCSV(&b, rec, nil); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "a.csv"), b.Bytes(), 0o644)
		},
		"lm-eval": func(dir string) error { _, err := lmeval.WriteRecord(dir, rec, nil); return err },
		"olmes":   func(dir string) error { _, err := ai2.WriteRecord(dir, rec, nil); return err },
	} {
		dir := t.TempDir()
		if err := export(dir); err != nil {
			t.Fatal(name, err)
		}
		back, run := imports(t, dir)
		got, want := predictions(t, back), slices.Clone(want)
		if name == "olmes" { // that form has no digests but in requests, which are texts
			for i := range want {
				want[i].Choices = slices.Clone(want[i].Choices)
				for j := range want[i].Choices {
					want[i].Choices[j].RequestSHA256, want[i].Choices[j].IDsSHA256 = "", ""
				}
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		m, err := back.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.Tasks {
			if d := cmp.Diff(wantMetrics.Tasks[i].Formulations[olmes.MCF].Accuracy, m.Tasks[i].Formulations[olmes.MCF].Accuracy); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
		if back.Identity.Variant != "" || back.Identity.Model.Name != "org/m" || back.Provenance.Evidence != record.ImportedInstances || len(back.Provenance.Import.Lacks) == 0 {
			t.Errorf("%s: %+v", name, back.Identity)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.json*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if w, err := Which(file); name == "lm-eval" && (err != nil || w.Writer != "olmes export" || w.Implementation != OLMES) {
				t.Errorf("%s: %+v %v", file, w, err)
			}
		}
		// What came back is not said to be missing.
		if lacks := strings.Join(back.Provenance.Import.Lacks, "; "); name == "lm-eval" && (strings.Contains(lacks, "token counts") || !strings.Contains(lacks, "digests are there")) {
			t.Errorf("lacks %q", lacks)
		}
		for _, p := range run.Printed {
			if p.Again != nil && !p.Equal {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if len(run.Notes) > 0 {
			t.Errorf("%s: notes %q", name, run.Notes)
		}
		// The same files again are the same record.
		if again, _ := imports(t, dir); again.ID != back.ID || again.Results.SHA256 != back.Results.SHA256 {
			t.Errorf("%s: imported twice, %s and %s", name, back.ID[:12], again.ID[:12])
		}
	}
}

// Other numbers of the same setup are another record.
func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	ids := map[string]bool{}
	for i, v := range []string{"-1", "-1.0000000001"} {
		path := filepath.Join(dir, fmt.Sprint(i, ".csv"))
		if err := os.WriteFile(path, []byte("task,doc_id,choice,gold,logprob\nt,0,0,0,"+v+"\nt,0,1,0,-2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		rec, _ := imports(t, path)
		ids[rec.ID] = true
	}
	if len(ids) != 2 {
		t.Error("two imports of other numbers have one id")
	}
}

// AI2's files that were imported come out again with the same values wherever
// both define a field.
func TestAI2RoundTrip(t *testing.T) {
	dir := t.TempDir()
	writeAI2(t, dir)
	rec, run := imports(t, dir)
	if len(run.Notes) > 0 {
		t.Errorf("notes %q", run.Notes)
	}
	out := t.TempDir()
	if _, err := ai2.WriteRecord(out, rec, nil); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for name, other := range map[string]string{"task-000-piqa": "task-001-piqa", "task-001-arc_challenge_mc": "task-000-arc_challenge_mc"} { // in the record's order
		compared += same(t, name, object(t, filepath.Join(dir, name+"-metrics.json")), object(t, filepath.Join(out, other+"-metrics.json")))
		a, b := lines(t, filepath.Join(dir, name+"-predictions.jsonl")), lines(t, filepath.Join(out, other+"-predictions.jsonl"))
		if len(a) != len(b) {
			t.Fatalf("%s: %d and %d lines", name, len(a), len(b))
		}
		byDoc := map[float64]map[string]any{}
		for _, l := range b {
			byDoc[l["doc_id"].(float64)] = l
		}
		for _, l := range a {
			compared += same(t, fmt.Sprint(name, " ", l["doc_id"]), l, byDoc[l["doc_id"].(float64)])
		}
	}
	if compared < 40*20 {
		t.Errorf("only %d fields were compared", compared)
	}
}

// same compares two values where both have a field, and counts those.
func same(t *testing.T, where string, a, b any) int {
	t.Helper()
	switch a := a.(type) {
	case map[string]any:
		n := 0
		other, ok := b.(map[string]any)
		for k, v := range a {
			if w, has := other[k]; ok && has && k != "task_idx" {
				n += same(t, where+"."+k, v, w)
			}
		}
		return n
	case []any:
		other, ok := b.([]any)
		if !ok || len(other) != len(a) {
			t.Errorf("%s: %v and %v", where, a, b)
			return 0
		}
		n := 0
		for i := range a {
			n += same(t, fmt.Sprint(where, "[", i, "]"), a[i], other[i])
		}
		return n
	}
	if a != b {
		t.Errorf("%s: %v and %v", where, a, b)
	}
	return 1
}

func object(t *testing.T, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func lines(t *testing.T, path string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for _, l := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var v map[string]any
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// writeAI2 writes files as oe-eval does, of made-up instances: a sample of piqa
// in the cloze form with unconditional log-probabilities, and arc_challenge in the
// multiple-choice form.
func writeAI2(t *testing.T, dir string) {
	t.Helper()
	const log2e = 1.44269504089
	put := func(name string, v any) {
		t.Helper()
		doc, err := json.Marshal(v)
		if err == nil {
			f, e := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if e != nil {
				t.Fatal(e)
			}
			_, err = f.Write(append(doc, '\n'))
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	type m = map[string]any
	for k, c := range []struct {
		name, file, alias, split, primary string
		choices, n                        int
		limit                             any
		uncond                            bool
	}{
		{"piqa", "task-000-piqa", "piqa:rc::olmes", "validation", "acc_per_char", 2, 40, 1000, true},
		{"arc_challenge:mc", "task-001-arc_challenge_mc", "arc_challenge:mc::olmes", "test", "acc_raw", 4, 40, nil, false},
	} {
		sums := map[string]float64{}
		for doc := range c.n {
			var outs []m
			best := map[string]int{"raw": 0, "per_token": 0, "per_char": 0, "per_byte": 0, "uncond": 0}
			value := func(out m, rule string) float64 {
				switch rule {
				case "per_token":
					return out["logits_per_token"].(float64)
				case "per_char":
					return out["logits_per_char"].(float64)
				case "per_byte":
					return -out["bits_per_byte"].(float64)
				case "uncond":
					if !c.uncond {
						return 0
					}
					return out["sum_logits"].(float64) - out["sum_logits_uncond"].(float64)
				}
				return out["sum_logits"].(float64)
			}
			for i := range c.choices {
				v := -1 - math.Mod(float64(doc*7+i*13+k)*0.6180339887498949, 9)
				tokens, chars, size := 1+(doc+i)%5, 2+(doc*3+i)%17, 3+(doc*3+i)%17
				out := m{"sum_logits": v, "num_tokens": tokens, "num_tokens_all": 300 + doc + tokens, "is_greedy": false, "logits_per_token": v / float64(tokens),
					"logits_per_char": v / float64(chars), "bits_per_byte": -log2e * (v / float64(size)), "num_chars": chars}
				if doc == 3 {
					out["num_tokens_all"] = 2100 + tokens // more than the context
				}
				if c.uncond {
					out["sum_logits_uncond"] = v*0.5 - float64(i)
				}
				outs = append(outs, out)
				for rule, at := range best {
					if i > 0 && value(out, rule) > value(outs[at], rule) {
						best[rule] = i
					}
				}
			}
			label := (doc * 5) % c.choices
			right := func(i int) int {
				if i == label {
					return 1
				}
				return 0
			}
			metrics := m{"correct_choice": label, "no_answer": 0, "sum_logits_corr": outs[label]["sum_logits"], "logits_per_token_corr": outs[label]["logits_per_token"],
				"logits_per_char_corr": outs[label]["logits_per_char"], "bits_per_byte_corr": outs[label]["bits_per_byte"]}
			for rule, i := range best {
				if rule == "uncond" && !c.uncond {
					metrics["predicted_index_uncond"], metrics["acc_uncond"] = nil, nil
					continue
				}
				if c.choices == 4 && rule != "raw" && rule != "per_byte" {
					// Of labels nothing but the plain rule is kept in a record.
					continue
				}
				metrics["predicted_index_"+rule], metrics["acc_"+rule] = i, right(i)
			}
			for name, v := range metrics {
				switch v := v.(type) {
				case int:
					sums[name] += float64(v)
				case float64:
					sums[name] += v
				}
			}
			line := m{"doc_id": doc, "native_id": 5000 + doc, "metrics": metrics, "model_output": outs, "label": label, "task_hash": "th" + c.name, "model_hash": "mh"}
			if c.choices == 4 {
				line["native_id"] = fmt.Sprint("Q_", doc)
			}
			put(c.file+"-predictions.jsonl", line)
		}
		values := m{}
		for name, sum := range sums {
			if strings.HasPrefix(name, "acc_") || strings.HasSuffix(name, "_corr") {
				values[name] = sum / float64(c.n)
			}
		}
		values["primary_score"] = values[c.primary]
		put(c.file+"-metrics.json", m{"task_name": c.name, "task_hash": "th" + c.name, "model_hash": "mh", "model_config": m{"model": "org/m", "revision": "r1", "max_length": 2048, "model_type": "hf"},
			"task_config": m{"task_name": c.name, "split": c.split, "limit": c.limit, "random_subsample_seed": 1234, "num_shots": 5, "primary_metric": c.primary,
				"metadata": m{"alias": c.alias, "regimes": []string{"OLMES-v0.1"}}}, "compute_config": m{"batch_size": "4"},
			"processing_time": 41.965757846832275, "current_date": "2024-12-19 12:16:07 UTC", "num_instances": c.n, "metrics": values, "task_idx": k})
	}
}

func TestDetect(t *testing.T) {
	for name, c := range map[string]struct{ file, content, want string }{
		"samples":      {"x.jsonl", `{"doc_id": 0, "filtered_resps": []}`, string(LMEvalSamples)},
		"old samples":  {"x.jsonl", `{"doc_id": 0, "resps": []}` + "\n{}", string(LMEvalSamples)},
		"results":      {"x.json", "{\n \"results\": {},\n \"versions\": {}\n}", string(LMEvalResults)},
		"NaN":          {"x.json", "{\n \"results\": {\"a\": NaN},\n \"versions\": {}\n}", string(LMEvalResults)},
		"predictions":  {"x.jsonl", `{"doc_id": 0, "model_output": []}`, string(AI2Predictions)},
		"requests":     {"x.jsonl", `{"request_type": "loglikelihood", "doc_id": 0}`, string(AI2Requests)},
		"metrics":      {"x.json", `{"task_name": "a", "metrics": {}}`, string(AI2Metrics)},
		"all metrics":  {"x.json", `{"all_primary_scores": [], "tasks": []}`, string(AI2Metrics)},
		"own requests": {"x.jsonl", `{"task": "a", "formulation": "cf", "doc_id": 1, "context": "", "continuation": ""}`, string(OwnRequests)},
		"table":        {"x.csv", "task,accuracy\nt,0.5\n", string(CSV)},
		"other table":  {"x.csv", "a,b\n", string(CSV)},
		"manifest":     {"manifest.json", `{"format": 1, "identity": {}}`, "error: it is the manifest of a record"},
		"list":         {"x.json", `[1]`, "error: it is none of the kinds"},
		"object":       {"x.json", `{"a": 1}`, "error: it is none of the kinds"},
		"text":         {"x.txt", "hello\n", "error: it is none of the kinds"},
		"blank":        {"x.json", " \n", "error: the file has no lines"},
		"empty":        {"x.json", "", "error: the file is empty"},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		kind, err := Detect(path)
		got := string(kind)
		if err != nil {
			got = "error: " + strings.TrimPrefix(err.Error(), path+": ")
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What the person says is taken where the files do not say otherwise.
func TestOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("task,doc_id,choice,gold,logprob\nt,0,0,0,-1\nt,0,1,0,-2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	runs, err := Read(context.Background(), []string{path}, Options{Model: "m", Task: "piqa", Formulation: olmes.MCF, Split: "validation"})
	if err != nil {
		t.Fatal(err)
	}
	id := runs[0].Identity()
	if id.Model.Name != "m" || id.Tasks[0].Name != "piqa" || id.Tasks[0].Split != "validation" || len(id.Tasks[0].Formulations) != 1 || runs[0].Forms[0].Predictions[0].Task != "piqa" {
		t.Errorf("%+v", id)
	}
	if err := os.WriteFile(path, []byte("task,doc_id,choice,gold,logprob,formulation,split\npiqa,5000,0,0,-1,cf,\npiqa,5000,1,0,-2,cf,\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Formulation: olmes.MCF}, "--formulation is mcf, by the files it is cf"},
		{Options{Split: "validation"}, "which has 1838 instances, and one of the file has the doc_id 5000"},
	} {
		if _, err := Read(context.Background(), []string{path}, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	if _, err := Read(context.Background(), []string{t.TempDir()}, Options{}); err == nil || !strings.Contains(err.Error(), "no file in this folder can be read") {
		t.Errorf("error %v", err)
	}
}

// Files of several runs in one folder are told apart by the time in their names,
// unless they are said to be one.
func TestGroups(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"samples_arc_easy_2026-01-01T00-00-00.000001.jsonl", "samples_piqa_2026-01-02T00-00-00.000001.jsonl"} {
		line := `{"doc_id": 0, "target": "0", "arguments": [["q", " a"], ["q", " b"]], "filtered_resps": [["-1", "False"], ["-2", "False"]]}` + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(line), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for together, want := range map[bool]int{false: 2, true: 1} {
		runs, err := Read(context.Background(), []string{dir}, Options{Together: together})
		if err != nil || len(runs) != want {
			t.Errorf("together %v: %d runs, %v", together, len(runs), err)
		}
	}
}

// What is not known is said to be so, and not compared with the standard's.
func TestUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("task,doc_id,choice,gold,logprob\nsciq,0,0,0,-1\nsciq,0,1,0,-2\npiqa,0,0,0,-1\npiqa,0,1,0,-2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	rec, _ := imports(t, path)
	m, err := rec.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range record.Deviations(rec.Identity, &m) {
		if d.Code != "formulation" && d.OffStandard {
			got = append(got, d.Code)
		}
	}
	if want := []string{"variant", "precision-unknown", "bos-unknown", "window-unknown", "split-unknown", "task"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Names out of files lead nowhere and cannot write to a terminal.
func TestNames(t *testing.T) {
	read := func(task string) ([]*results.Run, error) {
		path := filepath.Join(t.TempDir(), "a.csv")
		if err := os.WriteFile(path, []byte("task,doc_id,choice,gold,logprob\n"+task+",0,0,0,-1\n"+task+",0,1,0,-2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return Read(context.Background(), []string{path}, Options{})
	}
	for _, task := range []string{"\x1b[31mred", strings.Repeat("x", 301), "a\u202eb"} {
		if _, err := read(task); err == nil {
			t.Errorf("%q is taken", task)
		}
	}
	runs, err := read("../../outside")
	if err != nil {
		t.Fatal(err)
	}
	rec, err := Save(filepath.Join(t.TempDir(), "run"), runs[0], time.Unix(1e9, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, export := range map[string]func(string) error{
		"lm-eval": func(dir string) error { _, err := lmeval.WriteRecord(dir, rec, nil); return err },
		"olmes":   func(dir string) error { _, err := ai2.WriteRecord(dir, rec, nil); return err },
	} {
		parent := t.TempDir()
		if err := export(filepath.Join(parent, "a", "b")); err != nil {
			t.Fatal(name, err)
		}
		for _, dir := range []string{parent, filepath.Join(parent, "a")} {
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("%s wrote %v into %s, %v", name, entries, dir, err)
			}
		}
	}
}
