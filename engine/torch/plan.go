package torch

import (
	"fmt"

	"olmes/engine"
)

// Shape is what a plan depends on. A number that is not known is 0.
type Shape struct {
	Parameters int64 // of the model
	Vocab      int   // tokens of the vocabulary
	GPU        bool  // the model is computed on a GPU
}

// Bounds of what a batch's wanted logits take in bytes, in 32 bits.
const (
	rowBytes    = 256 << 20
	rowBytesGPU = 4 << 30
	minRows     = 64
)

// Batches where it is not known what memory is free, and the least of all.
const (
	batchCPU = 512
	batchGPU = 2048
	minBatch = 64
)

// DefaultPlan returns the plan for a model of this shape where it is not known
// what memory is free: tokens of a forward (Batch), how many of them may have
// wanted tokens after them (Rows) and the new tokens of a chunk. Masked attention
// grows with the batch, and other work costs less a token. Engine.plan of
// python/olmes/_engine.py has the same numbers for models in memory.
func DefaultPlan(s Shape) engine.Plan {
	if s.GPU {
		return Resize(s, batchGPU)
	}
	return Resize(s, batchCPU)
}

// Plans returns the plans for a model of this shape, from the largest batch to
// the smallest: powers of two, so that not every change of what is free makes
// another plan. The smaller a model, the more tokens it takes until a GPU computes
// for longer than it is told what to compute; beyond that a larger batch only
// computes more masked attention.
func Plans(s Shape) []engine.Plan {
	largest := batchCPU
	switch n := s.Parameters; {
	case !s.GPU:
	case 0 < n && n <= 1e9:
		largest = 8192
	case 0 < n && n <= 4e9:
		largest = 4096
	default:
		largest = batchGPU
	}
	var plans []engine.Plan
	for batch := largest; batch >= minBatch; batch /= 2 {
		plans = append(plans, Resize(s, batch))
	}
	return plans
}

// Resize returns the plan with batches of so many tokens. Below the usual batch
// there are fewer rows as well, since a small batch is for little memory.
func Resize(s Shape, batch int) engine.Plan {
	chunk, usual, bytes := engine.ChunkTokens(s.Parameters), batchCPU, rowBytes
	if s.GPU {
		chunk, usual, bytes = 64*chunk, batchGPU, rowBytesGPU
	}
	p := engine.Plan{Batch: batch, MicroBatch: batch, Rows: batch, ChunkTokens: chunk}
	if s.Vocab > 0 {
		rows := bytes * min(batch, usual) / usual / (4 * s.Vocab) / 16 * 16
		p.Rows = min(batch, max(min(minRows, batch/2), rows))
	}
	return p
}

// CheckPlan returns an error that says which number of a plan the engine cannot
// work with, if any. Rows of 0 are as many as the batch has; chunks are not the
// engine's matter.
func CheckPlan(p engine.Plan) error {
	switch {
	case p.Batch < 1 || p.Batch > 1<<16:
		return fmt.Errorf("plan: batch is %d, must be from 1 to %d", p.Batch, 1<<16)
	case p.Rows < 0 || p.Rows > p.Batch:
		return fmt.Errorf("plan: rows is %d, must be from 1 to batch (%d)", p.Rows, p.Batch)
	}
	return nil
}
