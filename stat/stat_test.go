package stat

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12 {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestProportion(t *testing.T) {
	p, se, ok := Proportion(638, 1000)
	if !ok || se == nil {
		t.Fatal("undefined")
	}
	near(t, "p", p, 0.638)
	near(t, "se", *se, math.Sqrt(0.638*0.362/999))
	if p, se, ok := Proportion(1, 1); !ok || p != 1 || se != nil {
		t.Errorf("one instance: %v %v %v, want 1, no error", p, se, ok)
	}
	for _, c := range [][2]int{{0, 0}, {2, 1}, {-1, 3}} {
		if _, _, ok := Proportion(c[0], c[1]); ok {
			t.Errorf("Proportion(%d, %d) is defined", c[0], c[1])
		}
	}
}

func TestMeanError(t *testing.T) {
	a, b := 0.3, 0.4
	near(t, "error", *MeanError([]*float64{&a, &b}), 0.25)
	if MeanError([]*float64{&a, nil}) != nil || MeanError(nil) != nil {
		t.Error("an undefined error must stay undefined")
	}
}

// Standard errors equal the textbook formulas over explicit lists.
func TestAgainstLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outcome := rapid.IntRange(0, 3)
		list := rapid.SliceOfN(outcome, 2, 60).Draw(t, "outcomes")
		var pairs Pairs
		var diffs []float64
		right := 0
		for _, o := range list {
			a, b := o&1 != 0, o&2 != 0
			pairs.Add(a, b)
			d := 0.0
			if a {
				right++
				d--
			}
			if b {
				d++
			}
			diffs = append(diffs, d)
		}
		mean, _ := Mean(diffs)
		var ss float64
		for _, d := range diffs {
			ss += (d - mean) * (d - mean)
		}
		n := float64(len(list))
		want := math.Sqrt(ss / (n - 1) / n)
		d, se, ok := pairs.Difference()
		if !ok || math.Abs(d-mean) > 1e-12 || math.Abs(*se-want) > 1e-9 {
			t.Fatalf("difference %v ± %v, want %v ± %v", d, *se, mean, want)
		}
		p, pse, _ := Proportion(right, len(list))
		if want := math.Sqrt(p * (1 - p) / (n - 1)); math.Abs(*pse-want) > 1e-12 {
			t.Fatalf("se %v, want %v", *pse, want)
		}
	})
}

func TestBootstrapMax(t *testing.T) {
	// Two unrelated formulations at 25% of 1000: the maximum sits about 0.8
	// points above chance.
	p := Pairs{Both: 62, OnlyA: 188, OnlyB: 188, None: 562}
	iv := BootstrapMax([]Pairs{p}, 1)
	if iv == nil || iv.Low < 0.22 || iv.Low > 0.25 || iv.High < 0.27 || iv.High > 0.30 {
		t.Fatalf("interval %+v", iv)
	}
	if again := BootstrapMax([]Pairs{p}, 1); *again != *iv {
		t.Errorf("same seed: %+v and %+v", iv, again)
	}
	if BootstrapMax([]Pairs{{Both: 1}}, 1) != nil || BootstrapMax(nil, 1) != nil {
		t.Error("one instance must give no interval")
	}
	if iv := BootstrapMax([]Pairs{{Both: 7}, {OnlyA: 3}}, 1); *iv != (Interval{1, 1}) {
		t.Errorf("all right: %+v", iv)
	}
	// Fully correlated formulations: the interval of one proportion.
	iv = BootstrapMax([]Pairs{{Both: 500, None: 500}}, 1)
	if math.Abs(iv.Low-0.469) > 0.006 || math.Abs(iv.High-0.531) > 0.006 {
		t.Errorf("interval %+v, want about 0.469..0.531", iv)
	}
}

func TestMeanDifference(t *testing.T) {
	d, se, ok := MeanDifference([]Pairs{{OnlyB: 2, None: 2}, {OnlyA: 1, Both: 3}})
	if !ok || se == nil {
		t.Fatal("undefined")
	}
	near(t, "mean difference", d, 0.125)
	if _, se, ok := MeanDifference([]Pairs{{Both: 1}, {None: 4}}); !ok || se != nil {
		t.Error("a stratum of one instance must leave the error undefined")
	}
	if _, _, ok := MeanDifference([]Pairs{{}}); ok {
		t.Error("an empty stratum has no difference")
	}
}
