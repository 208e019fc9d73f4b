package reproduce

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"olmes"
	"olmes/stat"
)

// z95 is the two-sided 95% quantile of the normal distribution.
const z95 = 1.96

// standardTasks is how many scores the average of the standard is of.
const standardTasks = 10

// scores asks whether the accuracies agree within the error of their paired
// difference.
func (c *comparison) scores() ([]Score, Stage) {
	s := Stage{Name: Scores, Unit: "scores", Same: Unknown}
	out := []Score{}
	groups := map[string][]string{} // tasks by group
	var order []string              // groups and single tasks, in A's order
	for _, t := range c.a.Tasks {
		key := t.Group
		if key == "" {
			key = t.Name
		}
		key = olmes.Label(key, t.Variant)
		if !slices.Contains(order, key) {
			order = append(order, key)
		}
		if member := name(t, ""); !slices.Contains(groups[key], member) {
			groups[key] = append(groups[key], member)
		}
	}
	var best []Score
	for _, key := range order {
		made, b := c.unitScores(key, groups[key])
		out = append(out, made...)
		if b != nil {
			best = append(best, *b)
		}
	}
	if a, ok := average(best); ok && c.a.Metrics.Suite != nil && c.b.Metrics.Suite != nil {
		out = append(out, a)
	}
	if len(out) == 0 && !c.apart() {
		out = c.aggregates()
	}
	no, unknown := 0, 0
	for i := range out {
		out[i].Agree = agrees(out[i])
		switch out[i].Agree {
		case No:
			no++
		case Unknown:
			unknown++
		}
		s.Compared++
		if out[i].Difference != 0 {
			s.Different++
		}
	}
	s.Unknown = unknown
	s.Same = outcomeOf(no, unknown, s.Compared)
	switch {
	case c.apart():
		s.Text = "no scores to compare: " + noneShared
	case s.Compared == 0:
		s.Text = "no scores to compare"
	case s.Different == 0:
		s.Text = fmt.Sprintf("the same, all %s", plural(s.Compared, "accuracy", "accuracies"))
	case no == 0 && unknown == 0:
		s.Text = fmt.Sprintf("%d of %s differ, none by more than 1.96 standard errors of the paired difference", s.Different, plural(s.Compared, "accuracy", "accuracies"))
	case no > 0:
		s.Text = fmt.Sprintf("%d of %s differ, %d by more than 1.96 standard errors of the paired difference", s.Different, plural(s.Compared, "accuracy", "accuracies"), no)
	default:
		s.Text = fmt.Sprintf("%d of %s differ; of %d it cannot be told whether within error", s.Different, plural(s.Compared, "accuracy", "accuracies"), unknown)
	}
	return out, s
}

// unitScores compares a task, or the tasks of a group by their plain mean: each
// formulation, and each run's better one where both have a score.
func (c *comparison) unitScores(key string, members []string) (out []Score, best *Score) {
	kind := "task"
	if len(members) > 1 || members[0] != key {
		kind = "group"
	}
	var variant, other, plain string
	for _, p := range c.pairs {
		if slices.Contains(members, name(p.ta, "")) {
			variant, other, plain = p.ta.Variant, p.tb.Variant, p.ta.Name
			if kind == "group" {
				plain = p.ta.Group
			}
		}
	}
	for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
		if score, ok := c.paired(members, f, f); ok {
			score.Kind, score.Name, score.Variant = kind, plain, variant
			out = append(out, score)
		}
	}
	fa, okA := c.a.Better(plain, variant)
	fb, okB := c.b.Better(plain, other)
	if !okA || !okB {
		return out, nil
	}
	if fa != fb && c.uneven(members, plain) {
		c.doubt("%s: the better formulation is %s in A and %s in B, by instances or formulations that one run alone has, so these scores are not compared", olmes.Label(plain, variant), fa, fb)
		return out, nil
	}
	score, ok := c.paired(members, fa, fb)
	if !ok {
		return out, nil
	}
	score.Kind, score.Name, score.Variant = kind, plain, variant
	if fa != fb {
		out = append(out, score)
	}
	return out, &score
}

// uneven reports whether a run has instances, formulations or tasks of a group
// that the other has not.
func (c *comparison) uneven(members []string, group string) bool {
	return slices.ContainsFunc(c.pairs, func(p *pair) bool {
		return slices.Contains(members, name(p.ta, "")) && len(p.onlyA)+len(p.onlyB) > 0
	}) || slices.ContainsFunc(slices.Concat(c.onlyA, c.onlyB), func(o lone) bool {
		return slices.Contains(members, name(o.task, "")) || o.task.Group == group
	})
}

// paired compares formulation fa of A with fb of B over tasks, by the plain mean
// over them.
func (c *comparison) paired(members []string, fa, fb olmes.Formulation) (Score, bool) {
	var strata []stat.Pairs
	var a, b float64
	n := 0
	for _, m := range members {
		pa, pb := c.pairOf(m, fa), c.pairOf(m, fb)
		if pa == nil || pb == nil {
			continue
		}
		s := crossed(pa, pb)
		if s.N() == 0 {
			continue
		}
		strata = append(strata, s)
		n += s.N()
		a += float64(s.Both+s.OnlyA) / float64(s.N())
		b += float64(s.Both+s.OnlyB) / float64(s.N())
	}
	d, se, ok := stat.MeanDifference(strata)
	if !ok {
		return Score{}, false
	}
	k := float64(len(strata))
	return Score{FormulationA: fa, FormulationB: fb, N: n, A: a / k, B: b / k, Difference: d, SE: se}, true
}

func (c *comparison) pairOf(member string, f olmes.Formulation) *pair {
	for _, p := range c.pairs {
		if p.comparable && p.formulation == f && name(p.ta, "") == member {
			return p
		}
	}
	return nil
}

// crossed counts the outcomes of the instances that A decides in one formulation
// and B in another, or the same.
func crossed(pa, pb *pair) (s stat.Pairs) {
	ka, kb := normalization(pa.a.Normalization), normalization(pb.b.Normalization)
	if ka < 0 || kb < 0 {
		return s
	}
	for _, x := range pa.both {
		j := x.B
		if pa != pb {
			var ok bool
			if j, ok = pb.b.Index(pa.b.DocID[x.B]); !ok {
				continue
			}
		}
		right, okA := pa.a.Right(x.A, pa.a.Normalization)
		other, okB := pb.b.Right(j, pb.b.Normalization)
		if okA && okB {
			s.Add(right, other)
		}
	}
	return s
}

// average is the plain mean of ten scores.
func average(scores []Score) (Score, bool) {
	if len(scores) != standardTasks {
		return Score{}, false
	}
	out := Score{Kind: "average", Name: "average", FormulationA: "best", FormulationB: "best"}
	ses := make([]*float64, len(scores))
	for i, s := range scores {
		if s.Variant != "" {
			return Score{}, false
		}
		out.N += s.N
		out.A += s.A / standardTasks
		out.B += s.B / standardTasks
		out.Difference += s.Difference / standardTasks
		ses[i] = s.SE
	}
	out.SE = stat.MeanError(ses)
	return out, true
}

// agrees says whether a difference is within error.
func agrees(s Score) Answer {
	switch {
	case s.Difference == 0:
		return Yes
	case s.SE == nil:
		return Unknown
	case math.Abs(s.Difference) <= z95**s.SE:
		return Yes
	}
	return No
}

// aggregates compares the metrics of runs one of which has no instances. Without
// pairs the errors are taken to be independent, which is too wide for two runs of
// one model.
func (c *comparison) aggregates() []Score {
	out := []Score{}
	for _, t := range c.a.Metrics.Tasks {
		for _, u := range c.b.Metrics.Tasks {
			if u.Task != t.Task || u.Variant != t.Variant {
				continue
			}
			for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
				x, y := t.Formulations[f], u.Formulations[f]
				norm := x.Normalization
				if norm == "" {
					norm = y.Normalization
				}
				a, okA := x.Accuracy[norm]
				b, okB := y.Accuracy[norm]
				if !okA || !okB {
					continue
				}
				s := Score{Kind: "task", Name: t.Task, Variant: t.Variant, FormulationA: f, FormulationB: f, N: min(a.N, b.N), A: a.Accuracy, B: b.Accuracy, Difference: b.Accuracy - a.Accuracy}
				if a.SE != nil && b.SE != nil {
					e := math.Hypot(*a.SE, *b.SE)
					s.SE = &e
				}
				out = append(out, s)
			}
		}
	}
	if len(out) > 0 {
		c.doubt("without the instances of both runs no difference is paired: its error is that of independent runs, which is too wide")
	}
	return out
}

// verdict says the outcome in one sentence.
func verdict(r *Report) string {
	stages := map[StageName]*Stage{}
	for i := range r.Stages {
		stages[r.Stages[i].Name] = &r.Stages[i]
	}
	same := true
	for _, n := range []StageName{Instances, Requests, IDs, LogProbs, Decisions} {
		same = same && stages[n].Same == Yes
	}
	if d := stages[LogProbs].Differences; same && r.First == nil && d != nil && d.Equal == d.N {
		return "The runs are the same: every instance, request, id, log-probability and decision."
	}
	if same && r.Agree == Yes && r.First == nil {
		return "The runs are the same but for rounding: every instance, request, id and decision is equal, and no log-probability differs by more than the measured noise."
	}
	text := ""
	switch largest := largestScore(r.Scores); {
	case len(r.Scores) == 0 && strings.HasSuffix(stages[Scores].Text, noneShared):
		text = "There are no scores to compare: " + noneShared
	case len(r.Scores) == 0:
		text = "There are no scores to compare"
	case stages[Scores].Different == 0:
		text = "The scores are the same"
	case r.Agree == Yes:
		text = fmt.Sprintf("The scores agree within error (largest difference: %s)", scoreText(largest))
	case r.Agree == No:
		text = fmt.Sprintf("The scores do not agree (largest difference beyond error: %s)", scoreText(largest))
	default:
		text = fmt.Sprintf("Whether the scores agree within error cannot be told (largest difference: %s)", scoreText(largest))
	}
	if n := len(r.Flips); n > 0 {
		near, unknown := 0, 0
		for _, f := range r.Flips {
			switch f.NearTie {
			case Yes:
				near++
			case Unknown:
				unknown++
			}
		}
		text += fmt.Sprintf("; %d of %s flipped", n, plural(stages[Decisions].Compared, "decision", "decisions"))
		switch {
		case unknown == n:
			text += ", near-ties or not is not known"
		case near == n:
			text += ", every one a near-tie"
		default:
			text += fmt.Sprintf(", %d of them near-ties", near)
		}
	} else if stages[Decisions].Compared > 0 {
		text += "; no decision flipped"
	}
	switch {
	case r.First != nil && r.First.Certain:
		text += fmt.Sprintf("; first cause: %s (%s)", r.First.Code, r.First.Text)
	case r.First != nil:
		text += fmt.Sprintf("; first cause, inferred: %s (%s)", r.First.Code, r.First.Text)
	default:
		text += "; no cause was found in what could be compared"
	}
	var further []string
	for _, s := range r.Stages {
		for _, c := range s.Causes {
			if code := string(c.Code); code != string(r.First.Code) && !slices.Contains(further, code) {
				further = append(further, code)
			}
		}
	}
	if len(further) > 0 {
		text += "; further ones: " + strings.Join(further, ", ")
	}
	if r.Models != nil {
		text = "The runs are of different models. " + text
	}
	return text + "."
}

// largestScore is the score with the largest difference, of those beyond error
// where there are any.
func largestScore(scores []Score) Score {
	var out Score
	for _, s := range scores {
		beyond, was := s.Agree == No, out.Agree == No
		if beyond && !was || beyond == was && math.Abs(s.Difference) > math.Abs(out.Difference) {
			out = s
		}
	}
	return out
}

func scoreText(s Score) string {
	what := olmes.Label(s.Name, s.Variant)
	if s.FormulationA == s.FormulationB && s.FormulationA != "best" {
		what += " " + string(s.FormulationA)
	}
	text := fmt.Sprintf("%+.2f points on %s", 100*s.Difference, what)
	if s.SE != nil {
		text += fmt.Sprintf(", standard error %.2f", 100**s.SE)
	}
	return text
}
