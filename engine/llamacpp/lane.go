package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hybridgroup/yzma/pkg/llama"

	"olmes/engine"
	"olmes/trie"
)

// lane is one context of the model, with a cache of its own. Lanes compute
// different trees at the same time and share the weights. On CPUs, lanes of one
// thread are faster than one lane of many threads, which wait for each other
// some hundred times a batch (docs/performance.md).
type lane struct {
	lctx   llama.Context
	cache  *nativeCache
	packer packer
	before int64 // tokens in the library's counter that warming up computed
	used   int64 // when it was last taken, counted in takings
	busy   bool
	filled int // tokens that limit has put into the cache
}

// warm computes one batch of two tokens and one of one, so that both of the
// library's counters, which show 1 for 0, have started.
func (l *lane) warm(batch int) error {
	both := []slot{{token: 0, pos: 0, seqs: []int32{seqPrefix}}, {token: 1, pos: 1, seqs: []int32{seqPrefix}}}
	for _, slots := range [][]slot{both[:min(2, batch)], both[:1]} {
		if err := l.cache.clear(true); err != nil {
			return err
		}
		if err := l.cache.decode(slots); err != nil {
			return fmt.Errorf("compute a first token: %w", err)
		}
	}
	l.before = l.counter()
	return l.cache.clear(true)
}

func (l *lane) counter() int64 {
	data := llama.PerfContext(l.lctx)
	return int64(data.NPEval) + int64(data.NEval)
}

func (l *lane) free() {
	if l.cache != nil {
		llama.BatchFree(l.cache.batch)
	}
	if l.lctx != 0 {
		llama.Free(l.lctx)
	}
}

// lanes hands out lanes.
type lanes struct {
	mu     sync.Mutex
	change sync.Cond // with mu; broadcast when a lane is given back
	all    []*lane
	takes  int64
	closed bool
}

func (p *lanes) add(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change.L = &p.mu
	p.all = append(p.all, l)
}

func (p *lanes) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

var errClosed = errors.New("engine is closed")

// wait waits until ok, which is called with p.mu held, gives true.
func (p *lanes) wait(ctx context.Context, ok func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.change.Broadcast()
	})
	defer stop()
	for !p.closed && ctx.Err() == nil && !ok() {
		p.change.Wait()
	}
	if p.closed {
		return errClosed
	}
	return ctx.Err()
}

// take returns a lane for the tree, which may be nil: a free one that holds its
// prefix, or the one that was not used for longest.
func (p *lanes) take(ctx context.Context, tree *trie.Tree) (*lane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var best *lane
	err := p.wait(ctx, func() bool {
		best = nil
		for _, l := range p.all {
			if !l.busy && (best == nil || l.used < best.used) {
				best = l
			}
		}
		for _, l := range p.all {
			if !l.busy && tree != nil && l.packer.holds(tree) {
				best = l
			}
		}
		return best != nil
	})
	if err != nil {
		return nil, err
	}
	p.takes++
	best.busy, best.used = true, p.takes
	return best, nil
}

func (p *lanes) give(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.busy = false
	p.change.Broadcast()
}

func (p *lanes) idle() bool {
	return !slices.ContainsFunc(p.all, func(l *lane) bool { return l.busy })
}

func (p *lanes) stats(ctx context.Context) (s engine.Stats, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.wait(ctx, p.idle); err != nil {
		return s, err
	}
	for _, l := range p.all {
		s.Computed += l.packer.computed
		s.Library += l.counter() - l.before
		s.Rows += l.packer.rows
		s.Decode += l.packer.decoding.Seconds()
		s.Sum += l.packer.summing.Seconds()
	}
	return s, nil
}

// close frees all lanes when none is in use any more.
func (p *lanes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.all) == 0 {
		return
	}
	p.wait(context.Background(), p.idle)
	p.closed = true
	for _, l := range p.all {
		l.free()
	}
	p.change.Broadcast()
}
