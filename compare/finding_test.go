package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"olmes"
	"olmes/outcome/outcometest"
	"olmes/record"
)

// texts lists the texts of the findings of one kind.
func texts(r *Report, code string) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Code == code {
			out = append(out, f.Text)
		}
	}
	return out
}

func wantTexts(t *testing.T, r *Report, code string, want ...string) {
	t.Helper()
	if got := texts(r, code); !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", code, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// docs are from, from+1, ... to-1.
func docs(from, to int) (out []int) {
	for d := from; d < to; d++ {
		out = append(out, d)
	}
	return out
}

// Of two runs neither has the odd sample, in whatever formulation; of more those
// that more than half do not share are named.
func TestSamples(t *testing.T) {
	run := func(model string, list []int) outcometest.Spec {
		return spec(model, outcometest.Task{Name: "piqa", DocIDs: list, Forms: answers(below(3), never)})
	}
	two := func(form string) string {
		return "piqa " + form + ": a has 20 instances; b has 10; 10 are shared, 10 of 20 are in one of them only"
	}
	r := compared(t, Options{}, run("a", docs(0, 20)), run("b", docs(5, 15)))
	wantTexts(t, r, "sample", two("CF"), two("MCF"))
	if f := r.Findings[0]; !slices.Equal(f.Labels, []string{"a", "b"}) || f.Count != 10 || f.Of != 20 || !f.Blocks {
		t.Errorf("%+v", f)
	}
	wantTexts(t, r, "prompts")

	r = compared(t, Options{View: CF}, run("a", docs(0, 10)), run("b", docs(0, 20)), run("c", docs(0, 20)), run("d", docs(0, 10)), run("e", docs(0, 20)))
	most := "piqa CF: a, d have other instances than most runs: 10 against 20, of which 10 are shared; 10 of 20 are in one of them only"
	wantTexts(t, r, "sample", most, strings.Replace(most, "CF", "MCF", 1))

	// No sample is that of most.
	r = compared(t, Options{}, run("a", docs(0, 10)), run("b", docs(0, 20)), run("c", docs(5, 30)))
	none := "piqa CF: a has 10 instances; b has 20; c has 25; 5 are shared, 25 of 30 are not in all of them"
	wantTexts(t, r, "sample", none, strings.Replace(none, "CF", "MCF", 1))
}

// Instances are counted over all subjects, those that one run has alone and those
// that both have.
func TestSamplesOfGroup(t *testing.T) {
	run := func(model string, sizes ...int) outcometest.Spec {
		s := spec(model)
		for k, n := range sizes {
			if n > 0 {
				s.Tasks = append(s.Tasks, outcometest.Task{Name: fmt.Sprint("mmlu_", k), Group: "mmlu", GroupSize: 3, N: n, Normalization: olmes.Character, Forms: answers(below(2), nil)})
			}
		}
		return s
	}
	piqa := outcometest.Task{Name: "piqa", N: 10, Normalization: olmes.Character, Forms: answers(below(3), nil)}
	a, b := run("a", 4, 4, 0), run("b", 30, 4, 50)
	c := spec("c", piqa)
	a.Tasks, b.Tasks = append(a.Tasks, piqa), append(b.Tasks, piqa)
	r := compared(t, Options{}, a, b, c)
	wantTexts(t, r, "sample", "mmlu CF: a has 8 instances; b has 84; 8 are shared, 76 of 84 are in one of them only")
}

// Requests that are not known are those of the run that does not say them, and
// what most were asked is decided instance by instance.
func TestAskedOtherwise(t *testing.T) {
	run := func(model, prompt string, n int) outcometest.Spec {
		forms := answers(below(5), nil)
		f := forms[olmes.CF]
		f.Prompt = prompt
		forms[olmes.CF] = f
		return spec(model, outcometest.Task{Name: "piqa", N: n, Forms: forms})
	}
	unknown := func(model string) outcometest.Spec {
		s := run(model, "", 20)
		f := s.Tasks[0].Forms[olmes.CF]
		f.Choice = func(_, _ int, c *olmes.Choice) { c.RequestSHA256 = "" }
		s.Tasks[0].Forms[olmes.CF] = f
		s.Change = func(id *record.Identity) {
			q := id.Tasks[0].Formulations[olmes.CF]
			q.RequestsSHA256 = ""
			id.Tasks[0].Formulations[olmes.CF] = q
		}
		return s
	}
	wantTexts(t, compared(t, Options{}, unknown("a"), unknown("b"), run("c", "", 20)), "prompts-unknown", "piqa CF: what a, b were asked is not known for 20 of 20 shared instances")
	// c was asked otherwise, and the others have samples of three sizes.
	r := compared(t, Options{}, run("a", "", 20), run("b", "", 10), run("c", "x", 12), run("d", "", 30))
	wantTexts(t, r, "prompts", "piqa CF: c was asked otherwise than most runs: 12 of 12 shared instances have other requests")
	r = compared(t, Options{}, run("a", "x", 10), run("b", "y", 10), run("c", "z", 10))
	wantTexts(t, r, "prompts", "piqa CF: a, b, c were asked otherwise than other runs: 10 of 10 shared instances have other requests")
	r = compared(t, Options{}, run("a", "x", 10), run("b", "y", 10))
	wantTexts(t, r, "prompts", "piqa CF: a, b were not asked the same: 10 of 10 shared instances have other requests")
}

func TestNothingInCommon(t *testing.T) {
	run := func(model string, names ...string) outcometest.Spec {
		s := spec(model)
		for _, n := range names {
			s.Tasks = append(s.Tasks, outcometest.Task{Name: n, N: 20, Normalization: olmes.Character, Forms: answers(below(5), never)})
		}
		return s
	}
	r := compared(t, Options{}, run("a", "csqa", "piqa"), run("b", "arc_easy"))
	wantTexts(t, r, "no-common-task", "no task is common to the two runs: a has csqa, piqa; b has arc_easy")
	if len(r.Findings) != 1 || len(r.Refused) != 1 || len(r.Ranking) != 0 {
		t.Errorf("%+v", r)
	}
	// Pairs that share a task are told apart all the same.
	r = compared(t, Options{}, run("a", "csqa", "piqa"), run("b", "piqa"), run("c", "csqa"))
	wantTexts(t, r, "no-common-task", "no task is common to all 3 runs: a has csqa, piqa; b has piqa; c has csqa")
	if r.Pairs[0].Average.Verdict != "none" || len(r.Refused) != 1 {
		t.Errorf("%+v, refused %q", r.Pairs[0].Average, r.Refused)
	}
}

// Records of one model with different parts of an evaluation are no odd runs.
func TestParts(t *testing.T) {
	part := func(model string, subjects []int, cf, mcf func(int) bool) outcometest.Spec {
		s := spec(model)
		for _, k := range subjects {
			s.Tasks = append(s.Tasks, outcometest.Task{Name: fmt.Sprint("mmlu_", k), Group: "mmlu", GroupSize: 3, N: 20, Normalization: olmes.Character, Forms: answers(cf, mcf)})
		}
		return s
	}
	for name, c := range map[string]struct {
		specs []outcometest.Spec
		other []string // codes beside that of parts
	}{
		"subjects":     {[]outcometest.Spec{part("m", []int{0, 1}, below(5), never), part("m", []int{2}, below(5), never)}, nil},
		"formulations": {[]outcometest.Spec{part("m", []int{0, 1}, below(5), nil), part("m", []int{0, 1}, nil, below(5))}, nil},
		"with another": {[]outcometest.Spec{part("m", []int{0, 1}, below(5), never), part("m", []int{2}, below(5), never), part("other", []int{0, 1, 2}, below(6), never)}, nil},
		"with another of fewer": {[]outcometest.Spec{part("m", []int{0, 1}, below(5), never), part("m", []int{2}, below(5), never), part("other", []int{0, 1}, below(6), never)},
			[]string{"sample", "sample"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := compared(t, Options{}, c.specs...)
			if got := codes(r); !slices.Equal(got, append([]string{"parts"}, c.other...)) || !strings.Contains(r.Findings[0].Text, "one model in parts: m holds mmlu_0") || len(r.Refused) == 0 {
				for _, f := range r.Findings {
					t.Error(f.Code, f.Text)
				}
			}
		})
	}
	// Another model, or the same parts, are none.
	for _, specs := range [][]outcometest.Spec{
		{part("m", []int{0, 1}, below(5), never), part("n", []int{2}, below(5), never)},
		{part("m", []int{0, 1}, below(5), never), part("m", []int{0, 1}, below(5), never)},
	} {
		if r := compared(t, Options{}, specs...); slices.Contains(codes(r), "parts") {
			t.Errorf("%q", codes(r))
		}
	}
}
