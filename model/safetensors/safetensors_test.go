package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes/model/safetensors"
)

// file puts a header and so many bytes of data together.
func file(header string, data int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), make([]byte, data)...)
}

func read(data []byte) (*safetensors.Header, error) {
	return safetensors.Read(bytes.NewReader(data), int64(len(data)))
}

const sample = `{"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"none":{"dtype":"I64","shape":[0,7],"data_offsets":[22,22]},"one":{"dtype":"F64","shape":[],"data_offsets":[22,30]}}  `

func TestRead(t *testing.T) {
	h, err := read(file(sample, 30))
	if err != nil {
		t.Fatal(err)
	}
	if h.Metadata["format"] != "pt" || len(h.Tensors) != 4 || h.Data != int64(8+len(sample)) || h.Size != h.Data+30 {
		t.Errorf("got %+v", h)
	}
	if a := h.Tensors[0]; a.Name != "a" || a.Type != "F32" || a.Elements != 4 || a.Bytes != 16 || a.Offset != 0 || len(a.Shape) != 2 {
		t.Errorf("got %+v", a)
	}
	if one := h.Tensors[3]; one.Name != "one" || one.Elements != 1 {
		t.Errorf("got %+v", one)
	}
}

// A type that is not known yet has its place checked and no more.
func TestUnknownType(t *testing.T) {
	h, err := read(file(`{"a":{"dtype":"F3_E1M1","shape":[8],"data_offsets":[0,3]}}`, 3))
	if err != nil || h.Tensors[0].Type != "F3_E1M1" {
		t.Errorf("got %+v, %v", h, err)
	}
}

func TestErrors(t *testing.T) {
	tensor := func(rest string) string { return `{"a":{` + rest + `}}` }
	for name, tt := range map[string]struct {
		data []byte
		text string
	}{
		"empty":        {nil, "truncated"},
		"short":        {[]byte{1, 2, 3}, "truncated"},
		"pointer":      {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"), "Git LFS pointer"},
		"text":         {[]byte("this is no model at all, is it?"), "not a safetensors file"},
		"zip":          {append([]byte("PK\x03\x04"), make([]byte, 60)...), "not a safetensors file"},
		"long header":  {append(binary.LittleEndian.AppendUint64(nil, 99_999_999), '{'), "header would have 99999999 bytes"},
		"huge header":  {append(binary.LittleEndian.AppendUint64(nil, 1<<63+5), '{'), "not a safetensors file"},
		"no object":    {file(`[1]`, 0), "no JSON object"},
		"no header":    {file(``, 8), "no JSON object"},
		"broken JSON":  {file(`{"a":`, 0), "corrupt"},
		"open JSON":    {file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}`, 1), "not JSON"},
		"more JSON":    {file(`{}{}`, 0), "after its header"},
		"no shape":     {file(tensor(`"dtype":"F32","shape":"x","data_offsets":[0,4]`), 4), "tensor \"a\""},
		"no type":      {file(tensor(`"shape":[1],"data_offsets":[0,4]`), 4), "no type"},
		"negative":     {file(tensor(`"dtype":"F32","shape":[-1],"data_offsets":[0,4]`), 4), "shape"},
		"overflow":     {file(tensor(`"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]`), 0), "shape"},
		"one offset":   {file(tensor(`"dtype":"F32","shape":[1],"data_offsets":[0]`), 4), "offsets"},
		"backwards":    {file(tensor(`"dtype":"F32","shape":[1],"data_offsets":[4,0]`), 4), "offsets"},
		"wrong size":   {file(tensor(`"dtype":"F32","shape":[2],"data_offsets":[0,4]`), 4), "takes 8 bytes"},
		"half a byte":  {file(tensor(`"dtype":"F4","shape":[3],"data_offsets":[0,1]`), 1), "takes 1 bytes"},
		"beyond":       {file(tensor(`"dtype":"F32","shape":[2],"data_offsets":[0,8]`), 4), "truncated: its tensors take 8 bytes, and 4 are there"},
		"too long":     {file(tensor(`"dtype":"F32","shape":[1],"data_offsets":[0,4]`), 9), "5 bytes stand after"},
		"hole":         {file(tensor(`"dtype":"F32","shape":[1],"data_offsets":[4,8]`), 8), "belong to none"},
		"overlap":      {file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), "overlap"},
		"same place":   {file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2), "overlap"},
		"twice":        {file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), "twice"},
		"bad metadata": {file(`{"__metadata__":{"a":1}}`, 0), "metadata"},
	} {
		_, err := read(tt.data)
		var format *safetensors.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), tt.text) || format.Hint() == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestEveryTruncation(t *testing.T) {
	whole := file(sample, 30)
	for n := range whole {
		if _, err := read(whole[:n]); err == nil || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := os.WriteFile(path, file(sample, 30), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := safetensors.Open(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, file(sample, 29), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := safetensors.Open(path); err == nil || !strings.HasPrefix(err.Error(), path+": truncated") {
		t.Errorf("got %v", err)
	}
	if _, err := safetensors.Open(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("got %v", err)
	}
}

// FuzzRead looks for crashes, and for headers that are taken and contradict
// themselves.
func FuzzRead(f *testing.F) {
	f.Add(file(sample, 30))
	f.Add(file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8))
	f.Add(file(`{}`, 0))
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := read(data)
		if err != nil {
			var format *safetensors.FormatError
			if !errors.As(err, &format) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		var end int64
		for _, tensor := range h.Tensors {
			if tensor.Offset != end || tensor.Bytes < 0 || tensor.Elements < 0 {
				t.Fatalf("taken: %+v", tensor)
			}
			end += tensor.Bytes
		}
		if h.Data+end != int64(len(data)) {
			t.Fatalf("taken: %d bytes of %d", h.Data+end, len(data))
		}
	})
}
