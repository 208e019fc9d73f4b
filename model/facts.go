package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"path/filepath"
	"slices"

	"olmes/model/gguf"
)

// Facts is what the headers of a model's files say.
type Facts struct {
	Title           string         `json:"title,omitempty"`          // the file's own general.name
	StatedLicense   string         `json:"stated_license,omitempty"` // the file's own general.license
	Architecture    string         `json:"architecture"`             // general.architecture or model_type: "llama", "gemma3", "gemma3_text"
	Parameters      int64          `json:"parameters"`               // elements of all tensors, as stored; 0 where only unpickling would tell
	WeightTypes     map[string]int `json:"weight_types"`             // tensors by type: {"F32": 61, "Q4_1": 210}
	WeightType      string         `json:"weight_type"`              // the type that most elements have
	Quantized       bool           `json:"quantized"`                // some matrix is in another type than F64, F32, F16, BF16
	Quantization    string         `json:"quantization,omitempty"`   // a Hugging Face model's: "gptq 4-bit"
	SlidingWindow   int            `json:"sliding_window,omitempty"` // tokens that some or all layers see, of a Hugging Face model; 0: all
	Context         int            `json:"context"`                  // tokens the model was trained for; 0 where the file does not say
	Vocab           int            `json:"vocab"`                    // tokens of the vocabulary
	Tokenizer       string         `json:"tokenizer"`                // GGUF's "gpt2" (byte-level BPE) or "llama" (SentencePiece); a tokenizer class
	TokenizerSHA256 string         `json:"tokenizer_sha256"`         // see TokenizerSHA256
	BOS             int32          `json:"bos"`                      // id; -1 where the file does not name one
	EOS             int32          `json:"eos"`                      // id; -1 where the file does not name one
	AddBOS          *bool          `json:"add_bos"`                  // the file's own flag; nil where absent
	Shape           Shape          `json:"shape"`
}

// Shape is the size of the network, for plans. A number that the file lacks,
// or gives per layer, is 0.
type Shape struct {
	Layers      int `json:"layers"`
	Embedding   int `json:"embedding"`
	FeedForward int `json:"feed_forward"`
	Heads       int `json:"heads"`
	KVHeads     int `json:"kv_heads"`
	KeyLength   int `json:"key_length"`

	// LogitsChanged says that the output matrix's products are not yet the
	// logits: a soft cap, a scale or a bias follows.
	LogitsChanged bool `json:"logits_changed,omitempty"`
}

// exactTypes are the weight types that models are published in.
var exactTypes = []string{"F64", "F32", "F16", "BF16"}

// Read reads the headers of a model's files, given in order.
func Read(files []string) (Facts, error) {
	var f Facts
	elements := map[string]int64{}
	f.WeightTypes = map[string]int{}
	for i, path := range files {
		h, err := gguf.Open(path)
		if err != nil {
			return Facts{}, err
		}
		if err := checkSplit(h, path, i, len(files)); err != nil {
			return Facts{}, err
		}
		if i == 0 {
			if err := f.describe(h, path); err != nil {
				return Facts{}, err
			}
		}
		for _, t := range h.Tensors {
			f.WeightTypes[t.Type]++
			f.Parameters += t.Elements
			elements[t.Type] += t.Elements
			if len(t.Dims) > 1 && !slices.Contains(exactTypes, t.Type) {
				f.Quantized = true
			}
		}
	}
	if f.Parameters == 0 {
		return Facts{}, &gguf.FormatError{Path: files[0], Problem: "it holds no weights: perhaps it is only a vocabulary"}
	}
	f.WeightType = most(elements)
	return f, nil
}

func checkSplit(h *gguf.Header, path string, i, n int) error {
	count := int(min(h.Uint("split.count", 0), maxSplit+1))
	if count <= 1 && n == 1 {
		return nil
	}
	if no := h.Uint("split.no", 0); count != n || int(no) != i {
		return &gguf.FormatError{Path: path, Problem: fmt.Sprintf("it says it is file %d of %d of its model, and its name says %d of %d", no+1, max(count, 1), i+1, n)}
	}
	return nil
}

func (f *Facts) describe(h *gguf.Header, path string) error {
	f.Title, f.StatedLicense = h.String("general.name"), h.String("general.license")
	f.Architecture = h.String("general.architecture")
	if f.Architecture == "" {
		return &gguf.FormatError{Path: path, Problem: "it names no architecture (general.architecture)"}
	}
	if kind := h.String("general.type"); kind != "" && kind != "model" {
		return &gguf.FormatError{Path: path, Problem: fmt.Sprintf("it is of type %q, not a model", kind)}
	}
	number := func(key string) int { return int(min(h.Uint(f.Architecture+"."+key, 0), math.MaxInt32)) }
	f.Context = number("context_length")
	f.Shape = Shape{
		Layers: number("block_count"), Embedding: number("embedding_length"), FeedForward: number("feed_forward_length"),
		Heads: number("attention.head_count"), KVHeads: number("attention.head_count_kv"), KeyLength: number("attention.key_length"),
	}
	if f.Shape.KVHeads == 0 {
		f.Shape.KVHeads = f.Shape.Heads
	}
	if f.Shape.KeyLength == 0 && f.Shape.Heads > 0 {
		f.Shape.KeyLength = f.Shape.Embedding / f.Shape.Heads
	}
	for _, key := range []string{"final_logit_softcapping", "logit_scale"} {
		if x, ok := h.Values[f.Architecture+"."+key].(float64); ok && x != 0 {
			f.Shape.LogitsChanged = true
		}
	}
	if slices.ContainsFunc(h.Tensors, func(t gguf.Tensor) bool { return t.Name == "output.bias" }) {
		f.Shape.LogitsChanged = true
	}
	tokens := h.Strings("tokenizer.ggml.tokens")
	f.Vocab = len(tokens)
	if f.Vocab == 0 {
		return &gguf.FormatError{Path: path, Problem: "it has no vocabulary (tokenizer.ggml.tokens)"}
	}
	f.Tokenizer = h.String("tokenizer.ggml.model")
	f.TokenizerSHA256 = TokenizerSHA256(h)
	id := func(key string) int32 {
		if v := h.Uint(key, math.MaxUint64); v < uint64(f.Vocab) {
			return int32(v)
		}
		return -1
	}
	f.BOS, f.EOS = id("tokenizer.ggml.bos_token_id"), id("tokenizer.ggml.eos_token_id")
	if add, ok := h.Bool("tokenizer.ggml.add_bos_token"); ok {
		f.AddBOS = &add
	}
	return nil
}

// TokenizerSHA256 is the digest of all that decides how text becomes ids: the
// kind and pre-tokenizer, the tokens with their types and scores, the merges.
// Each part is hashed as its key, a NUL byte, its number of values, and the
// values: texts with their length before them, numbers as 64-bit; all
// little-endian. Special ids and flags are left out: the BOS policy is recorded
// apart. Models of one family at different sizes have one tokenizer digest.
func TokenizerSHA256(h *gguf.Header) string {
	sum := sha256.New()
	for _, key := range []string{
		"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.add_space_prefix",
		"tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.scores", "tokenizer.ggml.merges",
	} {
		sum.Write([]byte(key))
		sum.Write([]byte{0})
		hashValue(sum, h.Values[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func hashValue(sum hash.Hash, value any) {
	var buf []byte
	number := func(v uint64) { buf = binary.LittleEndian.AppendUint64(buf, v) }
	text := func(v string) { number(uint64(len(v))); buf = append(buf, v...) }
	switch v := value.(type) {
	case nil:
		number(0)
	case string:
		number(1)
		text(v)
	case bool:
		number(1)
		if v {
			number(1)
		} else {
			number(0)
		}
	case []string:
		number(uint64(len(v)))
		for _, s := range v {
			text(s)
		}
	case []int64:
		number(uint64(len(v)))
		for _, n := range v {
			number(uint64(n))
		}
	case []uint64:
		number(uint64(len(v)))
		for _, n := range v {
			number(n)
		}
	case []float64:
		number(uint64(len(v)))
		for _, n := range v {
			number(math.Float64bits(n))
		}
	default:
		text(fmt.Sprint(v)) // no known file has such a value here
	}
	sum.Write(buf)
}

// Label returns the file name that stands for the model in messages.
func (m Model) Label() string {
	if len(m.Files) == 0 || m.Dir != "" {
		return m.Name
	}
	return filepath.Base(m.Files[0])
}
