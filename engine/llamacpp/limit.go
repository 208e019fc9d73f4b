package llamacpp

import (
	"context"
	"fmt"
	"time"

	"olmes/engine"
)

// LimitRequest asks how long the library takes for plain work of the size of a
// tree's.
type LimitRequest struct {
	Tokens int `json:"tokens"` // to decode
	Rows   int `json:"rows"`   // of them with logits, spread evenly
	Depth  int `json:"depth"`  // tokens in the cache before each batch
}

// limit decodes plain causal batches of the plan's size, each after the same
// tokens, and returns the seconds that the decoding alone took. It uses the
// lane's cache, which is empty afterwards for all that score knows.
func (l *lane) limit(ctx context.Context, q LimitRequest) (float64, error) {
	p := &l.packer
	batch := p.plan.Batch
	depth := min(q.Depth, p.deepest-batch)
	if q.Tokens < 0 || q.Rows < 0 || q.Rows > q.Tokens || depth < 0 {
		return 0, engine.InputError(fmt.Errorf("limit: %d tokens, %d rows at depth %d are not possible", q.Tokens, q.Rows, q.Depth))
	}
	// The ids do not matter to the time; they repeat no sooner than the vocabulary.
	decode := func(from, n, rows, step int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		slots := make([]slot, n)
		for i := range slots {
			slots[i] = slot{token: int32((from + i) * 7 % p.vocab), pos: int32(from + i), seqs: []int32{seqPrefix},
				output: step > 0 && (i+1)*rows/n > i*rows/n}
		}
		return p.cache.decode(slots)
	}
	if l.filled != depth || depth == 0 {
		p.usable, l.filled = false, -1
		if err := p.cache.clear(false); err != nil {
			return 0, err
		}
		for from := 0; from < depth; from += batch {
			if err := decode(from, min(batch, depth-from), 0, 0); err != nil {
				return 0, fmt.Errorf("limit: fill the cache: %w", err)
			}
		}
		l.filled = depth
	}
	var spent time.Duration
	for done := 0; done < q.Tokens; done += batch {
		n := min(batch, q.Tokens-done)
		rows := (done+n)*q.Rows/q.Tokens - done*q.Rows/q.Tokens
		started := time.Now()
		err := decode(depth, n, rows, 1)
		spent += time.Since(started)
		if err == nil {
			err = p.cache.remove(seqPrefix, int32(depth))
		}
		if err != nil {
			l.filled = -1
			return 0, fmt.Errorf("limit: %w", err)
		}
	}
	return spent.Seconds(), nil
}

// limit runs in lanes of its own, as many as there are for scoring, so that the
// caches of those stay as they are.
func (m *loaded) limit(ctx context.Context, q LimitRequest) (float64, error) {
	m.limiting.Lock()
	for m.limits.count() < m.lanes.count() {
		l, err := m.newLane()
		if l != nil {
			m.limits.add(l)
		}
		if err != nil {
			m.limiting.Unlock()
			return 0, err
		}
	}
	m.limiting.Unlock()
	l, err := m.limits.take(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer m.limits.give(l)
	l.cache.current.Store(&ctx)
	defer l.cache.current.Store(nil)
	return l.limit(ctx, q)
}

// Limit has the child measure how long plain decoding takes, in seconds.
func (e *Engine) Limit(ctx context.Context, q LimitRequest) (seconds float64, err error) {
	_, err = e.Call(ctx, opLimit, q, &seconds, nil)
	return seconds, err
}
