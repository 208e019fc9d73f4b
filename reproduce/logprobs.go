package reproduce

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"olmes/outcome"
)

// value is one log-probability that both runs have.
type value struct {
	p            *pair
	x            outcome.Pair
	choice       int
	a, b         float64 // nats
	tokens       int
	chars        int
	chunkA       string
	chunkB       string
	envA, envB   int32
	beyond       bool
	largestToken float64 // difference of one token, nats; 0 where not known
	sumA, sumB   float64 // over the tokens, nats; NaN where these are not known
}

func (v *value) d() float64 { return v.b - v.a }

// logProbs asks, where the model was fed the same ids as far as is known, whether
// it gave the same log-probabilities.
func (c *comparison) logProbs() Stage {
	s := Stage{Name: LogProbs, Unit: "requests", Same: Unknown}
	noise, measured := c.requestNoise()
	var all, plain []value
	other := 0
	for _, p := range c.pairs {
		if !p.comparable {
			continue
		}
		p.eachText(func(x outcome.Pair, ka, kb, k int) {
			if p.sameIDs(ka, kb) == No || p.moved(ka, kb) {
				other++
				return
			}
			if v, ok := p.value(x, ka, kb, k); ok {
				all = append(all, v)
			}
			if v, ok := p.unconditional(x, ka, kb, k); ok {
				plain = append(plain, v)
			}
		})
	}
	if len(all) == 0 {
		s.Text = "no requests that were fed as the same ids to compare"
		if c.apart() {
			s.Text = "no requests to compare: " + noneShared
		}
		return s
	}
	d := distribution(all, noise)
	s.Differences = &d
	s.Compared, s.Different = d.N, d.N-d.Equal
	s.Unknown = other
	switch {
	case d.Equal == d.N:
		s.Same = Yes
		s.Text = fmt.Sprintf("the same to the last bit, all %s", plural(d.N, "request", "requests"))
	case measured && d.Beyond == 0:
		s.Same = Yes
		s.Text = fmt.Sprintf("the same but for rounding: %d of %s differ, by %s at most, within the noise of %s that the runs measured",
			d.N-d.Equal, plural(d.N, "request", "requests"), nats(d.Largest), nats(noise))
	default:
		s.Same = No
		s.Text = fmt.Sprintf("%d of %s differ, by %s on average and %s at most", d.N-d.Equal, plural(d.N, "request", "requests"), nats(d.MeanAbs), nats(d.Largest))
		if measured {
			s.Text += fmt.Sprintf("; %d by more than the noise of %s", d.Beyond, nats(noise))
		} else {
			s.Text += "; the runs have measured no noise to hold that against"
			c.doubt("how far rounding alone moves these log-probabilities neither run has measured; give a margin with --noise")
		}
		s.Causes = c.whyValues(all, d, noise)
	}
	if u := distribution(plain, noise); u.Beyond > 0 && d.Beyond == 0 && measured {
		s.Same = No
		s.Text += fmt.Sprintf("; of those after the short context alone %d of %d differ by more, by %s at most", u.Beyond, u.N, nats(u.Largest))
		if exact, ok := c.exactly(plain, u, noise); ok {
			for i := range exact {
				exact[i].Text = "after the short context alone " + exact[i].Text
			}
			s.Causes = append(s.Causes, exact...)
		} else if 2*u.Beyond >= u.N {
			s.Causes = append(s.Causes, unconditional(plain)...)
		} else {
			s.Causes = append(s.Causes, c.whyValues(plain, u, noise)...)
		}
	}
	if other > 0 {
		s.Text += fmt.Sprintf("; %s of other ids are left out", plural(other, "request", "requests"))
	}
	return s
}

// value pairs the log-probabilities of a choice, where both are there.
func (p *pair) value(x outcome.Pair, ka, kb, k int) (value, bool) {
	a, b := &p.a.Choice, &p.b.Choice
	v := value{p: p, x: x, choice: k, a: a.LogProb[ka], b: b.LogProb[kb], tokens: int(a.Tokens[ka]), chars: int(a.Chars[ka]),
		chunkA: p.a.Chunk[x.A], chunkB: p.b.Chunk[x.B], envA: p.a.Env[x.A], envB: p.b.Env[x.B], sumA: sum(a.TokenLogProb[ka]), sumB: sum(b.TokenLogProb[kb])}
	if la, lb := a.TokenLogProb[ka], b.TokenLogProb[kb]; len(la) == len(lb) {
		for i := range la {
			v.largestToken = max(v.largestToken, math.Abs(la[i]-lb[i]))
		}
	}
	return v, !math.IsNaN(v.a) && !math.IsNaN(v.b)
}

// sum of a request's tokens, NaN where there are none.
func sum(tokens []float64) float64 {
	if len(tokens) == 0 {
		return math.NaN()
	}
	total := 0.0
	for _, v := range tokens {
		total += v
	}
	return total
}

// unconditional is value for the second half of pmi.
func (p *pair) unconditional(x outcome.Pair, ka, kb, k int) (value, bool) {
	v, _ := p.value(x, ka, kb, k)
	v.sumA, v.sumB = math.NaN(), math.NaN()
	v.a, v.b = p.a.Choice.Unconditional[ka], p.b.Choice.Unconditional[kb]
	return v, !math.IsNaN(v.a) && !math.IsNaN(v.b)
}

// requestNoise is how far rounding may move a request's log-probability between
// the two runs: the sum of what each has measured, or what the user says.
func (c *comparison) requestNoise() (float64, bool) {
	if c.o.Noise > 0 {
		return c.o.Noise, true
	}
	sum, ok := 0.0, false
	for _, r := range []*outcome.Run{c.a, c.b} {
		if n := r.Record.Provenance.Noise; n != nil {
			sum, ok = sum+n.Largest, true
		}
	}
	return sum, ok
}

// distribution describes the differences of values and marks those beyond the
// noise.
func distribution(all []value, noise float64) Distribution {
	d := Distribution{N: len(all), Noise: noise}
	if d.N == 0 {
		return d
	}
	diffs, sizes := make([]float64, d.N), make([]float64, d.N)
	var sum, sumA, sumB float64
	for i := range all {
		v := &all[i]
		diffs[i], sizes[i] = v.d(), math.Abs(v.d())
		v.beyond = sizes[i] > noise
		if v.beyond {
			d.Beyond++
		}
		if v.a == v.b {
			d.Equal++
		}
		sum, sumA, sumB = sum+diffs[i], sumA+v.a, sumB+v.b
		d.MeanAbs += sizes[i] / float64(d.N)
	}
	n := float64(d.N)
	d.Mean = sum / n
	var squares, aa, bb, ab float64
	for i := range all {
		squares += (diffs[i] - d.Mean) * (diffs[i] - d.Mean)
		x, y := all[i].a-sumA/n, all[i].b-sumB/n
		aa, bb, ab = aa+x*x, bb+y*y, ab+x*y
	}
	if d.N > 1 {
		d.SD = math.Sqrt(squares / (n - 1))
		if aa > 0 && bb > 0 {
			d.Correlation = ab / math.Sqrt(aa*bb)
		}
	}
	slices.Sort(diffs)
	slices.Sort(sizes)
	d.Median, d.MedianAbs = quantile(diffs, 0.5), quantile(sizes, 0.5)
	d.P90, d.P99, d.Largest = quantile(sizes, 0.9), quantile(sizes, 0.99), sizes[d.N-1]
	return d
}

// quantile of a sorted list, by linear interpolation between its elements.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// nats formats an amount of log-probability.
func nats(v float64) string { return fmt.Sprintf("%.2g nats", v) }

// whyValues names why log-probabilities of the same ids differ: where the
// differences are, what form they have, and what the records say of weights and
// arithmetic.
func (c *comparison) whyValues(all []value, d Distribution, noise float64) []Cause {
	causes, rest := c.rules(all, d, noise)
	if len(causes) > 0 {
		if d = distribution(rest, noise); d.Beyond == 0 {
			return causes
		}
	}
	cause, ok := c.concentrated(rest)
	if !ok {
		cause = c.accounted(rest, d)
	}
	return append(causes, described(cause, rest, d)...)
}

// exactly is whyValues where simple rules explain all that is beyond the noise.
func (c *comparison) exactly(all []value, d Distribution, noise float64) ([]Cause, bool) {
	causes, rest := c.rules(all, d, noise)
	return causes, len(causes) > 0 && distribution(rest, noise).Beyond == 0
}

// rules names the simple rules that all differences follow, or those of parts, and
// returns what follows none.
func (c *comparison) rules(all []value, d Distribution, noise float64) (causes []Cause, rest []value) {
	if cause, ok := form(all, d, noise); ok {
		return described(cause, all, d), nil
	}
	parts, rest := c.exact(all, noise)
	for _, p := range parts {
		causes = append(causes, described(p.cause, p.values, distribution(p.values, noise))...)
	}
	return causes, rest
}

// described adds to a cause what its differences are like and where they are.
func described(cause Cause, values []value, d Distribution) []Cause {
	cause.Stage = LogProbs
	cause.Text += fmt.Sprintf(": differences of mean %+.2g, standard deviation %.2g, largest %.2g nats", d.Mean, d.SD, d.Largest)
	return where(cause, values)
}

// where adds to a cause the requests beyond the noise, the largest differences of
// each task first.
func where(cause Cause, all []value) []Cause {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(x, y value) int { return cmp.Compare(math.Abs(y.d()), math.Abs(x.d())) })
	at := map[*pair][]At{}
	var order []*pair
	for _, v := range all {
		if at[v.p] == nil {
			order = append(order, v.p)
			at[v.p] = []At{}
		}
	}
	for _, v := range sorted {
		if v.beyond {
			choice := v.choice
			at[v.p] = append(at[v.p], v.p.at(v.x.A, &choice, "%.4f in A, %.4f in B", v.a, v.b))
		}
	}
	var causes []Cause
	for _, p := range order {
		causes = found(causes, cause, p, at[p]...)
	}
	return causes
}

// concentrated reports that only what one machine or one chunk computed differs
// beyond the noise. Where that is so in both runs, neither is named.
func (c *comparison) concentrated(all []value) (Cause, bool) {
	const mostly = 0.5 // of what is there differs
	both := func(code Code, a, b string) (Cause, bool) {
		cause := Cause{Code: code, Certain: true}
		switch {
		case a != "" && b != "":
			cause.Text = fmt.Sprintf("only what %s and %s hold differs", a, b)
		case a != "":
			cause.Run, cause.Text = "a", fmt.Sprintf("only what %s holds differs", a)
		case b != "":
			cause.Run, cause.Text = "b", fmt.Sprintf("only what %s holds differs", b)
		}
		return cause, cause.Text != ""
	}
	environment := func(run string, r *outcome.Run, of func(v *value) int32) string {
		at, groups, share := concentration(all, of)
		if groups < 2 || share < mostly {
			return ""
		}
		text := fmt.Sprintf("environment %d of %s", at, run)
		if envs := r.Record.Provenance.Environments; int(at) < len(envs) {
			e := envs[at]
			text += " (" + words(e.OS, e.CPU, e.Engine, e.EngineVersion, e.EngineVariant, e.Library, e.Accelerator) + ")"
		}
		return text
	}
	if cause, ok := both(OneEnvironment, environment("A", c.a, func(v *value) int32 { return v.envA }), environment("B", c.b, func(v *value) int32 { return v.envB })); ok {
		return cause, true
	}
	chunk := func(run string, of func(v *value) string) string {
		at, groups, share := concentration(all, of)
		if groups <= 2 || share < mostly || at == "" {
			return ""
		}
		return fmt.Sprintf("chunk %.12s of %s (of %d)", at, run, groups)
	}
	cause, ok := both(OneChunk, chunk("A", func(v *value) string { return v.chunkA }), chunk("B", func(v *value) string { return v.chunkB }))
	cause.Run = "" // the other run may just not say what it computed together
	return cause, ok
}

func words(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// concentration returns the one group that all values beyond the noise are in, how
// many groups there are, and which share of that group is beyond; share 0 where
// they are in several.
func concentration[K comparable](all []value, group func(v *value) K) (at K, groups int, share float64) {
	total, beyond := map[K]int{}, map[K]int{}
	for i := range all {
		k := group(&all[i])
		total[k]++
		if all[i].beyond {
			beyond[k]++
		}
	}
	if len(beyond) != 1 {
		return at, len(total), 0
	}
	for k, n := range beyond {
		at, share = k, float64(n)/float64(total[k])
	}
	return at, len(total), share
}

// unconditional names differences that only the requests without the question have.
func unconditional(plain []value) []Cause {
	return where(Cause{Stage: LogProbs, Code: Unconditional, Text: "the log-probabilities after the short context of pmi differ and those after the question do not, so that context is not the same"}, plain)
}
