// Package safetensors reads the headers of safetensors files: names, types and
// shapes of the tensors, never the weights. The rules are those of the format's
// description: an 8-byte length, a JSON object, then the tensors' bytes without
// gap or overlap up to the end of the file.
//
// Sizes in the file are never trusted: a damaged file costs an error and no
// more memory than the file is long.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// Header is what a file says before its weights.
type Header struct {
	Metadata map[string]string // the entry __metadata__; may be nil
	Tensors  []Tensor          // in the order of their bytes
	Data     int64             // offset of the first tensor's bytes in the file
	Size     int64             // the file's size in bytes
}

// Tensor is one named weight.
type Tensor struct {
	Name     string
	Type     string  // "F32", "BF16", "F8_E4M3", as in the file
	Shape    []int64 // slowest first, as in the file; empty for a scalar
	Elements int64
	Offset   int64 // from Header.Data, in bytes
	Bytes    int64
}

// FormatError says that a file is not a whole, sound safetensors file.
type FormatError struct {
	Path    string // may be ""
	Problem string
	Tip     string
}

func (e *FormatError) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// Hint says what the user can do.
func (e *FormatError) Hint() string {
	if e.Tip != "" {
		return e.Tip
	}
	return "get the file again and compare its size and SHA-256 with the source's"
}

const (
	maxHeader = 100_000_000 // bytes; the format's own limit
	maxDims   = 32
	pointer   = "version https://git-lfs" // what a Git LFS pointer file starts with
)

// bits are the sizes of the types' elements.
var bits = map[string]int64{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
	"I64": 64, "U64": 64, "F64": 64, "C64": 64,
}

// Open reads the header of the file at path.
func Open(path string) (*Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open model file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open model file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open model file %s: it is not a regular file", path)
	}
	h, err := Read(f, info.Size())
	var format *FormatError
	if errors.As(err, &format) {
		format.Path = path
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read model file %s: %w", path, err)
	}
	return h, nil
}

func fail(format string, args ...any) error {
	return &FormatError{Problem: fmt.Sprintf(format, args...)}
}

// Read reads the header of a file of size bytes from its start. Errors are of
// type *FormatError, except those of r itself.
func Read(r io.Reader, size int64) (*Header, error) {
	start := make([]byte, min(size, int64(len(pointer))))
	if _, err := io.ReadFull(r, start); err != nil {
		return nil, cut(err)
	}
	switch {
	case string(start) == pointer:
		return nil, &FormatError{Problem: "it is a Git LFS pointer, not the weights", Tip: "fetch the weights with `git lfs pull` in the repository's folder"}
	case len(start) < 8:
		return nil, fail("truncated: it has %d bytes", size)
	}
	length := binary.LittleEndian.Uint64(start)
	switch {
	case length > maxHeader:
		return nil, fail("not a safetensors file, or a damaged one: its header would have %d bytes", length)
	case int64(length) > size-8:
		return nil, fail("truncated or not a safetensors file: its header would have %d bytes, and %d are left", length, size-8)
	}
	text := make([]byte, length)
	n := copy(text, start[8:])
	if _, err := io.ReadFull(r, text[n:]); err != nil {
		return nil, cut(err)
	}
	h := &Header{Data: 8 + int64(length), Size: size}
	if err := h.parse(text); err != nil {
		return nil, err
	}
	return h, h.check()
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fail("truncated: the file ends inside its header")
	}
	return err
}

// parse reads the JSON object, key by key, so that one that stands there twice
// is found.
func (h *Header) parse(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		return fail("not a safetensors file: its header is no JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.Token() // the brace
	names := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fail("corrupt: its header is not JSON: %v", err)
		}
		name, _ := key.(string)
		if names[name] {
			return fail("corrupt: %q stands in its header twice", name)
		}
		names[name] = true
		if name == "__metadata__" {
			if err := d.Decode(&h.Metadata); err != nil {
				return fail("corrupt: its metadata are no texts: %v", err)
			}
			continue
		}
		t, err := readTensor(d, name)
		if err != nil {
			return err
		}
		h.Tensors = append(h.Tensors, t)
	}
	if _, err := d.Token(); err != nil {
		return fail("corrupt: its header is not JSON: %v", err)
	}
	if rest := text[d.InputOffset():]; len(strings.Trim(string(rest), " \t\r\n\x00")) > 0 {
		return fail("corrupt: %d bytes stand after its header's JSON object", len(rest))
	}
	return nil
}

func readTensor(d *json.Decoder, name string) (Tensor, error) {
	var entry struct {
		Type    string   `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets []uint64 `json:"data_offsets"`
	}
	if err := d.Decode(&entry); err != nil {
		return Tensor{}, fail("corrupt: the entry of tensor %q: %v", name, err)
	}
	t := Tensor{Name: name, Type: entry.Type, Shape: entry.Shape, Elements: 1}
	if len(entry.Offsets) != 2 || entry.Offsets[0] > entry.Offsets[1] || entry.Offsets[1] > math.MaxInt64 {
		return Tensor{}, fail("corrupt: tensor %q has the offsets %v", name, entry.Offsets)
	}
	t.Offset, t.Bytes = int64(entry.Offsets[0]), int64(entry.Offsets[1]-entry.Offsets[0])
	if len(t.Shape) > maxDims {
		return Tensor{}, fail("corrupt: tensor %q has %d dimensions", name, len(t.Shape))
	}
	for _, n := range t.Shape {
		// The product stays below what fits, whatever the type's size.
		if n < 0 || n > 0 && t.Elements > math.MaxInt64/64/n {
			return Tensor{}, fail("corrupt: tensor %q has the shape %v", name, t.Shape)
		}
		t.Elements *= n
	}
	if t.Type == "" {
		return Tensor{}, fail("corrupt: tensor %q has no type (dtype)", name)
	}
	// Types that came after this was written only have their place checked.
	if width, known := bits[t.Type]; known && (t.Elements*width%8 != 0 || t.Elements*width/8 != t.Bytes) {
		return Tensor{}, fail("corrupt: tensor %q of type %s and shape %v takes %d bytes, and its offsets give it %d", name, t.Type, t.Shape, t.Elements*width/8, t.Bytes)
	}
	return t, nil
}

// check makes sure that the tensors fill the rest of the file exactly.
func (h *Header) check() error {
	slices.SortFunc(h.Tensors, func(a, b Tensor) int {
		if a.Offset != b.Offset {
			return int(min(max(a.Offset-b.Offset, -1), 1))
		}
		if a.Bytes != b.Bytes {
			return int(min(max(a.Bytes-b.Bytes, -1), 1))
		}
		return strings.Compare(a.Name, b.Name)
	})
	var end int64
	for _, t := range h.Tensors {
		switch {
		case t.Offset < end:
			return fail("corrupt: the bytes of tensor %q overlap another's", t.Name)
		case t.Offset > end:
			return fail("corrupt: %d bytes before tensor %q belong to none", t.Offset-end, t.Name)
		}
		end += t.Bytes
	}
	switch have := h.Size - h.Data; {
	case have < end:
		return fail("truncated: its tensors take %d bytes, and %d are there", end, have)
	case have > end:
		return fail("corrupt: %d bytes stand after the last tensor", have-end)
	}
	return nil
}
