package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"olmes"
	"olmes/outcome"
	"olmes/outcome/outcometest"
	"olmes/record"
	"olmes/score"
	"olmes/stat"
	"olmes/task"
)

// forms answers both formulations by the given functions of doc_id: whether the
// answer is right.
func answers(cf, mcf func(doc int) bool) map[olmes.Formulation]outcometest.Form {
	answer := func(right func(int) bool) func(doc, gold int) int {
		return func(doc, gold int) int {
			if right(doc) {
				return gold
			}
			return (gold + 1) % 4
		}
	}
	out := map[olmes.Formulation]outcometest.Form{}
	if cf != nil {
		out[olmes.CF] = outcometest.Form{Answer: answer(cf)}
	}
	if mcf != nil {
		out[olmes.MCF] = outcometest.Form{Answer: answer(mcf)}
	}
	return out
}

func never(int) bool             { return false }
func below(n int) func(int) bool { return func(doc int) bool { return doc < n } }

func spec(model string, tasks ...outcometest.Task) outcometest.Spec {
	for i := range tasks {
		if tasks[i].Normalization == "" {
			tasks[i].Normalization = olmes.Character
		}
	}
	return outcometest.Spec{Model: model, Tasks: tasks}
}

// compared writes the specs' records and compares them.
func compared(t *testing.T, o Options, specs ...outcometest.Spec) *Report {
	t.Helper()
	var sources []outcome.Source
	for i, s := range specs {
		r := outcometest.Write(t, filepath.Join(t.TempDir(), fmt.Sprint(i)), s)
		sources = append(sources, outcome.Source{Label: s.Model, Record: r})
	}
	set := New(len(sources), o)
	for i, src := range sources {
		run, err := outcome.Load(t.Context(), src, Depth(sources))
		if err != nil {
			t.Fatal(err)
		}
		ties := Ties{Looked: src.Record.HasPredictions(), Stated: src.Record.Provenance.Noise == nil}
		margin := 0.0
		if ties.Stated {
			margin = Margin
		}
		if ties.List, _, err = src.Record.NearTies(margin); err != nil {
			t.Fatal(err)
		}
		set.Put(i, run, ties)
	}
	r := set.Report()
	doc, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	// Lists are never null: only what docs/compare.md says may be absent.
	for _, null := range []string{`"pairs":null`, `"models":null`, `"tasks":null`, `"ranking":null`, `"ranking_tasks":null`, `"refused":null`, `"findings":null`, `"warnings":null`, `"comparisons":null`, `"deviations":null`, `"scores":null`} {
		if strings.Contains(string(doc), null) {
			t.Errorf("%s in the JSON", null)
		}
	}
	return r
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) < 1e-12) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func codes(r *Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Code)
	}
	return out
}

// A is right on 0 to 49, B on 20 to 89 of 100 instances.
func TestTwoRuns(t *testing.T) {
	a := spec("a", outcometest.Task{Name: "arc_easy", N: 100, Forms: answers(below(50), never)})
	b := spec("b", outcometest.Task{Name: "arc_easy", N: 100, Forms: answers(func(d int) bool { return d >= 20 && d < 90 }, never)})
	r := compared(t, Options{}, a, b)
	if len(r.Findings) != 0 || len(r.Refused) != 0 || r.View != Better || len(r.Pairs) != 1 || len(r.Ranking) != 2 {
		t.Fatalf("%+v", r)
	}
	row := r.Pairs[0].Rows[0]
	c := row.Comparisons[0]
	want := stat.Pairs{Both: 30, OnlyA: 20, OnlyB: 40, None: 10}
	if *c.Pairs != (PairCount{30, 20, 40, 10}) || c.N != 100 || c.View != Better || c.Method != ByScore || c.Strata != 1 {
		t.Errorf("%+v", c)
	}
	d, se, _ := want.Difference()
	test, _ := want.McNemar()
	near(t, "difference", c.Difference, d)
	near(t, "error", *c.SE, *se)
	if *c.Interval != *want.Score(0.95) || *c.McNemar != test || *c.P != test.P || *c.Holm != test.P {
		t.Errorf("%+v", c)
	}
	near(t, "detectable", *c.Detectable, *stat.DetectablePaired(100, 0.6, stat.Alpha, stat.Power))
	near(t, "A", c.A.Accuracy, 0.5)
	near(t, "B", c.B.Accuracy, 0.7)
	if *c.A.Interval != *stat.Wilson(50, 100, 0.95) || c.A.Normalization != olmes.Character || c.A.Formulation != olmes.CF {
		t.Errorf("score %+v", c.A)
	}
	if row.Verdict != "b" || c.Clustered != nil {
		t.Errorf("verdict %q, clusters %v", row.Verdict, c.Clustered)
	}
	if r.Ranking[0].Label != "b" || r.Ranking[0].Rank != 1 || r.Ranking[1].Rank != 2 || r.Ranking[1].Last != 2 {
		t.Errorf("ranking %+v", r.Ranking)
	}
	// The other way round everything is mirrored.
	m := compared(t, Options{}, b, a).Pairs[0].Rows[0].Comparisons[0]
	if m.Difference != -c.Difference || *m.P != *c.P || math.Abs(m.Interval.Low+c.Interval.High) > 1e-12 || m.A.Accuracy != c.B.Accuracy {
		t.Errorf("mirrored %+v", m)
	}
	// At another error rate the interval is another.
	if w := compared(t, Options{Alpha: 0.01}, a, b).Pairs[0].Rows[0].Comparisons[0]; *w.Interval != *want.Score(0.99) {
		t.Errorf("99%% interval %+v", w.Interval)
	}
}

// Subjects of unlike sizes are strata: the mean is macro, its error theirs.
func TestGroup(t *testing.T) {
	subjects := func(right ...int) []outcometest.Task {
		var out []outcometest.Task
		for i, n := range []int{40, 100, 300} {
			out = append(out, outcometest.Task{Name: fmt.Sprintf("mmlu_s%d", i), Group: "mmlu", GroupSize: 3, N: n, Forms: answers(below(right[i]), never)})
		}
		return out
	}
	r := compared(t, Options{}, spec("a", subjects(10, 40, 150)...), spec("b", subjects(20, 50, 120)...))
	if len(r.Pairs[0].Rows) != 1 {
		t.Fatalf("%+v", r.Pairs[0].Rows)
	}
	c := r.Pairs[0].Rows[0].Comparisons[0]
	strata := []stat.Pairs{{Both: 10, OnlyB: 10, None: 20}, {Both: 40, OnlyB: 10, None: 50}, {Both: 120, OnlyA: 30, None: 150}}
	d, se, _ := stat.MeanDifference(strata)
	near(t, "macro difference", c.Difference, d)
	near(t, "its error", *c.SE, *se)
	p, _ := stat.NormalTest(d, se)
	if *c.P != p || c.Strata != 3 || c.N != 440 || c.Method != ByError || *c.Pairs != (PairCount{170, 30, 20, 220}) {
		t.Errorf("%+v", c)
	}
	near(t, "A", c.A.Accuracy, (0.25+0.4+0.5)/3)
	if r.Tasks[0].Task != "mmlu" {
		t.Errorf("own scores %+v", r.Tasks)
	}
	near(t, "own score", r.Tasks[0].Own[0].Accuracy, c.A.Accuracy)
}

// Holm's correction runs over the tasks, and the average over tasks is tested by
// its own error.
func TestSeveralTasks(t *testing.T) {
	tasks := func(shift int) []outcometest.Task {
		var out []outcometest.Task
		for i, name := range []string{"arc_easy", "csqa", "piqa"} {
			out = append(out, outcometest.Task{Name: name, N: 200, Forms: answers(below(100+shift*i), never)})
		}
		return out
	}
	p := compared(t, Options{}, spec("a", tasks(0)...), spec("b", tasks(9)...)).Pairs[0]
	var ps, ds []float64
	var ses []*float64
	for _, row := range p.Rows {
		c := row.Comparisons[0]
		ps, ds, ses = append(ps, *c.P), append(ds, c.Difference), append(ses, c.SE)
	}
	if want := []float64{1, 2 * math.Pow(0.5, 9), 2 * math.Pow(0.5, 18)}; math.Abs(ps[1]-want[1]) > 1e-12 || math.Abs(ps[2]-want[2]) > 1e-12 || ps[0] != 1 {
		t.Fatalf("p %v", ps)
	}
	for i, h := range stat.Holm(ps) {
		near(t, "Holm", *p.Rows[i].Comparisons[0].Holm, h)
	}
	if p.Rows[0].Verdict != "none" || p.Rows[1].Verdict != "b" || p.Rows[2].Verdict != "b" {
		t.Errorf("verdicts %s %s %s", p.Rows[0].Verdict, p.Rows[1].Verdict, p.Rows[2].Verdict)
	}
	c := p.Average.Comparisons[0]
	mean, _ := stat.Mean(ds)
	near(t, "average", c.Difference, mean)
	near(t, "its error", *c.SE, *stat.MeanError(ses))
	if p.Average.Olmes || !slices.Equal(p.Average.Tasks, []string{"arc_easy", "csqa", "piqa"}) || len(p.Average.Warnings) != 1 {
		t.Errorf("average %+v", p.Average)
	}
	if w := p.Rows[0].Warnings; !slices.ContainsFunc(w, func(s string) bool { return strings.HasPrefix(s, "no instance is right in one run only") }) {
		t.Errorf("warnings %q", w)
	}
}

// Where the better formulations differ the comparison says so, and gives both in
// one.
func TestFormulationsDiffer(t *testing.T) {
	a := spec("a", outcometest.Task{Name: "piqa", N: 200, Forms: answers(below(120), below(50))})
	b := spec("b", outcometest.Task{Name: "piqa", N: 200, Forms: answers(below(90), below(150))})
	r := compared(t, Options{}, a, b)
	if len(r.Refused) != 0 {
		t.Errorf("refused: %q", r.Refused)
	}
	row := r.Pairs[0].Rows[0]
	if len(row.Comparisons) != 3 || row.Comparisons[0].A.Formulation != olmes.CF || row.Comparisons[0].B.Formulation != olmes.MCF {
		t.Fatalf("%+v", row.Comparisons)
	}
	near(t, "better", row.Comparisons[0].Difference, 0.15)
	near(t, "cf", row.Comparisons[1].Difference, -0.15)
	near(t, "mcf", row.Comparisons[2].Difference, 0.5)
	if !slices.Contains(row.Warnings, "a counts by CF, b by MCF: not one scale; both by CF: -15.0; both by MCF: +50.0") {
		t.Errorf("warnings %q", row.Warnings)
	}
	// Asked for one formulation, all that counts is in it.
	r = compared(t, Options{View: CF}, a, b)
	if row := r.Pairs[0].Rows[0]; row.Verdict != "a" || row.Comparisons[0].View != CF || r.Ranking[0].Label != "a" || r.Ranking[0].MCF != 0 {
		t.Errorf("%+v, ranking %+v", row, r.Ranking)
	}
}

func TestNotComparable(t *testing.T) {
	task := func(change func(*outcometest.Task)) outcometest.Task {
		k := outcometest.Task{Name: "piqa", N: 100, Forms: answers(below(50), never)}
		if change != nil {
			change(&k)
		}
		return k
	}
	for name, c := range map[string]struct {
		b      outcometest.Spec
		code   string
		text   string
		shared int
	}{
		"prompts": {spec("b", task(func(k *outcometest.Task) {
			f := k.Forms[olmes.CF]
			f.Prompt = "other"
			k.Forms[olmes.CF] = f
		})), "prompts", "100 of 100 shared instances have other requests", 100},
		"some prompts": {spec("b", task(func(k *outcometest.Task) {
			f := k.Forms[olmes.CF]
			f.Choice = func(doc, choice int, c *olmes.Choice) {
				if doc == 7 && choice == 2 {
					c.RequestSHA256 = strings.Repeat("ab", 32)
				}
			}
			k.Forms[olmes.CF] = f
		})), "prompts", "1 of 100 shared instances have other requests", 100},
		"instances": {spec("b", task(func(k *outcometest.Task) {
			k.DocIDs = nil
			for d := range 100 {
				k.DocIDs = append(k.DocIDs, d+40)
			}
		})), "sample", "80 of 140 are in one of them only", 60},
		"split":         {spec("b", task(func(k *outcometest.Task) { k.Split = "validation" })), "split", "another split than a (test)", 0},
		"formulation":   {spec("b", task(func(k *outcometest.Task) { delete(k.Forms, olmes.MCF) })), "formulation", "not evaluated as MCF in b", 100},
		"normalization": {spec("b", task(func(k *outcometest.Task) { k.Normalization = olmes.None })), "normalization", "a, b count different normalizations", 100},
		"right answers": {spec("b", task(func(k *outcometest.Task) { k.Choices = 5 })), "gold", "a, b have different right answers in 77 of 100", 100},
		"imported": {func() outcometest.Spec {
			s := spec("b", task(nil))
			s.Provenance = record.Provenance{Evidence: record.ImportedInstances, Import: &record.Import{Tool: "other"}}
			return s
		}(), "imported", "b: imported", 100},
		"variant": {spec("b", task(func(k *outcometest.Task) { k.Variant = "var1" })), "variant", "b has the task in other variants only", -1},
	} {
		t.Run(name, func(t *testing.T) {
			a := spec("a", task(nil))
			r := compared(t, Options{}, a, c.b)
			if !slices.Contains(codes(r), c.code) || !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Blocks && strings.Contains(f.Text, c.text) }) {
				t.Fatalf("findings %+v", r.Findings)
			}
			if len(r.Refused) == 0 || len(r.Ranking) != 0 {
				t.Errorf("refused %q, ranking %+v", r.Refused, r.Ranking)
			}
			for _, row := range r.Pairs[0].Rows {
				if row.Verdict != "" {
					t.Errorf("verdict %q in spite of it", row.Verdict)
				}
				if k := row.Comparisons[0]; c.shared > 0 && k.N != c.shared || c.shared == 0 && (k.Pairs != nil || k.Method != Unpaired) {
					t.Errorf("%+v", k)
				}
			}
			anyway := compared(t, Options{Anyway: true}, a, c.b)
			if len(anyway.Refused) == 0 || !anyway.Anyway {
				t.Errorf("%+v", anyway)
			}
			if !slices.Contains([]string{"split", "formulation", "variant"}, name) && len(anyway.Ranking) != 2 {
				t.Errorf("ranking %+v", anyway.Ranking)
			}
		})
	}
}

// Runs of one formulation are compared in it.
func TestOneFormulation(t *testing.T) {
	task := func(right int) outcometest.Task {
		return outcometest.Task{Name: "piqa", N: 50, Forms: answers(nil, below(right))}
	}
	r := compared(t, Options{}, spec("a", task(10)), spec("b", task(40)))
	if r.View != MCF || len(r.Refused) != 0 || r.Pairs[0].Rows[0].Verdict != "b" || len(r.Ranking) != 2 || r.Ranking[0].MCF != 1 {
		t.Errorf("%+v", r)
	}
}

// A task that one run lacks is said, and left out of the average.
func TestMissingTask(t *testing.T) {
	piqa := func(right int) outcometest.Task {
		return outcometest.Task{Name: "piqa", N: 60, Forms: answers(below(right), never)}
	}
	r := compared(t, Options{}, spec("a", piqa(20), outcometest.Task{Name: "csqa", N: 40, Forms: answers(below(30), never)}), spec("b", piqa(50)))
	if !slices.Equal(codes(r), []string{"task"}) || r.Findings[0].Text != "csqa: not in b" || len(r.Refused) != 0 {
		t.Errorf("%+v", r.Findings)
	}
	if p := r.Pairs[0]; len(p.Rows) != 1 || !slices.Equal(p.Average.Tasks, []string{"piqa"}) {
		t.Errorf("%+v", p)
	}
	near(t, "average of a", r.Ranking[1].Average, 20.0/60)
	// Asked for a task that one has alone, there is nothing to compare.
	r = compared(t, Options{Tasks: []string{"csqa"}}, spec("a", piqa(20), outcometest.Task{Name: "csqa", N: 40, Forms: answers(below(30), never)}), spec("b", piqa(50)))
	if len(r.Pairs[0].Rows) != 0 || r.Pairs[0].Average != nil || len(r.Ranking) != 0 || len(r.Tasks) != 1 || !slices.Equal(codes(r), []string{"no-common-task"}) {
		t.Errorf("%+v", r)
	}
}

func TestFewInstances(t *testing.T) {
	for n, want := range map[int]string{1: "n = 1: too few for an interval", 12: "n = 12: interval wider than the effect"} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a := spec("a", outcometest.Task{Name: "piqa", N: n, Forms: answers(below(n), never)})
			b := spec("b", outcometest.Task{Name: "piqa", N: n, Forms: answers(below(n-n/4), never)})
			row := compared(t, Options{}, a, b).Pairs[0].Rows[0]
			if !slices.Contains(row.Warnings, want) || row.Verdict != "none" {
				t.Errorf("%q, verdict %s", row.Warnings, row.Verdict)
			}
			if c := row.Comparisons[0]; n == 1 && (c.SE != nil || c.Interval != nil || c.Method != NoInterval || c.Detectable != nil || *c.P != 1) {
				t.Errorf("%+v", c)
			}
		})
	}
}

// Failed instances are left out, and the run has no score.
func TestFailed(t *testing.T) {
	forms := answers(below(30), never)
	f := forms[olmes.CF]
	f.Choice = func(doc, choice int, c *olmes.Choice) {
		if doc == 3 || doc == 55 {
			c.LogProb, c.TokenLogProbs, c.ContinuationIDs, c.Error = nil, nil, nil, "lost"
		}
	}
	forms[olmes.CF] = f
	a := spec("a", outcometest.Task{Name: "piqa", N: 60, Forms: answers(below(30), never)})
	b := spec("b", outcometest.Task{Name: "piqa", N: 60, Forms: forms})
	r := compared(t, Options{}, a, b)
	if !slices.Equal(codes(r), []string{"failed", "no-common-score"}) || len(r.Refused) != 1 || !r.NothingToRank {
		t.Errorf("findings %+v", r.Findings)
	}
	row := r.Pairs[0].Rows[0]
	if c := row.Comparisons[0]; c.View != CF || c.N != 58 || *c.Pairs != (PairCount{Both: 29, None: 29}) {
		t.Errorf("%+v", c)
	}
	if row.Verdict != "" || !strings.HasPrefix(row.Warnings[0], "no score to compare (better), so CF against CF") {
		t.Errorf("verdict %q, warnings %q", row.Verdict, row.Warnings)
	}
}

// boolq's passages repeat: with the dataset's rows the clusters are known, and
// the error is that of explicit lists.
func TestClusters(t *testing.T) {
	boolq := func(model string, right func(doc int) bool, rows string) outcometest.Spec {
		s := spec(model, outcometest.Task{Name: "boolq", Split: "validation", N: 1000, Choices: 2, Normalization: olmes.None,
			Forms: map[olmes.Formulation]outcometest.Form{
				olmes.CF: {Answer: func(doc, gold int) int {
					if right(doc) {
						return gold
					}
					return 1 - gold
				}},
				olmes.MCF: {Answer: func(_, gold int) int { return 1 - gold }},
			}})
		s.Change = func(id *record.Identity) { id.Tasks[0].Dataset.RowsSHA256 = rows }
		return s
	}
	clusters, _ := task.ClustersOf("boolq", "validation")
	held := task.RowsSHA256("boolq", "validation")
	// Both are right by passage, B on more of them.
	inA := func(doc int) bool { return clusters.Of(doc)%10 < 5 }
	inB := func(doc int) bool { return clusters.Of(doc)%10 < 7 && clusters.Of(doc)%7 != 0 }
	c := compared(t, Options{}, boolq("a", inA, held), boolq("b", inB, held)).Pairs[0].Rows[0].Comparisons[0]
	var ds, as, cs []int
	for doc := range 1000 {
		one := map[bool]int{true: 1}
		ds = append(ds, one[inB(doc)]-one[inA(doc)])
		as = append(as, one[inA(doc)])
		cs = append(cs, clusters.Of(doc))
	}
	_, se, n, _ := stat.ClusteredMean(ds, cs)
	if c.Clustered == nil || c.Clustered.Clusters != n || c.Clustered.Shared != "passage" || c.Method != ByClustered {
		t.Fatalf("%+v, want %d clusters", c.Clustered, n)
	}
	near(t, "clustered error", *c.Clustered.SE, *se)
	if *se <= *c.SE {
		t.Errorf("clustered error %v, plain %v: these passages show nothing", *se, *c.SE)
	}
	_, se, _, _ = stat.ClusteredMean(as, cs)
	near(t, "clustered error of A", *c.A.ClusteredSE, *se)
	p, _ := stat.NormalTest(c.Difference, c.Clustered.SE)
	near(t, "p", *c.P, max(p, c.McNemar.P))
	// Rows that are not the dataset's, or not known.
	for _, rows := range []string{"", strings.Repeat("0", 64)} {
		c := compared(t, Options{}, boolq("a", inA, rows), boolq("b", inB, rows)).Pairs[0].Rows[0].Comparisons[0]
		if c.Clustered != nil || c.Method != ByScore || c.A.ClusteredSE != nil {
			t.Errorf("rows %q: %+v", rows, c.Clustered)
		}
	}
	// Not known of one, which was asked the same as the other.
	if c := compared(t, Options{}, boolq("a", inA, held), boolq("b", inB, "")).Pairs[0].Rows[0].Comparisons[0]; c.Clustered == nil {
		t.Error("the requests are the same, and so are the rows")
	}
}

func TestNearTies(t *testing.T) {
	task := func(right int, margin float64) outcometest.Task {
		forms := answers(below(right), never)
		f := forms[olmes.CF]
		f.Choice = func(doc, choice int, c *olmes.Choice) {
			// Instances 0 to 4 and 90 to 94 have two choices next to each other.
			if doc < 5 || doc >= 90 && doc < 95 {
				gold := outcometest.Gold("piqa", doc, 4)
				best, second := gold, (gold+1)%4
				if doc >= right {
					best, second = second, best
				}
				switch choice {
				case best:
					*c.LogProb = -0.5
				case second:
					*c.LogProb = -0.5 - margin
				}
				c.TokenLogProbs = []float64{*c.LogProb}
			}
		}
		forms[olmes.CF] = f
		return outcometest.Task{Name: "piqa", N: 100, Forms: forms, Normalization: olmes.None}
	}
	a, b := spec("a", task(50, 1e-5)), spec("b", task(60, 1e-5))
	a.Noise, b.Noise = 1e-4, 1e-4
	c := compared(t, Options{}, a, b).Pairs[0].Rows[0].Comparisons[0]
	if n := c.Near; n == nil || n.Stated || n.A != 10 || n.B != 10 || n.Turns != 10 {
		t.Fatalf("%+v", n)
	}
	// Five of each run may be lost and five won.
	near(t, "low", c.Near.Low, 0)
	near(t, "high", c.Near.High, 0.1+0.1)
	b.Noise = 0
	if n := compared(t, Options{}, a, b).Pairs[0].Rows[0].Comparisons[0].Near; n == nil || !n.Stated {
		t.Errorf("%+v", n)
	}
}

// Runs that cannot be told apart share a rank.
func TestRanks(t *testing.T) {
	run := func(model string, right int) outcometest.Spec {
		return spec(model, outcometest.Task{Name: "piqa", N: 400, Forms: answers(below(right), never)}, outcometest.Task{Name: "csqa", N: 400, Forms: answers(below(right), never)})
	}
	r := compared(t, Options{}, run("low", 100), run("mid", 200), run("next", 202), run("top", 300))
	var got []string
	for _, k := range r.Ranking {
		got = append(got, fmt.Sprintf("%s %d %d", k.Label, k.Rank, k.Last))
	}
	if want := []string{"top 1 1", "next 2 3", "mid 2 3", "low 4 4"}; !slices.Equal(got, want) {
		t.Errorf("ranks %q, want %q", got, want)
	}
	if len(r.Pairs) != 6 || r.PairsLeftOut {
		t.Errorf("%d pairs", len(r.Pairs))
	}
	if r := compared(t, Options{Pairs: 3}, run("low", 100), run("mid", 200), run("next", 202), run("top", 300)); len(r.Pairs) != 0 || !r.PairsLeftOut || len(r.Ranking) != 4 {
		t.Errorf("%d pairs, left out %v", len(r.Pairs), r.PairsLeftOut)
	}
}

// A finding of many runs names those that differ from most.
func TestFindingsOfMany(t *testing.T) {
	run := func(model, prompt string) outcometest.Spec {
		forms := answers(below(30), never)
		f := forms[olmes.CF]
		f.Prompt = prompt
		forms[olmes.CF] = f
		return spec(model, outcometest.Task{Name: "piqa", N: 60, Forms: forms})
	}
	r := compared(t, Options{}, run("a", "x"), run("b", ""), run("c", ""), run("d", ""), run("e", "y"))
	if len(r.Findings) != 1 || !slices.Equal(r.Findings[0].Labels, []string{"a", "e"}) || !strings.Contains(r.Findings[0].Text, "a, e were asked otherwise than most runs: 60 of 60") {
		t.Errorf("%+v", r.Findings)
	}
}

func TestDepth(t *testing.T) {
	a := outcometest.Write(t, filepath.Join(t.TempDir(), "a"), spec("a", outcometest.Task{Name: "piqa", N: 6, Forms: answers(below(3), never)}))
	b := outcometest.Write(t, filepath.Join(t.TempDir(), "b"), spec("b", outcometest.Task{Name: "piqa", N: 7, Forms: answers(below(3), never)}))
	if d := Depth([]outcome.Source{{Record: a}, {Record: a}}); d != outcome.Answers {
		t.Errorf("the same requests: depth %v", d)
	}
	if d := Depth([]outcome.Source{{Record: a}, {Record: b}}); d != outcome.Values {
		t.Errorf("other requests: depth %v", d)
	}
}

// Totals of another tool can be set beside, not paired.
func TestAggregate(t *testing.T) {
	a := outcometest.Write(t, filepath.Join(t.TempDir(), "a"), spec("a", outcometest.Task{Name: "piqa", N: 100, Forms: answers(below(50), never)}))
	run, err := outcome.Load(t.Context(), outcome.Source{Label: "a", Record: a}, outcome.Answers)
	if err != nil {
		t.Fatal(err)
	}
	other := *run
	rec := *a
	rec.Provenance.Evidence = record.ImportedAggregates
	other.Source = outcome.Source{Label: "b", Record: &rec}
	other.Tasks = nil
	se := 0.04
	other.Metrics = score.Metrics{Tasks: []score.Task{{Task: "piqa", Split: "test", Formulations: map[olmes.Formulation]score.Formulation{
		olmes.CF:  {Normalization: olmes.Character, Accuracy: map[olmes.Normalization]score.Estimate{olmes.Character: {Accuracy: 0.7, SE: &se}}},
		olmes.MCF: {Normalization: olmes.None, Accuracy: map[olmes.Normalization]score.Estimate{olmes.None: {Accuracy: 0.2, SE: &se}}},
	}, Score: &score.Score{Formulation: olmes.CF, Normalization: olmes.Character, Estimate: score.Estimate{Accuracy: 0.7, SE: &se}}}}}
	set := New(2, Options{Anyway: true})
	set.Put(0, run, Ties{})
	set.Put(1, &other, Ties{})
	r := set.Report()
	if !slices.Equal(codes(r), []string{"imported", "no-instances"}) {
		t.Errorf("findings %+v", r.Findings)
	}
	c := r.Pairs[0].Rows[0].Comparisons[0]
	if c.Method != Unpaired || c.Pairs != nil || c.Near != nil {
		t.Fatalf("%+v", c)
	}
	near(t, "difference", c.Difference, 0.2)
	near(t, "error", *c.SE, math.Hypot(*c.A.SE, se))
	if r.Ranking[0].Label != "b" || r.Ranking[0].Rank != 1 {
		t.Errorf("ranking %+v", r.Ranking)
	}
}
