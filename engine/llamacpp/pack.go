package llamacpp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"olmes/engine"
	"olmes/trie"
)

// cache is what packing needs of llama.cpp: a unified cache of cells, each
// holding a token's keys and values and the set of sequences it belongs to,
// and the decoding of a batch, which fills cells. A token sees the cells that
// share a sequence with it and stand at its position or before.
type cache interface {
	clear(data bool) error              // forget all cells, with data also their contents
	keep(seq int32) error               // forget all cells not in seq
	copy(src, dst int32, n int32) error // add the first n positions of src to dst
	remove(seq int32, from int32) error // take seq off its cells from position from on
	decode(batch []slot) error          // at most Plan.Batch slots
	logits(i int) ([]float32, error)    // of slot i of the last batch, valid until the next decode
}

// slot is a token of a batch.
type slot struct {
	token, pos int32
	seqs       []int32
	output     bool // its logits are wanted
}

// Sequence ids. All that is at or above seqFirst is given to the paths of one
// batch.
//
// llama.cpp takes a cell of a single sequence for free once the sequence's
// sliding window has left it. That hits no cell of the spine, since whenever
// cells are looked for a path of the batch goes through all of it, and none of
// the prefix, since the search starts behind it.
const (
	seqPrefix = 0 // the chunk's prefix
	seqSpine  = 1 // path to the parent of the next batch's first node, where that is outside the prefix
	seqFirst  = 2
)

// packer turns trees into batches. A batch is a run of nodes in depth-first
// order, as long as the plan allows. Each path of the batch gets a sequence,
// each node is added once with the sequences of all paths through it, and a
// path that goes on from the prefix or from the spine (what was computed
// earlier and leads to the batch's first node; depth-first order makes it a
// single path) gets those cells by copying their mark, not their data. After a
// batch all cells but prefix and new spine are freed, so that no token
// attends over many masked cells and no token is computed twice.
//
// Cells are filled from the front in the order of the nodes, and after a chunk
// only the prefix stays, in cells 0 to P-1, which is where clearing all and
// computing the prefix again would put it. So what came before a chunk leaves
// no trace in its results.
type packer struct {
	plan    engine.Plan
	vocab   int
	deepest int // most tokens on a path
	workers int // goroutines for the vocabulary sums
	cache   cache

	prefix   []int32 // in seqPrefix, if usable
	usable   bool    // the cache is as it was left after a finished chunk
	poisoned bool    // contents of cells may be NaN, which no mask hides

	computed, rows    int64 // tokens decoded, and of them those whose logits were wanted
	decoding, summing time.Duration
}

// rowsMost returns how many nodes of a batch may have wants.
func (p *packer) rowsMost() int {
	if p.plan.Rows > 0 {
		return p.plan.Rows
	}
	return p.plan.Batch
}

// holds reports whether the cache has the tree's prefix, so that start would
// keep it.
func (p *packer) holds(t *trie.Tree) bool {
	return p.usable && !p.poisoned && t.Prefix > 0 && t.Prefix <= len(t.Token) && slices.Equal(t.Token[:t.Prefix], p.prefix)
}

// span is a batch: nodes [start, end).
type span struct{ start, end int }

// spans cuts the nodes after the prefix into batches of at most batch nodes,
// leaves paths and rows nodes that something is wanted of.
func spans(t *trie.Tree, batch, leaves, rows int) []span {
	var out []span
	start, paths, wanted := t.Prefix, 0, 0
	want := 0 // first of t.Wants at the node or after it
	for i := t.Prefix; i < len(t.Token); i++ {
		for want < len(t.Wants) && int(t.Wants[want].Node) < i {
			want++
		}
		path, row := 0, 0
		if i == start || int(t.Parent[i]) != i-1 {
			path = 1 // a branch; going on from the node before makes no new path
		}
		if want < len(t.Wants) && int(t.Wants[want].Node) == i {
			row = 1
		}
		if i-start == batch || paths+path > leaves || wanted+row > rows {
			out = append(out, span{start, i})
			start, paths, wanted, path = i, 0, 0, 1
		}
		paths += path
		wanted += row
	}
	if start < len(t.Token) {
		out = append(out, span{start, len(t.Token)})
	}
	return out
}

// cells returns how many cells are in use after the batch: prefix, spine and
// the batch itself.
func (b span) cells(t *trie.Tree) int {
	n := t.Prefix + b.end - b.start
	for q := t.Parent[b.start]; int(q) >= t.Prefix; q = t.Parent[q] {
		n++
	}
	return n
}

// check returns an ErrInput for a tree that cannot be computed.
func (p *packer) check(t *trie.Tree, depth []int32, deepest int, batches []span) error {
	if deepest > p.deepest {
		return engine.InputError(fmt.Errorf("tree is %d tokens deep, the model's context takes %d", deepest, p.deepest))
	}
	for i, id := range t.Token {
		if int(id) >= p.vocab {
			return engine.InputError(fmt.Errorf("tree node %d has token %d, the vocabulary has %d", i, id, p.vocab))
		}
	}
	for i, w := range t.Wants {
		if int(w.Token) >= p.vocab {
			return engine.InputError(fmt.Errorf("want %d is of token %d, the vocabulary has %d", i, w.Token, p.vocab))
		}
	}
	for _, b := range batches {
		if need := b.cells(t); need > p.plan.Cells {
			return engine.InputError(fmt.Errorf("tree needs %d cells of cache at once, the plan has %d: a larger plan.cells is needed", need, p.plan.Cells))
		}
	}
	return nil
}

// score computes one tree.
func (p *packer) score(ctx context.Context, t *trie.Tree) (engine.Scores, error) {
	if err := t.Validate(); err != nil {
		return engine.Scores{}, engine.InputError(err)
	}
	depth, deepest := t.Depths()
	batches := spans(t, p.plan.Batch, p.plan.Sequences-seqFirst, p.rowsMost())
	if err := p.check(t, depth, deepest, batches); err != nil {
		return engine.Scores{}, err
	}
	r := run{packer: p, tree: t, depth: depth, logProbs: make([]float64, len(t.Wants))}
	held := p.holds(t)
	p.usable = false // until the tree is finished
	err := r.start(ctx, held)
	for _, b := range batches {
		if err != nil {
			break
		}
		err = r.batch(ctx, b)
	}
	if err != nil {
		return engine.Scores{}, err
	}
	p.usable = true
	return engine.Scores{LogProbs: r.logProbs, Computed: r.computed}, nil
}

// run is the scoring of one tree.
type run struct {
	*packer
	tree     *trie.Tree
	depth    []int32
	spined   bool // seqSpine holds cells
	want     int  // first of tree.Wants not yet answered
	logProbs []float64
	computed int
	slots    []slot
	lo, hi   []int32 // first and last path through each node of a batch
	all      []int32 // sequence ids seqFirst, seqFirst+1, ...
}

// start brings the prefix into the cache, which may hold it.
func (r *run) start(ctx context.Context, held bool) error {
	n := r.tree.Prefix
	ids := r.tree.Token[:n]
	asked := len(r.tree.Wants) > 0 && int(r.tree.Wants[0].Node) < n
	if held && !asked {
		return r.cache.keep(seqPrefix)
	}
	if err := r.cache.clear(r.poisoned); err != nil {
		return err
	}
	r.poisoned = false
	r.prefix = slices.Clone(ids)
	r.all = []int32{seqPrefix}
	for start := 0; start < n; start += r.plan.Batch {
		end := min(start+r.plan.Batch, n)
		r.slots = r.slots[:0]
		for i := start; i < end; i++ {
			r.slots = append(r.slots, slot{token: ids[i], pos: int32(i), seqs: r.all})
		}
		if err := r.decode(ctx, start, end); err != nil {
			return fmt.Errorf("prefix tokens %d to %d: %w", start, end-1, err)
		}
	}
	return nil
}

// batch computes the nodes of b and leaves the spine for the next batch.
func (r *run) batch(ctx context.Context, b span) error {
	t, n := r.tree, b.end-b.start
	r.lo, r.hi = slices.Grow(r.lo[:0], n)[:n], slices.Grow(r.hi[:0], n)[:n]
	paths := int32(0)
	for k := range n {
		r.lo[k], r.hi[k] = paths, paths
		if next := b.start + k + 1; next == b.end || int(t.Parent[next]) != next-1 {
			paths++ // node k ends a path within the batch
		}
	}
	for k := n - 1; k >= 0; k-- {
		if q := int(t.Parent[b.start+k]) - b.start; q >= 0 {
			r.hi[q] = max(r.hi[q], r.hi[k])
		}
	}
	r.all = r.all[:0]
	for s := range paths {
		r.all = append(r.all, seqFirst+s)
	}
	r.slots = r.slots[:0]
	for k := range n {
		i := b.start + k
		seqs := r.all[r.lo[k] : r.hi[k]+1]
		r.slots = append(r.slots, slot{token: t.Token[i], pos: r.depth[i] - 1, seqs: seqs})
		q := int(t.Parent[i])
		if q < 0 || q >= b.start {
			continue
		}
		from := int32(seqPrefix)
		if q >= t.Prefix {
			from = seqSpine
		}
		for _, s := range seqs {
			if err := r.cache.copy(from, s, r.depth[q]); err != nil {
				return err
			}
		}
	}
	if err := r.decode(ctx, b.start, b.end); err != nil {
		return fmt.Errorf("tokens %d to %d of the tree: %w", b.start, b.end-1, err)
	}
	if b.end == len(t.Token) {
		return nil // keep or clear frees the rest
	}
	q := int(t.Parent[b.end])
	if r.spined {
		left := int32(0) // of the old spine
		if q >= t.Prefix && q < b.start {
			left = r.depth[q]
		}
		if err := r.cache.remove(seqSpine, left); err != nil {
			return err
		}
		r.spined = left > 0
	}
	if q >= b.start {
		from := seqFirst + r.hi[q-b.start]
		if err := r.cache.copy(from, seqSpine, r.depth[q]); err != nil {
			return err
		}
		r.spined = true
	}
	for _, s := range r.all {
		if err := r.cache.remove(s, 0); err != nil {
			return err
		}
	}
	return nil
}

// decode computes r.slots, which are the nodes from start on, and answers what
// is wanted of them.
func (r *run) decode(ctx context.Context, start, end int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wants := r.tree.Wants
	last := r.want
	for last < len(wants) && int(wants[last].Node) < end {
		r.slots[int(wants[last].Node)-start].output = true
		last++
	}
	n := len(r.slots)
	r.computed += n
	r.packer.computed += int64(n)
	sums := r.wanted(last)
	r.rows += int64(len(sums.sums))
	started := time.Now()
	var err error
	if c, ok := r.cache.(summer); ok {
		err = c.decodeSums(r.slots, sums)
	} else {
		err = r.cache.decode(r.slots)
	}
	decoded := time.Now()
	r.decoding += decoded.Sub(started)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	defer func() { r.summing += time.Since(decoded) }()
	if !sums.filled {
		if err := r.sum(sums, start); err != nil {
			return err
		}
	}
	for k, z := range sums.sums {
		if math.IsNaN(z) || math.IsInf(z, 0) {
			r.poisoned = true
		}
		for i := sums.first[k]; i < sums.first[k+1]; i++ {
			r.logProbs[r.want+int(i)] = float64(sums.picked[i]) - z
		}
	}
	r.want = last
	return nil
}

// wanted tells what is wanted of the next batch: the wants before last.
func (r *run) wanted(last int) *summed {
	s := &summed{first: []int32{0}}
	for i, w := range r.tree.Wants[r.want:last] {
		if i > 0 && w.Node != r.tree.Wants[r.want+i-1].Node {
			s.first = append(s.first, int32(i))
		}
		s.tokens = append(s.tokens, w.Token)
	}
	if n := len(s.tokens); n > 0 {
		s.first = append(s.first, int32(n))
		s.picked, s.sums = make([]float32, n), make([]float64, len(s.first)-1)
	}
	return s
}

// sum fills s from the logits of the batch that begins at node start.
func (r *run) sum(s *summed, start int) error {
	logits := make([][]float32, len(s.sums))
	for k := range logits {
		var err error
		if logits[k], err = r.cache.logits(int(r.tree.Wants[r.want+int(s.first[k])].Node) - start); err != nil {
			return err
		}
	}
	// One goroutine a row, so that a row's sum does not depend on their number.
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(r.workers, len(logits)) {
		group.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= len(logits) {
					return
				}
				s.sums[k] = logSumExp(logits[k])
				for i := s.first[k]; i < s.first[k+1]; i++ {
					s.picked[i] = logits[k][s.tokens[i]]
				}
			}
		})
	}
	group.Wait()
	return nil
}
