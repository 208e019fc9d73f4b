package run

import (
	"math"
	"strings"
	"testing"

	"olmes/engine/tinymodels"
	"olmes/engine/torch/torchtest"
)

// One model, as a Hugging Face folder through transformers and in GGUF through
// the embedded engine, gives the same numbers, and the records say what computed.
func TestTorchRun(t *testing.T) {
	m := tinymodels.Named(t, "llama")
	env := testEnv(t)
	c := Config{Model: m.Dir, Python: torchtest.Python(t), Tasks: []string{"openbookqa", "boolq:mcf"}, Limit: 3, Threads: 1}
	out, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	rec := opened(t, out.Dir)
	id := rec.Identity
	if id.Engine.Name != "torch" || id.Engine.Packing != "tree" || id.Model.Format != "safetensors" || id.Model.SHA256 == "" || id.Model.Weights != "" ||
		id.Precision.Published != "f32" || id.Precision.Computed != "f32" || id.Window != 512 || id.BOS.Added {
		t.Errorf("identity: %+v, %+v, %+v, window %d, BOS %+v", id.Model, id.Engine, id.Precision, id.Window, id.BOS)
	}
	if e := rec.Provenance.Environments; len(e) != 1 || e[0].DType != "float32" || e[0].Packing != "tree" || !strings.Contains(strings.Join(rec.Provenance.Notes, "\n"), "batches are of 512 tokens, which take up to ") {
		t.Errorf("environments %+v, notes %v", e, rec.Provenance.Notes)
	}
	exact, err := Do(t.Context(), Config{Model: m.GGUF(t), Exact: true, Tasks: c.Tasks, Limit: 3, Threads: 1}, Options{}, env)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := predictions(t, out.Dir), predictions(t, exact.Dir)
	if len(ours) != len(theirs) || len(ours) != 9 {
		t.Fatalf("%d and %d predictions", len(ours), len(theirs))
	}
	largest, n := 0.0, 0
	for i, p := range ours {
		for j, ch := range p.Choices {
			if other := theirs[i].Choices[j]; ch.IDsSHA256 != other.IDsSHA256 {
				t.Errorf("%v choice %d: other ids", p.Key(), j)
			} else {
				largest, n = max(largest, math.Abs(*ch.LogProb-*other.LogProb)), n+1
			}
		}
	}
	t.Logf("largest difference %.2g nats of %d log-probabilities", largest, n)
	if largest > tinymodels.Bound {
		t.Errorf("transformers and the embedded engine differ by %g nats", largest)
	}

	// In another precision it is another run, and takes nothing.
	report := &notes{}
	env.Reporter = report
	c.DType, c.Tasks = "bfloat16", []string{"openbookqa:mcf"}
	if out, err = Do(t.Context(), c, Options{}, env); err != nil {
		t.Fatal(err)
	}
	if id := opened(t, out.Dir).Identity; id.Precision.Computed != "bf16" || report.has("reuse") {
		t.Errorf("in bfloat16: %+v, notes %v", id.Precision, report.text)
	}
}

// The form of a model decides which engine computes it, and settings of others are
// refused then.
func TestEngineByForm(t *testing.T) {
	m := tinymodels.Named(t, "llama")
	layers := 0
	for want, c := range map[string]Config{
		"--gpu-layers means nothing to the engine torch": {Model: m.Dir, GPULayers: &layers},
		"--dtype means nothing to the engine llamacpp":   {Model: m.GGUF(t), DType: "float32"},
		"reads only GGUF":          {Model: m.Dir, Engine: "llamacpp"},
		"it is in GGUF":            {Model: m.GGUF(t), Engine: "torch"},
		"it is in GGUF, and":       {Model: m.GGUF(t), Engine: "vllm"},
		"takes one name":           {Model: m.Dir, Devices: []string{"cpu", "cuda:0"}},
		"device and devices":       {Model: m.Dir, Devices: []string{"cpu"}, WorkerDevices: []string{"0", "1"}},
		"takes batch, rows and":    {Model: m.Dir, Plan: writePlan(t, "kv_type: f16")},
		"there is no such program": {Model: m.Dir, Python: "/no/such/python"},
		"dtype float16 or exact":   {Model: m.Dir, Exact: true, DType: "float16"},
	} {
		_, err := DryRun(t.Context(), withTask(c), testEnv(t))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func withTask(c Config) Config {
	c.Tasks, c.Limit = []string{"openbookqa:mcf"}, 1
	return c
}
