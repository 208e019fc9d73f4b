package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"olmes"
	"olmes/outcome/outcometest"
	"olmes/record"
	"olmes/stat"
	"olmes/task"
)

// boolqOf is a record of boolq's rows, whose texts are known, with these instances.
func boolqOf(model string, list []int, right func(doc int) bool) outcometest.Spec {
	answer := func(doc, gold int) int {
		if right(doc) {
			return gold
		}
		return 1 - gold
	}
	s := spec(model, outcometest.Task{Name: "boolq", Split: "validation", DocIDs: list, Choices: 2, Normalization: olmes.None,
		Forms: map[olmes.Formulation]outcometest.Form{olmes.CF: {Answer: answer}}})
	s.Change = func(id *record.Identity) { id.Tasks[0].Dataset.RowsSHA256 = task.RowsSHA256("boolq", "validation") }
	return s
}

func always(int) bool { return true }

// Where all instances fall alike there is an exact bound and not "too few", however
// many instances there are; where there is no interval the reason is the true one.
func TestFallAlike(t *testing.T) {
	row := func(a, b outcometest.Spec) (Row, Comparison) {
		r := compared(t, Options{}, a, b).Pairs[0].Rows[0]
		return r, r.Comparisons[0]
	}
	few := func(r Row) bool {
		return slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "too few") || strings.Contains(w, "no interval") })
	}
	clusters, _ := task.ClustersOf("boolq", "validation")
	for _, n := range []int{20, 1000} {
		size := map[int]int{}
		for d := range n {
			size[clusters.Of(d)]++
		}
		largest := 0
		for _, k := range size {
			largest = max(largest, k)
		}
		r, c := row(boolqOf("a", docs(0, n), below(n/2)), boolqOf("b", docs(0, n), below(n/2)))
		if len(size) == n { // no two about one text
			if c.Method != ByScore || few(r) {
				t.Errorf("n = %d: %s %q", n, c.Method, r.Warnings)
			}
			continue
		}
		if c.Method != Exact || few(r) {
			t.Fatalf("n = %d: %s %q", n, c.Method, r.Warnings)
		}
		bound := stat.ClopperPearson(0, len(size), 0.9).High * float64(largest) * float64(len(size)) / float64(n)
		if math.Abs(c.Interval.High-bound) > 1e-9 || c.Interval.Low != -c.Interval.High || *c.P != 1 {
			t.Errorf("n = %d: %+v, want ±%v", n, c.Interval, bound)
		}
		// One run right, the other wrong, everywhere.
		r, c = row(boolqOf("a", docs(0, n), always), boolqOf("b", docs(0, n), never))
		if c.Method != Exact || few(r) || c.Interval.Low != -1 || math.Abs(c.Interval.High-(2*bound-1)) > 1e-9 {
			t.Errorf("n = %d: %+v %q", n, c.Interval, r.Warnings)
		}
	}
	// All about one text: nothing is known of others.
	var text []int
	for d := range 3000 {
		if list := alikeTexts(clusters, d, 3000); len(list) > len(text) {
			text = list
		}
	}
	r, c := row(boolqOf("a", text, always), boolqOf("b", text, always))
	if want := fmt.Sprintf("n = %d: no interval: all are about one passage, and how texts differ cannot be told from one", len(text)); len(text) < 2 || c.Interval != nil || !slices.Contains(r.Warnings, want) {
		t.Errorf("%d instances: %+v %q", len(text), c.Interval, r.Warnings)
	}

	subjects := func(model string, right func(subject, doc int) bool, sizes ...int) outcometest.Spec {
		s := spec(model)
		for k, n := range sizes {
			s.Tasks = append(s.Tasks, outcometest.Task{Name: fmt.Sprint("mmlu_s", k), Group: "mmlu", GroupSize: 3, N: n, Normalization: olmes.Character,
				Forms: answers(func(doc int) bool { return right(k, doc) }, nil)})
		}
		return s
	}
	half := func(_, doc int) bool { return doc%2 == 0 }
	r, c = row(subjects("a", half, 40, 50, 60), subjects("b", half, 40, 50, 60))
	if c.Method != Exact || few(r) || math.Abs(c.Interval.High-stat.ClopperPearson(0, 3*40, 0.9).High) > 1e-9 {
		t.Errorf("subjects: %s %+v %q", c.Method, c.Interval, r.Warnings)
	}
	r, c = row(subjects("a", half, 40, 50, 1), subjects("b", func(_, doc int) bool { return doc%3 == 0 }, 40, 50, 1))
	if c.Interval != nil || !slices.Contains(r.Warnings, "n = 91: no interval: a subject has one instance alone") {
		t.Errorf("a subject of one: %+v %q", c.Interval, r.Warnings)
	}

	// An average of tasks that all fell alike, and one of a task without an error.
	tasks := func(model string, right func(int) bool, n int) outcometest.Spec {
		return spec(model, outcometest.Task{Name: "piqa", N: 30, Forms: answers(right, nil)}, outcometest.Task{Name: "csqa", N: n, Forms: answers(right, nil)})
	}
	average := compared(t, Options{}, tasks("a", below(9), 25), tasks("b", below(9), 25)).Pairs[0].Average
	if c := average.Comparisons[0]; c.Method != Exact || math.Abs(c.Interval.High-stat.ClopperPearson(0, 50, 0.9).High) > 1e-9 {
		t.Errorf("average: %s %+v", c.Method, c.Interval)
	}
	average = compared(t, Options{}, tasks("a", below(9), 1), tasks("b", below(19), 1)).Pairs[0].Average
	if !slices.Contains(average.Warnings, "no interval: no error is known of csqa") {
		t.Errorf("average: %q", average.Warnings)
	}
}

// alikeTexts lists the instances below n about the text of d.
func alikeTexts(clusters task.Clusters, d, n int) (out []int) {
	for k := range n {
		if clusters.Of(k) == clusters.Of(d) {
			out = append(out, k)
		}
	}
	return out
}

// Whatever the shares of the strata, none of the draws falls otherwise with more
// than alpha's probability only below the bound.
func TestAlikeBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const alpha = 0.05
		n := rapid.IntRange(1, 6).Draw(t, "strata")
		a := &alike{draws: math.MaxInt, ratio: 1, up: 1, down: 1}
		none, mean := 0.0, 0.0
		for range n {
			draws := rapid.IntRange(2, 60).Draw(t, "draws")
			share := min(rapid.Float64Range(0, 3).Draw(t, "share")/float64(n*draws), 0.99)
			a.draws = min(a.draws, n*draws)
			none += float64(draws) * math.Log1p(-share)
			mean += share / float64(n)
		}
		if iv := a.interval(0, alpha); none > math.Log(alpha) && mean > iv.High+1e-12 {
			t.Fatalf("a mean share of %v goes unseen with probability %v, the bound is %v", mean, math.Exp(none), iv.High)
		}
	})
}
