package compare

import (
	"fmt"
	"strings"

	"olmes/stat"
)

// Few is the number of instances below which an interval is held against the
// effect, and FewClusters that of clusters below which their error is too small.
const (
	Few         = 100
	FewClusters = 50
)

// warn adds what must be known beside a row's numbers.
func (s *Set) warn(row *Row, i, j int, u, other unit) {
	say := func(format string, args ...any) { row.Warnings = append(row.Warnings, fmt.Sprintf(format, args...)) }
	a, b := s.sides[i], s.sides[j]
	c := row.Comparisons[0]
	if c.View != s.options.View {
		say("no score to compare (%s), so %s against %s", s.options.View, strings.ToUpper(string(c.A.Formulation)), strings.ToUpper(string(c.B.Formulation)))
	}
	if c.N < Few || c.Interval == nil {
		switch {
		case c.Interval == nil && c.N == 0: // totals of which not even the number is known
			say("%s", c.noInterval())
		case c.Interval == nil:
			say("n = %d: %s", c.N, c.noInterval())
		case c.Interval.High-c.Interval.Low > max(c.Difference, -c.Difference):
			say("n = %d: interval wider than the effect", c.N)
		default:
			say("n = %d: few instances", c.N)
		}
	}
	if c.Pairs != nil && c.Pairs.OnlyA+c.Pairs.OnlyB == 0 {
		say("no instance is right in one run only: the two cannot be told apart by it")
	}
	if c.Pairs == nil && u == other && a.own[u] != nil {
		say("no instances are shared: the difference is of totals, and its error larger than of the same instances")
	}
	if u != other {
		say("split %s against %s: nothing can be paired", u.split, other.split)
	}
	if c.Clustered != nil && c.Clustered.Shared != "" && c.Clustered.Clusters < FewClusters {
		say("%d clusters: their standard error is too small", c.Clustered.Clusters)
	}
	if c.View == Better && c.A.Formulation != c.B.Formulation {
		text := fmt.Sprintf("%s counts by %s, %s by %s: not one scale", a.model.Label, strings.ToUpper(string(c.A.Formulation)), b.model.Label, strings.ToUpper(string(c.B.Formulation)))
		for _, f := range row.Comparisons[1:] {
			text += fmt.Sprintf("; both by %s: %+.1f", strings.ToUpper(string(f.View)), 100*f.Difference)
		}
		say("%s", text)
	}
	for _, side := range []struct {
		sd *side
		u  unit
	}{{a, u}, {b, other}} {
		if o := side.sd.own[side.u]; c.View == Better && o.nearNoise {
			say("%s: %s is better than the other formulation by less than its noise", side.sd.model.Label, strings.ToUpper(string(o.better)))
		}
	}
	if atChance(c.A, a.own[u].chance) && atChance(c.B, b.own[other].chance) {
		say("neither is above chance")
	}
	if c.Near != nil && c.Near.Low < 0 && c.Near.High > 0 && c.Difference != 0 {
		say("near-ties alone may turn the difference's sign: %+.1f to %+.1f", 100*c.Near.Low, 100*c.Near.High)
	}
}

// atChance reports whether guessing may well score as high.
func atChance(s Score, chance *float64) bool {
	if chance == nil || s.SE == nil {
		return false
	}
	iv := stat.Normal(s.Accuracy, s.SE, stat.Level)
	return s.Accuracy <= *chance || iv != nil && iv.Low <= *chance
}
