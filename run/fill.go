package run

import (
	"context"
	"fmt"

	"olmes/record"
)

// filler scores chunks that the self-check does not need, on those of the
// engine's workers that have nothing to repeat: most of a small run would else
// be computed by one of them alone. What it has scored is kept only when the
// engine has passed.
type filler struct {
	check  *noiseCheck
	claims map[string]bool // chunks that a sample needs or a worker has taken; guarded by check.mu
	chunks []fillable      // in the order in which they are taken; guarded by check.mu
	held   []record.ChunkScores
	over   bool // all samples are repeated
}

type fillable struct {
	unit  *unit
	index int // of the chunk
}

// newFiller returns a filler for every chunk that is neither finished nor
// claimed, those of units that no sample is of first: a unit's prefix is computed
// again by every worker.
func (n *noiseCheck) newFiller(samples []sample, claims map[string]bool) *filler {
	f := &filler{check: n, claims: claims}
	sampled := map[*unit]bool{}
	for i := range samples {
		sampled[samples[i].unit] = true
	}
	for _, busy := range []bool{false, true} {
		for _, u := range n.run.units {
			if sampled[u] != busy {
				continue
			}
			for i := range u.chunks {
				if _, ok := n.finished[u.chunks[i].ID]; !ok && !claims[u.chunks[i].ID] {
					f.chunks = append(f.chunks, fillable{u, i})
				}
			}
		}
	}
	return f
}

// work scores one chunk after the other until the samples are repeated.
func (f *filler) work(ctx context.Context) error {
	for {
		at, ok := f.next()
		if !ok {
			return nil
		}
		_, done, err := f.check.run.scoreOf(ctx, at.unit, at.index)
		if err != nil {
			return err
		}
		f.check.mu.Lock()
		f.held = append(f.held, done)
		f.check.mu.Unlock()
	}
}

func (f *filler) next() (fillable, bool) {
	f.check.mu.Lock()
	defer f.check.mu.Unlock()
	for !f.over && len(f.chunks) > 0 {
		at := f.chunks[0]
		f.chunks = f.chunks[1:]
		if id := at.unit.chunks[at.index].ID; !f.claims[id] {
			f.claims[id] = true
			return at, true
		}
	}
	return fillable{}, false
}

// stop has the workers end with the chunk they are at.
func (f *filler) stop() {
	f.check.mu.Lock()
	defer f.check.mu.Unlock()
	f.over = true
}

// keep makes what was scored durable.
func (f *filler) keep() error {
	for _, c := range f.held {
		if err := f.check.writer.Append(c); err != nil {
			return fmt.Errorf("keep the scores of a chunk: %w", err)
		}
		f.check.finished[c.Chunk] = c
	}
	return nil
}
