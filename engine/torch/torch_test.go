//go:build unix

package torch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	return e
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
		{"sliding window", "gemma3_text", ""},
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

// recipes are the small models of the tests; see testdata/tiny.py.
var recipes = []string{
	"llama", "llama bin", "llama sentencepiece", "gpt_neox nfc", "gemma3_text", "gemma2", "mpt", "mamba", "llama hostile", "llama lora",
}

// tinies makes the small models, once, in a folder that TestMain removes.
var tinies = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "olmes-torch-test-")
	if err != nil {
		return "", err
	}
	script, err := os.ReadFile("testdata/tiny.py")
	if err != nil {
		return dir, err
	}
	cmd := exec.Command(python, append([]string{"-c", string(script), dir}, recipes...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return dir, err
})

var python string // set by tiny before tinies is called

// tiny returns the folder of a small model with random weights that every fault
// of a packing moves.
func tiny(t *testing.T, recipe string) string {
	t.Helper()
	if !slices.Contains(recipes, recipe) {
		t.Fatalf("no recipe %q", recipe)
	}
	python = torchtest.Python(t)
	dir, err := tinies()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, strings.ReplaceAll(recipe, " ", "_"))
}

func TestMain(m *testing.M) {
	code := m.Run()
	if python != "" {
		if dir, _ := tinies(); dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}
