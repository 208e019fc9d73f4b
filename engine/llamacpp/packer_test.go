package llamacpp

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"olmes/engine"
	"olmes/trie"
)

const testVocab = 17

func newPacker(c *cells, plan engine.Plan) *packer {
	return &packer{plan: plan, vocab: testVocab, deepest: plan.Cells, workers: 3, cache: c}
}

// drawChunks cuts random groups: a lead that most share, stems, ends.
func drawChunks(t *rapid.T, limit int) []trie.Chunk {
	ids := func(label string, low, high int) []int32 {
		return rapid.SliceOfN(rapid.Int32Range(0, 3), low, high).Draw(t, label)
	}
	lead := ids("lead", 0, 8)
	groups := make([][]trie.Sequence, rapid.IntRange(1, 10).Draw(t, "groups"))
	for g := range groups {
		stem := ids("stem", 1, 6)
		if rapid.IntRange(0, 4).Draw(t, "led") > 0 {
			stem = slices.Concat(lead, stem)
		}
		for range rapid.IntRange(1, 5).Draw(t, "choices") {
			groups[g] = append(groups[g], trie.Sequence{IDs: slices.Concat(stem, ids("end", 1, 5)), Start: len(stem)})
		}
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: limit})
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

func drawPlan(t *rapid.T) engine.Plan {
	batch := rapid.IntRange(1, 12).Draw(t, "batch")
	return engine.Plan{Batch: batch, MicroBatch: batch, Cells: 50, Sequences: rapid.IntRange(seqFirst+1, seqFirst+6).Draw(t, "sequences"),
		Rows: rapid.IntRange(0, batch).Draw(t, "rows")}
}

// Every wanted token sees its path and nothing else, whatever batch size,
// number of sequences and sliding window, and nothing is computed twice.
func TestPackerSeesThePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := drawPlan(t)
		c := newCells(plan, testVocab)
		c.window = rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "window")
		p := newPacker(c, plan)
		for _, chunk := range drawChunks(t, 30) {
			rebuilt := !p.usable || !slices.Equal(p.prefix, chunk.Tree.Token[:chunk.Tree.Prefix])
			before := c.decoded
			c.used = nil
			got, err := p.score(t.Context(), &chunk.Tree)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range chunk.Tree.Wants {
				path := chunk.Tree.Path(w.Node)
				if c.window > 0 {
					path = path[max(0, len(path)-c.window):]
				}
				row := hashRow(testVocab, path, nil)
				if want := float64(row[w.Token]) - logSumExp(row); got.LogProbs[i] != want {
					t.Fatalf("want %d: %g, of its path %g", i, got.LogProbs[i], want)
				}
			}
			n := len(chunk.Tree.Token)
			asked := int(chunk.Tree.Wants[0].Node) < chunk.Tree.Prefix
			if !rebuilt && !asked {
				n -= chunk.Tree.Prefix
			}
			if got.Computed != n || c.decoded-before != n {
				t.Fatalf("computed %d (cache: %d) of %d nodes", got.Computed, c.decoded-before, n)
			}
			batches := spans(&chunk.Tree, plan.Batch, plan.Sequences-seqFirst, p.rowsMost())
			wanted := map[int32]bool{}
			for _, w := range chunk.Tree.Wants {
				wanted[w.Node] = true
			}
			for k, b := range batches {
				rows := 0
				for i := b.start; i < b.end; i++ {
					if wanted[int32(i)] {
						rows++
					}
				}
				if rows > p.rowsMost() {
					t.Fatalf("batch %d has %d rows, the plan %d", k, rows, p.rowsMost())
				}
			}
			for k, used := range c.used[len(c.used)-len(batches):] {
				if want := batches[k].cells(&chunk.Tree); used != want {
					t.Fatalf("batch %d leaves %d cells in use, want %d", k, used, want)
				}
			}
		}
	})
}

// A chunk's tokens stand in the same cells after any other chunk as in an
// empty cache.
func TestPackerForgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := drawPlan(t)
		c := newCells(plan, testVocab)
		c.layout = true
		c.window = rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "window")
		p := newPacker(c, plan)
		chunks := slices.Concat(drawChunks(t, 15), drawChunks(t, 15))
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			chunk := rapid.SampledFrom(chunks).Draw(t, "chunk")
			if rapid.IntRange(0, 2).Draw(t, "break") == 0 {
				// A decode that fails in the middle leaves no trace either.
				left := rapid.IntRange(0, 3).Draw(t, "decodes")
				c.abort = func([]slot) error {
					if left--; left < 0 {
						return errors.New("broken")
					}
					return nil
				}
				p.score(t.Context(), &chunk.Tree)
				c.abort = nil
				continue
			}
			got, err := p.score(t.Context(), &chunk.Tree)
			if err != nil {
				t.Fatal(err)
			}
			fresh := newCells(plan, testVocab)
			fresh.layout, fresh.window = true, c.window
			want, err := newPacker(fresh, plan).score(t.Context(), &chunk.Tree)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.LogProbs, want.LogProbs) {
				t.Fatalf("after others %v, alone %v", got.LogProbs, want.LogProbs)
			}
		}
	})
}

// The spine of a batch lies behind cells that are freed, and is longer than
// the sliding window when a branch goes on from its beginning.
func TestPackerKeepsSpine(t *testing.T) {
	plan := engine.Plan{Batch: 6, MicroBatch: 6, Cells: 20, Sequences: 6}
	c := newCells(plan, testVocab)
	c.window = 2
	tree := &trie.Tree{ // 0 | 1 2 3 4 5 | children of 5, then of 2
		Token:  []int32{9, 1, 2, 3, 4, 5, 6, 7, 8},
		Parent: []int32{-1, -1, 1, 2, 3, 4, 5, 5, 2},
		Wants:  []trie.Want{{Node: 8, Token: 3}},
	}
	s, err := newPacker(c, plan).score(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	row := hashRow(testVocab, []int32{2, 8}, nil)
	if want := float64(row[3]) - logSumExp(row); s.LogProbs[0] != want {
		t.Errorf("got %g, want %g", s.LogProbs[0], want)
	}
}

func TestPackerRefuses(t *testing.T) {
	plan := engine.Plan{Batch: 4, MicroBatch: 4, Cells: 12, Sequences: 8}
	chain := func(n int) *trie.Tree {
		tree := &trie.Tree{}
		for i := range n {
			tree.Token = append(tree.Token, 1)
			tree.Parent = append(tree.Parent, int32(i-1))
		}
		return tree
	}
	for name, c := range map[string]struct {
		tree *trie.Tree
		want string
	}{
		"invalid":    {&trie.Tree{Token: []int32{1}, Parent: []int32{0}}, "parent"},
		"token":      {&trie.Tree{Token: []int32{testVocab}, Parent: []int32{-1}}, "vocabulary"},
		"want":       {&trie.Tree{Token: []int32{1}, Parent: []int32{-1}, Wants: []trie.Want{{Node: 0, Token: testVocab}}}, "vocabulary"},
		"deep":       {chain(11), "11 tokens deep"},
		"many cells": {&trie.Tree{Token: make([]int32, 18), Prefix: 9, Parent: []int32{-1, 0, 1, 2, 3, 4, 5, 6, 7, -1, 9, 10, 11, 12, 13, 14, 15, 16}}, "cells"},
	} {
		p := newPacker(newCells(plan, testVocab), plan)
		p.deepest = 10
		_, err := p.score(t.Context(), c.tree)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, engine.ErrInput) {
			t.Errorf("%s: error %v, want an ErrInput with %q", name, err, c.want)
		}
		if _, err := p.score(t.Context(), chain(10)); err != nil {
			t.Errorf("%s: a good tree afterwards: %v", name, err)
		}
	}
}

func TestPackerCancelled(t *testing.T) {
	plan := engine.Plan{Batch: 2, MicroBatch: 2, Cells: 12, Sequences: 8}
	c := newCells(plan, testVocab)
	p := newPacker(c, plan)
	ctx, cancel := context.WithCancel(t.Context())
	c.abort = func([]slot) error { cancel(); return nil }
	tree := &trie.Tree{Token: []int32{1, 2, 3}, Parent: []int32{-1, 0, 1}}
	if _, err := p.score(ctx, tree); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if c.decoded != 2 {
		t.Errorf("%d tokens decoded, want one batch of 2", c.decoded)
	}
}

// nanCells gives NaN for token 5 and remembers whether contents were cleared.
type nanCells struct {
	*cells
	wiped int
}

func (c *nanCells) clear(data bool) error {
	if data {
		c.wiped++
	}
	return c.cells.clear(data)
}

func (c *nanCells) logits(i int) ([]float32, error) {
	row, err := c.cells.logits(i)
	if err == nil {
		row[5] = float32(math.NaN())
	}
	return row, err
}

// What may hold NaN is wiped: a mask does not hide it.
func TestPackerWipesNaN(t *testing.T) {
	plan := engine.Plan{Batch: 2, MicroBatch: 2, Cells: 12, Sequences: 8}
	c := &nanCells{cells: newCells(plan, testVocab)}
	p := newPacker(c.cells, plan)
	p.cache = c
	tree := &trie.Tree{Token: []int32{1, 2, 3}, Parent: []int32{-1, 0, 1}, Prefix: 1, Wants: []trie.Want{{Node: 2, Token: 1}}}
	for want := range 3 {
		s, err := p.score(t.Context(), tree)
		if err != nil || !math.IsNaN(s.LogProbs[0]) {
			t.Fatalf("got %v, %v, want NaN", s, err)
		}
		if c.wiped != want || s.Computed != 3 {
			t.Errorf("call %d: %d wipes, %d computed", want, c.wiped, s.Computed)
		}
	}
}
