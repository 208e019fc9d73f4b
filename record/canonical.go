package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Canonical returns the one canonical form of a JSON document (RFC 8785): keys
// sorted by UTF-16 code units, no insignificant white space, shortest numbers,
// minimal escapes. It fails on anything that is not exactly one JSON value, on
// invalid UTF-8, and on numbers that a float64 does not hold exactly enough
// (integers beyond 2^53, or beyond its range).
func Canonical(doc []byte) ([]byte, error) {
	return canonical(doc, func(s string) string { return s })
}

// canonical is Canonical with every string value (not key) passed through edit.
func canonical(doc []byte, edit func(string) string) ([]byte, error) {
	if !utf8.Valid(doc) {
		return nil, errors.New("canonical JSON: invalid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("canonical JSON: more than one value")
	}
	return appendCanonical(nil, v, edit)
}

func appendCanonical(b []byte, v any, edit func(string) string) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendString(b, edit(v)), nil
	case json.Number:
		return appendNumber(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(b, e, edit); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, k), ':')
			if b, err = appendCanonical(b, v[k], edit); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("canonical JSON: unexpected %T", v)
}

func appendString(b []byte, s string) []byte {
	const short = "\b\t\n\f\r"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			if i := strings.IndexRune(short, r); i >= 0 {
				b = append(b, '\\', "btnfr"[i])
			} else {
				b = fmt.Appendf(b, `\u%04x`, r)
			}
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// appendNumber writes n as ECMAScript does, which is also how encoding/json
// writes a float64.
func appendNumber(b []byte, n json.Number) ([]byte, error) {
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: number %s is out of range", n)
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	if !strings.ContainsAny(string(n), ".eE") && (err != nil || i > 1<<53 || i < -1<<53) {
		return nil, fmt.Errorf("canonical JSON: integer %s is beyond 2^53, write it as a string", n)
	}
	if f == 0 { // ECMAScript has no negative zero in text
		return append(b, '0'), nil
	}
	out, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return append(b, out...), nil
}
