package model_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"olmes/artifact"
	"olmes/model"
	"olmes/model/modeltest"
)

// tensors writes a safetensors file of zeros: names with type and shape.
func tensors(t *testing.T, types map[string]string, shapes map[string][]int) []byte {
	t.Helper()
	width := map[string]int{"F32": 4, "BF16": 2, "F16": 2, "I32": 4, "U8": 1, "BOOL": 1, "F8_E4M3": 1}
	header, at := map[string]any{}, 0
	for _, name := range slices.Sorted(maps.Keys(types)) {
		n := width[types[name]]
		for _, d := range shapes[name] {
			n *= d
		}
		header[name] = map[string]any{"dtype": types[name], "shape": shapes[name], "data_offsets": []int{at, at + n}}
		at += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(out, text...), make([]byte, at)...)
}

const (
	llamaConfig = `{"model_type":"llama","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":16,
		"max_position_embeddings":512,"vocab_size":300,"bos_token_id":1,"eos_token_id":[2,5],"torch_dtype":"bfloat16"}`
	tokenizerJSON = `{"added_tokens":[{"id":1,"content":"<s>"},{"id":2,"content":"</s>"}],"post_processor":{"type":"Sequence","processors":[
		{"type":"ByteLevel"},{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]}]},
		"model":{"type":"BPE","vocab":{"a":7},"merges":[]}}`
	tokenizerConfig = `{"bos_token":{"content":"<s>"},"eos_token":"</s>","tokenizer_class":"PreTrainedTokenizerFast","model_max_length":512}`
)

// checkpoint is a small Hugging Face folder's files.
func checkpoint(t *testing.T) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		"config.json":            []byte(llamaConfig),
		"generation_config.json": []byte(`{}`),
		"tokenizer.json":         []byte(tokenizerJSON),
		"tokenizer_config.json":  []byte(tokenizerConfig),
		"model.safetensors": tensors(t, map[string]string{"w": "BF16", "norm": "F32", "h.attention.bias": "U8", "rotary.inv_freq": "F32"},
			map[string][]int{"w": {300, 8}, "norm": {8}, "h.attention.bias": {1, 1, 4, 4}, "rotary.inv_freq": {4}}),
	}
}

func writeFolder(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tiny")
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func resolve(t *testing.T, ref string, opt model.Options) (model.Model, error) {
	t.Helper()
	return model.Resolve(t.Context(), store(t), ref, opt)
}

func TestResolveFolder(t *testing.T) {
	files := checkpoint(t)
	files["README.md"] = []byte("x")
	files["optimizer.pt"] = []byte("x")
	files["pytorch_model.bin"] = []byte("x")
	files["onnx/model.onnx"] = []byte("x")
	dir := writeFolder(t, files)
	m, err := resolve(t, dir, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "tiny" || m.Source != "folder" || m.Format != model.Safetensors || m.Dir != dir || m.RemoteCode || m.Adapter != nil || m.Label() != "tiny" {
		t.Errorf("got %+v", m)
	}
	if m.Architecture != "llama" || m.Context != 512 || m.Vocab != 300 || m.BOS != 1 || m.EOS != 2 || m.AddBOS == nil || !*m.AddBOS || m.Tokenizer != "BPE" ||
		m.Parameters != 2408 || m.WeightType != "BF16" || m.WeightTypes["F32"] != 1 || m.Quantized || m.Quantization != "" {
		t.Errorf("got %+v", m.Facts)
	}
	if s := m.Shape; s.Layers != 2 || s.Embedding != 8 || s.FeedForward != 16 || s.Heads != 4 || s.KVHeads != 2 || s.KeyLength != 2 {
		t.Errorf("got %+v", s)
	}
	var names []string
	for i, path := range m.Files {
		names = append(names, filepath.Base(path))
		if m.Sizes[i] != int64(len(files[filepath.Base(path)])) {
			t.Errorf("size of %s", path)
		}
	}
	if got := strings.Join(names, " "); got != "config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json" {
		t.Errorf("files %s", got)
	}
}

// The digest is of what is loaded, wherever it lies.
func TestFolderDigest(t *testing.T) {
	digest := func(change func(files map[string][]byte)) (model.Model, string) {
		files := checkpoint(t)
		change(files)
		m, err := resolve(t, writeFolder(t, files), model.Options{TrustRemoteCode: true})
		if err != nil {
			t.Fatal(err)
		}
		return m, m.SHA256 + " " + m.TokenizerSHA256
	}
	first, base := digest(func(map[string][]byte) {})
	if _, again := digest(func(files map[string][]byte) { files["README.md"] = []byte("x") }); again != base {
		t.Error("a README changes the digest")
	}
	for name, change := range map[string]func(files map[string][]byte){
		"weights": func(files map[string][]byte) { files["model.safetensors"][len(files["model.safetensors"])-1]++ },
		"config":  func(files map[string][]byte) { files["config.json"] = append(files["config.json"], ' ') },
		"code":    func(files map[string][]byte) { files["modeling_x.py"] = []byte("pass") },
		"length": func(files map[string][]byte) {
			files["tokenizer_config.json"] = []byte(strings.Replace(tokenizerConfig, "512", "1024", 1))
		},
	} {
		m, _ := digest(change)
		if m.SHA256 == first.SHA256 {
			t.Errorf("%s: the same digest", name)
		}
		if m.TokenizerSHA256 != first.TokenizerSHA256 {
			t.Errorf("%s: another tokenizer", name)
		}
	}
	for name, change := range map[string]func(files map[string][]byte){
		"vocabulary": func(files map[string][]byte) {
			files["tokenizer.json"] = []byte(strings.Replace(tokenizerJSON, `"a":7`, `"b":7`, 1))
		},
		"settings": func(files map[string][]byte) {
			files["tokenizer_config.json"] = []byte(strings.Replace(tokenizerConfig, "{", `{"add_prefix_space":true,`, 1))
		},
		"file": func(files map[string][]byte) { files["tokenizer.model"] = []byte("x") },
	} {
		if m, _ := digest(change); m.TokenizerSHA256 == first.TokenizerSHA256 {
			t.Errorf("%s: the same tokenizer", name)
		}
	}
}

func TestFolderFacts(t *testing.T) {
	facts := func(config, tokenizer string) model.Model {
		t.Helper()
		files := checkpoint(t)
		files["config.json"], files["tokenizer_config.json"] = []byte(config), []byte(tokenizer)
		m, err := resolve(t, writeFolder(t, files), model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, tt := range []struct {
		name, config string
		got          func(m model.Model) any
		want         any
	}{
		{"gpt2", `{"model_type":"gpt2","n_positions":1024,"n_embd":768,"n_layer":12,"n_head":12}`, func(m model.Model) any { return []int{m.Context, m.Shape.Layers, m.Shape.KVHeads, m.Shape.KeyLength} }, []int{1024, 12, 12, 64}},
		{"mpt", `{"model_type":"mpt","max_seq_len":2048,"d_model":64,"n_layers":2,"n_heads":4,"expansion_ratio":4,"attn_config":{"kv_n_heads":1}}`, func(m model.Model) any { return []int{m.Context, m.Shape.FeedForward, m.Shape.KVHeads} }, []int{2048, 256, 1}},
		{"olmo", `{"model_type":"hf_olmo","max_sequence_length":2048}`, func(m model.Model) any { return m.Context }, 2048},
		{"chatglm", `{"model_type":"chatglm","seq_length":8192.0}`, func(m model.Model) any { return m.Context }, 8192},
		{"falcon", `{"model_type":"falcon","num_attention_heads":71,"multi_query":true}`, func(m model.Model) any { return []int{m.Context, m.Shape.KVHeads} }, []int{0, 1}},
		{"falcon new", `{"model_type":"falcon","num_attention_heads":128,"num_kv_heads":8,"new_decoder_architecture":true}`, func(m model.Model) any { return m.Shape.KVHeads }, 8},
		{"falcon rw", `{"model_type":"falcon","num_attention_heads":32,"num_kv_heads":32,"multi_query":false}`, func(m model.Model) any { return m.Shape.KVHeads }, 32},
		{"nested", `{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","max_position_embeddings":131072,"sliding_window":1024,"vocab_size":262208},"eos_token_id":[1,106]}`,
			func(m model.Model) any { return []any{m.Architecture, m.Context, m.SlidingWindow, m.Vocab} }, []any{"gemma3", 131072, 1024, 262208}},
		{"mistral", `{"model_type":"mistral","sliding_window":4096}`, func(m model.Model) any { return m.SlidingWindow }, 4096},
		{"mistral 0.3", `{"model_type":"mistral","sliding_window":null}`, func(m model.Model) any { return m.SlidingWindow }, 0},
		{"qwen2", `{"model_type":"qwen2","sliding_window":131072,"use_sliding_window":false}`, func(m model.Model) any { return m.SlidingWindow }, 0},
		{"gptq", `{"model_type":"llama","quantization_config":{"quant_method":"gptq","bits":4}}`, func(m model.Model) any { return fmt.Sprint(m.Quantization, m.Quantized) }, "gptq 4-bittrue"},
		{"bnb", `{"model_type":"llama","quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4"}}`, func(m model.Model) any { return m.Quantization }, "bitsandbytes 4-bit nf4"},
		{"fp8", `{"model_type":"llama","quantization_config":{"quant_method":"fp8"}}`, func(m model.Model) any { return m.Quantization }, "fp8"},
		{"code", `{"model_type":"x","auto_map":{"AutoModelForCausalLM":"modeling_x.X"}}`, func(m model.Model) any { return m.RemoteCode }, true},
		{"odd numbers", `{"model_type":"x","max_position_embeddings":-5,"vocab_size":1e30,"bos_token_id":"x","num_hidden_layers":2.5}`, func(m model.Model) any { return []int{m.Context, m.Vocab, m.Shape.Layers} }, []int{0, 0, 0}},
	} {
		if got := tt.got(facts(tt.config, "{}")); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	const config = `{"model_type":"llama","vocab_size":300,"bos_token_id":9,"eos_token_id":null}`
	for _, tt := range []struct {
		name, tokenizer string
		bos, eos        int32
		add             string
	}{
		{"named", `{"bos_token":"<s>"}`, 1, -1, "true"},
		{"flag", `{"bos_token":"<s>","add_bos_token":false}`, 1, -1, "false"},
		{"of the vocabulary", `{"bos_token":"a","eos_token":"</s>"}`, 7, 2, "false"},
		{"of the decoder", `{"bos_token":"<x>","added_tokens_decoder":{"12":{"content":"<x>"}}}`, 12, -1, "false"},
		{"config's", `{}`, 9, -1, "false"},
		{"null", `{"bos_token":null}`, 9, -1, "false"},
		{"unknown", `{"bos_token":"<none>"}`, 9, -1, "false"},
	} {
		m := facts(config, tt.tokenizer)
		if add := fmt.Sprint(*m.AddBOS); m.BOS != tt.bos || m.EOS != tt.eos || add != tt.add {
			t.Errorf("%s: bos %d, eos %d, add %s", tt.name, m.BOS, m.EOS, add)
		}
	}
}

func TestFolderPickle(t *testing.T) {
	files := checkpoint(t)
	delete(files, "model.safetensors")
	files["pytorch_model.bin.index.json"] = []byte(`{"weight_map":{"a":"pytorch_model-00001-of-00002.bin","b":"pytorch_model-00002-of-00002.bin","c":"pytorch_model-00001-of-00002.bin"}}`)
	files["pytorch_model-00001-of-00002.bin"] = []byte("not read here")
	files["pytorch_model-00002-of-00002.bin"] = []byte("not read here")
	m, err := resolve(t, writeFolder(t, files), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Format != model.Pickle || m.Parameters != 0 || m.WeightType != "BF16" || len(m.Files) != 7 {
		t.Errorf("got %+v", m)
	}
}

// The hub's cache holds links into blobs.
func TestFolderOfLinks(t *testing.T) {
	files := checkpoint(t)
	root := filepath.Join(t.TempDir(), "models--org--some-name")
	snapshot := filepath.Join(root, "snapshots", strings.Repeat("a", 40))
	for _, dir := range []string{snapshot, filepath.Join(root, "blobs")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(root, "blobs", name+"-blob"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../blobs/"+name+"-blob", filepath.Join(snapshot, name)); err != nil {
			t.Skip(err)
		}
	}
	m, err := resolve(t, snapshot, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := resolve(t, writeFolder(t, files), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "org/some-name" || m.Origin != "org/some-name" || m.SHA256 != plain.SHA256 || m.Dir != snapshot {
		t.Errorf("got %+v", m)
	}
	if err := os.Remove(filepath.Join(root, "blobs", "tokenizer.json-blob")); err != nil {
		t.Fatal(err)
	}
	if _, err := resolve(t, snapshot, model.Options{}); err == nil || !strings.Contains(err.Error(), "tokenizer.json") || !strings.Contains(err.Error(), "leads nowhere") {
		t.Errorf("got %v", err)
	}
}

func TestFolderErrors(t *testing.T) {
	type files = map[string][]byte
	whole := tensors(t, map[string]string{"a": "F32"}, map[string][]int{"a": {4}})
	index := func(names ...string) []byte {
		m := map[string]string{}
		for i, name := range names {
			m[fmt.Sprint(i)] = name
		}
		data, _ := json.Marshal(map[string]any{"weight_map": m})
		return data
	}
	for name, tt := range map[string]struct {
		change     func(f files)
		opt        model.Options
		text, hint string
	}{
		"nothing":       {func(f files) { clear(f); f["x"] = nil }, model.Options{}, "no config.json", "hf:ORG/REPO"},
		"neither":       {func(f files) { delete(f, "model.safetensors"); delete(f, "tokenizer.json") }, model.Options{}, "neither weights", "whole folder"},
		"no weights":    {func(f files) { delete(f, "model.safetensors"); f["weights.safetensors"] = whole }, model.Options{}, "no weights: neither model.safetensors", ""},
		"no tokenizer":  {func(f files) { delete(f, "tokenizer.json") }, model.Options{}, "no tokenizer", "save_pretrained"},
		"no type":       {func(f files) { f["config.json"] = []byte(`{"hidden_size":8}`) }, model.Options{}, "model_type", "transformers"},
		"no JSON":       {func(f files) { f["config.json"] = []byte(`{"hidden_size":`) }, model.Options{}, "config.json", "get the file again"},
		"two values":    {func(f files) { f["config.json"] = []byte(llamaConfig + "{}") }, model.Options{}, "more stands after", "get the file again"},
		"no tokens":     {func(f files) { f["tokenizer.json"] = []byte(`[]`) }, model.Options{}, "tokenizer.json", "get the file again"},
		"truncated":     {func(f files) { f["model.safetensors"] = f["model.safetensors"][:900] }, model.Options{}, "model.safetensors: truncated", "get the file again"},
		"pointer":       {func(f files) { f["model.safetensors"] = []byte("version https://git-lfs.github.com/spec/v1\noid") }, model.Options{}, "Git LFS pointer", "git lfs pull"},
		"empty weights": {func(f files) { f["model.safetensors"] = tensors(t, nil, nil) }, model.Options{}, "holds no weights", ""},
		"shard": {func(f files) {
			delete(f, "model.safetensors")
			f["model.safetensors.index.json"] = index("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
			f["model-00001-of-00002.safetensors"] = whole
		}, model.Options{}, "1 of its files are missing: model-00002-of-00002.safetensors", "one folder"},
		"outside": {func(f files) {
			delete(f, "model.safetensors")
			f["model.safetensors.index.json"] = index("../../secret.safetensors")
		}, model.Options{}, "not in its folder", ""},
		"pickle among": {func(f files) {
			delete(f, "model.safetensors")
			f["model.safetensors.index.json"] = index("evil.bin")
		}, model.Options{}, "no .safetensors file", ""},
		"empty index": {func(f files) { delete(f, "model.safetensors"); f["model.safetensors.index.json"] = []byte(`{}`) }, model.Options{}, "names 0 files", ""},
		"GGUF wanted": {func(files) {}, model.Options{Format: model.GGUF}, "reads only GGUF", "--engine torch"},
		"GGUF there":  {func(f files) { clear(f); f["x.gguf"] = nil }, model.Options{}, "it is a folder", "x.gguf"},
		"two things":  {func(f files) { f["adapter_config.json"] = []byte(`{}`) }, model.Options{}, "an adapter", "--adapter"},
		"foreign code": {func(f files) {
			f["config.json"] = []byte(`{"model_type":"x","auto_map":{"AutoModel":["other/repo--modeling.X",null]}}`)
		}, model.Options{TrustRemoteCode: true}, "other/repo--modeling.X", "local copy"},
	} {
		f := checkpoint(t)
		tt.change(f)
		_, err := resolve(t, writeFolder(t, f), tt.opt)
		if err == nil || !strings.Contains(err.Error(), tt.text) || !strings.Contains(artifact.Hint(err), tt.hint) || artifact.Hint(err) == "" {
			t.Errorf("%s: got %v; hint %q", name, err, artifact.Hint(err))
		}
	}
}

// One file of the folder, as shells complete it.
func TestFileOfFolder(t *testing.T) {
	files := checkpoint(t)
	files["model-00001-of-00002.safetensors"] = nil
	dir := writeFolder(t, files)
	for _, name := range []string{"config.json", "model.safetensors", "model-00001-of-00002.safetensors", "tokenizer.json"} {
		if _, err := resolve(t, filepath.Join(dir, name), model.Options{}); err == nil || !strings.Contains(artifact.Hint(err), "name its folder: "+dir) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestFolderBesideGGUF(t *testing.T) {
	files := checkpoint(t)
	files["tiny-f16.gguf"] = []byte("x")
	var said []string
	m, err := resolve(t, writeFolder(t, files), model.Options{Notice: func(text string) { said = append(said, text) }})
	if err != nil || m.Format != model.Safetensors || len(said) != 1 || !strings.Contains(said[0], "safetensors and GGUF files: the former are taken") {
		t.Errorf("got %+v, %v, said %q", m, err, said)
	}
}

func TestTokenizerOnly(t *testing.T) {
	files := checkpoint(t)
	whole, err := resolve(t, writeFolder(t, files), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "model.safetensors")
	dir := writeFolder(t, files)
	m, err := resolve(t, dir, model.Options{TokenizerOnly: true})
	if err != nil || m.TokenizerSHA256 != whole.TokenizerSHA256 || m.Vocab != 300 || m.Format != "" || m.Parameters != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
	gguf := filepath.Join(t.TempDir(), "m.gguf")
	write(t, gguf, modeltest.Options{})
	for _, ref := range []string{gguf, model.Default} {
		var unknown *model.UnknownError
		if _, err := resolve(t, ref, model.Options{TokenizerOnly: true}); !errors.As(err, &unknown) {
			t.Errorf("%s: got %v", ref, err)
		}
	}
}

func TestAdapter(t *testing.T) {
	base := writeFolder(t, checkpoint(t))
	lora := map[string][]byte{
		"adapter_config.json":       fmt.Appendf(nil, `{"peft_type":"LORA","base_model_name_or_path":%q}`, base),
		"adapter_model.safetensors": tensors(t, map[string]string{"lora_A": "F32", "lora_B": "F32"}, map[string][]int{"lora_A": {2, 8}, "lora_B": {8, 2}}),
	}
	plain, err := resolve(t, base, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := writeFolder(t, lora)
	m, err := resolve(t, dir, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Adapter == nil || m.Adapter.Kind != "LORA" || m.Adapter.Dir != dir || m.Adapter.Parameters != 32 || m.Adapter.Base != base ||
		m.Dir != base || m.SHA256 == plain.SHA256 || m.Name != "tiny+tiny" || m.Parameters != plain.Parameters {
		t.Errorf("got %+v, %+v", m, m.Adapter)
	}
	a, err := model.ResolveAdapter(t.Context(), store(t), dir, model.Options{})
	if err != nil || a.SHA256 != m.Adapter.SHA256 || plain.WithAdapter(a).SHA256 != m.SHA256 {
		t.Errorf("got %+v, %v", a, err)
	}
	for name, tt := range map[string]struct {
		change     func(map[string][]byte)
		text, hint string
	}{
		"no weights": {func(f map[string][]byte) { delete(f, "adapter_model.safetensors") }, "no weights", ""},
		"no kind":    {func(f map[string][]byte) { f["adapter_config.json"] = []byte(`{}`) }, "peft_type", "PEFT"},
		"no base":    {func(f map[string][]byte) { f["adapter_config.json"] = []byte(`{"peft_type":"LORA"}`) }, "does not name its model", "--adapter tiny"},
		"lost base": {func(f map[string][]byte) {
			f["adapter_config.json"] = []byte(`{"peft_type":"LORA","base_model_name_or_path":"/nowhere/base"}`)
		}, "cannot be found", "--adapter tiny"},
		"on itself": {func(f map[string][]byte) {
			f["adapter_config.json"] = fmt.Appendf(nil, `{"peft_type":"LORA","base_model_name_or_path":%q}`, dir)
		}, "another adapter", "merge"},
		"truncated": {func(f map[string][]byte) { f["adapter_model.safetensors"] = []byte("x") }, "truncated", ""},
	} {
		f := maps.Clone(lora)
		tt.change(f)
		_, err := resolve(t, writeFolder(t, f), model.Options{})
		if err == nil || !strings.Contains(err.Error(), tt.text) || !strings.Contains(artifact.Hint(err), tt.hint) {
			t.Errorf("%s: got %v; hint %q", name, err, artifact.Hint(err))
		}
	}
	if _, err := model.ResolveAdapter(t.Context(), store(t), base, model.Options{}); err == nil || !strings.Contains(err.Error(), "no adapter") {
		t.Errorf("got %v", err)
	}
}

func TestResolveHubFolder(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	files := checkpoint(t)
	files["modeling_x.py"], files["examples/x.py"] = []byte("raise SystemExit"), []byte("x")
	files["README.md"], files["model.onnx"], files["flax_model.msgpack"], files["pytorch_model.bin"] = []byte("x"), []byte("x"), []byte("x"), []byte("x")
	h := hub(t, files)
	get := func(ref string, opt model.Options) (model.Model, error) {
		opt.Hub = h
		return resolve(t, ref, opt)
	}
	m, err := get("hf:org/name", model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "org/name" || m.Source != "hf:org/name@"+commit || m.Format != model.Safetensors || m.Architecture != "llama" || !m.RemoteCode ||
		filepath.Base(m.Dir) != commit {
		t.Errorf("got %+v", m)
	}
	entries, err := os.ReadDir(m.Dir)
	if err != nil || len(entries) != 5 {
		t.Errorf("fetched %v, %v", entries, err)
	}
	// A local copy of the same files is the same model.
	clean := checkpoint(t)
	local, err := resolve(t, writeFolder(t, clean), model.Options{})
	if err != nil || local.SHA256 != m.SHA256 {
		t.Errorf("%s, hub %s, %v", local.SHA256, m.SHA256, err)
	}
	// Code comes only when asked for, at a commit.
	if _, err := get("hf:org/name", model.Options{TrustRemoteCode: true}); err == nil || !strings.Contains(artifact.Hint(err), "hf:org/name@"+commit) {
		t.Errorf("got %v, hint %q", err, artifact.Hint(err))
	}
	trusted, err := get("hf:org/name@"+commit, model.Options{TrustRemoteCode: true})
	if err != nil || len(trusted.Files) != 6 || trusted.SHA256 == m.SHA256 {
		t.Errorf("got %+v, %v", trusted, err)
	}
	// GGUF beside it: the published weights are taken, unless the engine reads only GGUF.
	gguf := filepath.Join(t.TempDir(), "m.gguf")
	write(t, gguf, modeltest.Options{})
	files["m.gguf"] = mustRead(t, gguf)
	var said []string
	note := func(text string) { said = append(said, text) }
	if m, err = get("hf:org/name", model.Options{Notice: note}); err != nil || m.Format != model.Safetensors || len(said) != 1 || !strings.Contains(said[0], "hf:org/name:FILE.gguf") {
		t.Errorf("got %+v, %v, said %q", m, err, said)
	}
	for _, ref := range []string{"hf:org/name", "hf:org/name:m.gguf"} {
		if m, err = get(ref, model.Options{Format: model.GGUF}); err != nil || m.Format != model.GGUF || m.Name != "org/name:m.gguf" {
			t.Errorf("%s: got %+v, %v", ref, m, err)
		}
	}
	delete(files, "m.gguf")
	if _, err := get("hf:org/name", model.Options{Format: model.GGUF}); err == nil || !strings.Contains(err.Error(), "no .gguf file") || !strings.Contains(artifact.Hint(err), "--engine torch") {
		t.Errorf("got %v", err)
	}
	for ref, text := range map[string]string{"hf:org/name:model.safetensors": "no .gguf file", "hf:org/name@main:": "not of the form"} {
		if _, err := get(ref, model.Options{}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v", ref, err)
		}
	}
}

func TestResolveHubShards(t *testing.T) {
	files := checkpoint(t)
	delete(files, "model.safetensors")
	files["model.safetensors.index.json"] = []byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`)
	for i, name := range []string{"a", "b"} {
		files[fmt.Sprintf("model-%05d-of-00002.safetensors", i+1)] = tensors(t, map[string]string{name: "F16"}, map[string][]int{name: {5}})
	}
	h := hub(t, files)
	s := store(t)
	h.Store = s
	m, err := model.Resolve(t.Context(), s, "hf:org/name", model.Options{Hub: h})
	if err != nil || m.Parameters != 10 || len(m.Files) != 7 {
		t.Errorf("got %+v, %v", m, err)
	}
	// Offline all of it comes from the cache; a lost file is named.
	h.Offline = true
	again, err := model.Resolve(t.Context(), s, "hf:org/name", model.Options{Hub: h})
	if err != nil || again.SHA256 != m.SHA256 || again.Source != m.Source {
		t.Errorf("offline: got %+v, %v", again, err)
	}
	if err := os.Remove(filepath.Join(m.Dir, "model-00002-of-00002.safetensors")); err != nil {
		t.Fatal(err)
	}
	for _, with := range []*artifact.Store{s, store(t)} { // with and without the list of files kept
		h.Store = with
		var e *artifact.Error
		if _, err := model.Resolve(t.Context(), with, "hf:org/name", model.Options{Hub: h}); !errors.As(err, &e) || e.Kind != artifact.Absent || !strings.Contains(err.Error(), "model-00002-of-00002.safetensors") {
			t.Errorf("got %v", err)
		}
	}
	h.Offline = false
	delete(files, "model-00002-of-00002.safetensors")
	if _, err := model.Resolve(t.Context(), store(t), "hf:org/name", model.Options{Hub: hub(t, files)}); err == nil || !strings.Contains(err.Error(), "1 of its files are missing") {
		t.Errorf("got %v", err)
	}
}

func TestResolveHubAdapter(t *testing.T) {
	base := writeFolder(t, checkpoint(t))
	files := map[string][]byte{
		"adapter_config.json":       fmt.Appendf(nil, `{"peft_type":"LORA","base_model_name_or_path":%q}`, base),
		"adapter_model.safetensors": tensors(t, map[string]string{"a": "F32"}, map[string][]int{"a": {2, 8}}),
	}
	m, err := resolve(t, "hf:org/name", model.Options{Hub: hub(t, files)})
	if err != nil || m.Adapter == nil || m.Adapter.Name != "org/name" || !strings.HasPrefix(m.Adapter.Source, "hf:org/name@") || m.Dir != base {
		t.Errorf("got %+v, %v", m, err)
	}
}

// A Git revision cannot be a way out of the cache, nor a repository's file.
func TestHubFolderDistrusts(t *testing.T) {
	files := checkpoint(t)
	files["../../evil.json"] = []byte("x")
	if _, err := resolve(t, "hf:org/name", model.Options{Hub: hub(t, files)}); err != nil {
		t.Error(err) // the name is passed over
	}
	if _, err := resolve(t, "hf:org/name@../../x", model.Options{Hub: hub(t, files)}); err == nil {
		t.Error("the revision was taken")
	}
}
