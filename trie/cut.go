package trie

import (
	"cmp"
	"fmt"
	"slices"
)

// Cut packs whole groups, in order, into chunks. A chunk takes groups while its
// nodes outside the prefix stay within the limit; a single group above the
// limit makes a chunk of its own. Boundaries depend on ids and limits alone.
//
// The prefix is one path for the whole call: of the contexts of the groups'
// first sequences, the path that spares most tokens (groups that share it,
// times its length), which is their common prefix unless some requests were
// truncated and share nothing. A chunk's Tree.Prefix is the part of that path
// that the chunk's sequences pass through.
func Cut(groups [][]Sequence, lim Limits) ([]Chunk, error) {
	if lim.Tokens < 1 {
		return nil, errLimit
	}
	for g, seqs := range groups {
		for i, s := range seqs {
			if err := s.validate(); err != nil {
				return nil, fmt.Errorf("sequence %d of group %d %w", i, g, err)
			}
		}
	}
	b := newBuilder(sharedPath(groups))
	var chunks []Chunk
	for g, seqs := range groups {
		if len(seqs) == 0 {
			continue
		}
		mark := len(b.token)
		for _, s := range seqs {
			b.insert(s.IDs[:len(s.IDs)-1])
		}
		if len(b.groups) > 0 && b.fresh > lim.Tokens {
			b.truncate(mark)
			chunks = append(chunks, b.chunk(groups))
			b = newBuilder(b.prefix)
			for _, s := range seqs {
				b.insert(s.IDs[:len(s.IDs)-1])
			}
		}
		b.groups = append(b.groups, g)
	}
	if len(b.groups) > 0 {
		chunks = append(chunks, b.chunk(groups))
	}
	return chunks, nil
}

// sharedPath returns the path of Cut's prefix. It follows from the root the
// token that most groups have next (the first seen of equals) and ends where
// groups times length is largest (the shorter of equals). The id before each
// continuation is left out, since something is wanted at its node and a kept
// prefix cannot give it without being computed again.
func sharedPath(groups [][]Sequence) []int32 {
	var live [][]int32
	for _, seqs := range groups {
		if len(seqs) > 0 {
			live = append(live, seqs[0].IDs[:seqs[0].Start-1])
		}
	}
	var path []int32
	best, length := 0, 0
	for d := 0; ; d++ {
		count := map[int32]int{}
		top, most := int32(-1), 0
		for _, ids := range live {
			if d < len(ids) {
				count[ids[d]]++
			}
		}
		for _, ids := range live { // in order, so that the first of equals wins
			if d < len(ids) && count[ids[d]] > most {
				top, most = ids[d], count[ids[d]]
			}
		}
		if most == 0 {
			return path[:length]
		}
		path = append(path, top)
		live = slices.DeleteFunc(live, func(ids []int32) bool { return d >= len(ids) || ids[d] != top })
		if spared := most * (d + 1); spared > best {
			best, length = spared, d+1
		}
	}
}

// builder is a trie in order of insertion.
type builder struct {
	prefix        []int32
	token, parent []int32
	depth         []int32
	onPrefix      []bool
	child         map[[2]int32]int32 // (node, token) -> node
	fresh         int                // nodes outside the prefix
	groups        []int

	ids  []int32 // last inserted
	path []int32 // its nodes
}

func newBuilder(prefix []int32) *builder {
	return &builder{prefix: prefix, child: map[[2]int32]int32{}}
}

// insert adds a sequence and leaves its nodes in b.path.
func (b *builder) insert(ids []int32) {
	n := commonLength(b.ids, ids)
	b.path = b.path[:n]
	node := int32(-1)
	if n > 0 {
		node = b.path[n-1]
	}
	for d := n; d < len(ids); d++ {
		key := [2]int32{node, ids[d]}
		next, ok := b.child[key]
		if !ok {
			next = int32(len(b.token))
			b.child[key] = next
			b.token = append(b.token, ids[d])
			b.parent = append(b.parent, node)
			b.depth = append(b.depth, int32(d))
			on := d < len(b.prefix) && ids[d] == b.prefix[d] && (node < 0 || b.onPrefix[node])
			b.onPrefix = append(b.onPrefix, on)
			if !on {
				b.fresh++
			}
		}
		b.path = append(b.path, next)
		node = next
	}
	b.ids = ids
}

// truncate takes the nodes from n on out again.
func (b *builder) truncate(n int) {
	for i := n; i < len(b.token); i++ {
		delete(b.child, [2]int32{b.parent[i], b.token[i]})
		if !b.onPrefix[i] {
			b.fresh--
		}
	}
	b.token, b.parent, b.depth, b.onPrefix = b.token[:n], b.parent[:n], b.depth[:n], b.onPrefix[:n]
	b.ids, b.path = nil, nil
}

// chunk renumbers the nodes depth first, the prefix before all else, and then
// children in order of insertion.
func (b *builder) chunk(groups [][]Sequence) Chunk {
	n := len(b.token)
	c := Chunk{Groups: b.groups, Tree: Tree{Token: make([]int32, 0, n), Parent: make([]int32, 0, n)}}
	// Children of a node as a list: first, then next of each.
	first := make([]int32, n+1) // at node+1; -1 ends
	next := make([]int32, n)
	for i := range first {
		first[i] = -1
	}
	for i := n - 1; i >= 0; i-- { // backwards, so that lists are in order of insertion
		if !b.onPrefix[i] {
			next[i], first[b.parent[i]+1] = first[b.parent[i]+1], int32(i)
		}
	}
	for i := range n {
		if b.onPrefix[i] { // at most one a node
			next[i], first[b.parent[i]+1] = first[b.parent[i]+1], int32(i)
			c.Tree.Prefix++
		}
	}
	place := make([]int32, n)
	var stack []int32
	push := func(node int32) { // children, the first on top
		at := len(stack)
		for k := first[node+1]; k >= 0; k = next[k] {
			stack = append(stack, k)
		}
		slices.Reverse(stack[at:])
	}
	push(-1)
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		place[i] = int32(len(c.Tree.Token))
		c.Tree.Token = append(c.Tree.Token, b.token[i])
		p := b.parent[i]
		if p >= 0 {
			p = place[p]
		}
		c.Tree.Parent = append(c.Tree.Parent, p)
		push(i)
	}

	// Wants, first in the order of the sequences, then sorted and made unique.
	var wants []Want
	c.Index = make([][][]int32, len(b.groups))
	b.ids, b.path = nil, nil
	for gi, g := range b.groups {
		for _, s := range groups[g] {
			b.insert(s.IDs[:len(s.IDs)-1]) // adds nothing: all are there
			for j := s.Start; j < len(s.IDs); j++ {
				wants = append(wants, Want{place[b.path[j-1]], s.IDs[j]})
			}
		}
		c.Index[gi] = make([][]int32, len(groups[g]))
	}
	sorted := slices.Clone(wants)
	slices.SortFunc(sorted, compareWants)
	c.Tree.Wants = slices.Compact(sorted)
	k := 0
	for gi, g := range b.groups {
		for si, s := range groups[g] {
			at := make([]int32, len(s.IDs)-s.Start)
			for j := range at {
				i, _ := slices.BinarySearchFunc(c.Tree.Wants, wants[k], compareWants)
				at[j] = int32(i)
				k++
			}
			c.Index[gi][si] = at
		}
	}
	c.ID = c.Tree.ID()
	return c
}

func compareWants(a, b Want) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Token, b.Token))
}

func commonLength(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Counts says what a set of sequences costs.
type Counts struct {
	Requests int // sequences
	Naive    int // tokens computed when each sequence is run by itself: the sum of len(IDs) - 1
	Distinct int // tokens computed when each is computed once: nodes of the trie of all sequences without their last ids
}

// Count counts the sequences of all groups. Sequences of fewer than two ids
// count as requests that cost nothing.
func Count(groups [][]Sequence) Counts {
	var c Counts
	var all [][]int32
	for _, seqs := range groups {
		for _, s := range seqs {
			c.Requests++
			if len(s.IDs) > 1 {
				c.Naive += len(s.IDs) - 1
				all = append(all, s.IDs[:len(s.IDs)-1])
			}
		}
	}
	// In sorted order, a sequence shares most with its neighbour, so what goes
	// beyond that is new in the trie.
	slices.SortFunc(all, slices.Compare[[]int32])
	for i, ids := range all {
		shared := 0
		if i > 0 {
			shared = commonLength(all[i-1], ids)
		}
		c.Distinct += len(ids) - shared
	}
	return c
}
