package noise

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"olmes"
	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/trie"
)

// skewed is the bigram engine with log-probabilities that depend on the schedule.
type skewed struct {
	enginetest.Bigram
	skew func(t *trie.Tree, want int) float64 // added to it
}

func (e *skewed) Score(ctx context.Context, t *trie.Tree) (engine.Scores, error) {
	s, err := e.Bigram.Score(ctx, t)
	for i := range s.LogProbs {
		if e.skew != nil {
			s.LogProbs[i] += e.skew(t, i)
		}
	}
	return s, err
}

// chunkOf is a chunk of instances with a common beginning, each with three
// choices and, if asked for, unconditional requests.
func chunkOf(t *testing.T, instances int) *trie.Chunk {
	t.Helper()
	var groups [][]trie.Sequence
	for i := range instances {
		question := slices.Concat([]int32("shots shots shots "), []int32{'A' + int32(i), ' '})
		var group []trie.Sequence
		for _, choice := range []string{"abc", "bcd", "bce"} {
			group = append(group, trie.Sequence{IDs: slices.Concat(question, []int32(choice)), Start: len(question)})
		}
		groups = append(groups, group)
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return &chunks[0]
}

func instancesOf(t *testing.T, e engine.Scorer, c *trie.Chunk, groups ...int) []Instance {
	t.Helper()
	s, err := e.Score(t.Context(), &c.Tree)
	if err != nil {
		t.Fatal(err)
	}
	var out []Instance
	for _, g := range groups {
		in := Instance{Name: "it", Formulation: olmes.CF, Normalization: olmes.Character, Requests: Requests(c, g, s.LogProbs)}
		for range in.Requests {
			in.Choices = append(in.Choices, olmes.Choice{Tokens: 3, Chars: 6})
		}
		out = append(out, in)
	}
	return out
}

// Requests gives back the sequences that were cut, with their values.
func TestRequests(t *testing.T) {
	var e enginetest.Bigram
	c := chunkOf(t, 3)
	for _, in := range instancesOf(t, &e, c, 0, 1, 2) {
		for i, want := range []string{"abc", "bcd", "bce"} {
			q := in.Requests[i]
			if got := q.Sequence.IDs[q.Sequence.Start:]; !slices.Equal(got, []int32(want)) || q.Choice != i || q.Sequence.Start != 20 {
				t.Errorf("request %d is %+v", i, q)
			}
			prev := int32(' ')
			for k, id := range []int32(want) {
				if q.LogProbs[k] != e.LogProb(prev, id) {
					t.Errorf("request %d token %d: %v", i, k, q.LogProbs[k])
				}
				prev = id
			}
		}
	}
}

// Pick draws other groups for other seeds, each once, and first one that a batch
// does not hold whole.
func TestPick(t *testing.T) {
	c := chunkOf(t, 20) // of 6 or 7 nodes each, after the prefix
	seen := map[int]bool{}
	for seed := range uint64(50) {
		got := Pick(rand.New(rand.NewPCG(seed, 0)), c, 40, 4)
		if again := Pick(rand.New(rand.NewPCG(seed, 0)), c, 40, 4); !slices.Equal(got, again) {
			t.Fatalf("%v, then %v", got, again)
		}
		if sorted := slices.Compact(slices.Sorted(slices.Values(got))); len(sorted) != 4 {
			t.Fatalf("picked %v", got)
		}
		low := c.Tree.Wants[c.Index[got[0]][0][0]].Node
		high := slices.Max(c.Index[got[0]][2])
		if (int(low)-c.Tree.Prefix)/40 == (int(c.Tree.Wants[high].Node)-c.Tree.Prefix)/40 {
			t.Errorf("first picked %d, which is in one batch", got[0])
		}
		for _, g := range got {
			seen[g] = true
		}
	}
	if len(seen) < 15 {
		t.Errorf("of 20 groups only %d are ever picked", len(seen))
	}
	if got := Pick(rand.New(rand.NewPCG(1, 0)), c, 0, 99); len(got) != 20 {
		t.Errorf("picked %d of 20", len(got))
	}
}

// An engine without noise has none, whatever the schedule.
func TestRepeatExact(t *testing.T) {
	var e enginetest.Bigram
	c := chunkOf(t, 5)
	m := Meter{Scorer: &e, Bound: 1e-12}
	in := instancesOf(t, &e, c, 1, 3)
	if err := m.Repeat(t.Context(), in, 1, c.Tree.Prefix); err != nil {
		t.Fatal(err)
	}
	n := m.Noise()
	// Each by itself, both together, one alone: 5 times 3 requests of 3 tokens.
	if n.Instances != 2 || n.Requests != 15 || n.Values != 45 || n.Decisions != 5 || n.Flipped != 0 || n.Largest != 0 || n.ValueMean != 0 || n.Bound != 1e-12 {
		t.Errorf("%+v", n)
	}
	if len(n.Margins) != 1 || n.Margins[0].Normalization != olmes.Character || n.Margins[0].Instances != 5 {
		t.Errorf("margins %+v", n.Margins)
	}
	if cost := Cost(in, 1, c.Tree.Prefix); int64(cost) > n.Tokens {
		t.Errorf("cost %d, computed %d", cost, n.Tokens)
	}
}

// A known skew of one schedule gives the numbers worked out by hand.
func TestRepeatSkewed(t *testing.T) {
	e := &skewed{}
	c := chunkOf(t, 5)
	in := instancesOf(t, e, c, 2)
	// The token d comes out 0.25 too low where the instance is computed alone.
	e.skew = func(t *trie.Tree, want int) float64 {
		if t.Wants[want].Token == 'd' && t.Prefix > 20 {
			return -0.25
		}
		return 0
	}
	m := Meter{Scorer: e, Bound: 0.3}
	if err := m.Repeat(t.Context(), in, 1, c.Tree.Prefix); err != nil {
		t.Fatal(err)
	}
	n := m.Noise()
	if n.Requests != 6 || math.Abs(n.Largest-0.25) > 1e-12 || math.Abs(n.Mean-0.25/6) > 1e-12 || math.Abs(n.ValueMean-0.25/18) > 1e-12 {
		t.Errorf("%+v", n)
	}
	if got := n.Margins[0].Largest; math.Abs(got-0.25/6) > 1e-12 { // nats a character
		t.Errorf("margins move by %v", got)
	}

	// The same is an error where the bound is smaller, and says where.
	m = Meter{Scorer: e, Bound: 0.2}
	var wrong *Error
	if err := m.Repeat(t.Context(), in, 1, c.Tree.Prefix); !errors.As(err, &wrong) || wrong.Instance != "it" || math.Abs(wrong.Ours-wrong.Other-0.25) > 1e-12 {
		t.Errorf("%v", err)
	}

	// A skew that turns the decision is counted. abc is the best by far.
	e.skew = func(t *trie.Tree, want int) float64 {
		if t.Wants[want].Token == 'a' && t.Prefix > 20 {
			return -20
		}
		return 0
	}
	m = Meter{Scorer: e, Bound: 100}
	if err := m.Repeat(t.Context(), in, 1, c.Tree.Prefix); err != nil || m.Noise().Flipped != 1 || m.Noise().Decisions != 2 {
		t.Errorf("%+v, %v", m.Noise(), err)
	}
}

// What is no number under both schedules says nothing; under one it is an error.
func TestRepeatNaN(t *testing.T) {
	e := &skewed{skew: func(t *trie.Tree, want int) float64 {
		if t.Wants[want].Token == 'd' {
			return math.NaN()
		}
		return 0
	}}
	c := chunkOf(t, 2)
	in := instancesOf(t, e, c, 0)
	m := Meter{Scorer: e, Bound: 0.1}
	if err := m.Repeat(t.Context(), in, 1, c.Tree.Prefix); err != nil {
		t.Fatal(err)
	}
	if n := m.Noise(); n.Requests != 4 || n.Decisions != 0 || n.Margins != nil || n.Largest != 0 {
		t.Errorf("%+v", n)
	}
	e.skew = nil
	var wrong *Error
	if err := m.Repeat(t.Context(), in, 1, c.Tree.Prefix); !errors.As(err, &wrong) {
		t.Errorf("a NaN that comes and goes: %v", err)
	}
}

// The tree of an instance alone has one request as its prefix, so that an engine
// computes it as plain text.
func TestAlone(t *testing.T) {
	var e enginetest.Bigram
	c := chunkOf(t, 2)
	in := instancesOf(t, &e, c, 1)
	in[0].Requests = append(in[0].Requests, Request{Unconditional: true, Sequence: trie.Sequence{IDs: []int32("?abc"), Start: 1}, LogProbs: make([]float64, 3)})
	tree, index, err := tree(in, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Validate(); err != nil {
		t.Fatal(err)
	}
	whole := in[0].Requests[2].Sequence.IDs
	if got := tree.Token[:tree.Prefix]; !slices.Equal(got, whole[:len(whole)-1]) {
		t.Errorf("prefix %v, want %v", got, whole[:len(whole)-1])
	}
	if len(index[0]) != 4 || in[0].order()[3] != 3 {
		t.Errorf("index %v, order %v", index, in[0].order())
	}
}

func TestBound(t *testing.T) {
	exact := Arithmetic{Weights: "f32", KVType: "f32"}
	if b := exact.Bound(); b != 0.001 {
		t.Errorf("exact: %v", b)
	}
	last := 0.0
	for _, a := range []Arithmetic{exact, {Weights: "f32", KVType: "f32", HalfGELU: true}, {Weights: "f32", KVType: "f16", FlashAttention: true}, {Weights: "f16", KVType: "f32"}, {Weights: "bf16", KVType: "f16"}, {Weights: "q4_k", KVType: "f32"}} {
		if b := a.Bound(); b < last {
			t.Errorf("%+v has the bound %v, below %v", a, b, last)
		} else {
			last = b
		}
	}
}

// The numbers of a contradiction are those that differ, however small or large.
func TestErrorNumbers(t *testing.T) {
	for want, e := range map[string]Error{
		"log-probability 1e-07 as the run computes it and -2e-07 computed apart": {Ours: 1e-7, Other: -2e-7},
		"log-probability -1e+300 as the run computes it and 0 computed apart":    {Ours: -1e300},
	} {
		if got := e.Error(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
