package llamacpp

import "math"

// e^x is computed as 2^(k/expSteps) times a short polynomial, k being the
// nearest whole number of steps.
const (
	expSteps = 2048
	expShift = 11 // log2 of expSteps
	// Adding and taking off 1.5 * 2^52 rounds to the nearest whole number,
	// which then stands in the low bits.
	expRound = 3 << 51
	// Within +-expMost neither e^x nor the sum of 2^20 of them leaves the range
	// of float64, so no maximum needs to be taken off first.
	expMost = 600
)

var expTable = func() (t [expSteps]uint64) {
	for i := range t {
		t[i] = math.Float64bits(math.Exp2(float64(i) / expSteps))
	}
	return t
}()

// logSumExp returns the natural logarithm of the sum of e^x, within 1e-11. It
// is NaN where an x is, and where all are -Inf. The order of the additions
// depends on len(x) alone.
func logSumExp(x []float32) float64 {
	// Four sums, so that one addition need not wait for the one before.
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		y := x[i : i+4 : i+4]
		a, b, c, d := y[0], y[1], y[2], y[3]
		if !(moderate(a) && moderate(b) && moderate(c) && moderate(d)) {
			return logSumExpAny(x)
		}
		s0 += exp(float64(a))
		s1 += exp(float64(b))
		s2 += exp(float64(c))
		s3 += exp(float64(d))
	}
	for ; i < len(x); i++ {
		if !moderate(x[i]) {
			return logSumExpAny(x)
		}
		s0 += exp(float64(x[i]))
	}
	if s := (s0 + s1) + (s2 + s3); s > 0 {
		return math.Log(s)
	}
	return math.NaN() // no x at all
}

// moderate reports whether exp is good for v; it is false for NaN.
func moderate(v float32) bool { return v >= -expMost && v <= expMost }

// exp returns e^x for a moderate x with a relative error below 1e-12.
func exp(x float64) float64 {
	t := x*(expSteps/math.Ln2) + expRound
	k := math.Float64bits(t)
	r := x - (t-expRound)*(math.Ln2/expSteps) // |r| <= ln 2 / 4096
	// The power of two of 2^(k/expSteps) is k>>expShift. It is added to the bits
	// above the fraction; what k has beyond it falls off at the top.
	return math.Float64frombits(expTable[k%expSteps]+k>>expShift<<52) * (1 + r*(1+r*0.5))
}

// logSumExpAny is logSumExp for any x, and slower.
func logSumExpAny(x []float32) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, float64(v)) // NaN if v is
	}
	if math.IsNaN(top) || math.IsInf(top, 0) {
		if top > 0 {
			return top
		}
		return math.NaN()
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}
