package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tokenizerSettings is a tokenizer_config.json, tokenizer.json and
// special_tokens_map.json, as far as the facts need them.
type tokenizerSettings struct {
	config  map[string]any
	special map[string]any // special_tokens_map.json
	file    struct {
		Added []struct {
			ID      int64  `json:"id"`
			Content string `json:"content"`
		} `json:"added_tokens"`
		Post  any `json:"post_processor"`
		Model struct {
			Type  string          `json:"type"`
			Vocab json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	whole bool // there is a tokenizer.json
}

func readTokenizer(dir string, names []string) (tokenizerSettings, error) {
	var t tokenizerSettings
	for name, into := range map[string]any{"tokenizer_config.json": &t.config, "special_tokens_map.json": &t.special, "tokenizer.json": &t.file} {
		if !slices.Contains(names, name) {
			continue
		}
		if err := readJSON(filepath.Join(dir, name), into); err != nil {
			return t, err
		}
		t.whole = t.whole || name == "tokenizer.json"
	}
	return t, nil
}

// kind names the tokenizer: its class, or else its model's type.
func (t tokenizerSettings) kind() string {
	class, _ := t.config["tokenizer_class"].(string)
	if class == "" || class == "PreTrainedTokenizerFast" || class == "TokenizersBackend" {
		if t.file.Model.Type != "" {
			return t.file.Model.Type
		}
	}
	return class
}

// token returns the text of a special token such as "bos_token". named tells
// whether a file has the key, even with no token.
func (t tokenizerSettings) token(key string) (text string, named bool) {
	for _, from := range []map[string]any{t.config, t.special} {
		v, ok := from[key]
		if !ok {
			continue
		}
		if entry, is := v.(map[string]any); is {
			v = entry["content"]
		}
		text, _ = v.(string)
		return text, true
	}
	return "", false
}

// id returns the id of a special token's text, or -1.
func (t tokenizerSettings) id(text string) int32 {
	if text == "" {
		return -1
	}
	for _, a := range t.file.Added {
		if a.Content == text && a.ID >= 0 && a.ID < 1<<31 {
			return int32(a.ID)
		}
	}
	decoder, _ := t.config["added_tokens_decoder"].(map[string]any)
	for key, v := range decoder {
		entry, _ := v.(map[string]any)
		if n, ok := count(json.Number(key)); ok && entry["content"] == text {
			return int32(n)
		}
	}
	var vocab map[string]int32 // a BPE's; other models list theirs
	if json.Unmarshal(t.file.Model.Vocab, &vocab) == nil {
		if n, ok := vocab[text]; ok {
			return n
		}
	}
	return -1
}

// addBOS tells whether the tokenizer by itself puts a BOS before a text: what
// tokenizer_config.json says, or what tokenizer.json does; nil where neither tells.
func (t tokenizerSettings) addBOS() *bool {
	if flag, ok := t.config["add_bos_token"].(bool); ok {
		return &flag
	}
	bos, _ := t.token("bos_token")
	if t.whole {
		put := bos != "" && startsWith(t.file.Post, bos)
		return &put
	}
	return nil
}

// startsWith tells whether a post-processor of tokenizer.json puts the special
// token before a single text.
func startsWith(post any, token string) bool {
	p, _ := post.(map[string]any)
	switch p["type"] {
	case "TemplateProcessing":
		single, _ := p["single"].([]any)
		if len(single) == 0 {
			return false
		}
		first, _ := single[0].(map[string]any)
		special, _ := first["SpecialToken"].(map[string]any)
		return special["id"] == token
	case "BertProcessing", "RobertaProcessing":
		pair, _ := p["cls"].([]any)
		return len(pair) > 0 && pair[0] == token
	case "Sequence":
		list, _ := p["processors"].([]any)
		return slices.ContainsFunc(list, func(each any) bool { return startsWith(each, token) })
	}
	return false
}

// describeTokenizer fills in what the tokenizer's files say. A special token
// that they name beats the id in config.json, which is often that of another
// tokenizer.
func (f *Facts) describeTokenizer(t tokenizerSettings) {
	f.Tokenizer, f.AddBOS = t.kind(), t.addBOS()
	for key, id := range map[string]*int32{"bos_token": &f.BOS, "eos_token": &f.EOS} {
		if text, _ := t.token(key); text != "" {
			if n := t.id(text); n >= 0 {
				*id = n
			}
		}
		if f.Vocab > 0 && int(*id) >= f.Vocab {
			*id = -1
		}
	}
}

// incidental are the keys of tokenizer_config.json that do not decide how a
// plain text is cut.
var incidental = []string{"chat_template", "model_max_length", "max_length", "name_or_path", "padding_side", "truncation_side", "pad_to_multiple_of",
	"stride", "truncation_strategy", "clean_up_tokenization_spaces", "add_bos_token", "add_eos_token", "backend", "is_local", "local_files_only",
	"special_tokens_map_file", "tokenizer_file", "model_input_names", "return_token_type_ids"}

// folderTokenizerSHA256 is the digest of all files that decide how text becomes
// ids, sorted by name: name, length as 64-bit little-endian, bytes. Of
// tokenizer_config.json only the keys that matter are taken, as JSON with sorted
// keys, so that models of one family at different sizes have one digest.
func folderTokenizerSHA256(dir string, names []string) (string, error) {
	sum := sha256.New()
	for _, name := range slices.Sorted(slices.Values(names)) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", &UnknownError{path, "there is no such file", "a link that leads nowhere: fetch the model again"}
		}
		if err != nil {
			return "", err
		}
		if name == "tokenizer_config.json" {
			var config map[string]any
			if err := readJSON(path, &config); err != nil {
				return "", err
			}
			for _, key := range incidental {
				delete(config, key)
			}
			if data, err = json.Marshal(config); err != nil {
				return "", fmt.Errorf("read %s: %w", path, err)
			}
		}
		sum.Write([]byte(name + "\x00"))
		sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(data))))
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// foreignCode returns the module of code that lies in another repository
// ("org/repo--module.Class"), or "".
func foreignCode(modules []string) string {
	for _, m := range modules {
		if strings.Contains(m, "--") {
			return m
		}
	}
	return ""
}
