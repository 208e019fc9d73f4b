package study_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"olmes"
	"olmes/outcome"
	"olmes/outcome/outcometest"
	"olmes/record"
	"olmes/stat"
	"olmes/study"
	"olmes/task"
)

// near compares numbers that were added in another order.
var near = cmpopts.EquateApprox(0, 1e-9)

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, near); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// write writes a record and reads it back, as a command does.
func write(t testing.TB, label string, s outcometest.Spec) *outcome.Run {
	t.Helper()
	rec := outcometest.Write(t, filepath.Join(t.TempDir(), "run"), s)
	run, err := outcome.Load(t.Context(), outcome.Source{Label: label, Record: rec}, outcome.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// right answers the first n instances rightly, and no other.
func right(n int) outcometest.Form {
	return outcometest.Form{Answer: func(doc, gold int) int {
		if doc < n {
			return gold
		}
		return (gold + 1) % 4
	}}
}

type forms = map[olmes.Formulation]outcometest.Form

func arcEasy(cf, mcf outcometest.Form) outcometest.Task {
	return outcometest.Task{Name: "arc_easy", N: 100, Normalization: olmes.Character, Forms: forms{olmes.CF: cf, olmes.MCF: mcf}}
}

func codes(list []study.Note) []string {
	out := []string{}
	for _, n := range list {
		out = append(out, n.Code)
	}
	return out
}

func TestGroup(t *testing.T) {
	cf := arcEasy(right(60), right(50))
	cf.Forms = forms{olmes.CF: right(60)}
	mcf := arcEasy(right(60), right(50))
	mcf.Forms = forms{olmes.MCF: right(50)}
	a, b := outcometest.Spec{Model: "m", Tasks: []outcometest.Task{cf}}, outcometest.Spec{Model: "m", Tasks: []outcometest.Task{mcf}}
	fewer := mcf
	fewer.N = 10
	other := outcometest.Spec{Model: "m", Tasks: []outcometest.Task{mcf}, Change: func(id *record.Identity) { id.Precision.Computed = "bf16" }}
	for what, c := range map[string]struct {
		runs []*outcome.Run
		want map[string]int // runs by label
	}{
		"two formulations":       {[]*outcome.Run{write(t, "m@0123456789ab", a), write(t, "m@ba9876543210", b)}, map[string]int{"m": 2}},
		"a folder with a label":  {[]*outcome.Run{write(t, "x/1", a), write(t, "x/2", b)}, map[string]int{"x": 2}},
		"the same twice":         {[]*outcome.Run{write(t, "m@0123456789ab", a), write(t, "m@ba9876543210", a)}, map[string]int{"m@0123456789ab": 1, "m@ba9876543210": 1}},
		"other labels":           {[]*outcome.Run{write(t, "x", a), write(t, "y", b)}, map[string]int{"x": 1, "y": 1}},
		"another precision":      {[]*outcome.Run{write(t, "m@0123456789ab", a), write(t, "m@ba9876543210", other)}, map[string]int{"m@0123456789ab": 1, "m@ba9876543210": 1}},
		"other instances of one": {[]*outcome.Run{write(t, "x/1", a), write(t, "x/2", outcometest.Spec{Model: "m", Tasks: []outcometest.Task{fewer}})}, map[string]int{"x/1": 1, "x/2": 1}},
	} {
		got := map[string]int{}
		models := study.Group(c.runs)
		for _, m := range models {
			got[m.Label] = len(m.Runs)
		}
		same(t, what, got, c.want)
		if what == "two formulations" {
			if s := study.Formulations(models, "", few); len(s.Tasks) != 1 || math.Abs(s.Tasks[0].Cells[0].Gap.Value+0.1) > 1e-9 {
				t.Errorf("%s: %+v", what, s.Tasks)
			}
		}
	}
}

func TestShares(t *testing.T) {
	table := [][]float64{ // none, token, character, pmi; character is chosen
		{0.5, 0.4, 0.6, 0.1}, // character alone
		{0.6, 0.4, 0.6, 0.1}, // none and character
		{0.6, 0.6, 0.5, 0.1}, // none and token
		{0.5, 0.5, 0.5, 0.5}, // all
	}
	for rule, want := range map[study.Tie][]float64{
		study.ByChosen: {0.125, 0.125, 0.75, 0},
		study.BySplit:  {(0.5 + 0.5 + 0.25) / 4, (0.5 + 0.25) / 4, (1 + 0.5 + 0.25) / 4, 0.25 / 4},
		study.ByOrder:  {0.75, 0, 0.25, 0},
		study.ByStrict: {0, 0, 0.25, 0},
	} {
		same(t, rule.String(), study.Shares(table, 2, rule), want)
	}
	same(t, "diff oracle", study.DiffOracle(table, 2), 0.1/4)
	if study.Shares(nil, 0, study.ByChosen) != nil {
		t.Error("shares of no model")
	}
}

// lengthen makes character prefer the wrong choice on some instances that none has
// right, and pmi the right one on some that none has wrong.
func lengthen(from, to int, pmi map[int]bool) func(doc, choice int, c *olmes.Choice) {
	return func(doc, choice int, c *olmes.Choice) {
		gold := outcometest.Gold("arc_easy", doc, 4)
		if doc >= from && doc < to && choice == (gold+1)%4 {
			c.Chars = 1000 // nearly 0 nats a character
		}
		if pmi[doc] && choice == gold {
			u := -100.0
			c.Unconditional = &u
		}
	}
}

func TestNormalizations(t *testing.T) {
	model := func(label string, none, lost int, pmi ...int) *outcome.Run {
		of := map[int]bool{}
		for _, doc := range pmi {
			of[doc] = true
		}
		cf := right(none)
		cf.Choice = lengthen(0, lost, of)
		return write(t, label, outcometest.Spec{Model: label, Tasks: []outcometest.Task{arcEasy(cf, right(50)),
			{Name: "winogrande", N: 20, Choices: 2, Normalization: olmes.None, Forms: forms{olmes.CF: {Accuracy: 0.5, Choice: func(_, _ int, c *olmes.Choice) { c.Unconditional = nil }}, olmes.MCF: {Accuracy: 0.5}}}}})
	}
	// Character loses 10 instances of a, none of b; pmi wins 3 of b and 20 of c.
	models := study.Group([]*outcome.Run{model("a", 60, 10), model("b", 50, 0, 50, 51, 52), model("c", 40, 0, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59)})
	s := study.Normalizations(models, "", stat.Bootstrap{Seed: 1, Resamples: 500})
	if len(s.Tasks) != 2 {
		t.Fatalf("%d tasks, notes %v", len(s.Tasks), s.Notes)
	}
	arc, wino := s.Tasks[0], s.Tasks[1]
	same(t, "normalizations", arc.Normalizations, olmes.Normalizations())
	var table [][]float64
	for _, c := range arc.Cells {
		table = append(table, []float64{c.CF[0].Value, c.CF[1].Value, c.CF[2].Value, c.CF[3].Value})
	}
	same(t, "accuracies", table, [][]float64{{0.6, 0.6, 0.5, 0.6}, {0.5, 0.5, 0.5, 0.53}, {0.4, 0.4, 0.4, 0.6}})
	var shares, paper []float64
	for _, w := range arc.Wins {
		shares, paper = append(shares, w.Share), append(paper, w.Paper)
		if w.OverModels == nil || w.OverInstances == nil || w.OverModels.Low > w.Share || w.OverModels.High < w.Share {
			t.Errorf("%s: intervals %v %v about %v", w.Normalization, w.OverModels, w.OverInstances, w.Share)
		}
	}
	same(t, "shares", shares, []float64{1. / 9, 1. / 9, 0, 1./9 + 2./3})
	same(t, "shares by the paper", paper, []float64{1. / 3, 0, 0, 2. / 3})
	same(t, "diff oracle", arc.DiffOracle.Value, (0.1+0.03+0.2)/3)
	same(t, "most wins", arc.MostWins, []olmes.Normalization{olmes.PMI})
	same(t, "tied", arc.Tied, 1)
	if len(arc.LeftOut) != 3 || math.Abs(arc.LeftOut[2].DiffOracle-0.065) > 1e-9 || arc.LeftOut[2].Loss > 1e-9 {
		t.Errorf("left out: %+v", arc.LeftOut)
	}
	if math.Abs(*arc.DiffOracle.Bias) > 0.01 || arc.DiffOracle.OverInstances == nil { // hardly another one is ever best
		t.Errorf("diff oracle: %+v, bias %v", arc.DiffOracle, *arc.DiffOracle.Bias)
	}
	// winogrande: four ways of one, pmi by construction.
	same(t, "winogrande", []any{wino.Normalizations, wino.Tied, wino.DiffOracle.Value, wino.Wins[0].Share, wino.Wins[3].Share}, []any{olmes.Normalizations(), 3, 0.0, 1.0, 0.0})
	if got := codes(s.Notes); !slices.Contains(got, "few-models") {
		t.Errorf("notes %v", got)
	}
	if one := study.Normalizations(models[:1], "", few); one.Tasks[0].Wins[0].OverModels != nil || len(one.Tasks[0].LeftOut) != 0 || !slices.Contains(codes(one.Notes), "one-model") {
		t.Errorf("one model: %+v", one.Tasks[0])
	}
}

// Where all normalizations are equally good, the best of them is so by chance.
func TestDiffOracleBias(t *testing.T) {
	cf := right(60)
	cf.Choice = func(doc, choice int, c *olmes.Choice) {
		gold := outcometest.Gold("arc_easy", doc, 4)
		if doc < 30 && choice == (gold+1)%4 || doc >= 60 && doc < 90 && choice == gold {
			c.Chars = 1000
		}
	}
	models := study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: []outcometest.Task{arcEasy(cf, right(50))}})})
	o := study.Normalizations(models, "", stat.Bootstrap{Seed: 1}).Tasks[0].DiffOracle
	// 60 of 100 instances differ: half the mean distance of a difference with the
	// error √0.6/10 is 0.4 of it.
	if o.Value != 0 || math.Abs(*o.Bias-0.4*math.Sqrt(0.6)/10) > 0.01 {
		t.Errorf("%+v, bias %v", o, *o.Bias)
	}
}

// Models that were asked other things are noted, which commands refuse.
func TestOtherPrompts(t *testing.T) {
	a, b := arcEasy(right(60), right(50)), arcEasy(right(60), right(50))
	b.Forms = forms{olmes.CF: {Answer: right(60).Answer, Prompt: "other"}, olmes.MCF: right(50)}
	models := study.Group([]*outcome.Run{write(t, "a", outcometest.Spec{Model: "a", Tasks: []outcometest.Task{a}}), write(t, "b", outcometest.Spec{Model: "b", Tasks: []outcometest.Task{b}})})
	for what, notes := range map[string][]study.Note{
		"normalization": study.Normalizations(models, "", few).Notes,
		"formulation":   study.Formulations(models, "", few).Notes,
		"subsample":     study.Subsamples(models, "", few).Notes,
	} {
		if !slices.Contains(codes(notes), study.NoteOtherPrompts) {
			t.Errorf("%s: notes %v", what, notes)
		}
	}
}

func TestInteractions(t *testing.T) {
	standard, variant := right(60), right(60)
	standard.Choice = lengthen(0, 10, nil) // none is 10 points better
	variant.Choice = lengthen(0, 40, nil)  // and 40 in the variant
	v := arcEasy(variant, right(50))
	v.Variant = "var1"
	m := study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: []outcometest.Task{arcEasy(standard, right(50)), v}})})
	got := study.Normalizations(m, "", few).Interactions
	if len(got) != 3 {
		t.Fatalf("%d interactions", len(got))
	}
	x := got[0]
	same(t, "interaction", []any{x.Variant, x.Normalization, x.Chosen, x.Standard, x.InVariant, x.Change.Value, x.Change.NearNoise},
		[]any{"var1", olmes.None, olmes.Character, 0.1, 0.4, 0.3, false})
	// 30 differences of 1 and 70 of 0.
	want := math.Sqrt((30 - 9.0) / 99 / 100)
	if x.Change.SE == nil || math.Abs(*x.Change.SE-want) > 1e-9 || x.P == nil || *x.P > 1e-6 {
		t.Errorf("error %v, want %v; p %v", x.Change.SE, want, x.P)
	}
}

func TestFormulations(t *testing.T) {
	model := func(label string, cf, mcf int) *outcome.Run {
		return write(t, label, outcometest.Spec{Model: label, Tasks: []outcometest.Task{arcEasy(right(cf), right(mcf))}})
	}
	models := study.Group([]*outcome.Run{model("strong", 70, 90), model("weak", 30, 25), model("middle", 50, 51)})
	s := study.Formulations(models, "", few)
	var order []string
	for _, m := range s.Models {
		order = append(order, m.Model)
	}
	same(t, "order", order, []string{"weak", "middle", "strong"})
	same(t, "score", *s.Models[2].Score, 0.9)
	cells := s.Tasks[0].Cells
	same(t, "better", []any{cells[0].Better, cells[1].Better, cells[2].Better}, []any{olmes.CF, olmes.MCF, olmes.MCF})
	same(t, "by noise", []bool{cells[0].ByNoise, cells[1].ByNoise, cells[2].ByNoise}, []bool{false, true, false})
	same(t, "noise", []bool{cells[0].MCFNoise, cells[2].MCFNoise, cells[2].CFNoise}, []bool{true, false, false})
	same(t, "gap", []float64{cells[2].Gap.Value, *cells[2].Gap.SE}, []float64{0.2, math.Sqrt((20 - 4.0) / 99 / 100)})
	same(t, "errors", cells[2].ErrorRatio.Ratio, 3.0)
	if i := cells[2].ErrorRatio.Interval; i == nil || i.Low > 3 || i.High < 3 || i.Low < 1.5 {
		t.Errorf("interval of the ratio: %+v", i)
	}
	w := s.Tasks[0].Weakest
	same(t, "weakest 2", w[1], study.Weakest{K: 2, CF: stat.Interval{Low: 0.3, High: 0.5}, MCF: stat.Interval{Low: 0.25, High: 0.51}})
	same(t, "chance", *s.Tasks[0].Chance, 0.25)
}

// How runs are off-standard stands beside their numbers, each way once.
func TestOffStandard(t *testing.T) {
	model := func(label string) *outcome.Run {
		return write(t, label, outcometest.Spec{Model: label, Tasks: []outcometest.Task{arcEasy(right(60), right(50))}, Change: func(id *record.Identity) { id.Model.Quantized = label != "d" }})
	}
	var got []string
	for _, n := range study.Formulations(study.Group([]*outcome.Run{model("a"), model("b"), model("c"), model("d"), model("e")}), "", few).Notes {
		if n.Code == study.NoteOffStandard && strings.Contains(n.Text, "quantized") {
			got = append(got, n.Text)
		}
	}
	same(t, "notes", got, []string{"a, b and 2 more: off-standard: the weights are quantized (computed as they are)"})
}

// Nothing is right, all is right, one instance: what is not defined is null.
func TestFormulationsAtTheEnds(t *testing.T) {
	for _, n := range []int{1, 2, 100} {
		task := arcEasy(right(0), right(n))
		task.N = n
		m := study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: []outcometest.Task{task}})})
		c := study.Formulations(m, "", few).Tasks[0].Cells[0]
		if c.ErrorRatio != nil || c.Better != olmes.MCF || c.Gap.Value != 1 || (c.Gap.SE == nil) != (n == 1) || !c.Gap.NearNoise {
			t.Errorf("n = %d: %+v", n, c)
		}
		study.Normalizations(m, "", few)
		study.Subsamples(m, "", few)
		study.LabelBiases(m, few)
		study.Predict(m, "", few)
	}
}

func TestPredict(t *testing.T) {
	// 1000 of 2376 as the standard takes them: the first 100 of that order are
	// answered rightly in CF, the rest in MCF.
	s := make([]int, 0, 1000)
	of := map[int]int{}
	for i, doc := range sampleOrder(t, "arc_easy", 2376) {
		s, of[doc] = append(s, doc), i
	}
	form := func(from, to int) outcometest.Form {
		return outcometest.Form{Answer: func(doc, gold int) int {
			if of[doc] >= from && of[doc] < to {
				return gold
			}
			return (gold + 1) % 4
		}}
	}
	task := outcometest.Task{Name: "arc_easy", DocIDs: slices.Sorted(slices.Values(s)), Normalization: olmes.Character, Forms: forms{olmes.CF: form(0, 100), olmes.MCF: form(100, 1000)}}
	spec := outcometest.Spec{Model: "m", Tasks: []outcometest.Task{task}, Provenance: record.Provenance{TaskTokens: []record.TaskTokens{
		{Task: "arc_easy", Formulation: "cf", Tokens: record.Tokens{Distinct: 300}}, {Task: "arc_easy", Formulation: "mcf", Tokens: record.Tokens{Distinct: 100}}}}}
	list := study.Predict(study.Group([]*outcome.Run{write(t, "m", spec)}), "", few)
	if len(list) != 1 {
		t.Fatalf("%d", len(list))
	}
	e := list[0]
	same(t, "gap", []any{e.Better, e.Gap}, []any{olmes.MCF, 0.8})
	for _, l := range e.Looks {
		want := olmes.MCF // ahead as soon as more than 200 were seen
		if l.K <= 200 {
			want = olmes.CF
		}
		if l.Predicted != want || l.Right != (want == olmes.MCF) {
			t.Errorf("after %d: %s, want %s", l.K, l.Predicted, want)
		}
		if l.K >= 50 && l.Wrong > 0 {
			t.Errorf("after %d: wrong %v, though MCF has nine of ten", l.K, l.Wrong)
		}
	}
	same(t, "saved after 500", *e.Looks[slices.IndexFunc(e.Looks, func(l study.Look) bool { return l.K == 500 })].Saved, 0.75*0.5)
	same(t, "own order", e.Stop.InOrder, 10) // and that is wrong
	if e.Stop.MeanK > 30 || e.Stop.Stopped != 1 || e.Stop.Wrong > 0.05 || *e.Stop.Saved < 0.7 {
		t.Errorf("stopping: %+v", e.Stop)
	}
}

// Without a difference few orders stop, and a stop is as often wrong as right.
func TestPredictEqual(t *testing.T) {
	task := outcometest.Task{Name: "arc_easy", N: 1000, Normalization: olmes.Character, Forms: forms{
		olmes.CF:  {Answer: func(doc, gold int) int { return (gold + doc%2) % 4 }},
		olmes.MCF: {Answer: func(doc, gold int) int { return (gold + 1 - doc%2) % 4 }}}}
	e := study.Predict(study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: []outcometest.Task{task}})}), "", stat.Bootstrap{Seed: 1, Resamples: 1000})[0]
	if e.Stop.Stopped > 0.12 || e.Better != olmes.CF || e.Stop.Saved != nil {
		t.Errorf("%+v", e.Stop)
	}
}

func TestMMLU(t *testing.T) {
	subject := func(name string, n, cf, mcf int) outcometest.Task {
		return outcometest.Task{Name: name, Group: "mmlu", GroupSize: 57, N: n, Normalization: olmes.Character, Forms: forms{olmes.CF: right(cf), olmes.MCF: right(mcf)}}
	}
	models := study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: []outcometest.Task{subject("mmlu_b", 300, 60, 210), subject("mmlu_a", 100, 60, 10)}})})
	s, err := study.MMLU(models, study.MMLUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := s.Models[0]
	same(t, "tasks", s.Tasks, []string{"mmlu_a", "mmlu_b"})
	same(t, "better", []any{m.BetterMacro, m.BetterMicro}, []any{olmes.CF, olmes.MCF})
	cf := m.Forms[0]
	same(t, "means", []float64{cf.Macro.Value, cf.Micro.Value, cf.Difference.Value}, []float64{0.4, 0.3, 0.1})
	a, b := 0.6*0.4/99, 0.2*0.8/299
	same(t, "errors", []float64{*cf.Macro.SE, *cf.MacroTasks, *cf.Micro.SE, *cf.Difference.SE},
		[]float64{math.Sqrt(a+b) / 2, 0.2, math.Sqrt(0.3 * 0.7 / 399), math.Sqrt(a/16 + b/16)})
	// Clusters: the deviations from the mean sum to 30 and −30.
	between := 2.0 * 30 * 30
	within := 400 * 0.3 * 0.7
	same(t, "clustered", *cf.MicroClustered, math.Sqrt((between-within+within*400/399)/400/400))
	if got := codes(s.Notes); !slices.Contains(got, "subset") || !slices.Contains(got, "other-choice") {
		t.Errorf("notes %v", got)
	}
	one, err := study.MMLU(models, study.MMLUOptions{Subjects: []string{"a"}, Normalizations: []olmes.Normalization{olmes.None, olmes.PMI}})
	if err != nil || len(one.Models[0].Forms) != 3 || one.Models[0].Forms[0].Macro.Value != one.Models[0].Forms[0].Micro.Value || one.Models[0].Forms[0].MacroTasks != nil {
		t.Errorf("%v %+v", err, one.Models)
	}
	for _, c := range []struct {
		o    study.MMLUOptions
		want string
	}{{study.MMLUOptions{Subjects: []string{"z"}}, `it does not hold the subject "z" of mmlu; it has a, b`}, {study.MMLUOptions{Group: "nothing"}, "no run has anything of nothing"}} {
		if _, err := study.MMLU(models, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.o, err, c.want)
		}
	}
}

func TestRobustness(t *testing.T) {
	var tasks []outcometest.Task
	for k, c := range [][2]int{{60, 50}, {62, 50}, {50, 70}, {60, 50}} {
		task := arcEasy(right(c[0]), right(c[1]))
		if k > 0 {
			task.Variant = fmt.Sprint("var", k)
		}
		tasks = append(tasks, task)
	}
	s := study.Robustness(study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: tasks})}), nil, few)
	if len(s.Rows) != 1 {
		t.Fatalf("%d rows, notes %v", len(s.Rows), s.Notes)
	}
	r := s.Rows[0]
	same(t, "averages", []float64{r.All.Average, r.All.Diff, r.Others.Average, r.Others.Diff, r.Spread}, []float64{0.63, 0.03, 0.64, 0.04, 0.1})
	same(t, "signed", []float64{r.All.Signed.Value, *r.Original.Score.SE}, []float64{-0.03, math.Sqrt(0.6 * 0.4 / 99)})
	// original − mean of four: two instances −1/4 for var1, ten −1/4 for var2.
	same(t, "error", *r.All.Signed.SE, math.Sqrt((8./16*1+2./16*4-9./100)/99/100))
	same(t, "formulations", []any{r.Variants[0].Formulation, r.Variants[1].Formulation}, []any{olmes.CF, olmes.MCF})
	same(t, "same formulation", r.SameForm.Average, 0.58)
	if r.Variants[1].P == nil || *r.Variants[1].P > 0.01 || *r.Variants[2].P != 1 || r.Variants[1].Change.NearNoise || !r.Variants[0].Change.NearNoise {
		t.Errorf("tests: %+v", r.Variants)
	}
	if s := study.Robustness(study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: tasks[:1]})}), nil, few); len(s.Rows) != 0 || !slices.Contains(codes(s.Notes), "no-variants") {
		t.Errorf("without variants: %+v", s)
	}
}

func TestCosts(t *testing.T) {
	tasks := []outcometest.Task{arcEasy(right(60), right(50))}
	p := record.Provenance{WallSeconds: 3600, Tokens: record.Tokens{Naive: 9000, Distinct: 1000, Computed: 1200}, TaskTokens: []record.TaskTokens{
		{Task: "arc_easy", Formulation: "cf", Tokens: record.Tokens{Naive: 3000, Distinct: 400, Computed: 600}},
		{Task: "arc_easy", Formulation: "mcf", Tokens: record.Tokens{Naive: 6000, Distinct: 600, Computed: 600}}}}
	spec := outcometest.Spec{Model: "m", Tasks: tasks, Provenance: p, Change: func(id *record.Identity) {
		r := id.Tasks[0].Formulations[olmes.CF]
		r.Unconditional = 400
		id.Tasks[0].Formulations[olmes.CF] = r
	}}
	m := study.Costs(study.Group([]*outcome.Run{write(t, "m", spec)})).Models[0]
	same(t, "requests", []int64{m.CF.Requests, m.MCF.Requests, m.PMI.Requests, m.All.Requests}, []int64{800, 400, 400, 1200})
	same(t, "tokens", []int64{*m.CF.Distinct, *m.MCF.Naive, *m.All.Computed}, []int64{400, 6000, 1200})
	// 400 requests of 5 tokens and a continuation of one leave 1000 naive tokens to
	// 400 unconditional requests: a cue of 2, which all share.
	same(t, "pmi", []int64{*m.PMI.Naive, *m.PMI.Distinct, *m.PMI.Computed}, []int64{1000, 2, 3})
	same(t, "hours", []float64{*m.CF.Hours, *m.MCF.Hours, *m.PMI.Hours}, []float64{0.5, 0.5, 0.0025})
	same(t, "ratios", []float64{*m.BothOverCF, *m.BothOverMCF, *m.PMIOverCF, *m.Shared, *m.Runs[0].Rate}, []float64{2.5, 1000. / 600, 0.005, 9, 1. / 3})
}

// Variants that are computed together have one count, and one row.
func TestCostsOfVariants(t *testing.T) {
	tasks := inOrders(50, 4, func(int, int, olmes.Order) int { return 0 })[:3]
	p := record.Provenance{WallSeconds: 360, Tokens: record.Tokens{Naive: 900, Distinct: 300, Computed: 400}, TaskTokens: []record.TaskTokens{
		{Task: "arc_easy", Formulation: "mcf", Tokens: record.Tokens{Naive: 300, Distinct: 100, Computed: 100}},
		{Task: "arc_easy", Formulation: "mcf", Variants: []string{"cyclic1", "cyclic2"}, Tokens: record.Tokens{Naive: 600, Distinct: 200, Computed: 300}}}}
	m := study.Costs(study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: tasks, Provenance: p})})).Models[0]
	if len(m.Tasks) != 2 || len(m.Tasks[1].Variants) != 2 {
		t.Fatalf("%+v", m.Tasks)
	}
	same(t, "rows", []any{m.Tasks[0].Requests, m.Tasks[1].Requests, *m.Tasks[1].Distinct, *m.MCF.Computed, *m.Tasks[1].Hours}, []any{int64(200), int64(400), int64(200), int64(400), 0.075})
	// A record that says nothing of its tokens has its requests.
	m = study.Costs(study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: tasks})})).Models[0]
	if len(m.Tasks) != 3 || m.MCF.Requests != 600 || m.MCF.Naive != nil || m.Tasks[0].Hours != nil {
		t.Errorf("%+v", m)
	}
}

func TestSubsamples(t *testing.T) {
	model := func(label string, cf int) *outcome.Run {
		task := arcEasy(right(cf), right(10))
		task.N = 400
		return write(t, label, outcometest.Spec{Model: label, Tasks: []outcometest.Task{task}})
	}
	s := study.Subsamples(study.Group([]*outcome.Run{model("a", 200), model("b", 240), model("c", 100)}), "", stat.Bootstrap{Seed: 1, Resamples: 500})
	task := s.Tasks[0]
	same(t, "scores", task.Scores, []float64{0.5, 0.6, 0.25})
	last := task.Sizes[len(task.Sizes)-1]
	same(t, "all", []float64{float64(last.K), last.Off, last.Bias, *last.Tau, *last.SameBest, *last.Flipped, last.OtherFormulation}, []float64{400, 0, 0, 1, 1, 0, 0})
	for i, size := range task.Sizes[:len(task.Sizes)-1] {
		// Without replacement the distance is √(1 − k/n) of the standard error, by
		// divisor n − 1 of the population.
		var want float64
		for _, p := range task.Scores {
			want += p * (1 - p) / 3
		}
		want = math.Sqrt(want / float64(size.K) * float64(400-size.K) / 399)
		if size.K >= 50 && math.Abs(size.Off/want-1) > 0.1 {
			t.Errorf("k = %d: off by %v, want %v", size.K, size.Off, want)
		}
		if i > 0 && *size.Tau < *task.Sizes[i-1].Tau-0.02 {
			t.Errorf("k = %d: tau falls to %v", size.K, *size.Tau)
		}
	}
}

// A group's samples are of its instances together, which the study says.
func TestSubsamplesOfGroup(t *testing.T) {
	group := func(subject string, n, cf int) outcometest.Task {
		task := arcEasy(right(cf), right(1))
		task.Name, task.Group, task.GroupSize, task.N = "mmlu_"+subject, "mmlu", 57, n
		return task
	}
	tasks := []outcometest.Task{group("anatomy", 10, 9), group("virology", 90, 9), arcEasy(right(5), right(1))}
	s := study.Subsamples(study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: tasks})}), "", stat.Bootstrap{Seed: 1, Resamples: 10})
	for _, k := range s.Tasks {
		if k.Micro != (k.Task == "mmlu") {
			t.Errorf("%s: micro %v", k.Task, k.Micro)
		}
		if k.Task == "mmlu" {
			same(t, "micro mean", k.Scores, []float64{0.18})
		}
	}
}

func TestKendall(t *testing.T) {
	for _, c := range []struct {
		a, b         []float64
		tau, flipped float64
	}{
		{[]float64{1, 2, 3}, []float64{1, 2, 3}, 1, 0},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1, 1},
		{[]float64{1, 2, 3, 4}, []float64{1, 3, 2, 4}, 4. / 6, 1. / 6},
		{[]float64{1, 1, 2}, []float64{1, 2, 3}, 2 / math.Sqrt(6), 0},
		{[]float64{1, 1}, []float64{1, 2}, 0, 0},
	} {
		tau, flipped := study.Kendall(c.a, c.b)
		same(t, fmt.Sprint(c.a, c.b), []float64{tau, flipped}, []float64{c.tau, c.flipped})
	}
}

// sampleOrder lists the doc_ids that the standard evaluates of a task, in its order.
func sampleOrder(t *testing.T, name string, n int) []int {
	t.Helper()
	k, ok := task.Lookup(name)
	if !ok {
		t.Fatal(name)
	}
	return k.Order(n)
}

func TestUnconditionals(t *testing.T) {
	const odd, doc200 = 17, 200
	choice := func(doc, k int, c *olmes.Choice) {
		c.Chars, c.Tokens = 5+(doc*7+k*3)%40, 1+(doc+k)%4
		c.TokenLogProbs, c.ContinuationIDs = nil, nil
		u := -3 - 0.4*float64(c.Chars) + math.Sqrt(float64(c.Tokens))*math.Sin(float64(doc*31+k*17)) // scale about 1
		switch gold := outcometest.Gold("arc_easy", doc, 4); {
		case doc == odd && k == (gold+2)%4:
			u -= 40
		case doc == doc200:
			v := -100.0 - float64(k)
			c.LogProb = &v
		}
		c.Unconditional = &u
	}
	task := outcometest.Task{Name: "arc_easy", N: 400, Normalization: olmes.PMI, Forms: forms{olmes.CF: {Accuracy: 0.6, Choice: choice}}}
	m := study.Group([]*outcome.Run{write(t, "m", outcometest.Spec{Model: "m", Tasks: []outcometest.Task{task}})})
	list := study.Unconditionals(&m[0], study.AlarmThreshold)
	if len(list) != 1 {
		t.Fatalf("%d tasks", len(list))
	}
	got := list[0]
	if got.Count != 1 || len(got.Alarms) != 1 || got.Turned != 1 || got.Choices != 1600 || math.Abs(got.Expected.Slope+0.4) > 0.02 || got.Scale < 0.5 || got.Scale > 1.5 {
		t.Fatalf("%+v", got)
	}
	a := got.Alarms[0]
	if a.DocID != odd || a.Choice != (outcometest.Gold("arc_easy", odd, 4)+2)%4 || a.Z > -15 || !a.Turned || a.Gold || a.Others < a.Unconditional+20 {
		t.Errorf("%+v", a)
	}
	all := 0
	f := m[0].Tasks[0].Forms[olmes.CF]
	for i := range f.DocID {
		less := true
		for k := f.Start[i]; k < f.Start[i+1]; k++ {
			less = less && f.Choice.LogProb[k] < f.Choice.Unconditional[k]
		}
		if less {
			all++
		}
	}
	if got.AllLess != all || all < 1 {
		t.Errorf("all less in %d, want %d", got.AllLess, all)
	}
	// At depth Answers there is nothing to look at.
	if f.Start = nil; len(study.Unconditionals(&m[0], 4.5)) != 0 {
		t.Error("looked at what was not read")
	}
}
