package trie

import (
	"fmt"
	"slices"
)

// CutEach packs sequences that need not stay together, so that as little as
// possible is computed twice: sequences that begin alike come into one chunk,
// or, where they are too many, into chunks that follow each other with their
// common path as prefix. It is for requests that were truncated from the left:
// those of one instance then often share nothing, but much with other
// instances' that lost as many tokens. Equal sequences share a chunk.
//
// A Chunk's Groups are indices of sequences, ascending, each a group of one.
// Boundaries depend on ids and limits alone.
func CutEach(seqs []Sequence, lim Limits) ([]Chunk, error) {
	if lim.Tokens < 1 {
		return nil, errLimit
	}
	groups := make([][]Sequence, len(seqs))
	order := make([]int, len(seqs))
	for i, s := range seqs {
		if err := s.validate(); err != nil {
			return nil, fmt.Errorf("sequence %d %w", i, err)
		}
		groups[i], order[i] = seqs[i:i+1], i
	}
	c := cutter{seqs: seqs, groups: groups, limit: lim.Tokens}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(c.nodes(a), c.nodes(b)) })
	if len(order) > 0 {
		c.cut(order, 0)
	}
	return c.chunks, nil
}

type cutter struct {
	seqs   []Sequence
	groups [][]Sequence
	limit  int
	chunks []Chunk
}

// nodes returns the ids of sequence i that become nodes.
func (c *cutter) nodes(i int) []int32 { return c.seqs[i].IDs[:len(c.seqs[i].IDs)-1] }

// size returns the number of nodes below depth of sequences in sorted order.
func (c *cutter) size(order []int, depth int) int {
	n := 0
	for k, i := range order {
		ids, shared := c.nodes(i), depth
		if k > 0 {
			shared = max(depth, commonLength(c.nodes(order[k-1]), ids))
		}
		n += len(ids) - shared
	}
	return n
}

// cut makes chunks of sequences in sorted order that share a path of the depth.
func (c *cutter) cut(order []int, depth int) {
	first, last := c.nodes(order[0]), c.nodes(order[len(order)-1])
	if c.size(order, depth) <= c.limit || len(first) == commonLength(first, last) && len(first) == len(last) {
		c.add(order, depth)
		return
	}
	depth = commonLength(first, last)
	var large [][]int // parts too large for a chunk, which get prefixes of their own
	var held []int
	room := c.limit
	for len(order) > 0 {
		// A part: the sequences that go on with the same token, or end here.
		n := 1
		for n < len(order) && sameNext(c.nodes(order[0]), c.nodes(order[n]), depth) {
			n++
		}
		part := order[:n]
		order = order[n:]
		size := c.size(part, depth)
		if size > c.limit {
			large = append(large, part)
			continue
		}
		if size > room {
			c.add(held, depth)
			held, room = nil, c.limit
		}
		held = append(held, part...)
		room -= size
	}
	if len(held) > 0 {
		c.add(held, depth)
	}
	for _, part := range large {
		c.cut(part, depth)
	}
}

// sameNext reports whether two sequences of a common path of the depth go on
// alike.
func sameNext(a, b []int32, depth int) bool {
	if len(a) == depth || len(b) == depth {
		return len(a) == len(b)
	}
	return a[depth] == b[depth]
}

func (c *cutter) add(order []int, depth int) {
	prefix := c.nodes(order[0])[:depth]
	b := newBuilder(prefix)
	b.groups = slices.Sorted(slices.Values(order))
	for _, i := range b.groups {
		b.insert(c.nodes(i))
	}
	c.chunks = append(c.chunks, b.chunk(c.groups))
}
