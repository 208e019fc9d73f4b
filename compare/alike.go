package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"olmes/stat"
)

// alike says that the outcomes of a pair fell alike within every stratum: no
// instance that one run alone has right, or all of them. There is no error to
// estimate then, but the share of instances that fall otherwise has an exact upper
// bound, and it bounds the difference.
type alike struct {
	// draws is the number of independent draws that the bound rests on: with n_h
	// instances (or clusters) in stratum h of weight w_h the smallest n_h/w_h. None
	// of them fell otherwise, which has the probability
	// Π (1 − q_h)^n_h <= (1 − Σ w_h q_h)^draws.
	draws int
	// ratio is the largest cluster over the mean one: q is a share of clusters, and
	// the share of instances at most ratio·q. 1 without clusters.
	ratio float64
	// up and down are how far an instance that falls otherwise may move the
	// difference.
	up, down float64
}

// fallAlike returns how outcomes fell alike, nil where they did not.
func fallAlike(strata []stratum, sc *scratch) *alike {
	out := &alike{draws: math.MaxInt, ratio: 1}
	for _, st := range strata {
		n := st.pairs.N()
		switch n {
		case st.pairs.Both + st.pairs.None:
			out.up, out.down = max(out.up, 1), max(out.down, 1)
		case st.pairs.OnlyA:
			out.up = 2
		case st.pairs.OnlyB:
			out.down = 2
		default:
			return nil
		}
		if c := st.table.clusters; c != nil && len(c.size) > 0 {
			k := st.difference(sc).Clusters
			out.ratio = max(out.ratio, float64(slices.Max(c.size))*float64(k)/float64(n))
			n = k
		}
		out.draws = min(out.draws, n*len(strata))
	}
	return out
}

// mean is how the plain mean over rows fell.
func (a *alike) mean(b *alike) *alike {
	if a == nil || b == nil {
		return nil
	}
	return &alike{min(a.draws, b.draws), max(a.ratio, b.ratio), max(a.up, b.up), max(a.down, b.down)}
}

// interval is that of a difference, by Clopper and Pearson's one-sided bound for no
// success in so many draws; nil for fewer than two.
func (a *alike) interval(difference, alpha float64) *stat.Interval {
	if a == nil || a.draws < 2 {
		return nil
	}
	share := min(a.ratio*(1-math.Pow(alpha, 1/float64(a.draws))), 1)
	return &stat.Interval{Low: max(difference-a.down*share, -1), High: min(difference+a.up*share, 1)}
}

// noInterval says why a comparison has no interval.
func (c *Comparison) noInterval() string {
	subject := "subject"
	if c.Strata == 1 {
		subject = "task"
	}
	switch {
	case c.Pairs == nil && (c.A.SE == nil || c.B.SE == nil):
		return "no interval: of one run there are totals without a standard error"
	case c.Pairs == nil:
		return "no interval: in each run all instances fell alike, so that the errors of the totals are 0"
	case c.N < 2:
		return "too few for an interval"
	case c.Clustered != nil && c.Clustered.Shared != "" && c.Strata == 1:
		return fmt.Sprintf("no interval: all are about one %s, and how texts differ cannot be told from one", c.Clustered.Shared)
	case c.Clustered != nil && c.Clustered.Shared != "":
		return "no interval: a " + subject + " has instances of one text alone"
	}
	return "no interval: a " + subject + " has one instance alone"
}

// noAverage says why an average has no interval: tasks whose difference has no
// error.
func (s *Set) noAverage(rows []Row, at []int, v View) string {
	var names []string
	for _, k := range at {
		i := slices.IndexFunc(rows[k].Comparisons, func(c Comparison) bool { return c.View == v })
		if rows[k].Comparisons[i].error() == nil {
			names = append(names, rows[k].Task)
		}
	}
	if len(names) == 0 {
		return "no interval: the errors of all tasks are 0"
	}
	return fmt.Sprintf("no interval: no error is known of %s", strings.Join(names, ", "))
}

// error is the standard error that counts.
func (c *Comparison) error() *float64 {
	if c.Clustered != nil && c.Clustered.Shared != "" {
		return c.Clustered.SE
	}
	return c.SE
}
