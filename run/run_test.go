package run

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"olmes"
	"olmes/artifact"
	"olmes/engine"
	"olmes/engine/child"
	"olmes/engine/enginetest"
	"olmes/model/modeltest"
	"olmes/prompt"
	"olmes/record"
	"olmes/trie"
)

// bigramRun sets up a small run on the bigram engine, whose log-probabilities
// are known.
func bigramRun(t *testing.T, e *enginetest.Bigram) (Config, Env) {
	t.Helper()
	env := testEnv(t)
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := modeltest.Write(file, modeltest.Options{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	env.Start = startBigram(e)
	return Config{Model: file, Tasks: []string{"openbookqa", "winogrande"}, Limit: 4, ChunkTokens: 256, Weights: "as-is"}, env
}

// startBigram starts a copy of e each time, since a closed engine stays closed.
func startBigram(e *enginetest.Bigram) func(context.Context, Setup) (engine.Engine, error) {
	return func(context.Context, Setup) (engine.Engine, error) {
		return &enginetest.Bigram{Before: e.Before, Change: e.Change, Parallel: e.Parallel}, nil
	}
}

func predictions(t *testing.T, dir string) []olmes.Prediction {
	t.Helper()
	rec, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []olmes.Prediction
	for p, err := range rec.Predictions() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// TestRunBigram follows every number from the dataset's row to the record and
// compares it with the sum that the bigram model gives by hand.
func TestRunBigram(t *testing.T) {
	b := &enginetest.Bigram{}
	c, env := bigramRun(t, b)
	out, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	if out.Errors != 0 || out.Instances != 16 {
		t.Fatalf("%+v", out)
	}
	c, err = c.Resolved()
	if err != nil {
		t.Fatal(err)
	}
	all, err := choose(t.Context(), c, env)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, p := range predictions(t, out.Dir) {
		for _, ch := range all {
			if ch.task.Name != p.Task {
				continue
			}
			in := ch.data.Instances[p.DocID]
			rs, err := prompt.Requests(ch.task.Template, ch.data.Shots, in, p.Formulation)
			if err != nil {
				t.Fatal(err)
			}
			us, err := prompt.Unconditional(ch.task.Template, in)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range rs {
				// A bigram sees one token back, so truncation changes nothing.
				if want := bigramSum(b, r); math.Abs(*p.Choices[i].LogProb-want) > 1e-9 {
					t.Errorf("%v choice %d: %v, by hand %v", p.Key(), i, *p.Choices[i].LogProb, want)
				}
				if len(us) > 0 && p.Formulation == olmes.CF {
					if want := bigramSum(b, us[i]); p.Choices[i].Unconditional == nil || math.Abs(*p.Choices[i].Unconditional-want) > 1e-9 {
						t.Errorf("%v choice %d: unconditional %v, by hand %v", p.Key(), i, p.Choices[i].Unconditional, want)
					}
				}
				checked++
			}
		}
	}
	if checked != 2*(4*4+4*2) {
		t.Errorf("%d choices checked", checked)
	}
}

func bigramSum(b *enginetest.Bigram, r olmes.Request) float64 {
	sum := 0.0
	prev := r.Prompt.Text[len(r.Prompt.Text)-1]
	for i := range len(r.Continuation) {
		sum += b.LogProb(int32(prev), int32(r.Continuation[i]))
		prev = r.Continuation[i]
	}
	return sum
}

// TestRunNaN has the engine give NaN: the instances that it hits have an error
// and no score, all others are scored, and the task has no score.
func TestRunNaN(t *testing.T) {
	for name, hit := range map[string]func(prev, next int32) bool{
		"one letter": func(prev, next int32) bool { return prev == ' ' && next == 'D' },
		"all":        func(prev, next int32) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			b := &enginetest.Bigram{Change: func(prev, next int32, v float64) float64 {
				if hit(prev, next) {
					return math.NaN()
				}
				return v
			}}
			c, env := bigramRun(t, b)
			out, err := Do(t.Context(), c, Options{}, env)
			fetched(t, err)
			failed := 0
			for _, p := range predictions(t, out.Dir) {
				bad := false
				for _, ch := range p.Choices {
					if (ch.LogProb == nil) != (ch.Error != "") {
						t.Errorf("%v: log-probability %v with error %q", p.Key(), ch.LogProb, ch.Error)
					}
					bad = bad || ch.Error != ""
				}
				if bad {
					failed++
					if len(p.Predictions) > 0 {
						t.Errorf("%v has an error and predictions %v", p.Key(), p.Predictions)
					}
				}
			}
			if failed == 0 || failed != out.Errors || name == "all" && failed != out.Instances || name != "all" && failed == out.Instances {
				t.Errorf("%d of %d failed, the outcome says %d", failed, out.Instances, out.Errors)
			}
			rec, err := record.Open(out.Dir)
			if err != nil {
				t.Fatal(err)
			}
			m, err := rec.Metrics()
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range m.Tasks {
				if task.Task == "openbookqa" && task.Score != nil {
					t.Errorf("a task with failed instances has the score %+v", task.Score)
				}
			}
		})
	}
}

// TestRunDies has the engine die once on a chunk, then for good.
func TestRunDies(t *testing.T) {
	var calls, deaths atomic.Int32
	b := &enginetest.Bigram{Before: func(context.Context, *trie.Tree) error {
		if n := calls.Add(1); n == 2 || deaths.Load() > 0 {
			return &child.ExitError{State: "signal: killed"}
		}
		return nil
	}}
	c, env := bigramRun(t, b)
	out, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	if out.Errors != 0 {
		t.Errorf("%+v", out)
	}
	deaths.Store(1)
	_, err = Do(t.Context(), c, Options{Dir: filepath.Join(t.TempDir(), "r"), NoReuse: true}, env)
	var died *child.ExitError
	if !errors.As(err, &died) {
		t.Errorf("an engine that always dies gave %v", err)
	}
}

// TestRunParallel has an engine that computes three chunks at the same time,
// and finishes them in another order than it was given them.
func TestRunParallel(t *testing.T) {
	c, env := bigramRun(t, &enginetest.Bigram{})
	c.Limit, c.ChunkTokens = 40, 64 // more than the self-check takes
	want, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	met, calls := three()
	scoring := &scoringReporter{} // after the self-check
	env.Reporter = scoring
	env.Start = startBigram(&enginetest.Bigram{Parallel: 3, Before: func(context.Context, *trie.Tree) error {
		if !scoring.begun.Load() {
			time.Sleep(time.Millisecond)
			return nil
		}
		n, err := met()
		if n > 3 || err != nil {
			return err
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		return nil
	}})
	got, err := Do(t.Context(), c, Options{Dir: filepath.Join(t.TempDir(), "r"), NoReuse: true}, env)
	if err != nil {
		t.Fatal(err)
	}
	sameResults(t, want.Dir, got.Dir)
	if calls.Load() < 3 {
		t.Errorf("%d chunks scored", calls.Load())
	}
}

// three returns a function that waits in its first three calls until three are
// there at the same time; it returns the number of the call, from 1.
func three() (met func() (int32, error), calls *atomic.Int32) {
	calls = new(atomic.Int32)
	together := make(chan struct{}) // closed when three are there
	return func() (int32, error) {
		n := calls.Add(1)
		switch {
		case n > 3:
			return n, nil
		case n == 3:
			close(together)
		}
		select {
		case <-together:
			return n, nil
		case <-time.After(10 * time.Second):
			return n, errors.New("no three chunks at the same time")
		}
	}, calls
}

// scoringReporter knows when a run has begun to score.
type scoringReporter struct {
	Silent
	begun atomic.Bool
}

func (r *scoringReporter) Phase(name, unit string, total int64) Phase {
	if name == "score" {
		r.begun.Store(true)
	}
	return r.Silent.Phase(name, unit, total)
}

// sameResults compares the results of two runs, byte for byte.
func sameResults(t *testing.T, a, b string) {
	t.Helper()
	for _, name := range []string{"predictions.parquet", "metrics.json"} {
		x, errX := os.ReadFile(filepath.Join(a, name))
		y, errY := os.ReadFile(filepath.Join(b, name))
		if errX != nil || errY != nil || string(x) != string(y) {
			t.Errorf("%s differs (%v, %v)", name, errX, errY)
		}
	}
}

// TestRunCancelled cancels a run and resumes it.
func TestRunCancelled(t *testing.T) {
	b := &enginetest.Bigram{}
	c, env := bigramRun(t, b)
	want, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int32
	b2 := &enginetest.Bigram{Before: func(context.Context, *trie.Tree) error {
		if calls.Add(1) == 3 {
			cancel()
			return ctx.Err()
		}
		return nil
	}}
	env.Start = startBigram(b2)
	dir := filepath.Join(t.TempDir(), "r")
	o := Options{Dir: dir, NoReuse: true}
	if _, err = Do(ctx, c, o, env); !errors.Is(err, context.Canceled) || !strings.Contains(artifact.Hint(err), "--resume") {
		t.Fatalf("cancelled: %v", err)
	}
	env.Start = startBigram(b)
	if _, err = Do(t.Context(), c, o, env); !errors.Is(err, record.ErrExists) {
		t.Fatalf("without resume: %v", err)
	}
	o.Resume = true
	if _, err := Do(t.Context(), c, o, env); err != nil {
		t.Fatal(err)
	}
	sameResults(t, want.Dir, dir)
}
