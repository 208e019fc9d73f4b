// Package document reads YAML that a person wrote: run files, plans, ledgers.
//
// All of it is checked before a value is made of it: its size, how deep it is
// nested, how many fields a mapping has; anchors, aliases, tags and a second
// document are refused, and so are fields that are unknown or stand twice. JSON
// is YAML too.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of a document. What is read with this package is written by hand: the
// ledger of a whole paper takes 64 kB, 4 levels and 18 fields. The parser's cost
// grows with the square of depth, of fields, and of what has no value.
const (
	MaxBytes  = 1 << 20
	MaxDepth  = 32
	MaxFields = 256  // of one mapping in block style
	maxBare   = 1000 // fields and entries of lists without a value
)

// ErrEmpty says that a document holds nothing but comments; the value it was to
// be read into is as it was.
var ErrEmpty = errors.New("the file is empty")

// ReadFile reads the document of a file, as Read does.
func ReadFile(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return Read(f, into)
}

// Read reads the one document of r into the struct that into points to. Fields
// are named by their yaml tags. Whole numbers must be written as such; types
// with UnmarshalYAML([]byte) read their own text. Errors name the line and show
// what stands there.
func Read(r io.Reader, into any) error {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return err
	}
	if len(data) > MaxBytes {
		return fmt.Errorf("it has more than %d MB, which is the most that is read", MaxBytes>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	d := &source{text: data}
	if at := invalid(data); at >= 0 {
		return d.fault(1+bytes.Count(data[:at], []byte("\n")), 1, "this is no text in UTF-8")
	}
	tokens := lexer.Tokenize(string(data))
	if err := d.scan(tokens); err != nil {
		return err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return d.explain(err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.NullType && doc.Body.Type() != ast.CommentType {
			body = doc.Body
		}
	}
	if body == nil {
		return ErrEmpty
	}
	return d.set(body, reflect.ValueOf(into).Elem())
}

// invalid is where text is no UTF-8 or holds a NUL byte, which no text does; -1
// where it is text.
func invalid(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == 0 || r == utf8.RuneError && n < 2 {
			return i
		}
		i += n
	}
	return -1
}
