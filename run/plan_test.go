package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"olmes/artifact"
	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/engine/llamacpp"
	"olmes/engine/llamacpp/library"
	"olmes/model"
	"olmes/trie"
)

// notes is a Reporter that keeps the notes.
type notes struct {
	Silent
	text []string
}

func (n *notes) Note(text string) { n.text = append(n.text, text) }

func (n *notes) has(text string) bool {
	return slices.ContainsFunc(n.text, func(s string) bool { return strings.Contains(s, text) })
}

// planRun is a run whose plan is to be chosen: a model of a hundred megabytes of
// which only the numbers exist.
func planRun(t *testing.T, c Config) (llama, *notes) {
	t.Helper()
	c, err := c.Resolved()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 100e6); err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	r := llama{&Run{config: c, env: Env{Reporter: n}}}
	r.setup = Setup{Files: []string{file}, Weights: "as-is", Library: library.Library{Variant: library.CPU}}
	r.setup.Model = model.Model{Facts: model.Facts{Parameters: 25e6, WeightType: "F32", Context: 2048, Vocab: 50_000,
		Shape: model.Shape{Layers: 12, Embedding: 512, FeedForward: 1024, Heads: 8, KVHeads: 8, KeyLength: 64}}}
	if r.planFile, err = readPlan(c); err != nil {
		t.Fatal(err)
	}
	return r, n
}

func writePlan(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A plan file has a field for each of the plan's.
func TestPlanFileFields(t *testing.T) {
	fields := func(v any, tag string) []string {
		var names []string
		for f := range reflect.TypeOf(v).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(v).Field(f).Tag.Get(tag), ",")
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	if file, plan := fields(planFile{}, "yaml"), fields(engine.Plan{}, "json"); !slices.Equal(file, plan) {
		t.Errorf("a file has %v, a plan %v", file, plan)
	}
	// And what a run's identity holds can be given back as a file.
	want := engine.Plan{Batch: 128, MicroBatch: 64, Cells: 9000, Rows: 40, Sequences: 30, ChunkTokens: 77, FlashAttention: true, KVType: "bf16"}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := planRun(t, Config{Plan: writePlan(t, string(text))})
	if err := r.choosePlan(t.Context(), 0); err != nil || r.setup.Plan != want {
		t.Errorf("got %+v, %v, want %+v", r.setup.Plan, err, want)
	}
}

func TestChoosePlan(t *testing.T) {
	shape := llamacpp.Shape{Parameters: 25e6, Context: 2048, Vocab: 50_000}
	base := llamacpp.DefaultPlan(shape)
	small := llamacpp.Resize(shape, base, 128)
	exact := llamacpp.ExactPlan(shape)
	with := func(p engine.Plan, change func(*engine.Plan)) engine.Plan { change(&p); return p }
	for name, c := range map[string]struct {
		config Config
		want   engine.Plan
	}{
		"default":      {Config{}, base},
		"by name":      {Config{Plan: "default"}, base},
		"exact":        {Config{Exact: true}, exact},
		"chunk":        {Config{ChunkTokens: 99}, with(base, func(p *engine.Plan) { p.ChunkTokens = 99 })},
		"batch":        {Config{Batch: 128}, small},
		"file":         {Config{Plan: writePlan(t, "batch: 128\n")}, small},
		"file and all": {Config{Plan: writePlan(t, "batch: 64\nkv_type: f32\n"), Batch: 128, ChunkTokens: 7}, with(small, func(p *engine.Plan) { p.ChunkTokens, p.KVType = 7, "f32" })},
		"rows":         {Config{Plan: writePlan(t, `{"rows": 20}`)}, with(base, func(p *engine.Plan) { p.Rows, p.Sequences = 20, 20 })},
		"empty":        {Config{Plan: writePlan(t, "{}")}, base},
	} {
		r, n := planRun(t, c.config)
		if err := r.choosePlan(t.Context(), 0); err != nil || r.setup.Plan != c.want || len(n.text) > 0 {
			t.Errorf("%s: %+v, %v, notes %v; want %+v", name, r.setup.Plan, err, n.text, c.want)
		}
	}
	r, _ := planRun(t, Config{})
	r.setup.GPULayers = allLayers
	if err := r.choosePlan(t.Context(), 1); err != nil || r.setup.Plan.Batch <= base.Batch || r.setup.Plan.ChunkTokens <= base.ChunkTokens {
		t.Errorf("on a GPU: %+v, %v", r.setup.Plan, err)
	}
}

func TestPlanMistakes(t *testing.T) {
	for want, c := range map[string]Config{
		"there is no such file":                {Plan: "no-such-plan"},
		`unknown field "bach"`:                 {Plan: writePlan(t, "bach: 3")},
		`"many" where a whole number`:          {Plan: writePlan(t, "batch: many")},
		"line 2: a number that is not whole":   {Plan: writePlan(t, "rows: 8\nbatch: 512.5")},
		"line 2: a second document":            {Plan: writePlan(t, "batch: 512\n---\nbatch: 256\n")},
		"nested deeper than 32 levels":         {Plan: writePlan(t, "batch: "+strings.Repeat("[", 120_000))},
		"rows is 0; it must be at least 1":     {Plan: writePlan(t, "rows: 0")},
		"batch is 4; it can be from 16":        {Plan: writePlan(t, "batch: 4")},
		"exact means flash_attention false":    {Plan: writePlan(t, "kv_type: f16"), Exact: true},
		"micro_batch is 900, must be from 1":   {Plan: writePlan(t, "micro_batch: 900")},
		"sequences is 99, must be at most row": {Plan: writePlan(t, "rows: 20\nsequences: 99")},
		"batches of 512 need 4608":             {Plan: writePlan(t, "cells: 4096")},
		`kv_type is "q4_0"`:                    {Plan: writePlan(t, "kv_type: q4_0")},
		"batch is 3; it can be from 16":        {Batch: 3},
		"batch is -5":                          {Batch: -5},
		"leave out batch 64 or plan auto":      {Batch: 64, Plan: "auto"},
		"chunk tokens 16777216":                {ChunkTokens: 1 << 25},
		"truncation is \"right\"":              {Truncation: "right"},
		"the name of a device is empty":        {Devices: []string{""}},
		"gpu layers 0":                         {Devices: []string{"CUDA0"}, GPULayers: new(int)},
	} {
		err := func() error {
			c, err := c.Resolved()
			if err != nil {
				return err
			}
			if _, err := readPlan(c); err != nil {
				return err
			}
			r, _ := planRun(t, c)
			return r.choosePlan(t.Context(), 0)
		}()
		var u *UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want a usage error with %q", err, want)
		}
	}
	if _, err := Do(t.Context(), Config{Plan: "auto"}, Options{Resume: true}, Env{}); err == nil || !strings.Contains(err.Error(), "--batch N --chunk-tokens N") {
		t.Errorf("resume with a measured plan: %v", err)
	}
}

// What does not fit is made smaller with a note, or refused, before an engine is
// started; a plan that the user gave is refused.
func TestChoosePlanMemory(t *testing.T) {
	r, n := planRun(t, Config{})
	if err := r.choosePlan(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s, err := r.shape()
	if err != nil || s.WeightBytes != 100e6 {
		t.Fatalf("shape %+v, %v", s, err)
	}
	whole := r.setup.Plan
	need := llamacpp.Memory(s, whole).Total(1)
	if err := r.choosePlan(t.Context(), need); err != nil || r.setup.Plan.Batch >= whole.Batch || !n.has("memory: ") || !n.has(fmt.Sprintf("of %d tokens instead of 512", r.setup.Plan.Batch)) {
		t.Errorf("%d bytes free: %+v, %v, notes %v", need, r.setup.Plan, err, n.text)
	}
	if err := r.choosePlan(t.Context(), 150e6); err == nil || !strings.Contains(err.Error(), "weights 100") || !strings.Contains(err.Error(), "of which 150 MB are free") || artifact.Hint(err) == "" {
		t.Errorf("too little for any plan: %v", err)
	}
	r, n = planRun(t, Config{Batch: 512})
	if err := r.choosePlan(t.Context(), need); err == nil || !strings.Contains(err.Error(), "the plan of batch 512") || !strings.Contains(artifact.Hint(err), "would fit") || len(n.text) > 0 {
		t.Errorf("a given batch: %v, notes %v", err, n.text)
	}
	// 16-bit weights are widened by a BLAS, which the estimate knows.
	r, _ = planRun(t, Config{})
	r.setup.Model.WeightType = "F16"
	r.setup.Library.Variant = library.Native
	if s, err := r.shape(); err != nil || !s.Widened {
		t.Errorf("F16 weights with the native library: %+v, %v", s, err)
	}
}

// timed is an engine that takes a time which depends on its plan.
type timed struct {
	*enginetest.Bigram
	delay time.Duration
}

func (e timed) Score(ctx context.Context, tree *trie.Tree) (engine.Scores, error) {
	select {
	case <-time.After(e.delay):
	case <-ctx.Done():
		return engine.Scores{}, ctx.Err()
	}
	return engine.Scores{LogProbs: make([]float64, len(tree.Wants)), Computed: len(tree.Token)}, nil
}

func (e timed) Describe(ctx context.Context) (engine.Description, error) {
	d, err := e.Bigram.Describe(ctx)
	d.Parallel = 2
	return d, err
}

func TestMeasurePlans(t *testing.T) {
	r, n := planRun(t, Config{Plan: "auto"})
	delays := map[int]time.Duration{256: 400 * time.Millisecond, 512: 300 * time.Millisecond, 1024: 30 * time.Millisecond}
	var tried []int
	r.env.Start = func(_ context.Context, s Setup) (engine.Engine, error) {
		tried = append(tried, s.Plan.Batch)
		return timed{&enginetest.Bigram{}, delays[s.Plan.Batch]}, nil
	}
	if err := r.choosePlan(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	p := r.setup.Plan
	if p.Batch != 1024 || p.Cells < llamacpp.Need(llamacpp.Shape{}, 1024) || llamacpp.CheckPlan(p) != nil {
		t.Errorf("got %+v, notes %v", p, n.text)
	}
	if !slices.Equal(tried, []int{512, 256, 1024}) {
		t.Errorf("tried %v", tried)
	}
	if !n.has("plan: batch 256: ") || !n.has(fmt.Sprintf("--batch 1024 --chunk-tokens %d", p.ChunkTokens)) {
		t.Errorf("notes %v", n.text)
	}
	// The same plan without measuring.
	again, _ := planRun(t, Config{Batch: p.Batch, ChunkTokens: p.ChunkTokens})
	if err := again.choosePlan(t.Context(), 0); err != nil || again.setup.Plan != p {
		t.Errorf("given by its flags: %+v, %v, measured %+v", again.setup.Plan, err, p)
	}

	// A candidate that fails is left out, unless it is the default plan; and
	// the user can stop it all.
	for bad, want := range map[int]int{1024: 512, 512: 0} {
		r, n := planRun(t, Config{Plan: "auto"})
		r.env.Start = func(_ context.Context, s Setup) (engine.Engine, error) {
			if s.Plan.Batch == bad {
				return nil, errors.New("out of luck")
			}
			return timed{&enginetest.Bigram{}, map[int]time.Duration{512: 20 * time.Millisecond, 256: 300 * time.Millisecond}[s.Plan.Batch]}, nil
		}
		err := r.choosePlan(t.Context(), 0)
		if want == 0 && (err == nil || !strings.Contains(err.Error(), "out of luck")) {
			t.Errorf("the default plan fails: %v", err)
		}
		if want > 0 && (err != nil || r.setup.Plan.Batch != want || !n.has("batch 1024: out of luck")) {
			t.Errorf("batch %d fails: %+v, %v, notes %v", bad, r.setup.Plan, err, n.text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	r.env.Start = func(context.Context, Setup) (engine.Engine, error) {
		return timed{&enginetest.Bigram{}, time.Minute}, nil
	}
	if err := r.choosePlan(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestFastest(t *testing.T) {
	m := func(batch int, rate float64) measured { return measured{plan: engine.Plan{Batch: batch}, rate: rate} }
	for want, all := range map[int][]measured{
		1: {m(1, 100), m(2, 102), m(3, 90)},
		2: {m(1, 100), m(2, 110), m(3, 109)},
		3: {m(1, 100), m(2, 104), m(3, 105)},
	} {
		if got := fastest(all); got.plan.Batch != want {
			t.Errorf("of %v: %d, want %d", all, got.plan.Batch, want)
		}
	}
	for rate, want := range map[float64]int{1: 256, 100: 256, 640: 2048, 1e9: 1 << 16} {
		if got := chunkFor(rate); got != want {
			t.Errorf("chunks of %d at %g tokens/s, want %d", got, rate, want)
		}
	}
}

// The tree that is measured is valid for any model, and as deep as its tasks.
func TestMeasureTree(t *testing.T) {
	for _, s := range []llamacpp.Shape{{}, {Vocab: 3, Context: 16}, {Vocab: 262_144, Context: 32_768}} {
		tree, err := measureTree(s, measureNew)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Validate(); err != nil {
			t.Fatal(err)
		}
		_, deepest := tree.Depths()
		if s.Context > 0 && deepest > s.Context || s.Vocab > 2000 && (deepest < measurePrefix || tree.Prefix != measurePrefix || len(tree.Token) < measurePrefix+measureNew) {
			t.Errorf("%+v: %d nodes, %d deep, prefix %d", s, len(tree.Token), deepest, tree.Prefix)
		}
		for _, id := range tree.Token {
			if id < 0 || int(id) >= max(2, s.Vocab) {
				t.Fatalf("%+v: token %d", s, id)
			}
		}
	}
}
