// Package modeltest writes small models as GGUF files, for tests of engines
// and of everything above them: a few hundred kilobytes, written in
// milliseconds, loaded by llama.cpp as any other.
//
// A model has random weights (the same for the same options), or is a bigram
// table, whose log-probabilities can be worked out by hand:
//
//	o := modeltest.Options{Merges: []string{"A n", "An s"}}
//	o.Bigram = func(prev, next int32) float64 { … }   // logits
//	err := modeltest.Write(path, o)
//	id := o.ID("Ans")
package modeltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// Kind is a kind of tokenizer.
type Kind string

const (
	BPE           Kind = "gpt2"  // byte-level BPE, as GPT-2 and SmolLM2 have
	SentencePiece Kind = "llama" // pieces with scores, "▁" for a space, bytes as fallback
)

// Weights is the type that the matrices are stored in.
type Weights uint32

const (
	F32  Weights = 0
	F16  Weights = 1
	Q8   Weights = 8 // Q8_0, a quantized type
	BF16 Weights = 30
)

// Options say what model to write. The zero value is a llama-shaped byte-level
// BPE model in F32 with a context of 4096 tokens, BOS <s> (id 0), EOS </s> (id 1).
type Options struct {
	Architecture string  // "llama" (the default) or "gemma"
	Tokenizer    Kind    // "" is BPE
	Weights      Weights // of the matrices; norms are always in F32

	// Merges are BPE's: "A n" merges A and n to An, which becomes a token; a
	// space in a token is written as Ġ, as in GPT-2's files. The order is the
	// rank. For SentencePiece each entry is a piece ("▁A", "ns"), the first
	// with the best score; pieces arise by merging two shorter ones.
	Merges []string

	Context int // tokens; 0 is 4096
	Layers  int // 0 is 2
	Heads   int // 0 is 2; each has 32 dimensions; not used for a bigram table
	Seed    uint64

	AddBOS *bool // the flag in the file; nil writes none
	NoBOS  bool  // the file names no BOS token
	NaN    bool  // the logits of every token are NaN

	// Bigram, if set, gives the logit of next after prev; attention and
	// feed-forward weights are zero, so that nothing else counts. Where the
	// exponentials of a row sum to 1, logits are log-probabilities.
	Bigram func(prev, next int32) float64

	License string // general.license; "" writes none
}

const headSize = 32

// Ids of the special tokens by tokenizer.
const (
	bosBPE, eosBPE = 0, 1
	bosSPM, eosSPM = 1, 2 // 0 is <unk>
)

// BOS returns the id of the file's BOS token.
func (o Options) BOS() int32 {
	if o.Tokenizer == SentencePiece {
		return bosSPM
	}
	return bosBPE
}

// EOS returns the id of the file's EOS token.
func (o Options) EOS() int32 { return o.BOS() + 1 }

// ID returns the id of a token as the file spells it ("Ġ" or "▁" for a
// leading space), or -1.
func (o Options) ID(token string) int32 { return int32(slices.Index(o.Tokens(), token)) }

// Tokens returns the vocabulary in the order of ids.
func (o Options) Tokens() []string {
	list, _, _ := o.vocabulary()
	return list
}

// Token types of GGUF.
const (
	typeNormal  = 1
	typeUnknown = 2
	typeControl = 3
	typeByte    = 6
)

func (o Options) vocabulary() (tokens []string, types []int32, scores []float32) {
	add := func(token string, kind int32, score float32) {
		if !slices.Contains(tokens, token) {
			tokens, types, scores = append(tokens, token), append(types, kind), append(scores, score)
		}
	}
	if o.Tokenizer == SentencePiece {
		add("<unk>", typeUnknown, 0)
		add("<s>", typeControl, 0)
		add("</s>", typeControl, 0)
		for b := range 256 {
			add(fmt.Sprintf("<0x%02X>", b), typeByte, 0)
		}
		for i, piece := range o.Merges {
			add(piece, typeNormal, -float32(i+1))
		}
		add("▁", typeNormal, -1000)
		for b := '!'; b <= '~'; b++ {
			add(string(b), typeNormal, -1001)
		}
		return tokens, types, scores
	}
	add("<s>", typeControl, 0)
	add("</s>", typeControl, 0)
	for _, r := range byteRunes() {
		add(string(r), typeNormal, 0)
	}
	for _, merge := range o.Merges {
		add(strings.ReplaceAll(merge, " ", ""), typeNormal, 0)
	}
	return tokens, types, nil
}

// byteRunes returns GPT-2's letter for each byte: itself where it is printable
// in Latin-1, else the next free code point from 256.
func byteRunes() (table [256]rune) {
	next := rune(256)
	for b := range table {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			table[b] = rune(b)
		} else {
			table[b] = next
			next++
		}
	}
	return table
}

// Write writes the model to a file.
func Write(path string, o Options) error {
	data, err := Encode(o)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write test model: %w", err)
	}
	return nil
}

// Encode returns the bytes of the model's file.
func Encode(o Options) ([]byte, error) {
	if o.Architecture == "" {
		o.Architecture = "llama"
	}
	if o.Architecture != "llama" && o.Architecture != "gemma" {
		return nil, fmt.Errorf("write test model: no architecture %q", o.Architecture)
	}
	if o.Architecture == "gemma" && o.Bigram != nil {
		return nil, fmt.Errorf("write test model: a bigram table needs the llama architecture")
	}
	if o.Tokenizer == "" {
		o.Tokenizer = BPE
	}
	tokens, types, scores := o.vocabulary()
	heads, layers := o.Heads, o.Layers
	if heads == 0 {
		heads = 2
	}
	if layers == 0 {
		layers = 2
	}
	if o.Bigram != nil {
		heads = (len(tokens) + headSize - 1) / headSize
	}
	context := o.Context
	if context == 0 {
		context = 4096
	}
	width := heads * headSize

	w := &writer{weights: o.Weights}
	w.text("general.architecture", o.Architecture)
	w.text("general.type", "model")
	w.text("general.name", "test model")
	if o.License != "" {
		w.text("general.license", o.License)
	}
	number := func(key string, v int) { w.uint32(o.Architecture+"."+key, uint32(v)) }
	number("vocab_size", len(tokens))
	number("context_length", context)
	number("embedding_length", width)
	number("block_count", layers)
	number("feed_forward_length", 2*width)
	number("attention.head_count", heads)
	number("attention.head_count_kv", heads)
	number("attention.key_length", headSize)
	number("attention.value_length", headSize)
	number("rope.dimension_count", headSize)
	w.float32(o.Architecture+".rope.freq_base", 10000)
	w.float32(o.Architecture+".attention.layer_norm_rms_epsilon", 1e-6)

	w.text("tokenizer.ggml.model", string(o.Tokenizer))
	w.texts("tokenizer.ggml.tokens", tokens)
	w.int32s("tokenizer.ggml.token_type", types)
	if o.Tokenizer == BPE {
		w.text("tokenizer.ggml.pre", "gpt-2")
		w.texts("tokenizer.ggml.merges", o.Merges)
	} else {
		w.float32s("tokenizer.ggml.scores", scores)
		w.uint32("tokenizer.ggml.unknown_token_id", 0)
	}
	if !o.NoBOS {
		w.uint32("tokenizer.ggml.bos_token_id", uint32(o.BOS()))
	}
	w.uint32("tokenizer.ggml.eos_token_id", uint32(o.EOS()))
	if o.AddBOS != nil {
		w.bool("tokenizer.ggml.add_bos_token", *o.AddBOS)
	}
	o.tensors(w, len(tokens), width, layers)
	return w.bytes(), nil
}

// tensors adds the weights.
func (o Options) tensors(w *writer, vocab, width, layers int) {
	random := rand.New(rand.NewPCG(o.Seed, 1))
	// Matrices have cols elements a row; the scale keeps activations near 1.
	matrix := func(name string, cols, rows int, scale float64) {
		data := make([]float32, cols*rows)
		if o.Bigram == nil {
			for i := range data {
				data[i] = float32(random.NormFloat64() * scale)
			}
		}
		w.tensor(name, []int{cols, rows}, data, w.weights)
	}
	norm := func(name string) {
		data := make([]float32, width)
		for i := range data {
			data[i] = 1 // gemma's own zero-based norms are stored so by llama.cpp's converter too
			if o.Bigram == nil {
				data[i] += float32(random.NormFloat64() * 0.05)
			}
		}
		if o.NaN && name == "output_norm.weight" {
			data[0] = float32(math.NaN())
		}
		w.tensor(name, []int{width}, data, F32)
	}
	if o.Bigram != nil {
		o.table(w, vocab, width)
	} else {
		if o.Architecture == "gemma" { // scales embeddings by sqrt(width) and uses them as the output matrix too
			matrix("token_embd.weight", width, vocab, 1/math.Sqrt(float64(width)))
		} else {
			matrix("token_embd.weight", width, vocab, 1)
			matrix("output.weight", width, vocab, 2/math.Sqrt(float64(width)))
		}
	}
	norm("output_norm.weight")
	scale := 1 / math.Sqrt(float64(width))
	for i := range layers {
		block := fmt.Sprintf("blk.%d.", i)
		norm(block + "attn_norm.weight")
		norm(block + "ffn_norm.weight")
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			matrix(block+name+".weight", width, width, 2*scale)
		}
		matrix(block+"ffn_gate.weight", width, 2*width, scale)
		matrix(block+"ffn_up.weight", width, 2*width, scale)
		matrix(block+"ffn_down.weight", 2*width, width, scale)
	}
}

// table writes the bigram table: the embedding of token i points along axis i
// with length sqrt(width), which the final norm leaves as it is, and row j of
// the output matrix holds the logits of j after every i, divided by that.
func (o Options) table(w *writer, vocab, width int) {
	length := math.Sqrt(float64(width))
	in, out := make([]float32, width*vocab), make([]float32, width*vocab)
	for i := range vocab {
		in[i*width+i] = float32(length)
		for j := range vocab {
			out[j*width+i] = float32(o.Bigram(int32(i), int32(j)) / length)
		}
	}
	w.tensor("token_embd.weight", []int{width, vocab}, in, w.weights)
	w.tensor("output.weight", []int{width, vocab}, out, w.weights)
}
