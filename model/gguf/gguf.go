// Package gguf reads the headers of GGUF files: the metadata and the list of
// tensors, never the weights. It accepts versions 2 and 3, little-endian, as
// llama.cpp writes them, and checks that all tensor data lies inside the file.
//
// Sizes in the file are never trusted: nothing is allocated that the rest of
// the file could not hold, so that a damaged file costs an error and no memory.
package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// Header is what a GGUF file says before its weights.
type Header struct {
	Version uint32
	Values  map[string]any // uint64, int64, float64, bool, string, or a slice of one of these
	Tensors []Tensor
	Data    int64 // offset of the tensor data in the file, in bytes
	Size    int64 // the file's size in bytes
}

// Tensor is one named weight.
type Tensor struct {
	Name     string
	Type     string   // "F32", "Q4_K"; "type 99" for one unknown to this package
	Dims     []uint64 // fastest first, as in the file
	Elements int64
	Offset   int64 // from Header.Data, in bytes
	Bytes    int64 // size of the data; -1 where the type is unknown
}

// FormatError says that a file is not a whole, sound GGUF file.
type FormatError struct {
	Path    string // may be ""
	Problem string
}

func (e *FormatError) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// Hint says what the user can do.
func (e *FormatError) Hint() string {
	return "get the file again and compare its size and SHA-256 with the source's"
}

const (
	magic      = "GGUF"
	alignment  = 32      // where general.alignment is absent
	maxString  = 1 << 28 // bytes; chat templates and token lists are far below
	maxKey     = 1 << 16
	maxDims    = 4
	maxNesting = 2 // arrays in arrays
)

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
	if info.IsDir() {
		return nil, fmt.Errorf("open model file %s: it is a folder", path)
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

// Read reads the header of a file of size bytes from its start. Errors are of
// type *FormatError, except those of r itself.
func Read(r io.Reader, size int64) (h *Header, err error) {
	d := &decoder{r: bufio.NewReaderSize(r, int(min(size, 1<<20))), size: size, order: binary.LittleEndian}
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case decodeError:
			h, err = nil, failure.err
		default:
			panic(failure)
		}
	}()
	return d.header(), nil
}

// decoder reads values; the first failure ends it by a panic with decodeError,
// which Read turns into its error.
type decoder struct {
	r     *bufio.Reader
	pos   int64
	size  int64
	order binary.ByteOrder
	buf   [8]byte
}

type decodeError struct{ err error }

func (d *decoder) fail(format string, args ...any) {
	panic(decodeError{&FormatError{Problem: fmt.Sprintf(format, args...)}})
}

// need makes sure that the file can hold n more bytes for what.
func (d *decoder) need(n uint64, what string) {
	if left := uint64(d.size - d.pos); n > left {
		d.fail("truncated or corrupt: %s at byte %d would take %d bytes, and %d are left", what, d.pos, n, left)
	}
}

func (d *decoder) read(p []byte, what string) {
	d.need(uint64(len(p)), what)
	if _, err := io.ReadFull(d.r, p); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			d.fail("truncated: the file ends inside %s at byte %d", what, d.pos)
		}
		panic(decodeError{err})
	}
	d.pos += int64(len(p))
}

func (d *decoder) u32(what string) uint32 {
	d.read(d.buf[:4], what)
	return d.order.Uint32(d.buf[:])
}

func (d *decoder) u64(what string) uint64 {
	d.read(d.buf[:8], what)
	return d.order.Uint64(d.buf[:])
}

func (d *decoder) text(limit uint64, what string) string {
	n := d.u64(what)
	if n > limit {
		d.fail("corrupt: %s at byte %d says it has %d bytes", what, d.pos, n)
	}
	d.need(n, what)
	p := make([]byte, n)
	d.read(p, what)
	return string(p)
}

func (d *decoder) header() *Header {
	start := make([]byte, min(4, d.size))
	d.read(start, "the first bytes")
	if string(start) != magic {
		d.fail("not a GGUF file: it starts with %q, not with %q", start, magic)
	}
	h := &Header{Version: d.u32("the version"), Values: map[string]any{}, Size: d.size}
	switch {
	case h.Version == 2, h.Version == 3:
	case h.Version&0xffff == 0:
		d.fail("a big-endian GGUF file, which cannot be read here: convert it again on this machine")
	default:
		d.fail("GGUF version %d, and only 2 and 3 are known: convert the model again", h.Version)
	}
	tensors, values := d.u64("the number of tensors"), d.u64("the number of values")
	// The least a value and a tensor take: key length, key, type, value; name length, name, dims, one dim, type, offset.
	d.count(values, 8+1+4+1, "the metadata")
	d.count(tensors, 8+1+4+8+4+8, "the tensor list")
	for range values {
		key := d.text(maxKey, "a key of the metadata")
		if _, twice := h.Values[key]; twice {
			d.fail("corrupt: the key %q stands there twice", key)
		}
		h.Values[key] = d.value(d.u32("the type of "+key), key, 0)
	}
	for range tensors {
		h.Tensors = append(h.Tensors, d.tensor())
	}
	align := h.Uint("general.alignment", alignment)
	if align == 0 || align&(align-1) != 0 || align > 1<<20 {
		d.fail("corrupt: general.alignment is %d", align)
	}
	h.Data = (d.pos + int64(align) - 1) &^ (int64(align) - 1)
	d.checkData(h)
	return h
}

func (d *decoder) count(n, least uint64, what string) {
	if left := uint64(d.size - d.pos); n > left/least {
		d.fail("truncated or corrupt: %s says it has %d entries, and %d bytes are left", what, n, left)
	}
}

func (d *decoder) tensor() Tensor {
	t := Tensor{Name: d.text(maxKey, "a tensor's name"), Elements: 1}
	n := d.u32("the shape of " + t.Name)
	if n > maxDims {
		d.fail("corrupt: tensor %q has %d dimensions", t.Name, n)
	}
	for range n {
		dim := d.u64("the shape of " + t.Name)
		if dim == 0 || dim > uint64(math.MaxInt64/t.Elements) {
			d.fail("corrupt: tensor %q has the shape %v × %d", t.Name, t.Dims, dim)
		}
		t.Dims = append(t.Dims, dim)
		t.Elements *= int64(dim)
	}
	code := d.u32("the type of " + t.Name)
	offset := d.u64("the offset of " + t.Name)
	if offset > uint64(d.size) {
		d.fail("truncated or corrupt: tensor %q is said to start at byte %d of the data, and the whole file has %d", t.Name, offset, d.size)
	}
	t.Offset = int64(offset)
	layout, known := layouts[code]
	if !known {
		t.Type, t.Bytes = fmt.Sprintf("type %d", code), -1
		return t
	}
	t.Type = layout.name
	if len(t.Dims) > 0 && t.Dims[0]%uint64(layout.block) != 0 {
		d.fail("corrupt: tensor %q has rows of %d elements, which blocks of %d (%s) do not fill", t.Name, t.Dims[0], layout.block, t.Type)
	}
	blocks := t.Elements / int64(layout.block)
	if blocks > d.size/int64(layout.bytes)+1 {
		d.fail("truncated or corrupt: tensor %q of %d elements (%s) is larger than the whole file of %d bytes", t.Name, t.Elements, t.Type, d.size)
	}
	t.Bytes = blocks * int64(layout.bytes)
	return t
}

// checkData checks that every tensor lies inside the file and that no two overlap.
func (d *decoder) checkData(h *Header) {
	order := slices.Clone(h.Tensors)
	slices.SortStableFunc(order, func(a, b Tensor) int { return int(min(max(a.Offset-b.Offset, -1), 1)) })
	var end int64
	for i, t := range order {
		if t.Offset < end {
			d.fail("corrupt: the data of tensors %q and %q overlap", order[i-1].Name, t.Name)
		}
		end = t.Offset + max(t.Bytes, 0)
		if h.Data+end > h.Size {
			d.fail("truncated: the data of tensor %q ends at byte %d, and the file has %d", t.Name, h.Data+end, h.Size)
		}
	}
}

// Uint returns an integer value, or fallback where it is absent, negative or of another type.
func (h *Header) Uint(key string, fallback uint64) uint64 {
	switch v := h.Values[key].(type) {
	case uint64:
		return v
	case int64:
		if v >= 0 {
			return uint64(v)
		}
	}
	return fallback
}

// String returns a text value, or "".
func (h *Header) String(key string) string {
	v, _ := h.Values[key].(string)
	return v
}

// Bool returns a truth value, and whether it is there.
func (h *Header) Bool(key string) (value, ok bool) {
	value, ok = h.Values[key].(bool)
	return value, ok
}

// Strings returns a list of texts, or nil.
func (h *Header) Strings(key string) []string {
	v, _ := h.Values[key].([]string)
	return v
}
