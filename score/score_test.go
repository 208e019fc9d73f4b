package score

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"olmes"
)

func ptr[T any](v T) *T { return &v }

// choice makes a choice of the given log-probability, tokens and continuation.
func choice(logprob float64, tokens int, continuation string) olmes.Choice {
	return olmes.Choice{LogProb: &logprob, Tokens: tokens, Chars: len([]rune(continuation)), Bytes: len(continuation), RequestSHA256: continuation}
}

func pred(task string, f olmes.Formulation, doc, gold int, choices ...olmes.Choice) olmes.Prediction {
	return olmes.Prediction{Task: task, Formulation: f, Split: "test", Kind: olmes.KindScore, DocID: doc, Gold: gold, Choices: choices}
}

// simple makes a prediction of four choices that predicts best.
func simple(task string, f olmes.Formulation, doc, gold, best int) olmes.Prediction {
	var cs []olmes.Choice
	for i := range 4 {
		v := -5.0
		if i == best {
			v = -1
		}
		cs = append(cs, choice(v, 1, fmt.Sprintf(" %d", i)))
	}
	return pred(task, f, doc, gold, cs...)
}

var both = []olmes.Formulation{olmes.CF, olmes.MCF}

func facts(task string, n int) Facts {
	return Facts{Task: task, Split: "test", Standard: olmes.Character, Complete: true, Instances: n, Formulations: both}
}

func TestPredict(t *testing.T) {
	// The leading space counts: with it cat wins per character, without it
	// elephant would (-6/3 against -15/8).
	p := pred("t", olmes.CF, 0, 0, choice(-6, 1, " cat"), choice(-15, 2, " elephant"))
	Predict(&p, nil)
	want := map[olmes.Normalization]int{olmes.None: 0, olmes.Token: 0, olmes.Character: 0}
	if d := cmp.Diff(want, p.Predictions); d != "" {
		t.Errorf("predictions (-want +got):\n%s", d)
	}
	p.Choices[0].Unconditional, p.Choices[1].Unconditional = ptr(-6.0), ptr(-20.0)
	Predict(&p, []olmes.Normalization{olmes.PMI})
	if d := cmp.Diff(map[olmes.Normalization]int{olmes.PMI: 1}, p.Predictions); d != "" {
		t.Errorf("pmi (-want +got):\n%s", d)
	}
	p.Formulation = olmes.MCF
	Predict(&p, nil)
	if d := cmp.Diff(map[olmes.Normalization]int{olmes.None: 0}, p.Predictions); d != "" {
		t.Errorf("mcf (-want +got):\n%s", d)
	}
	tie := pred("t", olmes.CF, 0, 0, choice(-3, 1, " a"), choice(-2, 1, " b"), choice(-2, 1, " c"))
	Predict(&tie, nil)
	if tie.Predictions[olmes.None] != 1 {
		t.Errorf("tie: %d, want the first of the equal ones", tie.Predictions[olmes.None])
	}
}

func TestPredictUndefined(t *testing.T) {
	good := choice(-1, 1, " a")
	for name, bad := range map[string]olmes.Choice{
		"error":  {Error: "failed"},
		"absent": {Tokens: 1, Chars: 2},
		"nan":    choice(math.NaN(), 1, " b"),
		"inf":    choice(math.Inf(1), 1, " b"),
		"-inf":   choice(math.Inf(-1), 1, " b"),
	} {
		p := pred("t", olmes.CF, 0, 0, good, bad)
		Predict(&p, nil)
		if len(p.Predictions) != 0 || !Failed(&p) {
			t.Errorf("%s: predictions %v, failed %v", name, p.Predictions, Failed(&p))
		}
	}
	empty := choice(-0.1, 0, "")
	p := pred("t", olmes.CF, 0, 0, good, empty)
	Predict(&p, nil)
	if d := cmp.Diff(map[olmes.Normalization]int{olmes.None: 1}, p.Predictions); d != "" {
		t.Errorf("empty continuation (-want +got):\n%s", d)
	}
	p = pred("t", olmes.CF, 0, 0)
	if Predict(&p, nil); len(p.Predictions) != 0 {
		t.Error("no choices, but a prediction")
	}
}

func summarize(t *testing.T, fs []Facts, ps []olmes.Prediction) Metrics {
	t.Helper()
	m, err := Summarize(fs, Seq(ps))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTask(t *testing.T) {
	var ps []olmes.Prediction
	for i := range 40 {
		ps = append(ps, simple("arc_easy", olmes.CF, i, i%2, 0))    // half right
		ps = append(ps, simple("arc_easy", olmes.MCF, i, i%2, i%2)) // all right
	}
	ps[0].Choices[3].Dropped = 7
	ps[0].Choices[2].Dropped = 1
	m := summarize(t, []Facts{facts("arc_easy", 40)}, ps)
	task := m.Tasks[0]
	s := task.Score
	if s == nil || s.Formulation != olmes.MCF || s.Normalization != olmes.None || s.Accuracy != 1 || *s.Correct != 40 || s.N != 40 || *s.SE != 0 {
		t.Fatalf("score %+v", s)
	}
	if s.Difference.Value != 0.5 || s.Difference.NearNoise || s.Interval == nil {
		t.Errorf("difference %+v, interval %+v", s.Difference, s.Interval)
	}
	cf := task.Formulations[olmes.CF]
	if cf.Normalization != olmes.Character || *cf.Accuracy[olmes.Character].Correct != 20 || cf.Truncated != (Truncated{1, 2}) {
		t.Errorf("cf %+v", cf)
	}
	if d := cmp.Diff([]int{20, 20}, cf.Gold); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{40}, cf.Predicted); d != "" {
		t.Error(d)
	}
	if *task.Chance != 0.25 || *task.Majority != 0.5 || !task.Complete {
		t.Errorf("levels %v %v, complete %v", *task.Chance, *task.Majority, task.Complete)
	}
	if m.Suite != nil {
		t.Error("one task is no suite")
	}
}

func TestTieOfFormulationsIsCF(t *testing.T) {
	ps := []olmes.Prediction{simple("piqa", olmes.CF, 0, 0, 0), simple("piqa", olmes.CF, 1, 0, 1),
		simple("piqa", olmes.MCF, 0, 0, 1), simple("piqa", olmes.MCF, 1, 0, 0)}
	s := summarize(t, []Facts{facts("piqa", 2)}, ps).Tasks[0].Score
	if s.Formulation != olmes.CF || !s.Difference.NearNoise {
		t.Errorf("score %+v", s)
	}
}

func TestOneInstanceHasNoError(t *testing.T) {
	ps := []olmes.Prediction{simple("piqa", olmes.CF, 0, 0, 0), simple("piqa", olmes.MCF, 0, 0, 1)}
	s := summarize(t, []Facts{facts("piqa", 1)}, ps).Tasks[0].Score
	if s.SE != nil || s.Interval != nil || s.Difference.SE != nil || !s.Difference.NearNoise {
		t.Errorf("score %+v", s)
	}
	b, _ := json.Marshal(s)
	if !strings.Contains(string(b), `"se":null`) {
		t.Errorf("the missing error is not null: %s", b)
	}
}

// A server that fails 3 of 10 gives 7 scored and 3 failed and no score; one
// that fails all gives no accuracy.
func TestErrors(t *testing.T) {
	var ps []olmes.Prediction
	for i := range 10 {
		p := simple("csqa", olmes.CF, i, 0, 0)
		if i < 3 {
			p.Choices[1].LogProb, p.Choices[1].Error = nil, "HTTP 500"
		}
		all := simple("csqa", olmes.MCF, i, 0, 0)
		for j := range all.Choices {
			all.Choices[j].LogProb = ptr(math.NaN())
		}
		ps = append(ps, p, all)
	}
	task := summarize(t, []Facts{facts("csqa", 10)}, ps).Tasks[0]
	cf, mcf := task.Formulations[olmes.CF], task.Formulations[olmes.MCF]
	if cf.Errors != 3 || cf.Instances != 10 || cf.Accuracy[olmes.None].N != 7 || *cf.Accuracy[olmes.None].Correct != 7 {
		t.Errorf("cf %+v", cf)
	}
	if mcf.Errors != 10 || len(mcf.Accuracy) != 0 {
		t.Errorf("mcf %+v", mcf)
	}
	if task.Score != nil || task.Complete {
		t.Errorf("a task with errors has the score %+v", task.Score)
	}
}

func TestMissing(t *testing.T) {
	ps := []olmes.Prediction{simple("csqa", olmes.CF, 0, 0, 0)}
	task := summarize(t, []Facts{facts("csqa", 3)}, ps).Tasks[0]
	if task.Score != nil || task.Formulations[olmes.CF].Missing != 2 || task.Formulations[olmes.MCF].Missing != 3 {
		t.Errorf("task %+v", task)
	}
	// The standard's normalization without its unconditional requests.
	f := facts("csqa", 1)
	f.Standard = olmes.PMI
	task = summarize(t, []Facts{f}, append(ps, simple("csqa", olmes.MCF, 0, 0, 0))).Tasks[0]
	if task.Score != nil {
		t.Error("a score without the standard's normalization")
	}
}

func TestOneFormulation(t *testing.T) {
	f := facts("piqa", 1)
	f.Formulations = both[:1]
	task := summarize(t, []Facts{f}, []olmes.Prediction{simple("piqa", olmes.CF, 0, 0, 0)}).Tasks[0]
	if task.Score != nil || task.Complete || len(task.Formulations) != 1 || task.Formulations[olmes.CF].Accuracy[olmes.Character].Accuracy != 1 {
		t.Errorf("task %+v", task)
	}
}

func TestStructuralTies(t *testing.T) {
	a, b := choice(-1, 1, " a"), choice(-2, 1, " b")
	ps := []olmes.Prediction{pred("csqa", olmes.CF, 0, 0, a, a, b), pred("csqa", olmes.CF, 1, 2, a, a, b), pred("csqa", olmes.CF, 2, 0, a, b)}
	cf := summarize(t, []Facts{facts("csqa", 3)}, ps).Tasks[0].Formulations[olmes.CF]
	if cf.Ties != (Ties{Instances: 2, WithGold: 1}) {
		t.Errorf("ties %+v", cf.Ties)
	}
}

func TestChance(t *testing.T) {
	c := choice(-1, 1, " a")
	ps := []olmes.Prediction{pred("t", olmes.CF, 0, 0, c, c, c), pred("t", olmes.CF, 1, 0, c, c, c, c), pred("t", olmes.CF, 2, 1, c, c, c, c, c)}
	task := summarize(t, []Facts{facts("t", 3)}, ps).Tasks[0]
	if want := (1.0/3 + 1.0/4 + 1.0/5) / 3; math.Abs(*task.Chance-want) > 1e-15 || *task.Majority != 2.0/3 {
		t.Errorf("chance %v, want %v; majority %v", *task.Chance, want, *task.Majority)
	}
}

// Sizes 100 and 1534, accuracies .9 and .3: macro .600, micro .337.
func TestGroup(t *testing.T) {
	var ps []olmes.Prediction
	var fs []Facts
	for i, s := range []struct{ n, right int }{{100, 90}, {1534, 460}} {
		f := facts(fmt.Sprintf("mmlu_%d", i), s.n)
		f.Group, f.GroupSize = "mmlu", 2
		fs = append(fs, f)
		for d := range s.n {
			best := 1
			if d < s.right {
				best = 0
			}
			ps = append(ps, simple(f.Task, olmes.CF, d, 0, best), simple(f.Task, olmes.MCF, d, 0, 1))
		}
	}
	g := summarize(t, fs, ps).Groups[0]
	macro, micro := g.Formulations[olmes.CF].Macro[olmes.Character], g.Formulations[olmes.CF].Micro[olmes.Character]
	if math.Abs(macro.Accuracy-0.6) > 5e-4 || math.Abs(micro.Accuracy-0.337) > 5e-4 || micro.N != 1634 || *micro.Correct != 550 {
		t.Errorf("macro %+v, micro %+v", macro, micro)
	}
	q := 460.0 / 1534
	if want := math.Sqrt(0.9*0.1/99+q*(1-q)/1533) / 2; math.Abs(*macro.SE-want) > 1e-12 {
		t.Errorf("macro error %v, want %v", *macro.SE, want)
	}
	if !g.Complete || g.Score == nil || g.Score.Formulation != olmes.CF || g.Score.Accuracy != macro.Accuracy {
		t.Errorf("group %+v", g)
	}
	// Equal macro means: CF.
	tied := slices.Clone(ps)
	for i := 0; i < len(tied); i += 2 {
		tied[i+1].Choices = tied[i].Choices
	}
	if s := summarize(t, fs, tied).Groups[0].Score; s.Formulation != olmes.CF || s.Difference.Value != 0 {
		t.Errorf("a tie: %+v", s)
	}
	fs[0].GroupSize, fs[1].GroupSize = 57, 57
	if g := summarize(t, fs, ps).Groups[0]; g.Complete || g.Score == nil || g.Size != 57 {
		t.Errorf("two of 57: %+v", g)
	}
	ps = ps[1:] // one missing instance takes the formulation away from the group
	if g := summarize(t, fs, ps).Groups[0]; g.Score != nil || len(g.Formulations) != 1 {
		t.Errorf("missing instance: %+v", g)
	}
}

func TestSuite(t *testing.T) {
	var ps []olmes.Prediction
	var fs []Facts
	for i, name := range SuiteTasks() {
		f := facts(name, 4)
		if name == "mmlu" {
			f.Task, f.Group, f.GroupSize = "mmlu_anatomy", "mmlu", 1
		}
		fs = append(fs, f)
		for d := range 4 {
			best := 1
			if d < i%5 {
				best = 0
			}
			ps = append(ps, simple(f.Task, olmes.CF, d, 0, best), simple(f.Task, olmes.MCF, d, 0, 1))
		}
	}
	s := summarize(t, fs, ps).Suite
	if s == nil || !s.Complete || s.Average == nil || s.SubsetMean != nil || math.Abs(s.Average.Accuracy-0.5) > 1e-15 {
		t.Fatalf("suite %+v", s)
	}
	var sum float64
	for i := range 10 {
		p := float64(i%5) / 4
		sum += p * (1 - p) / 3
	}
	if want := math.Sqrt(sum) / 10; math.Abs(*s.Average.SE-want) > 1e-12 {
		t.Errorf("error %v, want %v", *s.Average.SE, want)
	}
	fs[3].Complete = false
	if s := summarize(t, fs, ps).Suite; s == nil || s.Complete || s.Average != nil || s.SubsetMean == nil {
		t.Errorf("limited suite %+v", s)
	}
	if s := summarize(t, fs, ps[1:]).Suite; s != nil {
		t.Errorf("suite with nine scores: %+v", s)
	}
}

func TestSummarizeRefuses(t *testing.T) {
	p := simple("piqa", olmes.CF, 0, 0, 0)
	other := p
	other.Variant = "x"
	badGold := p
	badGold.Gold = 4
	chosen := p
	chosen.Formulation = "other"
	for name, ps := range map[string][]olmes.Prediction{
		"two of one key": {p, p}, "unknown variant": {other}, "gold": {badGold}, "formulation": {chosen},
	} {
		if _, err := Summarize([]Facts{facts("piqa", 1)}, Seq(ps)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	broken := errors.New("broken")
	_, err := Summarize(nil, func(yield func(olmes.Prediction, error) bool) { yield(p, broken) })
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// Other kinds are counted, not graded.
func TestOtherKinds(t *testing.T) {
	f := Facts{Task: "gsm", Split: "test", Instances: 2}
	ps := []olmes.Prediction{
		{Task: "gsm", Split: "test", Kind: olmes.KindGenerate, Gold: -1, Outputs: []olmes.Output{{Text: "4"}}},
		{Task: "gsm", Split: "test", Kind: olmes.KindGenerate, Gold: -1, DocID: 1, Outputs: []olmes.Output{{Error: "timeout"}}},
	}
	g := summarize(t, []Facts{f}, ps).Tasks[0].Formulations["generate"]
	if g.Instances != 2 || g.Errors != 1 || len(g.Accuracy) != 0 {
		t.Errorf("generate %+v", g)
	}
}

// The metrics do not depend on the order in which predictions arrive.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		var ps []olmes.Prediction
		var fs []Facts
		for _, task := range []string{"mmlu_a", "mmlu_b", "piqa"} {
			f := facts(task, n)
			if task != "piqa" {
				f.Group, f.GroupSize = "mmlu", 2
			}
			fs = append(fs, f)
			for d := range n {
				for _, form := range both {
					ps = append(ps, simple(task, form, d, rapid.IntRange(0, 3).Draw(t, "gold"), rapid.IntRange(0, 3).Draw(t, "best")))
				}
			}
		}
		for d := range n { // both formulations share the gold answer
			for i := range ps {
				if ps[i].DocID == d {
					ps[i].Gold = d % 4
				}
			}
		}
		a, err := Summarize(fs, Seq(ps))
		if err != nil {
			t.Fatal(err)
		}
		shuffled := slices.Clone(ps)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		b, err := Summarize(fs, Seq(shuffled))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatal(d)
		}
		ja, _ := json.Marshal(a)
		var back Metrics
		if err := json.Unmarshal(ja, &back); err != nil {
			t.Fatal(err)
		}
		if jb, _ := json.Marshal(back); string(ja) != string(jb) {
			t.Fatal("metrics do not survive JSON")
		}
	})
}
