// Package llamacpp is the engine that runs GGUF models with llama.cpp, through
// its shared libraries and without cgo. llama.cpp ends its process on many
// faults, so it runs in a child: Start makes one and gives an engine.Engine,
// Host is what the child runs (`olmes engine-host`).
//
// Steps of use: choose a plan (DefaultPlan, ExactPlan), make the model's
// weights 16 or 32 bits wide if they are not (Expand), Start, Score.
//
// How trees become batches is told at the type packer. Package library, beside
// this one, finds and installs the shared libraries.
package llamacpp

import "olmes/engine"

// Shape is what a plan depends on.
type Shape struct {
	Parameters int64 // of the model; 0 unknown
	Context    int   // tokens the model was trained for; 0 unknown
}

// Window is the most tokens of a request that are computed, by the standard.
const Window = 2048

// DefaultPlan returns the plan for a model of this shape. Batches of 512 were
// the fastest of those measured on CPUs: larger ones compute more masked
// attention. Cells hold a chunk's prefix, one more path of the window's length
// and a batch, which is the most that a tree can need at once. Chunks take some
// seconds on two CPU cores, except for models of billions of parameters.
func DefaultPlan(s Shape) engine.Plan {
	window := Window
	if s.Context > 0 {
		window = min(window, s.Context)
	}
	chunk := 512
	switch n := s.Parameters; {
	case n <= 0:
		chunk = 1024
	case n <= 300e6:
		chunk = 4096
	case n <= 700e6:
		chunk = 2048
	case n <= 2e9:
		chunk = 1024
	}
	return engine.Plan{
		Batch:          512,
		MicroBatch:     512,
		Cells:          (2*window + 512 + 255) / 256 * 256,
		Sequences:      maxSequences,
		ChunkTokens:    chunk,
		FlashAttention: true,
		KVType:         "f16",
	}
}

// ExactPlan is DefaultPlan with a cache of 32 bits and plain attention, to be
// used with weights of 32 bits: log-probabilities then are within 5e-4 nats of
// another implementation's in the same precision.
func ExactPlan(s Shape) engine.Plan {
	p := DefaultPlan(s)
	p.FlashAttention = false
	p.KVType = "f32"
	return p
}
