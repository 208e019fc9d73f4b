package score

import (
	"fmt"
	"iter"
	"slices"

	"olmes"
	"olmes/stat"
)

// bootstrapSeed fixes the resampling of every interval.
const bootstrapSeed = 1234

// Seq makes the argument of Summarize out of a slice.
func Seq(preds []olmes.Prediction) iter.Seq2[olmes.Prediction, error] {
	return func(yield func(olmes.Prediction, error) bool) {
		for _, p := range preds {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// Summarize computes the metrics of the tasks in facts, in their order, from
// the choices of preds, in any order. It fails on the first error that preds
// yields, on a prediction whose task, split and variant are not in facts, on
// one of a formulation not in its facts, and on two of one key.
func Summarize(facts []Facts, preds iter.Seq2[olmes.Prediction, error]) (Metrics, error) {
	tallies := make([]*tally, len(facts))
	byKey := map[olmes.Key]*tally{}
	for i, f := range facts {
		key := olmes.Key{Task: f.Task, Split: f.Split, Variant: f.Variant}
		if byKey[key] != nil {
			return Metrics{}, fmt.Errorf("summarize: task %s, split %s, variant %q is listed twice", f.Task, f.Split, f.Variant)
		}
		tallies[i] = &tally{facts: f, forms: map[olmes.Formulation]*form{}}
		byKey[key] = tallies[i]
	}
	for p, err := range preds {
		if err != nil {
			return Metrics{}, fmt.Errorf("summarize: %w", err)
		}
		t := byKey[olmes.Key{Task: p.Task, Split: p.Split, Variant: p.Variant}]
		if t == nil {
			return Metrics{}, fmt.Errorf("summarize: prediction of task %s, split %s, variant %q, which the run does not have", p.Task, p.Split, p.Variant)
		}
		if err := t.add(&p); err != nil {
			return Metrics{}, fmt.Errorf("summarize: %w", err)
		}
	}

	var m Metrics
	var order []olmes.Key
	groups := map[olmes.Key][]*tally{}
	for _, t := range tallies {
		m.Tasks = append(m.Tasks, t.task())
		if t.facts.Group == "" {
			continue
		}
		key := olmes.Key{Task: t.facts.Group, Split: t.facts.Split, Variant: t.facts.Variant}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], t)
	}
	for _, key := range order {
		g, err := group(key, groups[key])
		if err != nil {
			return Metrics{}, fmt.Errorf("summarize: %w", err)
		}
		m.Groups = append(m.Groups, g)
	}
	m.Suite = suite(m.Tasks, m.Groups)
	return m, nil
}

// tally gathers the predictions of one task.
type tally struct {
	facts Facts
	forms map[olmes.Formulation]*form
}

// form gathers the predictions of one task in one formulation.
type form struct {
	Formulation
	correct map[olmes.Normalization]int
	defined map[olmes.Normalization]int
	right   map[int]bool // by doc_id: right under Formulation.Normalization, where defined
	gold    map[int]int  // by doc_id: position of the gold answer
	choices map[int]int  // by doc_id: number of choices
	seen    map[int]bool
}

func (t *tally) add(p *olmes.Prediction) error {
	name := p.Formulation
	if name == "" {
		name = olmes.Formulation(p.Kind)
	} else if !slices.Contains(t.facts.Formulations, name) {
		return fmt.Errorf("prediction of %s in formulation %q, which the run does not have", p.Task, name)
	}
	f := t.forms[name]
	if f == nil {
		f = &form{correct: map[olmes.Normalization]int{}, defined: map[olmes.Normalization]int{},
			right: map[int]bool{}, gold: map[int]int{}, choices: map[int]int{}, seen: map[int]bool{}}
		switch name {
		case olmes.CF:
			f.Normalization = t.facts.Standard
		case olmes.MCF:
			f.Normalization = olmes.None
		}
		t.forms[name] = f
	}
	if f.seen[p.DocID] {
		return fmt.Errorf("two predictions of %s %s, doc_id %d", p.Task, name, p.DocID)
	}
	f.seen[p.DocID] = true
	f.Instances++
	f.truncation(p.Choices)
	if Scores(p) && len(p.Choices) > 0 {
		if p.Gold < 0 || p.Gold >= len(p.Choices) {
			return fmt.Errorf("prediction of %s %s, doc_id %d: gold is %d of %d choices", p.Task, name, p.DocID, p.Gold, len(p.Choices))
		}
		f.gold[p.DocID] = p.Gold
		f.choices[p.DocID] = len(p.Choices)
		f.Gold = count(f.Gold, p.Gold)
		f.ties(p)
	}
	q := *p
	Predict(&q, t.facts.Normalizations)
	if Failed(p) {
		f.Errors++
		return nil
	}
	for n, best := range q.Predictions {
		f.defined[n]++
		if best == p.Gold {
			f.correct[n]++
		}
		if n == f.Normalization {
			f.right[p.DocID] = best == p.Gold
			f.Predicted = count(f.Predicted, best)
		}
	}
	return nil
}

// count adds one to h[i], making room for it.
func count(h []int, i int) []int {
	for len(h) <= i {
		h = append(h, 0)
	}
	h[i]++
	return h
}

func (f *form) truncation(choices []olmes.Choice) {
	requests := 0
	for i := range choices {
		if choices[i].Dropped > 0 {
			requests++
		}
	}
	f.Truncated.Requests += requests
	if requests > 0 {
		f.Truncated.Instances++
	}
}

// ties counts p if two of its choices are one and the same request.
func (f *form) ties(p *olmes.Prediction) {
	seen := map[string]int{}
	for i := range p.Choices {
		if d := p.Choices[i].RequestSHA256; d != "" {
			seen[d]++
		}
	}
	equal, withGold := false, false
	for d, n := range seen {
		if n > 1 {
			equal = true
			withGold = withGold || p.Choices[p.Gold].RequestSHA256 == d
		}
	}
	if equal {
		f.Ties.Instances++
	}
	if withGold {
		f.Ties.WithGold++
	}
}

// whole reports whether the formulation has every instance the run was to
// evaluate, without an error, under the normalization that counts.
func (t *tally) whole(name olmes.Formulation) bool {
	f := t.forms[name]
	return f != nil && t.facts.Instances > 0 &&
		f.Instances == t.facts.Instances && f.defined[f.Normalization] == f.Instances
}

// task makes the task's metrics.
func (t *tally) task() Task {
	out := Task{Task: t.facts.Task, Group: t.facts.Group, Split: t.facts.Split, Variant: t.facts.Variant,
		Standard: t.facts.Standard, Instances: t.facts.Instances,
		Formulations: map[olmes.Formulation]Formulation{}}
	for _, name := range t.facts.Formulations {
		if t.forms[name] == nil {
			out.Formulations[name] = Formulation{Missing: t.facts.Instances}
		}
	}
	for name, f := range t.forms {
		g := f.Formulation
		g.Missing = max(0, t.facts.Instances-f.Instances)
		g.Accuracy = map[olmes.Normalization]Estimate{}
		for n := range f.defined {
			g.Accuracy[n], _ = proportion(f.correct[n], f.defined[n])
		}
		out.Formulations[name] = g
	}
	out.Chance, out.Majority = t.levels()
	if !t.whole(olmes.CF) || !t.whole(olmes.MCF) {
		return out
	}
	out.Complete = t.facts.Complete
	cf, mcf := t.forms[olmes.CF], t.forms[olmes.MCF]
	s := Score{Formulation: olmes.CF, Normalization: cf.Normalization}
	if mcf.correct[mcf.Normalization] > cf.correct[cf.Normalization] {
		s.Formulation, s.Normalization = olmes.MCF, mcf.Normalization
	}
	s.Estimate = out.Formulations[s.Formulation].Accuracy[s.Normalization]
	s.compare([]*tally{t})
	out.Score = &s
	return out
}

// compare fills what needs both formulations of the same instances.
func (s *Score) compare(strata []*tally) {
	pairs := make([]stat.Pairs, len(strata))
	for i, t := range strata {
		cf, mcf := t.forms[olmes.CF], t.forms[olmes.MCF]
		for doc, a := range cf.right {
			b, ok := mcf.right[doc]
			if !ok {
				return // the formulations hold different instances
			}
			pairs[i].Add(a, b)
		}
	}
	s.Interval = stat.BootstrapMax(pairs, bootstrapSeed)
	if d, se, ok := stat.MeanDifference(pairs); ok {
		s.Difference = &Difference{Value: d, SE: se, NearNoise: se == nil || d == 0 || abs(d) < 1.96**se}
	}
}

// levels returns what guessing gives: chance, and the best constant position.
// Both are nil where no multiple-choice prediction is there.
func (t *tally) levels() (chance, majority *float64) {
	f := t.any()
	if f == nil {
		return nil, nil
	}
	// Counted by number of choices, so that the sum has one order.
	byChoices := []int{}
	for _, c := range f.choices {
		byChoices = count(byChoices, c)
	}
	var sum float64
	for c, k := range byChoices {
		if k > 0 {
			sum += float64(k) / float64(c)
		}
	}
	n := float64(len(f.choices))
	c, m := sum/n, float64(slices.Max(f.Gold))/n
	return &c, &m
}

// any returns a formulation with choices, CF first, or nil.
func (t *tally) any() *form {
	for _, name := range []olmes.Formulation{olmes.CF, olmes.MCF} {
		if f := t.forms[name]; f != nil && len(f.choices) > 0 {
			return f
		}
	}
	return nil
}

// proportion makes an estimate out of counts.
func proportion(correct, n int) (Estimate, bool) {
	p, se, ok := stat.Proportion(correct, n)
	if !ok {
		return Estimate{}, false
	}
	return Estimate{Accuracy: p, SE: se, Correct: &correct, N: n}, true
}

func abs(v float64) float64 { return max(v, -v) }
