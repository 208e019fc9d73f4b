package foreign

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"olmes/foreign/results"
	"olmes/task"
)

// log writes requests of made-up questions as one of the logs has them.
func log(t *testing.T, kind Kind, task string, instances [][][2]string) string {
	t.Helper()
	var b strings.Builder
	put := func(v any) {
		doc, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(doc, '\n'))
	}
	name := "requests.jsonl"
	for doc, pairs := range instances {
		switch kind {
		case LMEvalSamples:
			name = "samples_" + task + ".jsonl"
			args := map[string]any{}
			for i, p := range pairs {
				args[fmt.Sprint("gen_args_", i)] = map[string]string{"arg_0": p[0], "arg_1": p[1]}
			}
			put(map[string]any{"doc_id": doc, "filtered_resps": []any{}, "arguments": args})
		case AI2Requests:
			for i, p := range pairs {
				put(map[string]any{"request_type": "loglikelihood", "doc_id": doc, "idx": i, "task_name": task, "request": map[string]string{"context": p[0], "continuation": p[1]}})
			}
		case OwnRequests:
			for i, p := range pairs {
				put(map[string]any{"task": task, "formulation": "mcf", "doc_id": doc, "choice": i, "context": p[0], "continuation": p[1]})
			}
		}
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// repeat makes n instances of one shape.
func repeat(n int, make func(i int) [][2]string) [][][2]string {
	out := [][][2]string{}
	for i := range n {
		out = append(out, make(i))
	}
	return out
}

func labels(context string) [][2]string { return [][2]string{{context, " A"}, {context, " B"}} }

const shot = "Question: s?\n A. x\n B. y\nAnswer: A\n\n"

func TestWhich(t *testing.T) {
	five := strings.Repeat(shot, 5)
	story := func(gap string) func(int) [][2]string {
		return func(i int) [][2]string {
			return labels(strings.Repeat("Act: s.\nChoose the best continuation:\n A. x\n B. y\nAnswer: B\n\n", 5) + "Act: he goes on." + gap + "\nChoose the best continuation:\n A. x\n B. y\nAnswer:")
		}
	}
	about := "The following are multiple choice questions (with answers) about world religions.\n\n"
	for name, c := range map[string]struct {
		path       string
		want       string
		candidates []string
		marks      []string
	}{
		"hellaswag with spaces": {log(t, AI2Requests, "hellaswag:mc", repeat(30, func(i int) [][2]string { return story([]string{" ", ""}[i%2])(i) })), OLMES, []string{OLMES}, []string{"hellaswag-space", "label-space"}},
		"hellaswag without":     {log(t, LMEvalSamples, "h", repeat(30, story(""))), OLMoEval, []string{OLMoEval}, []string{"hellaswag-space", "label-space"}},
		"too few to tell":       {log(t, OwnRequests, "hellaswag", repeat(3, story(""))), "", nil, []string{"label-space"}},
		"mmlu trimmed":          {log(t, AI2Requests, "mmlu_toys:mc", repeat(200, func(i int) [][2]string { return labels(about + five + "Question: q?\n A. x\n B. y\nAnswer:") })), OLMES, []string{OLMES}, []string{"mmlu-trim", "examples"}},
		"mmlu as it is":         {log(t, AI2Requests, "mmlu_toys:mc", repeat(200, func(i int) [][2]string { return labels(about + five + "Question: q? \n A. x\n B. y\nAnswer:") })), OLMoEval, []string{OLMoEval}, []string{"mmlu-trim"}},
		"nothing to be trimmed": {log(t, AI2Requests, "mmlu_anatomy:mc", repeat(135, func(i int) [][2]string {
			return labels(strings.Replace(about, "world religions", "anatomy", 1) + five + "Question: q?\n A. x\n B. y\nAnswer:")
		})), "", []string{OLMES, OLMoEval}, nil},
		"lm-eval's mmlu": {log(t, LMEvalSamples, "mmlu_toys", repeat(9, func(i int) [][2]string { return labels(about + "q?\nA. x\nB. y\nAnswer:") })), "", []string{LMEval, Other}, []string{"label-space", "question-cue", "examples", "arguments-named"}},
		"hendrycks's": {log(t, LMEvalSamples, "m", repeat(9, func(i int) [][2]string {
			return labels("The following are multiple choice questions (with answers) about  toys.\n\nq?\nA. x\nB. y\nAnswer:")
		})), Other, []string{Other}, []string{"mmlu-subject"}},
		"lm-eval's piqa": {log(t, LMEvalSamples, "piqa", repeat(2, func(i int) [][2]string {
			return [][2]string{{"Question: g\nAnswer:", " x"}, {"Question: g\nAnswer:", " y"}}
		})), "", []string{LMEval, Other}, []string{"piqa-goal", "examples"}},
		"the standard's piqa": {log(t, LMEvalSamples, "piqa", repeat(2, func(i int) [][2]string {
			return labels(strings.Repeat("Goal: s\n A. x\n B. y\nAnswer: A\n\n", 5) + "Goal: g\n A. x\n B. y\nAnswer:")
		})), "", []string{OLMES, OLMoEval}, []string{"piqa-goal"}},
		"lm-eval's boolq": {log(t, LMEvalSamples, "boolq", repeat(2, func(i int) [][2]string {
			return [][2]string{{"P\nQuestion: q?\nAnswer:", " no"}, {"P\nQuestion: q?\nAnswer:", " yes"}}
		})), "", []string{LMEval, Other}, []string{"boolq-order"}},
		"after an empty context": {log(t, LMEvalSamples, "x", repeat(2, func(i int) [][2]string { return [][2]string{{"q", " a"}, {"q", " b"}, {"", " a"}, {"", " b"}} })), "", []string{LMEval, Other}, []string{"unconditional"}},
		"after Answer:": {log(t, LMEvalSamples, "x", repeat(2, func(i int) [][2]string {
			return [][2]string{{"q", " a"}, {"q", " b"}, {"Answer:", " a"}, {"Answer:", " b"}}
		})), "", []string{OLMES, OLMoEval, Other}, []string{"unconditional"}},
		"marks that contradict":   {log(t, AI2Requests, "hellaswag:mc", append(repeat(30, story(" ")), labels("P\n\nQuestion: q?\nA. x\nB. y\nAnswer:"))), "", []string{}, []string{"hellaswag-space"}},
		"two numbers of examples": {log(t, AI2Requests, "toy:mc", [][][2]string{labels(shot + "Question: q?\n A. x\n B. y\nAnswer:"), labels("Question: q?\n A. x\n B. y\nAnswer:")}), "", []string{}, []string{"examples"}},
	} {
		f, err := Which(c.path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f.Implementation != c.want || c.candidates != nil && !slices.Equal(f.Candidates, c.candidates) {
			t.Errorf("%s: %q of %q, want %q of %q", name, f.Implementation, f.Candidates, c.want, c.candidates)
		}
		for _, m := range c.marks {
			if !slices.ContainsFunc(f.Findings, func(x Finding) bool { return x.Mark == m }) {
				t.Errorf("%s: no mark %s in %+v", name, m, f.Findings)
			}
		}
	}
}

// How a mean over mmlu's subjects was made is told by its value.
func TestWhichAverage(t *testing.T) {
	type m = map[string]any
	var macro, micro, n float64
	byCategory := make([]float64, len(categories))
	var tasks []m
	subjects := []string{}
	lm := m{}
	for c, list := range categories {
		for i, s := range list {
			known, ok := task.Lookup("mmlu_" + s)
			if !ok {
				t.Fatalf("no subject %s", s)
			}
			v := 0.2 + float64(c)*0.1 + float64(i)*0.01
			macro += v / 57
			micro += v * float64(known.Size)
			n += float64(known.Size)
			byCategory[c] += v / float64(len(list))
			tasks = append(tasks, m{"alias": "mmlu_" + s + ":mc::olmes", "metrics": m{"primary_score": v}, "num_instances": known.Size})
			subjects = append(subjects, "mmlu_"+s)
			lm["mmlu_"+s] = m{"acc,none": v, "sample_len": known.Size}
		}
	}
	if len(subjects) != 57 {
		t.Fatalf("%d subjects", len(subjects))
	}
	var quarters float64
	for _, v := range byCategory {
		quarters += v / 4
	}
	write := func(v any) string {
		doc, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "metrics.json")
		if err := os.WriteFile(path, doc, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		value float64
		want  string
	}{{macro, "the plain mean over the 57 subjects"}, {micro / n, "the mean over all instances"}, {quarters, "the mean of the four categories"}, {0.9, "none of the known means"}} {
		group := m{"alias": "mmlu:mc::olmes", "metrics": m{"primary_score": c.value}, "num_instances": 14042, "task_config": m{"metadata": m{"num_tasks": 57}}}
		results := m{"mmlu": m{"acc,none": c.value}}
		for k, v := range lm {
			results[k] = v
		}
		for _, path := range []string{
			write(m{"all_primary_scores": []string{}, "tasks": append([]m{group}, tasks...)}),
			write(m{"results": results, "versions": m{}, "group_subtasks": m{"mmlu": subjects}}),
		} {
			f, err := Which(path)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(f.Findings, func(x Finding) bool { return x.Mark == "mmlu-average" && strings.Contains(x.Evidence, c.want) }) {
				t.Errorf("%v: %+v, want %s", c.value, f.Findings, c.want)
			}
		}
	}
}

func TestWhichScores(t *testing.T) {
	dir := t.TempDir()
	writeAI2(t, dir)
	f, err := Which(filepath.Join(dir, "task-000-piqa-predictions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Writer != "oe-eval" || !slices.ContainsFunc(f.Findings, func(x Finding) bool {
		return x.Mark == "bits-per-byte" && strings.Contains(x.Evidence, "12 digits") && x.Line == 1
	}) {
		t.Errorf("%+v", f)
	}
	if f, err = Which(filepath.Join(dir, "task-000-piqa-metrics.json")); err != nil || f.Implementation != OLMES {
		t.Errorf("%+v %v", f, err)
	}
}

// Samples of exported tasks are told by their name and by the rows in them.
func TestWhichExported(t *testing.T) {
	asked := strings.Repeat(shot, 5) + "Question: q\nAnswer:"
	pairs := [][2]string{{asked, " a"}, {asked, " b"}}
	sums := []string{results.Digest(pairs[0][0], pairs[0][1]), results.Digest(pairs[1][0], pairs[1][1])}
	line := func(doc map[string]any, texts bool) string {
		l := map[string]any{"doc_id": 0, "filtered_resps": []any{}, "arguments": map[string]any{}, "doc": doc}
		if texts {
			l["arguments"] = map[string]any{"gen_args_0": map[string]string{"arg_0": pairs[0][0], "arg_1": pairs[0][1]}, "gen_args_1": map[string]string{"arg_0": pairs[1][0], "arg_1": pairs[1][1]}}
		}
		out, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return string(out) + "\n"
	}
	row := func(sums ...string) map[string]any {
		return map[string]any{"standard": task.Standard, "request_sha256": sums}
	}
	record := row(sums...)
	record["lengths"] = []map[string]int{{"tokens": 1}, {"tokens": 1}}
	variant := map[string]any{"standard": "olmes-record", "request_sha256": sums}
	for name, c := range map[string]struct {
		file, lines  string
		want, writer string
		evidence     string
	}{
		"by name":            {"samples_olmes_arc_easy_cf_2026-01-01T00-00-00.000001.jsonl", line(nil, true), OLMES, "lm-eval", "has a name that"},
		"by rows":            {"samples_olmes_arc_easy_cf.jsonl", line(row(sums...), true), OLMES, "lm-eval", "all 2 requests have the digests"},
		"by rows, renamed":   {"samples_mine.jsonl", line(row(sums...), true), OLMES, "lm-eval", "all 2 requests have the digests"},
		"as olmes export":    {"samples_olmes_arc_easy_cf.jsonl", line(record, false), OLMES, "olmes export", "all 1 samples are of rows"},
		"rows of others too": {"samples_mine.jsonl", line(row(sums...), true) + line(nil, true), "", "lm-eval", ""},
		"rows that changed":  {"samples_olmes_arc_easy_cf.jsonl", line(row(sums...), true) + line(row(sums[1], sums[1]), true), "", "lm-eval", "1 of 4 requests are not what"},
		"a variant":          {"samples_arc_easy_mcf.jsonl", line(variant, false), "", "lm-eval", "of a variant of a record"},
		"no such task":       {"samples_olmes_toys_cf.jsonl", line(nil, true), "", "lm-eval", ""},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, []byte(c.lines), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := Which(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		marked := slices.ContainsFunc(f.Findings, func(x Finding) bool {
			return x.Mark == "exported-tasks" && strings.Contains(x.Evidence, c.evidence)
		})
		if f.Implementation != c.want || f.Writer != c.writer || marked != (c.evidence != "") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
