package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"olmes/engine"
	"olmes/engine/llamacpp"
	"olmes/trie"
)

// What measuring plans takes: each candidate computes a tree twice, and the
// second time counts. The tree is as those of the standard's tasks: a prefix
// about as long as five examples, and instances of four choices.
const (
	measurePrefix = 768
	measureStem   = 40
	measureChoice = 6
	measureNew    = 1024             // new tokens of the tree on a CPU
	measureNewGPU = 8192             // on a GPU
	measureLimit  = 60 * time.Second // of a candidate; one that takes longer is out
	measureMargin = 1.03             // by which another plan must be faster than the default one
	chunkSeconds  = 4                // that a chunk should take, of the ten it may
)

// measured is what a plan reached.
type measured struct {
	plan engine.Plan
	rate float64 // tokens a second, of all that is computed at once
	one  float64 // tokens a second of one tree
}

// measurePlans has the engine score made-up tokens under a few plans around base
// and returns the fastest, with chunks of some seconds.
func (r llama) measurePlans(ctx context.Context, s llamacpp.Shape, base engine.Plan, free int64) (engine.Plan, error) {
	batches, size := []int{base.Batch, base.Batch / 2, base.Batch * 2}, measureNew
	if s.GPU {
		size = measureNewGPU
	}
	var plans []engine.Plan
	for _, b := range batches {
		p := base
		if b != base.Batch {
			p = llamacpp.Resize(s, base, b)
		}
		if fit, err := llamacpp.Fit(s, p, free); err == nil && fit == p && b >= minBatch {
			plans = append(plans, p)
		}
	}
	tree, err := measureTree(s, size)
	if err != nil {
		return base, err
	}
	report := r.env.reporter()
	phase := report.Phase("measure plans", "plans", int64(len(plans)))
	var all []measured
	for i, p := range plans {
		m, err := r.measure(ctx, p, tree)
		if ctx.Err() != nil || err != nil && i == 0 {
			phase.Done("failed")
			return base, fmt.Errorf("measure the plan %s: %w", planText(p), err)
		}
		if err != nil {
			report.Note(fmt.Sprintf("plan: batch %d: %v", p.Batch, err))
			continue
		}
		report.Note(fmt.Sprintf("plan: batch %d: %.0f tokens/s", p.Batch, m.rate))
		all = append(all, m)
		phase.Update(int64(i+1), "")
	}
	best := fastest(all)
	p := best.plan
	if r.config.ChunkTokens == 0 {
		p.ChunkTokens = chunkFor(best.one)
	}
	phase.Done(planText(p))
	report.Note("plan: the same without measuring: " + planText(p))
	return p, nil
}

// fastest returns the fastest of what was measured, where it is not the first
// by a margin that noise does not make.
func fastest(all []measured) measured {
	best := all[0]
	for _, m := range all[1:] {
		if m.rate > max(best.rate, all[0].rate*measureMargin) {
			best = m
		}
	}
	return best
}

// chunkFor returns the chunk size that takes some seconds at a rate in tokens a
// second: a power of two, so that measuring twice mostly gives the same.
func chunkFor(rate float64) int {
	n := 256
	for n < 1<<16 && float64(2*n) <= rate*chunkSeconds {
		n *= 2
	}
	return n
}

// measure starts an engine with the plan and takes the time of a tree.
func (r llama) measure(ctx context.Context, p engine.Plan, tree *trie.Tree) (measured, error) {
	ctx, stop := context.WithTimeoutCause(ctx, measureLimit, fmt.Errorf("takes more than %v", measureLimit))
	defer stop()
	setup := r.setup
	setup.Plan = p
	e, err := r.launch()(ctx, setup)
	if err != nil {
		return measured{}, cause(ctx, err)
	}
	defer e.Close()
	d, err := e.Describe(ctx)
	if err != nil {
		return measured{}, cause(ctx, err)
	}
	lanes := max(1, d.Parallel)
	m := measured{plan: p}
	for range 2 {
		start := time.Now()
		computed, failed := make([]int, lanes), make([]error, lanes)
		var group sync.WaitGroup
		for i := range lanes {
			group.Go(func() {
				s, err := e.Score(ctx, tree)
				computed[i], failed[i] = s.Computed, err
			})
		}
		group.Wait()
		if err := errors.Join(failed...); err != nil {
			return measured{}, cause(ctx, err)
		}
		sum := 0
		for _, n := range computed {
			sum += n
		}
		m.rate = float64(sum) / max(time.Since(start).Seconds(), 1e-9)
		m.one = m.rate / float64(lanes)
	}
	return m, nil
}

// cause is why ctx ended, or err.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// measureTree makes a tree of size new tokens after a prefix, shorter where the
// model's window is.
func measureTree(s llamacpp.Shape, size int) (*trie.Tree, error) {
	window := engine.Window
	if s.Context > 0 {
		window = min(window, s.Context)
	}
	x := uint32(1)
	ids := func(n int) []int32 {
		out := make([]int32, max(1, n))
		for i := range out {
			x = x*1664525 + 1013904223
			out[i] = int32(x>>1) % int32(max(2, s.Vocab))
		}
		return out
	}
	unit := min(1, float64(window)/(2*(measurePrefix+measureStem+measureChoice)))
	part := func(n int) int { return int(math.Ceil(float64(n) * unit)) }
	prefix := ids(part(measurePrefix))
	var groups [][]trie.Sequence
	for n := 0; n < size; {
		stem := append(prefix[:len(prefix):len(prefix)], ids(part(measureStem))...)
		var seqs []trie.Sequence
		for range 4 {
			choice := ids(part(measureChoice) + 1)
			seqs = append(seqs, trie.Sequence{IDs: append(stem[:len(stem):len(stem)], choice...), Start: len(stem)})
		}
		groups = append(groups, seqs)
		n += part(measureStem) + 4*part(measureChoice)
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: math.MaxInt32})
	if err != nil {
		return nil, fmt.Errorf("make tokens to measure with: %w", err)
	}
	return &chunks[0].Tree, nil
}
