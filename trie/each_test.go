package trie

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// computed is what an engine computes that keeps the prefix between chunks that
// have the same.
func computed(chunks []Chunk) int {
	n := 0
	var kept []int32
	for _, c := range chunks {
		n += len(c.Tree.Token)
		prefix := c.Tree.Token[:c.Tree.Prefix]
		if len(prefix) > 0 && slices.Equal(prefix, kept) {
			n -= len(prefix)
		}
		kept = prefix
	}
	return n
}

func TestCutEachProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seqs []Sequence
		for _, g := range genGroups(t) {
			seqs = append(seqs, g...)
		}
		lim := Limits{Tokens: rapid.IntRange(1, 40).Draw(t, "limit")}
		chunks, err := CutEach(seqs, lim)
		if err != nil {
			t.Fatal(err)
		}
		chunkOf := map[string]string{} // of ids
		seen := make([]int, len(seqs))
		for _, c := range chunks {
			if err := c.Tree.Validate(); err != nil {
				t.Fatal(err)
			}
			if !slices.IsSorted(c.Groups) {
				t.Fatalf("groups %v", c.Groups)
			}
			if n := len(c.Tree.Token) - c.Tree.Prefix; n > lim.Tokens && slices.ContainsFunc(c.Groups, func(g int) bool {
				return !slices.Equal(seqs[g].IDs[:len(seqs[g].IDs)-1], seqs[c.Groups[0]].IDs[:len(seqs[c.Groups[0]].IDs)-1])
			}) {
				t.Fatalf("a chunk of different sequences has %d new nodes, limit %d", n, lim.Tokens)
			}
			for gi, g := range c.Groups {
				seen[g]++
				s := seqs[g]
				key := fmt.Sprint(s.IDs)
				if other, ok := chunkOf[key]; ok && other != c.ID {
					t.Fatalf("equal sequences %v are in chunks %s and %s", s.IDs, other, c.ID)
				}
				chunkOf[key] = c.ID
				if len(c.Index[gi]) != 1 || len(c.Index[gi][0]) != len(s.IDs)-s.Start {
					t.Fatalf("index %v of sequence %+v", c.Index[gi], s)
				}
				for j, w := range c.Index[gi][0] {
					want := c.Tree.Wants[w]
					if got := append(c.Tree.Path(want.Node), want.Token); !slices.Equal(got, s.IDs[:s.Start+j+1]) {
						t.Fatalf("tree says %v, sequence is %v", got, s.IDs)
					}
				}
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("sequence %d is in %d chunks", i, n)
			}
		}
	})
}

// Truncated requests: 30 instances of 4 choices, each of which lost one of 8
// numbers of tokens from 200 shot tokens. All is computed once.
func TestCutEachComputesOnce(t *testing.T) {
	shots := make([]int32, 200)
	for i := range shots {
		shots[i] = int32(1000 + i)
	}
	var seqs []Sequence
	var groups [][]Sequence
	for q := range int32(30) {
		var group []Sequence
		for c := range int32(4) {
			lost := (q*5 + c*3) % 8
			ids := slices.Concat(shots[lost:], []int32{q, q + 1, q + 2, 50 + c, 60 + c})
			group = append(group, Sequence{IDs: ids, Start: len(ids) - 2})
		}
		seqs = append(seqs, group...)
		groups = append(groups, group)
	}
	distinct := Count(groups).Distinct
	for _, limit := range []int{30, 300, 600, 5000} {
		each, err := CutEach(seqs, Limits{Tokens: limit})
		if err != nil {
			t.Fatal(err)
		}
		if got := computed(each); got != distinct {
			t.Errorf("limit %d: %d computed, %d distinct", limit, got, distinct)
		}
	}
	whole, err := Cut(groups, Limits{Tokens: 600})
	if err != nil {
		t.Fatal(err)
	}
	if got := computed(whole); got < 3*distinct {
		t.Errorf("whole instances: %d computed, %d distinct: this test is no longer one", got, distinct)
	}
}
