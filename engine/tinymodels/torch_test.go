package tinymodels_test

import (
	"testing"

	"olmes/engine/tinymodels"
	"olmes/engine/torch"
	"olmes/engine/torch/torchtest"
)

// TestTorch compares engine/torch, straight from each Hugging Face folder, with
// transformers' plain forwards, and states the packing that it chose.
func TestTorch(t *testing.T) {
	python := torchtest.Python(t)
	plan := torch.DefaultPlan(torch.Shape{})
	plan.Batch, plan.MicroBatch, plan.Rows = 96, 96, 96 // several forwards a tree
	for _, m := range tinymodels.All(t) {
		t.Run(m.Name, func(t *testing.T) {
			e, err := torch.Start(t.Context(), torch.Options{Python: python, Model: m.Dir, Device: "cpu", DType: "float32", Threads: 1, Plan: plan})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			tinymodels.CompareTexts(t, e, m)
			worst := tinymodels.Compare(t, e, m, nil)
			d, err := e.Describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("packing %s: largest difference %.2g nats", d.Packing, worst)
			if worst > tinymodels.Bound {
				t.Errorf("packing %s: %.2g nats from plain forwards, more than %g", d.Packing, worst, tinymodels.Bound)
			}
			if d.Packing == "" {
				t.Error("the engine does not say how it packs")
			}
		})
	}
}
