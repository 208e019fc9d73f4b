package llamacpp

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLogSumExp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 4, 5, 7, 1000, 49152} {
		for _, scale := range []float64{0.01, 1, 10, 100, 1000} {
			x := make([]float32, n)
			exact, top := 0.0, math.Inf(-1)
			for i := range x {
				x[i] = float32(random.NormFloat64() * scale)
				top = max(top, float64(x[i]))
			}
			for _, v := range x {
				exact += math.Exp(float64(v) - top)
			}
			want := top + math.Log(exact)
			if got := logSumExp(x); math.Abs(got-want) > 1e-11 {
				t.Errorf("n %d scale %g: got %.15g, want %.15g", n, scale, got, want)
			}
		}
	}
	for x := -600.0; x <= 600; x += 0.0137 {
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 1e-12*want {
			t.Fatalf("exp(%g) = %g, want %g", x, got, want)
		}
	}
}

func TestLogSumExpNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		x    []float32
		want float64
	}{
		{[]float32{1, nan, 2}, math.NaN()},
		{[]float32{nan, 1}, math.NaN()},
		{[]float32{-inf, -inf}, math.NaN()},
		{nil, math.NaN()},
		{[]float32{inf, 1}, math.Inf(1)},
		{[]float32{-inf, 1.5, -inf, -inf, -inf}, 1.5},
		{[]float32{700, 700}, 700 + math.Ln2},
	} {
		got := logSumExp(c.x)
		if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v: got %v, want %v", c.x, got, c.want)
		}
	}
}

func BenchmarkLogSumExp(b *testing.B) {
	x := make([]float32, 49152)
	for i := range x {
		x[i] = float32(i%251) * 0.1
	}
	for b.Loop() {
		logSumExp(x)
	}
}
