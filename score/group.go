package score

import (
	"fmt"
	"math/big"

	"olmes"
	"olmes/stat"
)

// group makes the metrics of tasks that count as one.
func group(key olmes.Key, tasks []*tally) (Group, error) {
	g := Group{Group: key.Task, Split: key.Split, Variant: key.Variant,
		Tasks: len(tasks), Size: tasks[0].facts.GroupSize,
		Formulations: map[olmes.Formulation]GroupFormulation{}}
	standard := tasks[0].facts.Standard
	g.Complete = len(tasks) == g.Size
	for _, t := range tasks {
		if t.facts.GroupSize != g.Size || t.facts.Standard != standard {
			return Group{}, fmt.Errorf("group %s: %s and %s disagree on the group's size or normalization",
				g.Group, tasks[0].facts.Task, t.facts.Task)
		}
		g.Complete = g.Complete && t.facts.Complete && t.whole(olmes.CF) && t.whole(olmes.MCF)
	}
	exact := map[olmes.Formulation]*big.Rat{} // macro means that the score compares
	for _, name := range []olmes.Formulation{olmes.CF, olmes.MCF} {
		if gf, mean, ok := groupFormulation(name, tasks); ok {
			g.Formulations[name] = gf
			exact[name] = mean
		}
	}
	g.Chance, g.Majority = groupLevels(tasks)
	cf, mcf := exact[olmes.CF], exact[olmes.MCF]
	if cf == nil || mcf == nil {
		return g, nil
	}
	s := Score{Formulation: olmes.CF, Normalization: standard}
	if mcf.Cmp(cf) > 0 {
		s.Formulation, s.Normalization = olmes.MCF, olmes.None
	}
	s.Estimate = g.Formulations[s.Formulation].Macro[s.Normalization]
	s.compare(tasks)
	g.Score = &s
	return g, nil
}

// groupFormulation returns a formulation's means over tasks, and exactly the
// macro mean under the normalization that counts. It reports false unless
// every task has the formulation whole.
func groupFormulation(name olmes.Formulation, tasks []*tally) (GroupFormulation, *big.Rat, bool) {
	out := GroupFormulation{Macro: map[olmes.Normalization]Estimate{}, Micro: map[olmes.Normalization]Estimate{}}
	for _, t := range tasks {
		if !t.whole(name) {
			return out, nil, false
		}
		f := t.forms[name]
		out.Ties.Instances += f.Ties.Instances
		out.Ties.WithGold += f.Ties.WithGold
		out.Truncated.Instances += f.Truncated.Instances
		out.Truncated.Requests += f.Truncated.Requests
	}
	var counts *big.Rat
	for _, n := range olmes.Normalizations() {
		mean := new(big.Rat)
		ses := make([]*float64, 0, len(tasks))
		var correct, total int
		for _, t := range tasks {
			f := t.forms[name]
			if f.defined[n] != f.Instances {
				mean = nil
				break
			}
			mean.Add(mean, big.NewRat(int64(f.correct[n]), int64(f.Instances)))
			e, _ := proportion(f.correct[n], f.Instances)
			ses = append(ses, e.SE)
			correct += f.correct[n]
			total += f.Instances
		}
		if mean == nil {
			continue
		}
		mean.Quo(mean, big.NewRat(int64(len(tasks)), 1))
		acc, _ := mean.Float64()
		out.Macro[n] = Estimate{Accuracy: acc, SE: stat.MeanError(ses), N: total}
		out.Micro[n], _ = proportion(correct, total)
		if n == tasks[0].forms[name].Normalization {
			counts = mean
		}
	}
	return out, counts, true
}

// groupLevels returns the mean of the tasks' chance levels and the macro
// accuracy of the best constant position; nil where a task has no choices.
func groupLevels(tasks []*tally) (chance, majority *float64) {
	var shares []float64 // by position: sum over the tasks of its share
	var sum float64
	for _, t := range tasks {
		f := t.any()
		if f == nil {
			return nil, nil
		}
		c, _ := t.levels()
		sum += *c
		for i, k := range f.Gold {
			if i == len(shares) {
				shares = append(shares, 0)
			}
			shares[i] += float64(k) / float64(len(f.choices))
		}
	}
	n := float64(len(tasks))
	var best float64
	for _, s := range shares {
		best = max(best, s)
	}
	chanceMean, majorityMean := sum/n, best/n
	return &chanceMean, &majorityMean
}

// suite makes the mean of the ten tasks in the standard's rendering, or nil
// unless each of them has exactly one score.
func suite(tasks []Task, groups []Group) *Suite {
	s := &Suite{Complete: true}
	var accs, chances, majorities []float64
	var ses []*float64
	for _, name := range SuiteTasks() {
		found := 0
		unit := func(score *Score, complete bool, chance, majority *float64) {
			if score == nil || chance == nil || majority == nil {
				return
			}
			found++
			s.Complete = s.Complete && complete
			accs, ses = append(accs, score.Accuracy), append(ses, score.SE)
			chances, majorities = append(chances, *chance), append(majorities, *majority)
		}
		for _, t := range tasks {
			if t.Task == name && t.Group == "" && t.Variant == "" {
				unit(t.Score, t.Complete, t.Chance, t.Majority)
			}
		}
		for _, g := range groups {
			if g.Group == name && g.Variant == "" {
				unit(g.Score, g.Complete, g.Chance, g.Majority)
			}
		}
		if found != 1 {
			return nil
		}
	}
	acc, _ := stat.Mean(accs)
	e := &Estimate{Accuracy: acc, SE: stat.MeanError(ses)}
	if s.Complete {
		s.Average = e
	} else {
		s.SubsetMean = e
	}
	s.Chance, _ = stat.Mean(chances)
	s.Majority, _ = stat.Mean(majorities)
	return s
}
