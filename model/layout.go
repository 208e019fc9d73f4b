package model

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Formats of a model's files.
const (
	GGUF        = "gguf"
	Safetensors = "safetensors"
	Pickle      = "pickle" // PyTorch's .bin files; their headers are not read here, since that would run them
)

// layout is which files of a Hugging Face folder or repository are the model.
// All stand at its root; other formats (ONNX, Flax, TensorFlow), a copy in
// original/ and what a training left (optimizers, schedulers) are not taken.
type layout struct {
	config    []string // config.json and what else describes the model
	tokenizer []string
	weights   []string // in order; unknown while index is set and not read
	index     string   // file that names the weights, or ""
	code      []string // Python files
	adapter   []string // adapter_config.json and its weights
	gguf      []string
	format    string // Safetensors, Pickle or "": no weights
}

var (
	configFiles = []string{"config.json", "generation_config.json", "chat_template.jinja", "chat_template.json",
		"quantize_config.json", "quant_config.json", "hf_quant_config.json"}
	tokenizerFiles = []string{"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
		"vocab.json", "vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tekken.json"}
	// vocabularies are those of tokenizerFiles that say how text is cut.
	vocabularies = []string{"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model", "tekken.json"}
)

const (
	adapterConfig = "adapter_config.json"
	maxShards     = 10_000
)

// choose picks the model's files out of the names of a folder, the weights as
// transformers does: one safetensors file, its split form, then PyTorch's.
func choose(names []string) layout {
	var l layout
	has := func(name string) bool { return slices.Contains(names, name) }
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, ".gguf"):
			l.gguf = append(l.gguf, name)
		case strings.Contains(name, "/"):
		case slices.Contains(configFiles, name):
			l.config = append(l.config, name)
		case slices.Contains(tokenizerFiles, name), strings.HasSuffix(name, ".tiktoken"):
			l.tokenizer = append(l.tokenizer, name)
		case strings.HasSuffix(name, ".py"):
			l.code = append(l.code, name)
		}
	}
	if has(adapterConfig) {
		l.adapter = []string{adapterConfig}
		for _, name := range []string{"adapter_model.safetensors", "adapter_model.bin"} {
			if has(name) {
				l.adapter = append(l.adapter, name)
				break
			}
		}
	}
	for _, w := range []struct{ name, format string }{
		{"model.safetensors", Safetensors}, {"model.safetensors.index.json", Safetensors},
		{"pytorch_model.bin", Pickle}, {"pytorch_model.bin.index.json", Pickle},
	} {
		if !has(w.name) {
			continue
		}
		l.format = w.format
		if strings.HasSuffix(w.name, ".index.json") {
			l.index = w.name
		} else {
			l.weights = []string{w.name}
		}
		break
	}
	return l
}

// checkpoint reports whether there is a model to load, whole or not.
func (l layout) checkpoint() bool {
	return l.format != "" && slices.Contains(l.config, "config.json")
}

// readIndex takes the names of the weight files from the index's content.
func (l *layout) readIndex(data []byte) error {
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Errorf("%s is not the index of a split model: %w", l.index, err)
	}
	l.weights = nil
	for _, name := range index.Map {
		l.weights = append(l.weights, name)
	}
	slices.Sort(l.weights)
	l.weights = slices.Compact(l.weights)
	if len(l.weights) == 0 || len(l.weights) > maxShards {
		return fmt.Errorf("%s names %d files of weights", l.index, len(l.weights))
	}
	for _, name := range l.weights {
		if name == "" || name != path.Base(name) || strings.ContainsAny(name, "\\\x00:") || name == ".." {
			return fmt.Errorf("%s names the file %q, which is not in its folder", l.index, name)
		}
		if suffix := map[string]string{Safetensors: ".safetensors", Pickle: ".bin"}[l.format]; !strings.HasSuffix(name, suffix) {
			return fmt.Errorf("%s names the file %q, which is no %s file", l.index, name, suffix)
		}
	}
	return nil
}

// missing lists the weight files that are not among names.
func (l layout) missing(names []string) []string {
	var out []string
	for _, name := range l.weights {
		if !slices.Contains(names, name) {
			out = append(out, name)
		}
	}
	return out
}

// files lists what is loaded, sorted: code only where it is to be run.
func (l layout) files(code bool) []string {
	all := slices.Concat(l.config, l.tokenizer, l.weights)
	if l.index != "" {
		all = append(all, l.index)
	}
	if code {
		all = append(all, l.code...)
	}
	slices.Sort(all)
	return all
}

// hasVocabulary reports whether there is a file that says how text is cut.
func (l layout) hasVocabulary() bool {
	return slices.ContainsFunc(l.tokenizer, func(name string) bool {
		return slices.Contains(vocabularies, name) || strings.HasSuffix(name, ".tiktoken")
	})
}

// problem says why the layout is no model that can be loaded, or "".
func (l layout) problem(tokenizerOnly bool) (text, tip string) {
	const get = "fetch the whole folder, or name the repository: hf:ORG/REPO"
	switch {
	case l.checkpoint() && len(l.adapter) > 0 && !tokenizerOnly:
		return "it holds a whole model and an adapter (" + adapterConfig + "), and which one is meant cannot be known",
			"move the adapter into a folder of its own, and name it by --adapter"
	case !slices.Contains(l.config, "config.json") && !(tokenizerOnly && l.hasVocabulary()):
		return "it has no config.json, so it is no Hugging Face model", get
	case l.format == "" && !l.hasVocabulary() && !tokenizerOnly:
		return "it has neither weights (model.safetensors, pytorch_model.bin or their index) nor a tokenizer", get
	case l.format == "" && !tokenizerOnly:
		return "it has no weights: neither model.safetensors nor pytorch_model.bin, nor an index of one of them", get
	case !l.hasVocabulary():
		return "it has no tokenizer (tokenizer.json, tokenizer.model or vocab.json)",
			"put the tokenizer's files beside the weights, as save_pretrained of the tokenizer writes them"
	}
	return "", ""
}
