// Package llamacpp is the engine that runs GGUF models with llama.cpp, through
// its shared libraries and without cgo. llama.cpp ends its process on many
// faults, so it runs in a child: Start makes one and gives an engine.Engine,
// Host is what the child runs (`olmes engine-host`).
//
// Steps of use: choose a plan (DefaultPlan, ExactPlan), make it fit into memory
// (Fit), make the model's weights 16 or 32 bits wide if they are not (Expand),
// Start, Score.
//
// How trees become batches is told at the type packer. Package library, beside
// this one, finds and installs the shared libraries.
package llamacpp

import (
	"fmt"

	"olmes/engine"
)

// Shape is what a plan and its memory depend on. A number that is not known is
// 0.
type Shape struct {
	Parameters  int64 // of the model
	Context     int   // tokens the model was trained for
	Vocab       int   // tokens of the vocabulary
	Layers      int
	Embedding   int // numbers in a token's embedding
	FeedForward int // numbers in the widest layer of a block
	Heads       int // of attention
	KVHeads     int // heads that have keys and values of their own
	KeyLength   int // numbers in a head's key; its value is taken to have as many

	WeightBytes int64 // of the files that are loaded
	Widened     bool  // a BLAS multiplies, which widens a matrix at a time to 32 bits
	Summed      bool  // the library sums over the vocabulary by itself, and keeps no logits
	GPU         bool  // layers are computed on a GPU
}

// window returns the most tokens of a request for this model.
func (s Shape) window() int {
	if s.Context > 0 {
		return min(engine.Window, s.Context)
	}
	return engine.Window
}

// Bounds of what a batch's wanted logits take, in bytes. They are held as
// computed and as handed out, by every lane: a vocabulary of 262,144 would take
// 537 MB for 512 tokens each time. On CPUs minRows of that vocabulary cost half as
// much time again a token as 512, fewer cost more.
const (
	rowBytes    = 40 << 20
	rowBytesGPU = 512 << 20
	minRows     = 32
)

// DefaultPlan returns the plan for a model of this shape. Batches of 512 were
// the fastest of those measured on CPUs: larger ones compute more masked
// attention. A GPU is only filled by larger ones.
func DefaultPlan(s Shape) engine.Plan {
	batch := 512
	if s.GPU {
		batch = 2048
	}
	chunk := engine.ChunkTokens(s.Parameters)
	if s.GPU {
		chunk *= 32
	}
	return Resize(s, engine.Plan{ChunkTokens: chunk, FlashAttention: true, KVType: "f16"}, batch)
}

// Resize returns p with batches of so many tokens, and with the numbers of rows,
// sequences and cells that go with them. Rows are bounded where they take memory; there are
// no more sequences than rows, since llama.cpp keeps a row for each; cells are
// those of Need.
func Resize(s Shape, p engine.Plan, batch int) engine.Plan {
	p.Batch, p.MicroBatch = batch, batch
	p.Rows = batch
	if s.Vocab > 0 && !s.Summed {
		room := rowBytes
		if s.GPU {
			room = rowBytesGPU
		}
		rows := room / (4 * s.Vocab) / 16 * 16
		p.Rows = min(batch, max(minRows, rows))
	}
	p.Sequences = min(maxSequences, p.Rows)
	p.Cells = Need(s, batch)
	return p
}

// Need returns the cells that a cache must have for every request that fits the
// model's window: those of a chunk's prefix, of one more path of the window's
// length and of a batch, rounded up to what llama.cpp rounds to.
func Need(s Shape, batch int) int { return (2*s.window() + batch + 255) / 256 * 256 }

// ExactPlan is DefaultPlan with a cache of 32 bits and plain attention, to be
// used with weights of 32 bits: log-probabilities then are within 5e-4 nats of
// another implementation's in the same precision.
func ExactPlan(s Shape) engine.Plan {
	p := DefaultPlan(s)
	p.FlashAttention = false
	p.KVType = "f32"
	return p
}

// CheckPlan returns an error that says which number of a plan the engine cannot
// work with, if any.
func CheckPlan(p engine.Plan) error {
	if err := checkPlan(p); err != nil {
		return err
	}
	rows := p.Rows
	if rows == 0 {
		rows = p.Batch
	}
	switch {
	case rows < 0 || rows > p.Batch:
		return fmt.Errorf("plan: rows is %d, must be from 1 to batch (%d)", p.Rows, p.Batch)
	case p.Sequences > rows:
		return fmt.Errorf("plan: sequences is %d, must be at most rows (%d)", p.Sequences, rows)
	case p.ChunkTokens < 1 || p.ChunkTokens > 1<<24:
		return fmt.Errorf("plan: chunk_tokens is %d, must be from 1 to %d", p.ChunkTokens, 1<<24)
	}
	return nil
}
