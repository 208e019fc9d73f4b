//go:build unix

package torch

import (
	"os"
	"testing"

	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/engine/torch/torchtest"
)

// start starts an engine, which the test's end closes.
func start(t *testing.T, o Options) *Engine {
	t.Helper()
	o.Python = torchtest.Python(t)
	if o.Threads == 0 {
		o.Threads = 1
	}
	if o.Plan.Batch == 0 {
		o.Plan = engine.Plan{Batch: 64, Rows: 40}
	}
	if o.Device == "" && o.Devices == nil {
		o.Device = "cpu"
	}
	o.Log = testLog{t}
	e, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(*Engine)
}

// testLog shows a worker's log where a test fails.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Logf("%s", b)
	}
	return len(b), nil
}

func describe(t *testing.T, e engine.Engine) engine.Description {
	t.Helper()
	d, err := e.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name, recipe, packing string
	}{
		{"tree", "llama", ""},
		{"copy", "llama", "copy"},
		{"plain", "llama", "plain"},
		{"sentencepiece", "llama sentencepiece", ""},
		{"sliding window", "gemma3", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := tiny(t, c.recipe)
			enginetest.Run(t, func(t *testing.T) engine.Engine {
				return start(t, Options{Model: folder, Packing: c.packing})
			})
		})
	}
}

func TestConformanceRealModel(t *testing.T) {
	folder := torchtest.SmolLM2(t)
	enginetest.Run(t, func(t *testing.T) engine.Engine {
		return start(t, Options{Model: folder, DType: "float32", Plan: DefaultPlan(Shape{})})
	})
}

// tiny writes a small model with random weights that every fault of a packing
// moves; see testdata/tiny.py for the recipes.
func tiny(t *testing.T, recipe string) string {
	t.Helper()
	script, err := os.ReadFile("testdata/tiny.py")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	torchtest.Run(t, string(script), folder, recipe)
	return folder
}

