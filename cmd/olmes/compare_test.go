package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"olmes"
	"olmes/compare"
	"olmes/outcome/outcometest"
)

// writeCompared writes a record with two tasks and a given number of right
// answers of 200 in each.
func writeCompared(t *testing.T, dir, model string, right int, change func(*outcometest.Spec)) string {
	t.Helper()
	answer := func(right int) func(doc, gold int) int {
		return func(doc, gold int) int {
			if doc < right {
				return gold
			}
			return (gold + 1) % 4
		}
	}
	s := outcometest.Spec{Model: model, Noise: 1e-4}
	for _, name := range []string{"csqa", "piqa"} {
		s.Tasks = append(s.Tasks, outcometest.Task{Name: name, N: 200, Normalization: olmes.Character, Forms: map[olmes.Formulation]outcometest.Form{
			olmes.CF: {Answer: answer(right)}, olmes.MCF: {Answer: answer(20)}}})
	}
	if change != nil {
		change(&s)
	}
	path := filepath.Join(dir, model)
	outcometest.Write(t, path, s)
	return path
}

// squeezed is a text with single spaces.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestCompareCommand(t *testing.T) {
	dir := t.TempDir()
	a, b := writeCompared(t, dir, "a", 100, nil), writeCompared(t, dir, "b", 130, nil)
	code, stdout, stderr := said("compare", a, b)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, want := range []string{"A a (", "B b (", "csqa 200 50.0 65.0 +15.0 +10.7 to +20.6 <0.0001 <0.0001 7.6 B", "average 50.0 65.0 +15.0 +11.5 to +18.5 <0.0001 - 5.0 B",
		"Near-ties, by the noise that both runs measured: 0 of A, 0 of B"} {
		if !strings.Contains(squeezed(stdout), want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "\nOLMES average") || strings.Contains(stdout, "Not ranked") {
		t.Errorf("two tasks are no OLMES average:\n%s", stdout)
	}
	code, stdout, stderr = said("compare", "first="+a, "second="+b, "--json", "-t", "piqa", "--alpha", "0.01")
	var r compare.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s", code, err, stderr)
	}
	if p := r.Pairs[0]; p.A != "first" || p.B != "second" || len(p.Rows) != 1 || p.Rows[0].Verdict != "b" || r.Level != 0.99 {
		t.Errorf("%+v", r)
	}

	// Other prompts: compared, not ranked, unless asked for.
	c := writeCompared(t, dir, "c", 60, func(s *outcometest.Spec) {
		f := s.Tasks[1].Forms[olmes.CF]
		f.Prompt = "other"
		s.Tasks[1].Forms[olmes.CF] = f
	})
	code, stdout, _ = said("compare", a, c)
	if code != exitOffStandard || !strings.Contains(stdout, "! piqa CF: a, c were not asked the same: 200 of 200 shared instances have other requests") || !strings.Contains(stdout, "Not ranked") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	code, stdout, _ = said("compare", a, c, "--anyway")
	if code != 0 || !strings.Contains(stdout, "Ranked all the same") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	code, stdout, _ = said("compare", a, c, "--formulation", "mcf")
	if code != exitOffStandard || strings.Contains(stdout, "Infinity") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}

	// Many, and among them a broken one.
	var folders []string
	for k := range 3 {
		folders = append(folders, writeCompared(t, dir, fmt.Sprintf("m%d", k), 100+k, nil))
	}
	code, stdout, stderr = said(append([]string{"compare", a, b}, folders...)...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, want := range []string{"1 b 65.0 2.4 1 2 0", "2 m2 51.0 2.5 2 to 5 2 0", "2 a 50.0 2.5 2 to 5 2 0", "(1) b +14.0 +14.5 +15.0 +15.0", "(4) a -15.0 -1.0≈ -0.5≈ 0.0≈", "Scores of each run"} {
		if !strings.Contains(squeezed(stdout), want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if err := os.WriteFile(filepath.Join(folders[1], "predictions.parquet"), []byte("cut"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = said(append([]string{"compare", a, b}, folders...)...)
	if code != exitDamaged || !strings.Contains(stderr, filepath.Base(folders[1])) || !strings.Contains(stderr, "--skip-broken") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	code, stdout, stderr = said(append([]string{"compare", "--skip-broken", a, b}, folders...)...)
	if code != 0 || !strings.Contains(stderr, "skipped: ") || strings.Contains(stdout, "m1 ") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := said("compare", "--skip-broken", a, folders[1]); code != exitUsage || !strings.Contains(stderr, "name two or more") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

func TestCompareUsage(t *testing.T) {
	dir := t.TempDir()
	a := writeCompared(t, dir, "a", 100, nil)
	b := writeCompared(t, dir, "b", 100, nil)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{}, "requires at least 1 arg"},
		{[]string{a}, "name two or more"},
		{[]string{a, "nothing"}, "no such run"},
		{[]string{a, b, "--formulation", "best"}, "use better, cf or mcf"},
		{[]string{a, b, "--alpha", "1"}, "between 0 and 1"},
		{[]string{a, b, "--noise", "0"}, "margin above 0"},
		{[]string{a, b, "-t", "arc_easy"}, "none of the runs has arc_easy"},
	} {
		if code, _, stderr := said(append([]string{"compare"}, c.args...)...); code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s", c.args, code, stderr)
		}
	}
}

// Runs that share no instances are compared by their totals alone.
func TestCompareSplits(t *testing.T) {
	dir := t.TempDir()
	a := writeCompared(t, dir, "a", 100, nil)
	b := writeCompared(t, dir, "b", 150, func(s *outcometest.Spec) {
		for i := range s.Tasks {
			s.Tasks[i].Split = "validation"
		}
	})
	code, stdout, _ := said("compare", a, b)
	if code != exitOffStandard || !strings.Contains(stdout, "u: no instances are shared") || !strings.Contains(stdout, "! csqa: b has another split than a (test)") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if n := strings.Count(stdout, "another split"); n != 2 {
		t.Errorf("%d lines about splits, one a task:\n%s", n, stdout)
	}
	_, stdout, _ = said("compare", a, b, "--json")
	var r compare.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Pairs[0].Rows, func(row compare.Row) bool {
		return row.Comparisons[0].Method == compare.Unpaired && row.Comparisons[0].Pairs == nil && row.Verdict == ""
	}) {
		t.Errorf("%s", stdout)
	}
}

// Runs with nothing in common are no comparison.
func TestCompareNothingInCommon(t *testing.T) {
	dir := t.TempDir()
	of := func(name string) func(*outcometest.Spec) {
		return func(s *outcometest.Spec) { s.Tasks = s.Tasks[:1]; s.Tasks[0].Name = name }
	}
	a, b, c := writeCompared(t, dir, "a", 100, of("csqa")), writeCompared(t, dir, "b", 100, of("piqa")), writeCompared(t, dir, "c", 100, of("arc_easy"))
	for _, args := range [][]string{{"compare", a, b}, {"compare", a, b, "--anyway"}, {"compare", a, b, "--json"}, {"compare", a, b, c}} {
		code, stdout, stderr := said(args...)
		if code != exitOffStandard || !strings.Contains(stdout, ": a has csqa; b has piqa") || strings.Contains(stdout, "p (Holm)") || strings.Contains(stdout, "row − column") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
}
