package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"olmes"
	"olmes/outcome/outcometest"
	"olmes/record"
	"olmes/reproduce"
)

// rescorable writes a record: openbookqa in the standard's rendering and in variants,
// boolq, winogrande with its one normalization, and 2 of mmlu's 57 subjects.
func rescorable(t *testing.T) string {
	t.Helper()
	form := func(cf, mcf float64) map[olmes.Formulation]outcometest.Form {
		return map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: cf}, olmes.MCF: {Accuracy: mcf}}
	}
	task := func(name, variant string, cf float64) outcometest.Task {
		return outcometest.Task{Name: name, Variant: variant, N: 40, Normalization: olmes.PMI, Forms: form(cf, 0.1)}
	}
	spec := outcometest.Spec{Model: "m", Seed: 3, Change: func(id *record.Identity) { id.Standard = "olmes-v0.1" },
		Tasks: []outcometest.Task{task("openbookqa", "", 0.9), task("openbookqa", "var1", 0.2), task("openbookqa", "no-leading-space", 0.3), task("boolq", "", 0.5)}}
	spec.Tasks[3].Normalization, spec.Tasks[3].Choices = olmes.None, 2
	for _, subject := range []string{"virology", "high_school_us_history"} {
		s := task("mmlu_"+subject, "", 0.8)
		s.Group, s.GroupSize, s.Normalization = "mmlu", 57, olmes.Character
		spec.Tasks = append(spec.Tasks, s)
	}
	dir := filepath.Join(t.TempDir(), "run")
	outcometest.Write(t, dir, spec)
	return dir
}

func rescoring(t *testing.T, args ...string) (reproduce.Rescored, string) {
	t.Helper()
	args = append([]string{"rescore"}, args...)
	code, text, stderr := said(args...)
	if code != 0 {
		t.Fatalf("%q: exit code %d\n%s", args, code, stderr)
	}
	_, stdout, _ := said(append(args, "--json")...)
	var s rescoreSummary
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || len(s.Runs) != 1 {
		t.Fatalf("%v\n%s", err, stdout)
	}
	return s.Runs[0], text
}

// Variants stand apart, are in no mean, and their names move no column; a group of
// which some tasks alone were run says so.
func TestRescoreVariants(t *testing.T) {
	got, text := rescoring(t, rescorable(t))
	var names []string
	sum := 0.0
	for _, row := range got.Rows {
		names = append(names, rowLabel(row))
		if row.Variant == "" {
			sum += *row.Value
		}
	}
	if want := "openbookqa, boolq, mmlu (2 of 57), openbookqa/var1, openbookqa/no-leading-space"; strings.Join(names, ", ") != want {
		t.Errorf("rows %q, want %s", names, want)
	}
	if got.Mean == nil || math.Abs(*got.Mean-sum/3) > 1e-12 || got.Average || len(got.Off) > 0 {
		t.Errorf("mean %v of the three of the standard's rendering, want %v; average %v, off %q", got.Mean, sum/3, got.Average, got.Off)
	}
	for _, want := range []string{"mean of 3 ", "\nvariants, not the standard's rendering and in no average:\nopenbookqa/var1 ", "\nmmlu (2 of 57) ", "\nnote, the run itself: mmlu: 2 of its 57 subjects\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	end := 0
	for _, l := range strings.Split(text, "\n") {
		if !strings.HasPrefix(l, "task ") && !strings.HasPrefix(l, "openbookqa") && !strings.HasPrefix(l, "boolq") && !strings.HasPrefix(l, "mmlu") {
			continue
		}
		if n := len([]rune(l)); end == 0 {
			end = n
		} else if n != end {
			t.Errorf("a line ends in column %d, others in %d: %s", n, end, l)
		}
	}
}

// What is off-standard names its tasks, is marked in the mean as well, and is not
// said of what has no score.
func TestRescoreMarks(t *testing.T) {
	dir := rescorable(t)
	got, text := rescoring(t, dir, "--normalization", "token")
	if want := "openbookqa, openbookqa/var1, openbookqa/no-leading-space: token for CF, the standard takes pmi; boolq: token for CF, the standard takes none; mmlu: token for CF, the standard takes character"; strings.Join(got.Off, "; ") != want {
		t.Errorf("off-standard %q, want %s", got.Off, want)
	}
	marked := false
	for _, l := range strings.Split(text, "\n") {
		marked = marked || strings.HasPrefix(l, "mean of 3 ") && strings.Contains(l, " * ")
	}
	if !marked {
		t.Errorf("the mean has no mark:\n%s", text)
	}
	if _, text = rescoring(t, dir, "--formulation", "cf"); !strings.Contains(text, "\n* off-standard: all tasks: CF alone, the standard takes the better of both\n") {
		t.Errorf("no mark of all tasks:\n%s", text)
	}
	got, text = rescoring(t, dir, "--subjects", "virology", "--tasks", "mmlu,boolq")
	if want := "mmlu: 1 of 57 subjects"; strings.Join(got.Off, "; ") != want || !strings.Contains(text, "\nmmlu (1 of 57) ") {
		t.Errorf("off-standard %q, want %s\n%s", got.Off, want, text)
	}

	// pmi was not scored for these tasks.
	form := map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: 0.7, Choice: func(_, _ int, c *olmes.Choice) { c.Unconditional = nil }}, olmes.MCF: {Accuracy: 0.2}}
	bare := filepath.Join(t.TempDir(), "bare")
	outcometest.Write(t, bare, outcometest.Spec{Model: "m", Seed: 3, Tasks: []outcometest.Task{
		{Name: "winogrande", N: 20, Choices: 2, Forms: form, Normalization: olmes.None}, {Name: "piqa", N: 20, Choices: 2, Forms: form, Normalization: olmes.Character}}})
	got, text = rescoring(t, bare, "--normalization", "pmi")
	if len(got.Off) > 0 || got.Mean != nil || !strings.Contains(text, "piqa: pmi was not scored, so there is no score") || !strings.Contains(text, "winogrande: pmi equals none here") {
		t.Errorf("off-standard %q, mean %v\n%s", got.Off, got.Mean, text)
	}
	got, text = rescoring(t, bare, "--normalization", "pmi", "--formulation", "mcf")
	if want := "all tasks: MCF alone, the standard takes the better of both"; strings.Join(got.Off, "; ") != want || strings.Contains(text, "not scored") {
		t.Errorf("off-standard %q, want %s\n%s", got.Off, want, text)
	}
}

// What is asked for and not there is a usage error that says what there is.
func TestRescoreMissing(t *testing.T) {
	dir := rescorable(t)
	for _, c := range []struct{ args, want string }{
		{"--subjects anatomy", "does not hold the subject anatomy of mmlu; it has virology, high_school_us_history"},
		{"--subjects virology,anatomy", "the subject anatomy of mmlu"},
		{"--tasks piqa", "holds nothing of piqa; it has openbookqa, boolq, mmlu"},
		{"--tasks boolq,piqa", "holds nothing of piqa"},
		{"--tasks mmlu_anatomy", "holds nothing of mmlu_anatomy"},
		{"--tasks boolq --subjects virology", "which --tasks leaves out"},
	} {
		if code, stdout, stderr := said(append([]string{"rescore", dir}, strings.Fields(c.args)...)...); code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", c.args, code, exitUsage, c.want, stdout, stderr)
		}
	}
	if got, _ := rescoring(t, dir, "--tasks", "olmes"); len(got.Rows) != 5 { // what of the suite there is
		t.Errorf("%d rows of the suite", len(got.Rows))
	}
}
