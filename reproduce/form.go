package reproduce

import (
	"fmt"
	"math"
	"slices"

	"olmes/outcome"
)

// leastForm is how many values a form of their differences is read off.
const leastForm = 8

// formRest is the share of the differences that a simple rule may leave over.
const formRest = 0.02

// form reports that all differences follow one simple rule, as those between two
// ways of writing the same numbers do.
func form(all []value, d Distribution, noise float64) (Cause, bool) {
	if d.N < leastForm || d.Beyond*2 < d.N {
		return Cause{}, false
	}
	// Numbers that went through text or 32 bits agree to some digits only; what is
	// left over must be little beside what there was.
	fits := func(rule func(v *value) float64) bool {
		left := 0.0
		for i := range all {
			want := rule(&all[i])
			rest := math.Abs(all[i].b - want)
			if !(rest <= noise+1e-3*math.Abs(want)+1e-6) {
				return false
			}
			left += max(0, rest-noise)
		}
		return left <= formRest*d.MeanAbs*float64(d.N)
	}
	several := slices.ContainsFunc(all, func(v value) bool { return v.tokens > 1 })
	ratio := median(all, func(v *value) float64 { return v.b / v.a })
	perToken := median(all, func(v *value) float64 { return v.d() / math.Max(1, float64(v.tokens)) })
	for _, try := range []struct {
		code Code
		text string
		rule func(v *value) float64
		when bool
	}{
		{Scale, "B holds logarithms to the base 2", func(v *value) float64 { return v.a / math.Ln2 }, true},
		{Scale, "B holds logarithms to the base 10", func(v *value) float64 { return v.a / math.Ln10 }, true},
		{Scale, "A holds logarithms to the base 2", func(v *value) float64 { return v.a * math.Ln2 }, true},
		{Scale, "A holds logarithms to the base 10", func(v *value) float64 { return v.a * math.Ln10 }, true},
		{Scale, "B holds means over tokens, A sums", func(v *value) float64 { return v.a / float64(v.tokens) }, several},
		{Scale, "A holds means over tokens, B sums", func(v *value) float64 { return v.a * float64(v.tokens) }, several},
		{Scale, "B holds means over characters, A sums", func(v *value) float64 { return v.a / float64(v.chars) }, true},
		{Scale, "A holds means over characters, B sums", func(v *value) float64 { return v.a * float64(v.chars) }, true},
		{Scale, "B holds means over characters without the leading space, A sums", func(v *value) float64 { return v.a / float64(v.chars-1) }, true},
		{Scale, "A holds means over characters without the leading space, B sums", func(v *value) float64 { return v.a * float64(v.chars-1) }, true},
		{Scale, "B holds probabilities, A their logarithms", func(v *value) float64 { return math.Exp(v.a) }, true},
		{Scale, "A holds probabilities, B their logarithms", func(v *value) float64 { return math.Log(v.a) }, true},
		{Scale, "B holds A's with the other sign", func(v *value) float64 { return -v.a }, true},
		{Shift, fmt.Sprintf("all are moved by %+.3g nats a request", d.Median), func(v *value) float64 { return v.a + d.Median }, math.Abs(d.Median) > noise},
		{Shift, fmt.Sprintf("all are moved by %+.3g nats a token", perToken), func(v *value) float64 { return v.a + perToken*float64(v.tokens) }, several && math.Abs(perToken) > noise},
		{Scale, fmt.Sprintf("B's are %.4g times A's", ratio), func(v *value) float64 { return ratio * v.a }, math.Abs(ratio-1) > 0.01},
	} {
		if try.when && fits(try.rule) {
			return ownRecord(Cause{Code: try.code, Text: try.text, Certain: true}, all), true
		}
	}
	return Cause{}, false
}

// ownRecord names the run whose log-probabilities are not the sums over its own
// tokens, where one alone has such.
func ownRecord(cause Cause, all []value) Cause {
	odd := func(sum func(v *value) (sum, is float64)) bool {
		n := 0
		for i := range all {
			if s, v := sum(&all[i]); math.Abs(s-v) > 1e-3*math.Abs(v)+1e-3 { // false for NaN
				n++
			}
		}
		return 2*n >= len(all)
	}
	a := odd(func(v *value) (float64, float64) { return v.sumA, v.a })
	b := odd(func(v *value) (float64, float64) { return v.sumB, v.b })
	if a == b {
		return cause
	}
	cause.Run = "b"
	if a {
		cause.Run = "a"
	}
	cause.Text += fmt.Sprintf(" (%s's own tokens do not add up to them)", upper(cause.Run))
	return cause
}

// part is values whose differences follow one rule, and where they are.
type part struct {
	cause  Cause
	values []value
}

// exact finds the rules that the differences of single tasks, chunks or
// environments follow, where not all values follow one, and what is left.
func (c *comparison) exact(all []value, noise float64) (best []part, rest []value) {
	explained := 0
	for _, way := range []func(v *value) string{
		func(v *value) string { return v.p.name() },
		chunkOf("A", func(v *value) string { return v.chunkA }),
		chunkOf("B", func(v *value) string { return v.chunkB }),
		environmentOf("A", c.a, func(v *value) int32 { return v.envA }),
		environmentOf("B", c.b, func(v *value) int32 { return v.envB }),
	} {
		parts, left := exactBy(all, noise, way)
		n := 0
		for _, p := range parts {
			n += len(p.values)
		}
		if n > explained {
			explained, best, rest = n, parts, left
		}
	}
	if explained == 0 {
		return nil, all
	}
	return best, rest
}

func chunkOf(run string, of func(v *value) string) func(v *value) string {
	return func(v *value) string {
		if of(v) == "" {
			return ""
		}
		return fmt.Sprintf("chunk %.12s of %s", of(v), run)
	}
}

func environmentOf(run string, r *outcome.Run, of func(v *value) int32) func(v *value) string {
	return func(v *value) string {
		if len(r.Record.Provenance.Environments) < 2 {
			return ""
		}
		return fmt.Sprintf("environment %d of %s", of(v), run)
	}
}

// exactBy is exact for one way to group values; a group without a name is none.
func exactBy(all []value, noise float64, group func(v *value) string) (parts []part, rest []value) {
	var names []string
	by, beyond := map[string][]value{}, map[string]bool{}
	for i := range all {
		k := group(&all[i])
		if by[k] == nil {
			names = append(names, k)
		}
		by[k] = append(by[k], all[i])
		beyond[k] = beyond[k] || all[i].beyond
	}
	add := func(of ...string) bool {
		var values []value
		for _, k := range of {
			values = append(values, by[k]...)
		}
		cause, ok := form(values, distribution(values, noise), noise)
		if ok {
			cause.Text += ", only in " + some(of, 3)
			parts = append(parts, part{cause, values})
		}
		return ok
	}
	concerned := slices.DeleteFunc(slices.Clone(names), func(k string) bool { return !beyond[k] || k == "" })
	done := map[string]bool{}
	if len(concerned) < len(names) && add(concerned...) { // all values together are no group
		for _, k := range concerned {
			done[k] = true
		}
	} else if len(names) > 1 {
		for _, k := range concerned {
			done[k] = add(k)
		}
	}
	for _, k := range names {
		if !done[k] {
			rest = append(rest, by[k]...)
		}
	}
	return parts, rest
}

func median(all []value, of func(v *value) float64) float64 {
	x := make([]float64, len(all))
	for i := range all {
		x[i] = of(&all[i])
	}
	slices.Sort(x)
	return quantile(x, 0.5)
}
