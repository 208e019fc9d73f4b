package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes/model/gguf"
	"olmes/model/modeltest"
)

func sample(t testing.TB) []byte {
	t.Helper()
	yes := true
	data, err := modeltest.Encode(modeltest.Options{Layers: 1, Heads: 1, Merges: []string{"A n"}, AddBOS: &yes})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func read(data []byte) (*gguf.Header, error) {
	return gguf.Read(bytes.NewReader(data), int64(len(data)))
}

func TestRead(t *testing.T) {
	data := sample(t)
	h, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != 3 || h.Size != int64(len(data)) || h.Data%32 != 0 {
		t.Errorf("got version %d, size %d, data at %d", h.Version, h.Size, h.Data)
	}
	if h.String("general.architecture") != "llama" || h.Uint("llama.context_length", 0) != 4096 || h.Uint("none", 7) != 7 {
		t.Errorf("values %v", h.Values)
	}
	if v, ok := h.Bool("tokenizer.ggml.add_bos_token"); !v || !ok {
		t.Error("no flag")
	}
	if _, ok := h.Bool("none"); ok {
		t.Error("a flag that is not there")
	}
	if n := len(h.Strings("tokenizer.ggml.tokens")); n != 259 {
		t.Errorf("%d tokens", n)
	}
	if v, ok := h.Values["llama.rope.freq_base"].(float64); !ok || v != 10000 {
		t.Errorf("freq_base %v", h.Values["llama.rope.freq_base"])
	}
	for _, tensor := range h.Tensors {
		if tensor.Name == "blk.0.ffn_gate.weight" && (tensor.Elements != 32*64 || tensor.Bytes != 4*32*64 || tensor.Type != "F32") {
			t.Errorf("got %+v", tensor)
		}
	}
}

// TestEveryTruncation cuts the file at each byte of its header and at some of
// its data: always a clear error.
func TestEveryTruncation(t *testing.T) {
	data := sample(t)
	h, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(data); n++ {
		if n > 2000 && n%101 > 0 || n > int(h.Data) && n%1009 > 0 {
			continue
		}
		_, err := read(data[:n])
		var format *gguf.FormatError
		if !errors.As(err, &format) || format.Hint() == "" {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if n >= 4 && !strings.Contains(err.Error(), "truncated") {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if _, err := read(data[:len(data)-1]); err == nil || !strings.Contains(err.Error(), "the data of tensor") {
		t.Errorf("the last byte: %v", err)
	}
	// The reader may end before the size that was promised.
	if _, err := gguf.Read(bytes.NewReader(data[:1000]), int64(len(data))); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("short reader: %v", err)
	}
}

func TestCorrupt(t *testing.T) {
	le := binary.LittleEndian
	head := func(tensors, values uint64) []byte {
		p := append([]byte("GGUF"), 3, 0, 0, 0)
		return le.AppendUint64(le.AppendUint64(p, tensors), values)
	}
	text := func(p []byte, s string) []byte { return append(le.AppendUint64(p, uint64(len(s))), s...) }
	value := func(p []byte, key string, code uint32, body ...byte) []byte {
		return append(le.AppendUint32(text(p, key), code), body...)
	}
	tensor := func(p []byte, name string, code uint32, offset uint64, dims ...uint64) []byte {
		p = le.AppendUint32(text(p, name), uint32(len(dims)))
		for _, d := range dims {
			p = le.AppendUint64(p, d)
		}
		return le.AppendUint64(le.AppendUint32(p, code), offset)
	}
	room := make([]byte, 4096)
	array := func(code uint32, n uint64) []byte { return le.AppendUint64(le.AppendUint32(nil, code), n) }
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"empty":             {nil, "not a GGUF file"},
		"text":              {[]byte("hello, world"), "not a GGUF file"},
		"zip":               {[]byte("PK\x03\x04...................."), "not a GGUF file"},
		"big-endian":        {append([]byte("GGUF"), 0, 0, 0, 3, 0), "big-endian"},
		"version 1":         {append([]byte("GGUF"), 1, 0, 0, 0), "version 1"},
		"version 9":         {append([]byte("GGUF"), 9, 0, 0, 0), "version 9"},
		"too many tensors":  {head(1<<60, 0), "tensor list"},
		"too many values":   {head(0, 1<<60), "metadata"},
		"long key":          {append(le.AppendUint64(head(0, 1), 1<<40), room...), "a key of the metadata"},
		"long text":         {append(value(head(0, 1), "k", 8, le.AppendUint64(nil, 1<<62)...), room...), "the value of k"},
		"long text in file": {append(value(head(0, 1), "k", 8, le.AppendUint64(nil, 1<<20)...), room...), "would take 1048576 bytes"},
		"long array":        {append(value(head(0, 1), "k", 9, array(4, 1<<40)...), room...), "entries"},
		"deep array":        {append(value(head(0, 1), "k", 9, append(append(array(9, 1), array(9, 1)...), array(9, 1)...)...), room...), "too deep"},
		"type of array":     {append(value(head(0, 1), "k", 9, array(99, 1)...), room...), "unknown type 99"},
		"type of value":     {append(value(head(0, 1), "k", 77), room...), "unknown type 77"},
		"truth value":       {append(value(head(0, 1), "k", 7, 2), room...), "truth value"},
		"twice":             {append(value(value(head(0, 2), "k", 7, 1), "k", 7, 1), room...), "twice"},
		"alignment":         {append(value(head(0, 1), "general.alignment", 4, 3, 0, 0, 0), room...), "alignment is 3"},
		"dimensions":        {append(tensor(head(1, 0), "t", 0, 0, 1, 1, 1, 1, 1), room...), "5 dimensions"},
		"no elements":       {append(tensor(head(1, 0), "t", 0, 0, 0), room...), "shape"},
		"too many elements": {append(tensor(head(1, 0), "t", 0, 0, 1<<40, 1<<40), room...), "shape"},
		"beyond the end":    {append(tensor(head(1, 0), "t", 0, 0, 1030), room...), "the data of tensor \"t\" ends"},
		"larger than file":  {append(tensor(head(1, 0), "t", 0, 0, 1<<50), room...), "larger than the whole file"},
		"offset":            {append(tensor(head(1, 0), "t", 0, 1<<62, 1), room...), "start"},
		"half a block":      {append(tensor(head(1, 0), "t", 8, 0, 33), room...), "do not fill"},
		"overlap":           {append(tensor(tensor(head(2, 0), "t", 0, 0, 64), "u", 0, 32, 64), room...), "overlap"},
	} {
		_, err := read(tt.data)
		var format *gguf.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	h, err := read(append(tensor(head(1, 0), "t", 999, 0, 64), room...))
	if err != nil || h.Tensors[0].Type != "type 999" || h.Tensors[0].Bytes != -1 {
		t.Errorf("a type of the future: %v, %v", h, err)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	os.WriteFile(path, sample(t), 0o644)
	if _, err := gguf.Open(path); err != nil {
		t.Error(err)
	}
	os.WriteFile(path, []byte("text"), 0o644)
	for _, name := range []string{path, dir, filepath.Join(dir, "none")} {
		if _, err := gguf.Open(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	data := sample(f)
	h, err := read(data)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:h.Data])
	f.Add(data[:h.Data+100])
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := read(data)
		if err != nil {
			var format *gguf.FormatError
			if !errors.As(err, &format) {
				t.Fatalf("error of type %T: %v", err, err)
			}
			return
		}
		for _, tensor := range h.Tensors {
			if tensor.Elements <= 0 || tensor.Offset < 0 || h.Data+tensor.Offset+max(tensor.Bytes, 0) > int64(len(data)) {
				t.Fatalf("tensor %+v in %d bytes", tensor, len(data))
			}
		}
	})
}
