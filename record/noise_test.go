package record

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"olmes"
)

func TestNoiseMerge(t *testing.T) {
	var n Noise
	n.Merge(Noise{Instances: 1, Requests: 1, Values: 2, Largest: 0.4, Mean: 0.4, ValueLargest: 0.3, ValueMean: 0.2, Decisions: 1, Flipped: 1, Tokens: 10, Bound: 1,
		Margins: []MarginNoise{{olmes.CF, olmes.Token, 0.1, 1}}})
	n.Merge(Noise{Instances: 2, Requests: 3, Values: 6, Largest: 0.1, Mean: 0.08, ValueLargest: 0.5, ValueMean: 0.04, Decisions: 2, Tokens: 5, Bound: 1,
		Margins: []MarginNoise{{olmes.CF, olmes.Token, 0.2, 2}, {olmes.MCF, olmes.None, 0.3, 1}}})
	n.Mean, n.ValueMean = math.Round(1e9*n.Mean)/1e9, math.Round(1e9*n.ValueMean)/1e9
	want := Noise{Instances: 3, Requests: 4, Values: 8, Largest: 0.4, Mean: 0.16, ValueLargest: 0.5, ValueMean: 0.08, Decisions: 3, Flipped: 1, Tokens: 15, Bound: 1,
		Margins: []MarginNoise{{olmes.CF, olmes.Token, 0.2, 3}, {olmes.MCF, olmes.None, 0.3, 1}}}
	if d := cmp.Diff(want, n); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if v, ok := n.Margin(olmes.MCF, olmes.None); !ok || v != 0.3 {
		t.Errorf("margin %v, %v", v, ok)
	}
	if _, ok := n.Margin(olmes.MCF, olmes.PMI); ok {
		t.Error("a margin that was not measured")
	}
	if _, ok := (*Noise)(nil).Margin(olmes.CF, olmes.Token); ok {
		t.Error("a margin of a record without noise")
	}
}

// Noise that one session measured is there in the next, and in the sealed record.
func TestNoiseKept(t *testing.T) {
	id, preds, chunks := testRun()
	dir := filepath.Join(t.TempDir(), "run")
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	if w.Noise() != nil {
		t.Error("a new run has noise")
	}
	kept := Noise{Instances: 2, Largest: 0.25, Margins: []MarginNoise{{olmes.CF, olmes.Character, 0.125, 2}}}
	if err := w.KeepNoise(kept); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := w.KeepNoise(kept); err == nil {
		t.Error("a closed record took noise")
	}
	w, _, err := Resume(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&kept, w.Noise()); d != "" {
		t.Errorf("after a resume (-want +got):\n%s", d)
	}
	finish(t, w, id, preds, chunks)
	r := must[*Record](t)(Open(dir))
	if d := cmp.Diff(&kept, r.Provenance.Noise); d != "" {
		t.Errorf("sealed (-want +got):\n%s", d)
	}
}

// A record without noise says nothing of near-ties, unless a margin is given.
func TestNearTiesOfOldRecord(t *testing.T) {
	r := must[*Record](t)(Open("testdata/format1/sealed"))
	list, counts, err := r.NearTies(0)
	if r.Provenance.Noise != nil || list != nil || counts != nil || err != nil {
		t.Errorf("noise %v, near-ties %v, %v, %v", r.Provenance.Noise, list, counts, err)
	}
	list, counts, err = r.NearTies(1e6)
	if err != nil || len(counts) == 0 || len(list) == 0 {
		t.Errorf("by hand: %v, %v, %v", list, counts, err)
	}
}

// What cannot have been measured is damage.
func TestVerifyNoise(t *testing.T) {
	id, preds, chunks := testRun()
	good := Noise{Instances: 2, Requests: 4, Values: 8, Largest: 0.1, Mean: 0.1, ValueLargest: 0.05, ValueMean: 0.02, Decisions: 3, Flipped: 3, Tokens: 10, Bound: 0.2,
		Margins: []MarginNoise{{olmes.CF, olmes.Token, 0.1, 2}}}
	if w := good.wrong(); w != nil {
		t.Errorf("a good one: %v", w)
	}
	if w := new(Noise).wrong(); w != nil {
		t.Errorf("none: %v", w)
	}
	for name, change := range map[string]func(n *Noise){
		"largest below zero":   func(n *Noise) { n.Largest, n.Mean = -5, -5 },
		"largest huge":         func(n *Noise) { n.Largest = 1e308 },
		"all huge":             func(n *Noise) { n.Largest, n.ValueLargest = 1e308, 1e308 },
		"largest not finite":   func(n *Noise) { n.Largest = math.Inf(1) },
		"largest no number":    func(n *Noise) { n.Largest = math.NaN() },
		"mean no number":       func(n *Noise) { n.ValueMean = math.NaN() },
		"bound no number":      func(n *Noise) { n.Bound = math.NaN() },
		"mean above largest":   func(n *Noise) { n.Mean = 0.11 },
		"mean of values":       func(n *Noise) { n.ValueMean = 0.06 },
		"above the bound":      func(n *Noise) { n.Bound = 0.01 },
		"without a bound":      func(n *Noise) { n.Bound = 0 },
		"flipped":              func(n *Noise) { n.Flipped = 4 },
		"flipped below zero":   func(n *Noise) { n.Flipped = -1 },
		"decisions below zero": func(n *Noise) { n.Decisions, n.Flipped = -1, -1 },
		"requests below zero":  func(n *Noise) { n.Requests = -1 },
		"of nothing":           func(n *Noise) { n.Requests = 0 },
		"tokens below zero":    func(n *Noise) { n.Tokens = -1 },
		"margin below zero":    func(n *Noise) { n.Margins[0].Largest = -1 },
		"margin no number":     func(n *Noise) { n.Margins[0].Largest = math.NaN() },
		"margin of nothing":    func(n *Noise) { n.Margins[0].Instances = 0 },
	} {
		n := good.clone()
		change(n)
		if n.wrong() == nil {
			t.Errorf("%s: nothing is wrong", name)
		}
	}

	dir := filepath.Join(t.TempDir(), "run")
	seal(t, dir, id, preds, chunks)
	r := must[*Record](t)(Open(dir))
	r.Provenance.Noise = &good
	if rep := must[*Report](t)(r.Verify()); rep.Damaged() {
		t.Errorf("a good one: %v", rep.Damage)
	}
	bad := *good.clone()
	bad.Largest, bad.Mean = -5, -5
	r.Provenance.Noise = &bad
	r.Provenance.Tokens.Computed = -2
	if rep := must[*Report](t)(r.Verify()); len(rep.Damage) < 2 || rep.Damage[0].Where != manifestName {
		t.Errorf("a bad one: %v", rep.Damage)
	}
}
