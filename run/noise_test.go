package run

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"olmes"
	"olmes/artifact"
	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/model/modeltest"
	"olmes/noise"
	"olmes/record"
	"olmes/score"
	"olmes/trie"
)

// skewed is the bigram engine with log-probabilities that depend on the schedule.
type skewed struct {
	enginetest.Bigram
	skew   func(t *trie.Tree, want int) float64 // added to them
	before func() error
}

func (e *skewed) Score(ctx context.Context, t *trie.Tree) (engine.Scores, error) {
	if e.before != nil {
		if err := e.before(); err != nil {
			return engine.Scores{}, err
		}
	}
	s, err := e.Bigram.Score(ctx, t)
	for i := range s.LogProbs {
		s.LogProbs[i] += e.skew(t, i)
	}
	return s, err
}

// rounding moves every value by up to size, in a way that depends on the tree.
func rounding(size float64) func(*trie.Tree, int) float64 {
	return func(t *trie.Tree, want int) float64 {
		w := t.Wants[want]
		return size * (float64((int(w.Token)*31+len(t.Token)*17+int(w.Node)*7)%101)/50 - 1)
	}
}

func skewedRun(t *testing.T, skew func(*trie.Tree, int) float64) (Config, Env) {
	t.Helper()
	c, env := bigramRun(t, &enginetest.Bigram{})
	env.Start = func(context.Context, Setup) (engine.Engine, error) { return &skewed{skew: skew}, nil }
	return c, env
}

func opened(t *testing.T, dir string) *record.Record {
	t.Helper()
	rec, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestNoise measures the noise of an engine whose rounding is known, in every
// formulation and normalization of the run; the results do not depend on how
// much is measured.
func TestNoise(t *testing.T) {
	const size = 0.01
	c, env := skewedRun(t, rounding(size))
	c.ChunkTokens = 4096 // chunks of several instances
	out, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	rec := opened(t, out.Dir)
	n := rec.Provenance.Noise
	if n == nil || n.Instances < 3*noiseLeast || n.Decisions < 4*noiseLeast || n.ValueLargest <= 0 || n.ValueLargest > 2*size || n.Largest < n.ValueLargest || n.Mean <= 0 || n.Mean > n.Largest || n.Tokens == 0 {
		t.Fatalf("noise %+v", n)
	}
	for _, m := range []struct {
		f olmes.Formulation
		n olmes.Normalization
	}{{olmes.CF, olmes.PMI}, {olmes.CF, olmes.None}, {olmes.MCF, olmes.None}} {
		if v, ok := n.Margin(m.f, m.n); !ok || v <= 0 {
			t.Errorf("the margin of %s %s moves by %v, %v", m.f, m.n, v, ok)
		}
	}
	if tok := rec.Provenance.Tokens; tok.Computed > tok.Distinct+tok.Distinct/20 {
		t.Errorf("%d tokens computed of %d distinct: the repetition is to be counted apart", tok.Computed, tok.Distinct)
	}
	more, err := Do(t.Context(), c, Options{Dir: filepath.Join(t.TempDir(), "r"), NoReuse: true, NoiseInstances: 16}, env)
	if err != nil {
		t.Fatal(err)
	}
	if k := opened(t, more.Dir).Provenance.Noise; k.Instances != 16 {
		t.Errorf("asked for 16 instances, repeated %d", k.Instances)
	}
	sameResults(t, out.Dir, more.Dir)

	// A run that takes all its chunks from finished ones takes their noise, too.
	taken, err := Do(t.Context(), Config{Model: c.Model, Tasks: []string{"winogrande"}, Limit: 4, ChunkTokens: c.ChunkTokens, Weights: "as-is"}, Options{}, env)
	if err != nil {
		t.Fatal(err)
	}
	if k := opened(t, taken.Dir).Provenance.Noise; k == nil || k.Tokens != 0 || k.Instances < n.Instances || k.Largest < n.Largest {
		t.Errorf("a reused run has the noise %+v", k)
	}
}

// TestSelfCheck has an engine answer otherwise where a prefix is kept: the run
// stops before anything is kept.
func TestSelfCheck(t *testing.T) {
	c, env := bigramRun(t, &enginetest.Bigram{})
	c.Tasks, c.Limit, c.ChunkTokens = []string{"winogrande:cf"}, 20, 64
	env.Start = func(context.Context, Setup) (engine.Engine, error) {
		return &skewed{Bigram: enginetest.Bigram{Parallel: 4}, skew: func(tree *trie.Tree, want int) float64 {
			if int(tree.Wants[0].Node) >= tree.Prefix {
				return -3
			}
			return 0
		}}, nil
	}
	dir := filepath.Join(t.TempDir(), "r")
	_, err := Do(t.Context(), c, Options{Dir: dir}, env)
	var ae *artifact.Error
	if errors.As(err, &ae) {
		fetched(t, err)
	}
	var wrong *noise.Error
	if !errors.As(err, &wrong) || math.Abs(math.Abs(wrong.Other-wrong.Ours)-3) > 1e-9 || artifact.Hint(err) == "" {
		t.Fatalf("%v", err)
	}
	if rec := opened(t, dir); rec.Complete() || rec.Finished() != 0 {
		t.Errorf("complete %v, %d chunks kept", rec.Complete(), rec.Finished())
	}
}

// TestSelfCheckFills has an engine that computes three chunks at the same time: a
// run of one kind has one sample to repeat, and two more chunks are scored
// meanwhile.
func TestSelfCheckFills(t *testing.T) {
	c, env := bigramRun(t, &enginetest.Bigram{})
	c.Tasks, c.Limit, c.ChunkTokens = []string{"winogrande:cf"}, 20, 64
	want, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	met, _ := three()
	scoring := &scoringReporter{}
	env.Reporter = scoring
	env.Start = startBigram(&enginetest.Bigram{Parallel: 3, Before: func(context.Context, *trie.Tree) error {
		n, err := met()
		if n > 3 || err != nil {
			return err
		}
		if scoring.begun.Load() {
			return errors.New("the self-check is over")
		}
		return nil
	}})
	got, err := Do(t.Context(), c, Options{Dir: filepath.Join(t.TempDir(), "r"), NoReuse: true}, env)
	if err != nil {
		t.Fatal(err)
	}
	sameResults(t, want.Dir, got.Dir)
	if a, b := opened(t, want.Dir).Provenance.Noise, opened(t, got.Dir).Provenance.Noise; a.Instances != b.Instances || a.Largest != b.Largest {
		t.Errorf("noise %+v, of one chunk after the other %+v", b, a)
	}
}

// TestMaxNoise stops a run above the limit before it is scored; with a higher
// limit it goes on.
func TestMaxNoise(t *testing.T) {
	c, env := skewedRun(t, rounding(0.01))
	dir := filepath.Join(t.TempDir(), "r")
	_, err := Do(t.Context(), c, Options{Dir: dir, MaxNoise: 1e-4}, env)
	var ae *artifact.Error
	if errors.As(err, &ae) {
		fetched(t, err)
	}
	var loud *NoiseError
	if !errors.As(err, &loud) || loud.Largest <= 1e-4 || !strings.Contains(artifact.Hint(err), "--max-noise") {
		t.Fatalf("%v", err)
	}
	if rec := opened(t, dir); rec.Complete() || rec.Finished() != 0 {
		t.Errorf("complete %v, %d chunks kept", rec.Complete(), rec.Finished())
	}
	out, err := Do(t.Context(), c, Options{Dir: dir, MaxNoise: 1, Resume: true}, env)
	if err != nil || !opened(t, out.Dir).Complete() {
		t.Errorf("with a higher limit: %v", err)
	}
	// Of a run that is all taken from others, what they measured counts.
	env.Runs = filepath.Dir(dir)
	_, err = Do(t.Context(), Config{Model: c.Model, Tasks: []string{"winogrande"}, Limit: 4, ChunkTokens: c.ChunkTokens, Weights: "as-is"}, Options{MaxNoise: 1e-4}, env)
	if !errors.As(err, &loud) {
		t.Errorf("a reused run: %v", err)
	}
}

// TestNoiseResumed breaks a run off after its noise is measured: the next session
// measures what is left, and both count.
func TestNoiseResumed(t *testing.T) {
	c, env := skewedRun(t, rounding(0.01))
	c.ChunkTokens = 64
	want, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	calls := 0
	ctx, cancel := context.WithCancel(t.Context())
	dir := filepath.Join(t.TempDir(), "r")
	env.Start = func(context.Context, Setup) (engine.Engine, error) {
		e := &skewed{skew: rounding(0.01)}
		e.before = func() error {
			if rec, err := record.Open(dir); err == nil && rec.Provenance.Noise != nil {
				if calls++; calls == 3 {
					cancel()
					return ctx.Err()
				}
			}
			return nil
		}
		return e, nil
	}
	o := Options{Dir: dir, NoReuse: true}
	if _, err := Do(ctx, c, o, env); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	first := opened(t, dir).Provenance.Noise
	o.Resume = true
	if _, err := Do(t.Context(), c, o, env); err != nil {
		t.Fatal(err)
	}
	if n := opened(t, dir).Provenance.Noise; n.Instances <= first.Instances || n.Tokens <= first.Tokens || n.Largest < first.Largest {
		t.Errorf("noise %+v, of the first session %+v", n, first)
	}
	sameResults(t, want.Dir, dir)
}

// TestSamples keeps the repetition small and spread out.
func TestSamples(t *testing.T) {
	c, env := bigramRun(t, &enginetest.Bigram{})
	c.Tasks, c.Limit, c.ChunkTokens = []string{"openbookqa", "arc_easy", "piqa", "winogrande"}, 60, 2048
	r, _, err := prepare(t.Context(), c, Options{}, env)
	fetched(t, err)
	defer r.engine.Close()
	left := r.left(nil)
	all := r.samples(nil, left, 0)
	spent, instances := 0, 0
	kinds := map[string]int{}
	for _, s := range all {
		spent += s.cost
		instances += len(s.instances)
		kinds[string(s.unit.formulation)+" "+string(s.unit.inForce())] += len(s.instances)
		if len(slices.Compact(slices.Sorted(slices.Values(s.preds)))) != len(s.preds) {
			t.Errorf("instances %v", s.preds)
		}
		for _, in := range s.instances {
			want := len(in.Choices)
			if s.unit.inForce() == olmes.PMI {
				want *= 2
			}
			if len(in.Requests) != want {
				t.Errorf("%s has %d requests of %d choices", in.Name, len(in.Requests), len(in.Choices))
			}
		}
	}
	for _, k := range []string{"cf pmi", "cf none", "cf character", "mcf none"} {
		if kinds[k] < noiseLeast {
			t.Errorf("%s: %d instances", k, kinds[k])
		}
	}
	if len(all) > len(kinds) && spent > max(left/noiseShare, min(left/noiseShareSmall, noiseSmall)) {
		t.Errorf("%d tokens for %d instances, the run has %d", spent, instances, left)
	}
	again := r.samples(nil, left, 0)
	if !slices.EqualFunc(all, again, func(a, b sample) bool { return a.unit == b.unit && slices.Equal(a.preds, b.preds) }) {
		t.Error("drawn twice, the samples differ")
	}
	r.seed++
	if other := r.samples(nil, left, 0); slices.EqualFunc(all, other, func(a, b sample) bool { return a.unit == b.unit && slices.Equal(a.preds, b.preds) }) {
		t.Error("another run has the same samples")
	}
}

// TestSchedulesAgree computes the same instances by llama.cpp on one thread and
// on two, after a break, and by another plan: the same plan gives the same bytes,
// another one the same decisions except for near-ties.
func TestSchedulesAgree(t *testing.T) {
	for _, c := range []Config{
		{Model: tinyModel(t), Weights: "as-is", Tasks: []string{"openbookqa", "winogrande"}, Limit: 25},
		{Model: "smollm2-135m-instruct", Tasks: []string{"arc_easy"}, Limit: 4},
	} {
		t.Run(filepath.Base(c.Model), func(t *testing.T) {
			if testing.Short() && c.Model == "smollm2-135m-instruct" {
				t.Skip("a real model takes a while")
			}
			env := testEnv(t)
			do := func(c Config, threads int, broken bool) *record.Record {
				t.Helper()
				c.Threads = threads
				o := Options{Dir: filepath.Join(t.TempDir(), "r"), NoReuse: true, NoiseInstances: 12}
				if broken {
					o.NoiseInstances = 4
					env.Start = func(ctx context.Context, s Setup) (engine.Engine, error) {
						e, err := llama{}.start(ctx, s)
						return &breaking{e, o.Dir}, err
					}
					if _, err := Do(t.Context(), c, o, env); !errors.Is(err, errBroken) {
						t.Fatalf("the run was to break off: %v", err)
					}
					env.Start, o.Resume = nil, true
				}
				out, err := Do(t.Context(), c, o, env)
				fetched(t, err)
				return opened(t, out.Dir)
			}
			one := do(c, 1, false)
			two := do(c, 2, false)
			sameResults(t, one.Dir, two.Dir)
			other := c
			other.ChunkTokens = 150
			broken := do(other, 1, true)
			whole := do(other, 1, false)
			sameResults(t, broken.Dir, whole.Dir)
			if one.ID == whole.ID {
				t.Fatal("the plans are the same")
			}
			agree(t, one, whole)
		})
	}
}

// tinyModel writes a model with random weights.
func tinyModel(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := modeltest.Write(file, modeltest.Options{Seed: 1, Weights: modeltest.F16}); err != nil {
		t.Fatal(err)
	}
	return file
}

var errBroken = errors.New("broken off")

// breaking is an engine that fails once a chunk of the run in dir is finished.
type breaking struct {
	engine.Engine
	dir string
}

func (e *breaking) Score(ctx context.Context, t *trie.Tree) (engine.Scores, error) {
	if rec, err := record.Open(e.dir); err == nil && rec.Finished() > 0 {
		return engine.Scores{}, errBroken
	}
	return e.Engine.Score(ctx, t)
}

// agree checks that two runs of the same instances decide alike, except where
// both list a near-tie or one does.
func agree(t *testing.T, a, b *record.Record) {
	t.Helper()
	near := map[olmes.Key]bool{}
	for _, r := range []*record.Record{a, b} {
		list, counts, err := r.NearTies(0)
		if err != nil || len(counts) == 0 {
			t.Fatal(counts, err)
		}
		for _, n := range list {
			near[olmes.Key{Task: n.Task, Formulation: n.Formulation, DocID: n.DocID}] = true
		}
		t.Logf("%d near-ties; noise %+v", len(list), *r.Provenance.Noise)
	}
	decisions := func(r *record.Record) map[olmes.Key]int {
		out := map[olmes.Key]int{}
		for p, err := range r.Predictions() {
			if err != nil {
				t.Fatal(err)
			}
			n := olmes.None
			for _, task := range r.Identity.Tasks {
				if task.Name == p.Task && p.Formulation == olmes.CF {
					n = task.Normalization
				}
			}
			best, ok := score.Best(p.Choices, n)
			if !ok {
				t.Errorf("%v has no decision", p.Key())
			}
			out[olmes.Key{Task: p.Task, Formulation: p.Formulation, DocID: p.DocID}] = best
		}
		return out
	}
	x, y := decisions(a), decisions(b)
	if len(x) == 0 || len(x) != len(y) {
		t.Fatalf("%d and %d decisions", len(x), len(y))
	}
	differ := 0
	for k, v := range x {
		if y[k] != v {
			differ++
			if !near[k] {
				t.Errorf("%v: %d and %d, and no near-tie", k, v, y[k])
			}
		}
	}
	t.Logf("%d of %d decisions differ", differ, len(x))
}
