package run

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"olmes/artifact"
	"olmes/engine"
	"olmes/engine/child"
	"olmes/engine/enginetest"
	"olmes/record"
	"olmes/trie"
)

// Settings that mean nothing to the engine asked for are refused before anything
// is looked up.
func TestSettingsOfEngines(t *testing.T) {
	one := 1
	for want, c := range map[string]Config{
		"--gpu-layers means nothing to the engine torch; it is for llamacpp": {Engine: "torch", GPULayers: &one},
		"--weights means nothing to the engine torch":                        {Engine: "torch", Weights: "f16"},
		"--engine-variant means nothing to the engine vllm":                  {Engine: "vllm", Variant: "cpu"},
		"--dtype means nothing to the engine llamacpp":                       {Engine: "llamacpp", DType: "float32"},
		"--python means nothing to the engine llamacpp":                      {Engine: "llamacpp", Python: "python3"},
		"--devices means nothing to the engine llamacpp":                     {Engine: "llamacpp", WorkerDevices: []string{"0"}},
		"--adapter means nothing to the engine exec":                         {Engine: "exec:x", Adapter: "a"},
		"--packing means nothing to the engine server":                       {Engine: "http://localhost:1", Packing: "tree"},
		"--strategy means nothing to the engine exec":                        {Engine: "exec:x", Strategy: "echo"},
		"--engine-arg means nothing to the engine server":                    {Engine: "https://host/v1", EngineArgs: []string{"--x"}},
		"--concurrency means nothing to the engine torch":                    {Engine: "torch", Concurrency: 3},
		"--batch means nothing to the engine server":                         {Model: "http://localhost:1", Batch: 64},
		"--exact means nothing to the engine sglang":                         {Engine: "sglang", Exact: true},
		"--plan auto means nothing to the engine torch":                      {Engine: "torch", Plan: "auto"},
		"--tokenizer means nothing to the engine vllm":                       {Engine: "vllm", Tokenizer: "x"},
		"--trust-remote-code means nothing to the engine llamacpp":           {Engine: "llamacpp", TrustRemoteCode: true},
		`dtype is "int8"; it can be auto, float32`:                           {Engine: "torch", DType: "int8"},
		`packing is "zip"`:                                     {Engine: "torch", Packing: "zip"},
		`strategy is "ask"`:                                    {Engine: "vllm", Strategy: "ask"},
		"leave out dtype bfloat16 or exact":                    {Engine: "torch", Exact: true, DType: "bfloat16"},
		`engine is "vlm"; it can be llamacpp`:                  {Engine: "vlm"},
		"did you mean sglang?":                                 {Engine: "sgland"},
		"a quotation mark has no second one":                   {Engine: `exec:python3 "x`},
		"give hf:org/name@COMMIT with the commit's 40 digits":  {Engine: "torch", Model: "hf:org/name@main", TrustRemoteCode: true},
		"give hf:org/other@COMMIT with the commit's 40 digits": {Model: "hf:org/other", TrustRemoteCode: true},
		"concurrency is negative":                              {Engine: "vllm", Concurrency: -1},
	} {
		_, err := c.Resolved()
		var u *UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want a usage error with %q", err, want)
		}
	}
	for _, c := range []Config{
		{Engine: "torch", DType: "bfloat16", Python: "p", WorkerDevices: []string{"0", "1"}, Packing: "copy", Adapter: "a", Threads: 3},
		{Engine: "vllm", DType: "float32", Strategy: "step", EngineArgs: []string{"--block-size", "32"}, Concurrency: 4},
		{Model: "hf:org/name@0123456789abcdef0123456789abcdef01234567", TrustRemoteCode: true},
		{Model: "./folder", Engine: "torch", TrustRemoteCode: true, Exact: true},
		{Engine: "exec:x", Batch: 64, Threads: 1, DType: "float32"},
	} {
		if _, err := c.Resolved(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if c, err := (Config{Model: "http://localhost:8000"}).Resolved(); err != nil || c.Engine != "http://localhost:8000" || c.Model != "" {
		t.Errorf("an address as the model: %+v, %v", c, err)
	}
}

// A server whose weights nobody knows: its runs are not taken for each other.
func TestUnknownWeights(t *testing.T) {
	_, env := bigramRun(t, &enginetest.Bigram{})
	c := Config{Engine: "http://user:word@localhost:1", Model: "served", Tasks: []string{"openbookqa"}, Limit: 2}
	env.Start = startBigram(&enginetest.Bigram{})
	out, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	rec := opened(t, out.Dir)
	if m := rec.Identity.Model; m.Name != "served" || m.Architecture != "bigram" || m.SHA256 != "" || m.Known() || rec.Identity.Engine.Name != "bigram" {
		t.Errorf("identity %+v, %+v", m, rec.Identity.Engine)
	}
	codes := map[string]bool{}
	for _, d := range record.Deviations(rec.Identity, nil) {
		codes[d.Code] = d.OffStandard
	}
	if off, ok := codes["weights-unknown"]; !ok || off || !codes["precision-unknown"] {
		t.Errorf("deviations %v", codes)
	}
	if strings.Contains(string(rec.Provenance.Resolved), "word") {
		t.Errorf("settings hold the password: %s", rec.Provenance.Resolved)
	}
	_, err = Do(t.Context(), c, Options{}, env)
	if err == nil || !strings.Contains(err.Error(), "does not say which weights") || !strings.Contains(artifact.Hint(err), "-o") {
		t.Errorf("the same again: %v", err)
	}
	n := &notes{}
	env.Reporter = n
	if _, err := Do(t.Context(), c, Options{Dir: filepath.Join(t.TempDir(), "again")}, env); err != nil || n.has("reuse") {
		t.Errorf("in another folder: %v, notes %v", err, n.text)
	}
}

// An architecture that is not known leaves open whether the standard wants a BOS.
func TestUnknownArchitecture(t *testing.T) {
	_, env := bigramRun(t, &enginetest.Bigram{})
	adds := true
	env.Start = func(context.Context, Setup) (engine.Engine, error) { return nameless{&enginetest.Bigram{}, adds}, nil }
	c := Config{Engine: "http://localhost:1", Model: "served", Tasks: []string{"openbookqa:mcf"}, Limit: 1}
	_, err := DryRun(t.Context(), c, env)
	if err == nil || !strings.Contains(err.Error(), "architecture") || !strings.Contains(artifact.Hint(err), "--bos never") {
		fetched(t, err)
		t.Errorf("error %v, hint %q", err, artifact.Hint(err))
	}
	adds = false
	p, err := DryRun(t.Context(), c, env)
	if err != nil {
		t.Fatal(err)
	}
	off := false
	if p.Identity.BOS.Added {
		t.Error("a BOS was added")
	}
	for _, d := range p.Deviations {
		off = off || d.Code == "bos-unknown" && d.OffStandard
	}
	if !off {
		t.Errorf("deviations %v", p.Deviations)
	}
}

type nameless struct {
	*enginetest.Bigram
	adds bool
}

func (e nameless) Describe(ctx context.Context) (engine.Description, error) {
	d, err := e.Bigram.Describe(ctx)
	d.Architecture, d.AddBOS = "", e.adds
	return d, err
}

// An engine that dies of a chunk again and again ends the run with word of what
// goes on with it; with the reason alone where it has written what is no frame.
func TestDyingEngineHint(t *testing.T) {
	for wrote, resume := range map[string]bool{"": true, "Traceback": false} {
		c, env := bigramRun(t, &enginetest.Bigram{Before: func(context.Context, *trie.Tree) error {
			return &child.ExitError{State: "exit status 3", Wrote: wrote}
		}})
		_, err := Do(t.Context(), c, Options{}, env)
		var died *child.ExitError
		if !errors.As(err, &died) {
			fetched(t, err)
		}
		if died == nil || strings.Contains(artifact.Hint(err), "--resume") != resume {
			t.Errorf("wrote %q: %v, hint %q", wrote, err, artifact.Hint(err))
		}
	}
}

type garish struct{ *enginetest.Bigram }

func (e garish) Describe(ctx context.Context) (engine.Description, error) {
	d, err := e.Bigram.Describe(ctx)
	d.WeightType = "F16\x1b[31m"
	return d, err
}

// What any engine says of itself is one line of plain text.
func TestDescriptionChecked(t *testing.T) {
	c, env := bigramRun(t, &enginetest.Bigram{})
	env.Start = func(context.Context, Setup) (engine.Engine, error) { return garish{&enginetest.Bigram{}}, nil }
	if _, err := Do(t.Context(), c, Options{}, env); err == nil || !strings.Contains(err.Error(), "weight_type: it has the character U+001B") {
		t.Errorf("error %v, want one on weight_type", err)
	}
}

// Engines never take each other's chunks, whatever they call their model.
func TestReuseStaysWithEngine(t *testing.T) {
	c, env := bigramRun(t, &enginetest.Bigram{})
	c.Tasks = []string{"openbookqa"}
	_, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	n := &notes{}
	env.Reporter = n
	other := Config{Engine: "exec:x", Model: "tiny", Tasks: c.Tasks, Limit: c.Limit, ChunkTokens: c.ChunkTokens}
	if _, err := Do(t.Context(), other, Options{}, env); err != nil || n.has("reuse") {
		t.Errorf("exec after llamacpp: %v, notes %v", err, n.text)
	}
	if _, err := Do(t.Context(), other, Options{Dir: filepath.Join(t.TempDir(), "x")}, env); err != nil || !n.has("reuse") {
		t.Errorf("exec after exec: %v, notes %v", err, n.text)
	}
}
