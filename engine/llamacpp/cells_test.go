package llamacpp

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"olmes/engine"
)

// cells stands in for llama.cpp's unified cache in tests: the same placement
// of tokens into cells, the same refusals, and as "model" a function of what a
// token sees.
type cells struct {
	size   int
	window int // of sliding attention, 0 for none
	plan   engine.Plan
	vocab  int
	seqs   []map[int32]bool // per cell; empty is free
	pos    []int32
	token  []int32
	head   int

	// layout makes the logits depend on where the visible tokens stand and on
	// how many cells are in use, as rounding does.
	layout bool
	abort  func(slots []slot) error

	rows    map[int][]float32
	decoded int
	used    []int // cells in use after each decode
}

func newCells(plan engine.Plan, vocab int) *cells {
	size := plan.Cells
	c := &cells{size: size, plan: plan, vocab: vocab, seqs: make([]map[int32]bool, size), pos: make([]int32, size), token: make([]int32, size)}
	c.clear(true)
	return c
}

func (c *cells) clear(bool) error {
	for i := range c.seqs {
		c.seqs[i] = map[int32]bool{}
	}
	c.head = 0
	return nil
}

func (c *cells) drop(match func(i int) bool, seq int32) {
	first := c.size
	for i := range c.seqs {
		if len(c.seqs[i]) > 0 && match(i) {
			if delete(c.seqs[i], seq); len(c.seqs[i]) == 0 {
				first = min(first, i)
			}
		}
	}
	if first < c.size {
		c.head = min(c.head, first)
	}
}

func (c *cells) keep(seq int32) error {
	first := c.size
	for i := range c.seqs {
		if len(c.seqs[i]) == 0 {
			continue
		}
		if c.seqs[i][seq] {
			c.seqs[i] = map[int32]bool{seq: true}
		} else {
			c.seqs[i] = map[int32]bool{}
			first = min(first, i)
		}
	}
	if first < c.size {
		c.head = min(c.head, first)
	}
	return nil
}

func (c *cells) copy(src, dst, n int32) error {
	for i := range c.seqs {
		if c.seqs[i][src] && c.pos[i] < n {
			c.seqs[i][dst] = true
		}
	}
	return nil
}

func (c *cells) remove(seq, from int32) error {
	c.drop(func(i int) bool { return c.seqs[i][seq] && c.pos[i] >= from }, seq)
	return nil
}

func (c *cells) bounds(seq int32) (low, high int32) {
	low, high = math.MaxInt32, -1
	for i := range c.seqs {
		if c.seqs[i][seq] {
			low, high = min(low, c.pos[i]), max(high, c.pos[i])
		}
	}
	return low, high
}

func (c *cells) masked(at, seen int32) bool { return c.window > 0 && at-seen >= int32(c.window) }

// check holds the rules of llama_batch_allocr::init.
func (c *cells) check(slots []slot) error {
	if len(slots) == 0 || len(slots) > c.plan.Batch {
		return fmt.Errorf("batch of %d", len(slots))
	}
	positions := map[int32][]int32{}
	common := map[int32][]int32{}
	for _, s := range slots {
		if len(s.seqs) == 0 {
			return fmt.Errorf("token without a sequence")
		}
		l0, h0 := c.bounds(s.seqs[0])
		for _, q := range s.seqs {
			if int(q) >= c.plan.Sequences {
				return fmt.Errorf("sequence %d of %d", q, c.plan.Sequences)
			}
			positions[q] = append(positions[q], s.pos)
			if l, h := c.bounds(q); l != l0 || h != h0 {
				return fmt.Errorf("sequences %d and %d are coupled but have diverged", s.seqs[0], q)
			}
			if _, ok := common[q]; !ok {
				common[q] = s.seqs
			}
			common[q] = slices.DeleteFunc(slices.Clone(common[q]), func(x int32) bool { return !slices.Contains(s.seqs, x) })
			if len(common[q]) == 0 {
				return fmt.Errorf("sequence %d belongs to incompatible sets", q)
			}
		}
	}
	for q, ps := range positions {
		if _, high := c.bounds(q); high >= 0 && ps[0] != high+1 {
			return fmt.Errorf("sequence %d goes on at %d after %d", q, ps[0], high)
		}
		for i := range ps[1:] {
			if ps[i+1] != ps[i]+1 {
				return fmt.Errorf("sequence %d has positions %d, %d", q, ps[i], ps[i+1])
			}
		}
	}
	return nil
}

func (c *cells) decode(slots []slot) error {
	if err := c.check(slots); err != nil {
		return err
	}
	if c.abort != nil {
		if err := c.abort(slots); err != nil {
			return err
		}
	}
	used := c.inUse()
	// find_slot, with the jump to the front and the reuse of cells of one
	// sequence that a sliding window has left.
	at := c.head
	if at > used+2*len(slots) {
		at = 0
	}
	var place []int
	for tested := 0; len(place) < len(slots); tested++ {
		if tested >= c.size {
			return fmt.Errorf("no free cell")
		}
		if at == c.size {
			at = 0
		}
		free := len(c.seqs[at]) == 0
		if len(c.seqs[at]) == 1 {
			for q := range maps.Keys(c.seqs[at]) {
				_, high := c.bounds(q)
				free = c.masked(high+1, c.pos[at])
			}
		}
		if free {
			place = append(place, at)
		}
		at++
	}
	for k, i := range place {
		c.seqs[i] = map[int32]bool{}
		for _, q := range slots[k].seqs {
			c.seqs[i][q] = true
		}
		c.pos[i], c.token[i] = slots[k].pos, slots[k].token
	}
	c.head = at
	c.decoded += len(slots)
	c.used = append(c.used, c.inUse())
	c.rows = map[int][]float32{}
	for k := range slots {
		if slots[k].output {
			c.rows[k] = c.row(place[k])
		}
	}
	return nil
}

func (c *cells) inUse() int {
	n := 0
	for _, s := range c.seqs {
		if len(s) > 0 {
			n++
		}
	}
	return n
}

// visible returns the ids that the token in cell i sees, itself included, by
// position, and the cells they stand in.
func (c *cells) visible(i int) (ids []int32, where []int) {
	type seen struct {
		pos, token int32
		cell       int
	}
	var all []seen
	for j := range c.seqs {
		shares := false
		for q := range c.seqs[i] {
			shares = shares || c.seqs[j][q]
		}
		if shares && c.pos[j] <= c.pos[i] && !c.masked(c.pos[i], c.pos[j]) {
			all = append(all, seen{c.pos[j], c.token[j], j})
		}
	}
	slices.SortFunc(all, func(a, b seen) int { return int(a.pos - b.pos) })
	for _, s := range all {
		ids, where = append(ids, s.token), append(where, s.cell)
	}
	return ids, where
}

func (c *cells) row(i int) []float32 {
	ids, where := c.visible(i)
	if c.layout {
		last := 0
		for j := range c.seqs {
			if len(c.seqs[j]) > 0 {
				last = j
			}
		}
		where = append(where, last)
	} else {
		where = nil
	}
	return hashRow(c.vocab, ids, where)
}

func (c *cells) logits(i int) ([]float32, error) {
	if row, ok := c.rows[i]; ok {
		return row, nil
	}
	return nil, fmt.Errorf("no logits for %d", i)
}

// hashRow makes logits of all that is given.
func hashRow(vocab int, ids []int32, where []int) []float32 {
	row := make([]float32, vocab)
	h := fnv.New64a()
	fmt.Fprint(h, ids, where)
	x := h.Sum64()
	for v := range row {
		x = x*6364136223846793005 + 1442695040888963407
		row[v] = float32(x>>40) / (1 << 22)
	}
	return row
}
