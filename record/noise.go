package record

import (
	"fmt"
	"math"

	"olmes"
	"olmes/score"
)

// Noise is how far other schedules of the same requests moved the
// log-probabilities of a run's own: a few instances were computed again, alone,
// in another order and beside others. It is measured, so it is provenance and no
// result.
type Noise struct {
	Instances int `json:"instances"` // computed again
	Requests  int `json:"requests"`  // log-probabilities of requests compared, one a request and schedule
	Values    int `json:"values"`    // log-probabilities of tokens compared
	// Largest and Mean are absolute differences of a request's log-probability
	// (the sum over its continuation), ValueLargest and ValueMean those of a
	// token's, all in nats.
	Largest      float64 `json:"largest"`
	Mean         float64 `json:"mean"`
	ValueLargest float64 `json:"value_largest"`
	ValueMean    float64 `json:"value_mean"`
	Decisions    int     `json:"decisions"` // under the normalization in force, one an instance and schedule
	Flipped      int     `json:"flipped"`   // of them with another answer
	// Margins says how far the difference between two choices of an instance
	// moved, for each formulation and normalization in force.
	Margins []MarginNoise `json:"margins,omitempty"`
	Bound   float64       `json:"bound"`  // nats; a token's difference above it would have stopped the run
	Tokens  int64         `json:"tokens"` // computed for the measurement, in no count of Tokens
}

// MarginNoise is the noise of the difference between two choices' normalized
// log-probabilities.
type MarginNoise struct {
	Formulation   olmes.Formulation   `json:"formulation"`
	Normalization olmes.Normalization `json:"normalization"`
	Largest       float64             `json:"largest"`   // in the unit of the normalization
	Instances     int                 `json:"instances"` // one an instance and schedule
}

// Margin returns the largest change of a margin under a formulation and
// normalization, and whether it was measured.
func (n *Noise) Margin(f olmes.Formulation, norm olmes.Normalization) (float64, bool) {
	if n == nil {
		return 0, false
	}
	for _, m := range n.Margins {
		if m.Formulation == f && m.Normalization == norm {
			return m.Largest, true
		}
	}
	return 0, false
}

// wrong returns what of n cannot have been measured: counts and differences below
// zero or not finite, means above the largest value, differences above the bound,
// values without anything compared.
func (n *Noise) wrong() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, c := range []struct {
		name  string
		count int64
	}{
		{"instances", int64(n.Instances)}, {"requests", int64(n.Requests)}, {"values", int64(n.Values)},
		{"decisions", int64(n.Decisions)}, {"flipped", int64(n.Flipped)}, {"tokens", n.Tokens},
	} {
		if c.count < 0 {
			add("%s is %d", c.name, c.count)
		}
	}
	if n.Flipped > n.Decisions {
		add("%d of %d decisions flipped", n.Flipped, n.Decisions)
	}
	finite := func(name string, value float64) bool {
		ok := value >= 0 && !math.IsInf(value, 1)
		if !ok {
			add("%s is %g", name, value)
		}
		return ok
	}
	bounded := finite("bound", n.Bound)
	for _, d := range []struct {
		name, unit    string
		largest, mean float64
		of            int
	}{{"", "requests", n.Largest, n.Mean, n.Requests}, {"value_", "values", n.ValueLargest, n.ValueMean, n.Values}} {
		largest, mean := finite(d.name+"largest", d.largest), finite(d.name+"mean", d.mean)
		switch {
		case !largest || !mean:
		case d.of == 0 && d.largest > 0:
			add("%slargest is %g, of 0 %s", d.name, d.largest, d.unit)
		case !atMost(d.mean, d.largest):
			add("%smean is %g, %slargest %g", d.name, d.mean, d.name, d.largest)
		case d.name != "" && bounded && !atMost(d.largest, n.Bound):
			add("%slargest is %g, above the bound of %g at which the run would have stopped", d.name, d.largest, n.Bound)
		}
	}
	// A request's difference is the sum of those of its tokens.
	if n.ValueLargest >= 0 && n.Values >= 0 && !atMost(n.Largest, n.ValueLargest*float64(n.Values)) {
		add("largest is %g, where %d tokens moved by %g at most", n.Largest, n.Values, n.ValueLargest)
	}
	for _, m := range n.Margins {
		name := fmt.Sprintf("the margin of %s %s: ", m.Formulation, m.Normalization)
		if m.Instances < 0 {
			add("%sinstances is %d", name, m.Instances)
		}
		if finite(name+"largest", m.Largest) && m.Instances == 0 && m.Largest > 0 {
			add("%slargest is %g, of 0 instances", name, m.Largest)
		}
	}
	return out
}

// atMost compares but for rounding.
func atMost(a, b float64) bool { return a <= b+1e-9*(1+math.Abs(b)) }

func (n Noise) clone() *Noise {
	n.Margins = append([]MarginNoise(nil), n.Margins...)
	return &n
}

// Merge takes in another measurement: counts add up, the larger of largest
// values stays, means are over all.
func (n *Noise) Merge(o Noise) {
	n.Mean = mean(n.Mean, n.Requests, o.Mean, o.Requests)
	n.ValueMean = mean(n.ValueMean, n.Values, o.ValueMean, o.Values)
	n.Largest, n.ValueLargest = max(n.Largest, o.Largest), max(n.ValueLargest, o.ValueLargest)
	n.Instances += o.Instances
	n.Requests += o.Requests
	n.Values += o.Values
	n.Decisions += o.Decisions
	n.Flipped += o.Flipped
	n.Bound = max(n.Bound, o.Bound)
	n.Tokens += o.Tokens
	margins := append([]MarginNoise(nil), n.Margins...)
next:
	for _, m := range o.Margins {
		for i := range margins {
			if k := &margins[i]; k.Formulation == m.Formulation && k.Normalization == m.Normalization {
				k.Largest = max(k.Largest, m.Largest)
				k.Instances += m.Instances
				continue next
			}
		}
		margins = append(margins, m)
	}
	n.Margins = margins
}

func mean(a float64, n int, b float64, m int) float64 {
	if n+m == 0 {
		return 0
	}
	return (a*float64(n) + b*float64(m)) / float64(n+m)
}

// NearTies finds and counts the near-ties of a complete record by its measured
// noise, or by noise where that is above 0 (in the unit of each normalization).
// Both are nil where there is neither, or no predictions.
func (r *Record) NearTies(noise float64) ([]score.NearTie, []score.NearTies, error) {
	margin := r.Provenance.Noise.Margin
	if noise > 0 {
		margin = func(olmes.Formulation, olmes.Normalization) (float64, bool) { return noise, true }
	}
	if noise <= 0 && r.Provenance.Noise == nil || !r.HasPredictions() {
		return nil, nil, nil
	}
	return score.FindNearTies(r.Identity.Facts(), r.Predictions(), margin)
}
