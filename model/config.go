package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxJSON is the most bytes of a JSON file that is read; tokenizers of half a
// million tokens are below 100 MB.
const maxJSON = 256 << 20

// settings is a config.json: its own values and those of the language model
// inside a model of several kinds of input.
type settings struct {
	own  map[string]any
	text map[string]any // text_config and its like; nil where there is none
}

func readJSON(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err != nil {
		return err
	}
	if len(data) > maxJSON {
		return &UnknownError{path, fmt.Sprintf("it is larger than %d MB", maxJSON>>20), "it is no file of a model"}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = fmt.Errorf("more stands after the JSON value")
		}
	}
	if err != nil {
		return &UnknownError{path, "it is not the JSON that it should be: " + err.Error(), "get the file again"}
	}
	return nil
}

func readSettings(path string) (settings, error) {
	var s settings
	if err := readJSON(path, &s.own); err != nil {
		return s, err
	}
	for _, key := range []string{"text_config", "llm_config", "language_config"} {
		if inner, ok := s.own[key].(map[string]any); ok {
			s.text = inner
			break
		}
	}
	return s, nil
}

// get returns the first of the keys that has a value, of the language model first.
func (s settings) get(keys ...string) any {
	for _, from := range []map[string]any{s.text, s.own} {
		for _, key := range keys {
			if v, ok := from[key]; ok && v != nil {
				return v
			}
		}
	}
	return nil
}

func (s settings) string(keys ...string) string {
	v, _ := s.get(keys...).(string)
	return v
}

// number returns the value as a count, or 0 where it is absent or none.
func (s settings) number(keys ...string) int {
	n, _ := count(s.get(keys...))
	return n
}

// count reads a JSON number that is a whole number of at most 32 bits.
func count(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64() // some configurations write 2048.0
	if err != nil || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

// id returns a token id: a number, or the first of a list of them; -1 if none.
func (s settings) id(key string) int32 {
	v := s.get(key)
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	if n, ok := count(v); ok {
		return int32(n)
	}
	return -1
}

// describe fills in what config.json says.
func (f *Facts) describeConfig(s settings) {
	f.Architecture = s.ownString("model_type")
	f.Context = s.number("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx", "seq_len")
	f.Vocab = s.number("vocab_size", "padded_vocab_size")
	if use, set := s.get("use_sliding_window").(bool); !set || use {
		f.SlidingWindow = s.number("sliding_window")
	}
	f.BOS, f.EOS = s.id("bos_token_id"), s.id("eos_token_id")
	f.Shape = Shape{
		Layers: s.number("num_hidden_layers", "n_layers", "n_layer", "num_layers"), Embedding: s.number("hidden_size", "d_model", "n_embd"),
		FeedForward: s.number("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "mlp_hidden_size"),
		Heads:       s.number("num_attention_heads", "n_heads", "n_head"), KVHeads: s.number("num_key_value_heads", "num_kv_heads", "n_head_kv"),
		KeyLength: s.number("head_dim", "kv_channels"),
	}
	if f.Architecture == "falcon" {
		// Before its new form, num_kv_heads means nothing: one head or all.
		modern, _ := s.get("new_decoder_architecture").(bool)
		multi, set := s.get("multi_query").(bool)
		switch {
		case modern:
		case multi || !set:
			f.Shape.KVHeads = 1
		default:
			f.Shape.KVHeads = f.Shape.Heads
		}
	}
	if attention, ok := s.get("attn_config").(map[string]any); ok && f.Shape.KVHeads == 0 { // MPT
		f.Shape.KVHeads, _ = count(attention["kv_n_heads"])
	}
	if ratio := s.number("expansion_ratio"); ratio > 0 && f.Shape.FeedForward == 0 && ratio < 1000 { // MPT
		f.Shape.FeedForward = ratio * f.Shape.Embedding
	}
	if f.Shape.KVHeads == 0 {
		f.Shape.KVHeads = f.Shape.Heads
	}
	if f.Shape.KeyLength == 0 && f.Shape.Heads > 0 {
		f.Shape.KeyLength = f.Shape.Embedding / f.Shape.Heads
	}
	f.Quantization = quantization(s)
}

func (s settings) ownString(key string) string {
	v, _ := s.own[key].(string)
	return v
}

// quantization names what quantization_config says: "gptq 4-bit",
// "bitsandbytes 4-bit nf4", "fp8"; "" without one.
func quantization(s settings) string {
	q, ok := s.get("quantization_config", "compression_config").(map[string]any)
	if !ok {
		return ""
	}
	word := func(key string) string { v, _ := q[key].(string); return v }
	name := word("quant_method")
	yes := func(key string) bool { v, _ := q[key].(bool); return v }
	switch {
	case name == "" && (yes("load_in_4bit") || yes("load_in_8bit")):
		name = "bitsandbytes"
	case name == "":
		name = "quantized"
	}
	switch n, ok := count(firstOf(q, "bits", "w_bit", "weight_bits")); {
	case ok:
		name += fmt.Sprintf(" %d-bit", n)
	case yes("load_in_4bit"):
		name += strings.TrimRight(" 4-bit "+word("bnb_4bit_quant_type"), " ")
	case yes("load_in_8bit"):
		name += " 8-bit"
	case word("format") != "":
		name += " " + word("format")
	}
	return name
}

func firstOf(m map[string]any, keys ...string) any {
	for _, key := range keys {
		if v, ok := m[key]; ok && v != nil {
			return v
		}
	}
	return nil
}

// autoMaps lists the modules of code that the folder wants to be run, as
// config.json and tokenizer_config.json name them.
func autoMaps(maps ...any) []string {
	var out []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			for _, each := range v {
				walk(each)
			}
		case map[string]any:
			for _, each := range v {
				walk(each)
			}
		}
	}
	for _, m := range maps {
		walk(m)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// torchTypes are the names that configurations give to types.
var torchTypes = map[string]string{"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}

// statedType is the type that config.json gives the weights, or "".
func statedType(s settings) string {
	name := strings.TrimPrefix(s.string("dtype", "torch_dtype"), "torch.")
	return torchTypes[name]
}

// folderName names a model by its folder; of the hub's cache, by its repository.
func folderName(dir string) (name, origin string) {
	parts := strings.Split(filepath.ToSlash(dir), "/")
	if n := len(parts); n >= 3 && parts[n-2] == "snapshots" {
		if repo, ok := strings.CutPrefix(parts[n-3], "models--"); ok {
			repo = strings.ReplaceAll(repo, "--", "/")
			return repo, repo
		}
	}
	return filepath.Base(dir), ""
}
