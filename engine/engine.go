// Package engine says what a language model must be able to do to be
// evaluated: give the log-probability of chosen tokens in a tree of token ids
// (Scorer), say who it is (Describer) and cut text into ids (Tokenizer).
//
// Steps of use: start an engine from one of the packages below this one, ask it
// to Describe itself, Tokenize the requests' texts, cut the ids into chunks
// with package trie, Score chunk after chunk, Close.
//
// An engine's abilities beyond these are found by type assertion, one method an
// interface. The package stops at the seam: how tokens are packed into batches
// is each engine's own matter. Every engine passes package enginetest.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"olmes/trie"
)

// Plan is all that decides how an engine packs and rounds. It is chosen before
// the first token is computed and stored with the results: a chunk's bits
// depend on plan, chunk, model and library, never on the chunk before it.
// An engine ignores the fields that mean nothing to it.
type Plan struct {
	Batch          int    `json:"batch"`           // tokens given to the library at once, from 1
	MicroBatch     int    `json:"micro_batch"`     // tokens computed at once, at most Batch
	Cells          int    `json:"cells"`           // tokens the cache holds
	Rows           int    `json:"rows,omitempty"`  // tokens of a batch whose logits are wanted, at most; 0: batch
	Sequences      int    `json:"sequences"`       // sequences the cache tells apart
	ChunkTokens    int    `json:"chunk_tokens"`    // new tokens of a chunk, for trie.Limits
	FlashAttention bool   `json:"flash_attention"` // fused attention, which rounds differently
	KVType         string `json:"kv_type"`         // type of the cache: "f16", "bf16" or "f32"
}

// Window is the most tokens of a request that are computed, by the standard.
const Window = 2048

// ChunkTokens returns the new tokens of a chunk (Plan.ChunkTokens) for a model of
// so many parameters, 0 or less where they are not known. A chunk is what one
// worker computes alone, so that small ones keep many cores busy in small runs,
// and little is lost when a run ends in the middle. On two CPU cores 1024 tokens
// of a model of 135M parameters take three seconds. Chunks of 1024 instead of 4096
// tokens of it change what is computed by less than 0.3% (six tasks, 833,000
// distinct tokens: 836,842 and 838,333). GPUs take many times as many.
func ChunkTokens(parameters int64) int {
	if parameters > 2e9 {
		return 512
	}
	return 1024
}

// Description is the identity of an engine and of the model it has loaded, as
// far as the engine itself can tell; what it cannot is zero.
type Description struct {
	Engine          string `json:"engine"`                     // "llamacpp", "bigram", ...
	Version         string `json:"version"`                    // of the library that computes
	Variant         string `json:"variant"`                    // of the library: CPU generation or GPU kind
	LibrarySHA256   string `json:"library_sha256"`             // of the shared libraries in use, hex
	System          string `json:"system"`                     // operating system, processor, its features
	Threads         int    `json:"threads"`                    // that compute
	Parallel        int    `json:"parallel,omitempty"`         // trees computed at the same time; 0 means 1
	Architecture    string `json:"architecture"`               // of the model: "llama", "gemma3", ...
	Parameters      int64  `json:"parameters"`                 // of the model
	WeightType      string `json:"weight_type"`                // most of the weights: "F16", "Q4_1", ...
	ContextTrain    int    `json:"context_train"`              // tokens the model was trained for; 0 unknown
	Vocab           int    `json:"vocab"`                      // token ids are below it
	BOS             int32  `json:"bos"`                        // id of the beginning-of-sequence token, -1 if none
	EOS             int32  `json:"eos"`                        // id of the end-of-sequence token, -1 if none
	AddBOS          bool   `json:"add_bos"`                    // the model file's own wish for a BOS; the standard decides
	TokenizerSHA256 string `json:"tokenizer_sha256,omitempty"` // left to package model where the engine cannot tell

	Packing      string   `json:"packing,omitempty"`      // how requests are put together: "tree", "copy", "plain", "echo", "step", ...
	DType        string   `json:"dtype,omitempty"`        // type that the weights are computed in: "float32", "bfloat16", ...
	Quantization string   `json:"quantization,omitempty"` // how the weights are quantized: "gptq", "awq", ...
	Adapter      string   `json:"adapter,omitempty"`      // name of what was trained on top and is applied
	Notes        []string `json:"notes,omitempty"`        // sentences for the record: what a self-check or a probe found
}

// Scores is what Score returns.
type Scores struct {
	LogProbs []float64 // nats, one per Want; NaN or infinite where the model gave that
	Computed int       // tokens computed for this call, a rebuilt prefix included
}

// ErrInput marks the errors for which the input is at fault and not the engine:
// trying again gives them again. Test with errors.Is.
var ErrInput = errors.New("invalid input")

// InputError returns err marked with ErrInput; its text stays the same.
func InputError(err error) error { return inputError{err} }

type inputError struct{ error }

func (e inputError) Is(target error) bool { return target == ErrInput }
func (e inputError) Unwrap() error        { return e.error }

// TextError says which of the texts given to Tokenize cannot be tokenized. It
// is an ErrInput.
type TextError struct {
	Index  int    // in the slice given
	Reason string // "holds a NUL byte"
}

func (e *TextError) Error() string { return fmt.Sprintf("text %d %s", e.Index, e.Reason) }

// Is reports whether target is ErrInput.
func (e *TextError) Is(target error) bool { return target == ErrInput }

// Scorer computes log-probabilities. Score reads the tree and keeps nothing of
// it that changes a later result. A tree that is not valid, deeper than the
// engine's context or with ids outside its vocabulary is an ErrInput, and the
// engine stays usable; so it does when ctx is cancelled, which Score answers
// with ctx.Err() in a wrapped form, without finishing the tree.
// Score may be called from several goroutines; engines may serve them in turn,
// or several at once (Description.Parallel), which changes no result.
type Scorer interface {
	Score(ctx context.Context, tree *trie.Tree) (Scores, error)
}

// Describer tells the identity of engine and model.
type Describer interface {
	Describe(ctx context.Context) (Description, error)
}

// Tokenizer cuts each text into ids: no special token is added, and none is
// recognised in the text. A text that cannot be tokenized is a TextError.
type Tokenizer interface {
	Tokenize(ctx context.Context, texts []string) ([][]int32, error)
}

// Engine is what an evaluation by log-probability needs.
type Engine interface {
	Scorer
	Describer
	Tokenizer
	io.Closer
}

// Detokenizer gives the bytes that each id of the vocabulary stands for, so
// that a caller can check that ids decode to the text they came from.
type Detokenizer interface {
	Pieces(ctx context.Context) ([][]byte, error)
}

// Stats counts the tokens an engine has computed since it started.
type Stats struct {
	Computed int64 `json:"computed"` // sum of Scores.Computed, unfinished calls included
	Library  int64 `json:"library"`  // the computing library's own counter; -1 if it has none

	// What the computing took, summed over trees computed at the same time; zero
	// where the engine does not measure.
	Rows   int64   `json:"rows"`           // tokens whose logits were wanted
	Decode float64 `json:"decode_seconds"` // in the library's decoding
	Sum    float64 `json:"sum_seconds"`    // in sums over the vocabulary
}

// Counter gives the counts.
type Counter interface {
	Stats(ctx context.Context) (Stats, error)
}

// Generator continues a prompt. No engine has it yet.
type Generator interface {
	Generate(ctx context.Context, prompt []int32, max int) ([]int32, error)
}

// Templater renders messages with the model's own chat template, given as
// alternating roles and contents. No engine has it yet.
type Templater interface {
	Template(ctx context.Context, roles, contents []string) (string, error)
}

// Prober checks at the start that an engine gives what it promises, such as
// log-probabilities of prompt tokens. No engine has it yet.
type Prober interface {
	Probe(ctx context.Context) error
}
