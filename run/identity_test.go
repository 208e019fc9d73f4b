package run

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/engine/llamacpp"
)

var update = flag.Bool("update", false, "write the golden files of identities")

// posing is the bigram engine that describes itself as llama.cpp does.
type posing struct{ *enginetest.Bigram }

func (e posing) Describe(ctx context.Context) (engine.Description, error) {
	d, err := e.Bigram.Describe(ctx)
	d.Engine, d.Version, d.Variant, d.LibrarySHA256 = "llamacpp", "v0.5.0", "cpu-zen4", "00ff"
	d.System, d.Parallel = "linux/amd64", 2
	return d, err
}

// The identities of llama.cpp's runs are those that the program gave before it
// knew other engines: old records are found, resumed and reused by their ids.
func TestIdentityGolden(t *testing.T) {
	c, env := bigramRun(t, &enginetest.Bigram{})
	env.Start = func(context.Context, Setup) (engine.Engine, error) { return posing{&enginetest.Bigram{}}, nil }
	c.Tasks, c.Limit, c.Variant = []string{"openbookqa", "winogrande:mcf"}, 2, "cpu"
	r, id, err := prepare(t.Context(), c, Options{}, env)
	fetched(t, err)
	defer r.engine.Close()
	compare := func(name string) {
		t.Helper()
		id.Product = "0.1.0"
		doc, err := id.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		doc = append(doc, '\n')
		file := filepath.Join("testdata", "identity", name+".json")
		if *update {
			if err := os.WriteFile(file, doc, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(doc)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	compare("cpu")
	r.setup.GPULayers, r.setup.Devices = allLayers, []llamacpp.Device{{Name: "CUDA0", Description: "card", Kind: "gpu"}}
	r.setup.Weights = "f16"
	if id, err = r.identity(); err != nil {
		t.Fatal(err)
	}
	compare("gpu")
}
