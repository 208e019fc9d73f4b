// Package noise tells how far the order of the arithmetic alone moves an
// engine's log-probabilities. Rounding makes the same request come out a little
// different when it is computed beside other requests; a fault of the schedule
// (a token that sees what it must not see, or stands at a wrong place) makes it
// come out very different. The same repetition measures the one and finds the
// other.
//
// Steps of use: have the engine score a chunk, Pick some of its groups, make an
// Instance of each, and Repeat them. The Meter sums up in a record.Noise.
//
// The package stops at the numbers: what to repeat and what to do with the
// outcome is package run's matter.
package noise

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"olmes"
	"olmes/engine"
	"olmes/record"
	"olmes/score"
	"olmes/trie"
)

// Instance is one question as ids, with what the run's own schedule gave for it.
type Instance struct {
	Name          string // for messages: task, formulation and doc_id
	Formulation   olmes.Formulation
	Normalization olmes.Normalization // in force
	Choices       []olmes.Choice      // their lengths; log-probabilities are taken from Requests
	Requests      []Request           // at least one
}

// Request is one request of an instance.
type Request struct {
	Choice        int
	Unconditional bool
	Sequence      trie.Sequence
	LogProbs      []float64 // of the continuation's tokens, nats
}

// Requests takes group g of a chunk apart again: its sequences, with the
// log-probabilities out of those of the chunk's wants.
func Requests(c *trie.Chunk, g int, logProbs []float64) []Request {
	out := make([]Request, len(c.Index[g]))
	for s, wants := range c.Index[g] {
		last := c.Tree.Wants[wants[len(wants)-1]]
		ids := append(c.Tree.Path(last.Node), last.Token)
		out[s] = Request{Choice: s, Sequence: trie.Sequence{IDs: ids, Start: len(ids) - len(wants)}, LogProbs: make([]float64, len(wants))}
		for i, w := range wants {
			out[s].LogProbs[i] = logProbs[w]
		}
	}
	return out
}

// Pick draws n of a chunk's groups, or all where it has fewer. The first and
// every second one are of those that do not fit into one batch of the given
// size, as far as there are such: an engine treats them most specially, so that
// faults show there.
func Pick(r *rand.Rand, c *trie.Chunk, batch, n int) []int {
	var split, other []int
	for _, g := range r.Perm(len(c.Groups)) {
		low, high := math.MaxInt, -1
		for _, wants := range c.Index[g] {
			low = min(low, int(c.Tree.Wants[wants[0]].Node))
			high = max(high, int(c.Tree.Wants[wants[len(wants)-1]].Node))
		}
		if batch > 0 && high >= c.Tree.Prefix && (low-c.Tree.Prefix)/batch != (high-c.Tree.Prefix)/batch {
			split = append(split, g)
		} else {
			other = append(other, g)
		}
	}
	var out []int
	for len(out) < min(n, len(c.Groups)) {
		from := &other
		if len(split) > 0 && (len(out)%2 == 0 || len(other) == 0) {
			from = &split
		}
		out = append(out, (*from)[0])
		*from = (*from)[1:]
	}
	return out
}

// Error says that another schedule gives a token another log-probability by
// more than rounding explains, so that the engine's results cannot be trusted.
type Error struct {
	Instance    string
	Ours, Other float64 // nats
	Bound       float64 // nats
}

func (e *Error) Error() string {
	return fmt.Sprintf("the engine contradicts itself: %s has a token with log-probability %g as the run computes it and %g computed apart; rounding explains %g nats at most",
		e.Instance, e.Ours, e.Other, e.Bound)
}

// Hint says what the user can do.
func (e *Error) Hint() string {
	return "the engine's library, driver or hardware computes this model wrongly; try another --engine-variant, or --gpu-layers 0"
}

// Meter repeats instances and sums up what it finds.
type Meter struct {
	Scorer engine.Scorer
	Bound  float64 // largest difference of a token's log-probability that is rounding, nats

	noise record.Noise
}

// Noise returns the sum so far.
func (m *Meter) Noise() record.Noise {
	n := m.noise
	n.Bound = m.Bound
	return n
}

// Repeat computes instances under other schedules than the run's: each by itself
// on top of the first prefix tokens, then all of them in reverse order, and then
// the first alone of them from the first token on, one request of each as plain
// text. A difference above the bound is an Error.
func (m *Meter) Repeat(ctx context.Context, instances []Instance, alone, prefix int) error {
	for i := range instances {
		if err := m.schedule(ctx, instances[i:i+1], prefix); err != nil {
			return err
		}
	}
	if len(instances) > 1 {
		if err := m.schedule(ctx, instances, prefix); err != nil {
			return err
		}
	}
	for i := range instances[:min(alone, len(instances))] {
		if err := m.schedule(ctx, instances[i:i+1], -1); err != nil {
			return err
		}
	}
	m.noise.Instances += len(instances)
	return nil
}

// Cost returns about how many tokens Repeat computes where the engine has kept
// the prefix.
func Cost(instances []Instance, alone, prefix int) int {
	n := 0
	add := func(instances []Instance, prefix int) {
		if t, _, err := tree(instances, prefix); err == nil && prefix >= 0 {
			n += len(t.Token) - t.Prefix
		} else if err == nil {
			n += len(t.Token)
		}
	}
	for i := range instances {
		add(instances[i:i+1], prefix)
		if i < alone {
			add(instances[i:i+1], -1)
		}
	}
	if len(instances) > 1 {
		add(instances, prefix)
	}
	return n
}

// order returns the indices of an instance's requests in reverse order, the
// unconditional ones after the others.
func (in *Instance) order() []int {
	var first, last []int
	for i, q := range slices.Backward(in.Requests) {
		if q.Unconditional {
			last = append(last, i)
		} else {
			first = append(first, i)
		}
	}
	return append(first, last...)
}

// tree puts instances into one tree, the last one and its last choice first. Its
// prefix is at most the given one; where that is negative, it is the whole path
// of the first request, which an engine then computes as plain text.
func tree(instances []Instance, prefix int) (trie.Tree, [][][]int32, error) {
	groups := make([][]trie.Sequence, len(instances))
	for i, in := range instances {
		g := len(groups) - 1 - i
		for _, q := range in.order() {
			groups[g] = append(groups[g], in.Requests[q].Sequence)
		}
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: math.MaxInt})
	if err != nil {
		return trie.Tree{}, nil, fmt.Errorf("repeat %s: %w", instances[0].Name, err)
	}
	t := chunks[0].Tree
	if prefix >= 0 {
		t.Prefix = min(t.Prefix, prefix)
	} else {
		for t.Prefix < len(t.Token) && int(t.Parent[t.Prefix]) == t.Prefix-1 {
			t.Prefix++
		}
	}
	return t, chunks[0].Index, nil
}

// schedule computes one tree of the instances and compares.
func (m *Meter) schedule(ctx context.Context, instances []Instance, prefix int) error {
	t, index, err := tree(instances, prefix)
	if err != nil {
		return err
	}
	s, err := m.Scorer.Score(ctx, &t)
	if err != nil {
		return fmt.Errorf("repeat %s: %w", instances[0].Name, err)
	}
	if len(s.LogProbs) != len(t.Wants) {
		return fmt.Errorf("repeat %s: the engine gave %d log-probabilities for %d wanted", instances[0].Name, len(s.LogProbs), len(t.Wants))
	}
	m.noise.Tokens += int64(s.Computed)
	for i, in := range instances {
		wants := index[len(index)-1-i]
		other := make([][]float64, len(in.Requests))
		for k, q := range in.order() {
			for _, w := range wants[k] {
				other[q] = append(other[q], s.LogProbs[w])
			}
		}
		if err := m.compare(in, other); err != nil {
			return err
		}
	}
	return nil
}

// compare takes in what another schedule gave for an instance's requests.
func (m *Meter) compare(in Instance, other [][]float64) error {
	var sums record.Noise // of this instance
	ours, theirs := slices.Clone(in.Choices), slices.Clone(in.Choices)
	for i, q := range in.Requests {
		a, b := 0.0, 0.0
		for k, x := range q.LogProbs {
			y := other[i][k]
			d := math.Abs(x - y)
			if !finite(x) && !finite(y) {
				d = 0 // the instance fails under both
			}
			if !(d <= m.Bound) {
				return &Error{Instance: in.Name, Ours: x, Other: y, Bound: m.Bound}
			}
			a, b = a+x, b+y
			sums.Values++
			sums.ValueLargest, sums.ValueMean = max(sums.ValueLargest, d), sums.ValueMean+d
		}
		set(&ours[q.Choice], a, q.Unconditional)
		set(&theirs[q.Choice], b, q.Unconditional)
		if d := math.Abs(a - b); finite(d) {
			sums.Requests++
			sums.Largest, sums.Mean = max(sums.Largest, d), sums.Mean+d
		}
	}
	sums.Mean /= float64(max(1, sums.Requests))
	sums.ValueMean /= float64(max(1, sums.Values))
	if spread, ok := spread(ours, theirs, in.Normalization); ok {
		sums.Margins = []record.MarginNoise{{Formulation: in.Formulation, Normalization: in.Normalization, Largest: spread, Instances: 1}}
		x, _ := score.Best(ours, in.Normalization)
		y, _ := score.Best(theirs, in.Normalization)
		sums.Decisions = 1
		if x != y {
			sums.Flipped = 1
		}
	}
	m.noise.Merge(sums)
	return nil
}

func set(c *olmes.Choice, v float64, unconditional bool) {
	if unconditional {
		c.Unconditional = &v
	} else {
		c.LogProb = &v
	}
}

// spread returns the largest change, between two schedules, of the difference of
// two choices' values under n. It reports false where n is undefined for any.
func spread(a, b []olmes.Choice, n olmes.Normalization) (float64, bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for i := range a {
		x, okX := score.Value(&a[i], n)
		y, okY := score.Value(&b[i], n)
		if !okX || !okY {
			return 0, false
		}
		low, high = min(low, x-y), max(high, x-y)
	}
	return high - low, len(a) > 0
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Arithmetic is what decides how far rounding may go.
type Arithmetic struct {
	Weights        string // type the weights are computed in: "f32", "f16", "bf16", or a quantized one
	KVType         string // type of the cache
	FlashAttention bool
	HalfGELU       bool // GELU through a table in half precision
	Kernels        bool // kernels are chosen by the shape of what is computed, as PyTorch does
	GPU            bool
}

// Bound returns the largest difference of a token's log-probability, in nats,
// that rounding explains: some ten times what was measured with llama.cpp on
// arc_easy, both formulations, each schedule of Repeat (a fault moves many tokens
// by nats):
//
//	smollm2-135m-instruct, 32 bits, exact                       0.00002
//	the same, 32 bits, PyTorch on a CPU                         0.00004
//	gemma-3-270m, 32 bits, exact                                0.004
//	both, 32 bits, cache of 16 bits and flash attention         0.014
//	smollm2-135m-instruct, f16, cache and attention likewise    0.014
//	smollm2-135m-instruct, bf16, likewise                       0.074
//	smollm2-135m-instruct, q4_1 (activations in 8 bits)         0.21
func (a Arithmetic) Bound() float64 {
	switch w := a.Weights; {
	case w != "f32" && w != "f16" && w != "bf16":
		return 2
	case w == "bf16" || a.GPU: // GPUs may shorten factors
		return 0.75
	case w == "f16" || a.FlashAttention || a.KVType != "f32":
		return 0.2
	case a.HalfGELU:
		return 0.03
	case a.Kernels:
		return 0.01
	}
	return 0.001
}
