package outcome

import (
	"fmt"
	"math"
	"slices"

	"olmes"
	"olmes/record"
	"olmes/score"
)

// agree returns record.ErrDamaged where the stored metrics are not those of the
// instances: accuracies and counts of every task, and the scores and means made of
// them. Standard errors and whether a prediction follows from its choices are left
// to record.Verify, which computes everything again.
func (r *Run) agree() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: metrics.json does not say what the instances do: %s; `olmes verify` lists all", record.ErrDamaged, fmt.Sprintf(format, args...))
	}
	for _, t := range r.Tasks {
		at := slices.IndexFunc(r.Metrics.Tasks, func(m score.Task) bool { return m.Task == t.Name && m.Split == t.Split && m.Variant == t.Variant })
		if at < 0 {
			return wrong("it has no %s (%s)", olmes.Label(t.Name, t.Variant), t.Split)
		}
		stored := r.Metrics.Tasks[at]
		for f, form := range t.Forms {
			if f == "" {
				f = olmes.Formulation(olmes.KindScore)
			}
			if n := stored.Formulations[f].Instances; n != 0 && n != form.Len() {
				return wrong("%s %s has %d instances there, %d here", olmes.Label(t.Name, t.Variant), f, n, form.Len())
			}
			for _, norm := range olmes.Normalizations() {
				accuracy, known := form.Accuracy(norm)
				e, ok := stored.Formulations[f].Accuracy[norm]
				switch {
				case !ok && known > 0:
					return wrong("%s %s has no accuracy under %s", olmes.Label(t.Name, t.Variant), f, norm)
				case ok && (known == 0 || !near(e.Accuracy, accuracy) || e.N != 0 && e.N != known || e.Correct != nil && !near(float64(*e.Correct), accuracy*float64(known))):
					return wrong("%s %s under %s is %s there, %s by the instances", olmes.Label(t.Name, t.Variant), f, norm, share(e.Accuracy, e.N), share(accuracy, known))
				}
			}
		}
	}
	for _, m := range r.Metrics.Tasks {
		name := olmes.Label(m.Task, m.Variant)
		for f, form := range m.Formulations {
			if len(form.Accuracy) > 0 && !r.has(m, f) {
				return wrong("no instance of %s %s is here", name, f)
			}
		}
		if what := follows(m.Score, func(f olmes.Formulation) map[olmes.Normalization]score.Estimate { return m.Formulations[f].Accuracy }); what != "" {
			return wrong("%s: %s", name, what)
		}
	}
	for _, g := range r.Metrics.Groups {
		name := olmes.Label(g.Group, g.Variant)
		for f, form := range g.Formulations {
			for norm, e := range form.Macro {
				var sum float64
				n := 0
				for _, m := range r.Metrics.Tasks {
					if m.Group == g.Group && m.Split == g.Split && m.Variant == g.Variant {
						sum += m.Formulations[f].Accuracy[norm].Accuracy
						n++
					}
				}
				if n == 0 || !near(e.Accuracy, sum/float64(n)) {
					return wrong("the mean of %s %s under %s is %g there, its %d tasks give %g", name, f, norm, e.Accuracy, n, sum/float64(n))
				}
			}
		}
		if what := follows(g.Score, func(f olmes.Formulation) map[olmes.Normalization]score.Estimate { return g.Formulations[f].Macro }); what != "" {
			return wrong("%s: %s", name, what)
		}
	}
	return r.agreeSuite(wrong)
}

// has reports whether instances of a task in a formulation are there.
func (r *Run) has(m score.Task, f olmes.Formulation) bool {
	if f == olmes.Formulation(olmes.KindScore) {
		f = ""
	}
	return slices.ContainsFunc(r.Tasks, func(t *Task) bool {
		return t.Name == m.Task && t.Split == m.Split && t.Variant == m.Variant && t.Forms[f] != nil
	})
}

// follows says how a score is not one of the accuracies that it is made of, the
// larger one; "" where it is.
func follows(s *score.Score, of func(olmes.Formulation) map[olmes.Normalization]score.Estimate) string {
	if s == nil {
		return ""
	}
	e, ok := of(s.Formulation)[s.Normalization]
	if !ok || !near(e.Accuracy, s.Accuracy) {
		return fmt.Sprintf("its score is %g, its accuracy by %s %s is %g", s.Accuracy, s.Formulation, s.Normalization, e.Accuracy)
	}
	if mcf, ok := of(olmes.MCF)[olmes.None]; ok && s.Formulation == olmes.CF && mcf.Accuracy > s.Accuracy && !near(mcf.Accuracy, s.Accuracy) {
		return fmt.Sprintf("its score is %g by cf, by mcf it is %g", s.Accuracy, mcf.Accuracy)
	}
	return ""
}

// agreeSuite checks the mean of the ten tasks.
func (r *Run) agreeSuite(wrong func(string, ...any) error) error {
	s := r.Metrics.Suite
	if s == nil {
		return nil
	}
	var sum float64
	n := 0
	for _, name := range score.SuiteTasks() {
		for _, m := range r.Metrics.Tasks {
			if m.Task == name && m.Group == "" && m.Variant == "" && m.Score != nil {
				sum += m.Score.Accuracy
				n++
			}
		}
		for _, g := range r.Metrics.Groups {
			if g.Group == name && g.Variant == "" && g.Score != nil {
				sum += g.Score.Accuracy
				n++
			}
		}
	}
	for _, e := range []*score.Estimate{s.Average, s.SubsetMean} {
		if e != nil && (n == 0 || !near(e.Accuracy, sum/float64(n))) {
			return wrong("the mean of the tasks is %g there, their scores give %g", e.Accuracy, sum/float64(n))
		}
	}
	return nil
}

// share is an accuracy and of how many instances it is, 0 where that is not known.
func share(accuracy float64, n int) string {
	if n == 0 {
		return fmt.Sprintf("%g", accuracy)
	}
	return fmt.Sprintf("%g of %d", accuracy, n)
}

// near reports whether two shares are the same but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }
