package torch

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"olmes/engine"
	"olmes/engine/child"
	"olmes/trie"
)

// Engine is one or more workers. It implements engine.Engine,
// engine.Detokenizer and engine.Counter. When a worker dies, its call fails with
// a *child.ExitError, and its next one starts it again.
type Engine struct {
	dir     string // of the worker's code
	workers []*worker

	mu   sync.Mutex // guards the workers' own fields
	free sync.Cond  // a worker has become free
	last int        // number of the last call
}

// worker is a process with the model.
type worker struct {
	*child.Engine
	load   loadArgs // as the process has them, or the next one will
	busy   bool
	prefix []int32 // of the last tree, which it may still hold
	used   int     // number of its last call
}

// Score implements engine.Scorer. Several calls at once go to several workers,
// each to one that has the tree's prefix if such a one is free.
func (e *Engine) Score(ctx context.Context, tree *trie.Tree) (engine.Scores, error) {
	if err := tree.Validate(); err != nil {
		return engine.Scores{}, engine.InputError(err)
	}
	w, err := e.take(ctx, tree.Token[:tree.Prefix])
	if err != nil {
		return engine.Scores{}, err
	}
	defer e.give(w)
	return w.Score(ctx, tree)
}

func (e *Engine) take(ctx context.Context, prefix []int32) (*worker, error) {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.free.Broadcast()
	})
	defer stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if w := e.best(prefix); w != nil {
			e.last++
			w.busy, w.prefix, w.used = true, slices.Clone(prefix), e.last
			return w, nil
		}
		e.free.Wait()
	}
}

// best returns the free worker that has the prefix, or else the one that has
// been idle for longest, so that other prefixes stay where they are.
func (e *Engine) best(prefix []int32) *worker {
	var best *worker
	for _, w := range e.workers {
		switch {
		case w.busy:
		case slices.Equal(w.prefix, prefix):
			return w
		case best == nil || w.used < best.used:
			best = w
		}
	}
	return best
}

func (e *Engine) give(w *worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.busy = false
	e.free.Signal()
}

// Describe implements engine.Describer. The workers are alike; their notes are
// put together.
func (e *Engine) Describe(ctx context.Context) (engine.Description, error) {
	var all engine.Description
	for i, w := range e.workers {
		d, err := w.Describe(ctx)
		if err != nil {
			return d, err
		}
		if i == 0 {
			all = d
			continue
		}
		for _, note := range d.Notes {
			if !slices.Contains(all.Notes, note) {
				all.Notes = append(all.Notes, note)
			}
		}
	}
	if len(e.workers) > 1 {
		all.Parallel = len(e.workers)
	}
	return all, nil
}

// Tokenize implements engine.Tokenizer.
func (e *Engine) Tokenize(ctx context.Context, texts []string) ([][]int32, error) {
	return e.workers[0].Tokenize(ctx, texts)
}

// Pieces implements engine.Detokenizer. The error is errors.ErrUnsupported
// where the tokenizer changes texts before it cuts them (Unicode's normal
// forms), or does not tell its tokens' bytes. In the first case the worker has
// compared each text's ids with what the text was changed to.
func (e *Engine) Pieces(ctx context.Context) ([][]byte, error) {
	return e.workers[0].Pieces(ctx)
}

// Stats implements engine.Counter.
func (e *Engine) Stats(ctx context.Context) (engine.Stats, error) {
	var sum engine.Stats
	for _, w := range e.workers {
		s, err := w.Stats(ctx)
		if err != nil {
			return s, err
		}
		sum.Computed += s.Computed
		sum.Library += s.Library
		sum.Rows += s.Rows
		sum.Decode += s.Decode
		sum.Sum += s.Sum
	}
	return sum, nil
}

// PIDs returns the workers' process ids, 0 for one that does not run.
func (e *Engine) PIDs() []int {
	pids := make([]int, len(e.workers))
	for i, w := range e.workers {
		pids[i] = w.PID()
	}
	return pids
}

// Close ends the workers.
func (e *Engine) Close() error {
	var errs []error
	for _, w := range e.workers {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}
