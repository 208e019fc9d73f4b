package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"olmes/record"
)

// Decode parses one JSON value into v. It takes Python's NaN and Infinity, as
// the texts "NaN", "Infinity" and "-Infinity" (see Number), and refuses what the
// standard decoder would silently change: bytes that are no UTF-8, halves of
// surrogate pairs, and keys that are there twice.
func Decode(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("a text is not valid UTF-8")
	}
	if half := loneSurrogate(data); half != "" {
		return fmt.Errorf("a text has half of a surrogate pair, %s, which no UTF-8 can hold", half)
	}
	plain := data
	if bytes.Contains(data, []byte("NaN")) || bytes.Contains(data, []byte("Infinity")) {
		data = quoteNaN(data)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the JSON is cut off")
		}
		return &jsonError{err}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows the JSON value")
	}
	return record.UniqueKeys(plain, 1)
}

// jsonError is an error of the decoder in plain words.
type jsonError struct{ err error }

func (e *jsonError) Unwrap() error { return e.err }

func (e *jsonError) Error() string {
	var wrong *json.UnmarshalTypeError
	if errors.As(e.err, &wrong) {
		where := ""
		if wrong.Field != "" {
			where = wrong.Field + ": "
		}
		if number, ok := strings.CutPrefix(wrong.Value, "number "); ok && kindName(wrong.Type) == "a number" {
			return fmt.Sprintf("%sthe number %.40s is beyond what 64 bits hold", where, number)
		}
		return fmt.Sprintf("%swant %s, got %s", where, kindName(wrong.Type), valueName(wrong.Value))
	}
	var syntax *json.SyntaxError
	if errors.As(e.err, &syntax) {
		return "not valid JSON: " + e.err.Error()
	}
	return e.err.Error()
}

// kindName is what a Go type is in JSON.
func kindName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.Number](), t == reflect.TypeFor[Number](), t == reflect.TypeFor[Loose]():
		return "a number"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "an object"
}

// valueName is what the decoder calls a value, in the words of kindName.
func valueName(value string) string {
	switch value {
	case "object":
		return "an object"
	case "array":
		return "a list"
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	}
	return value
}

// offset returns where in the data an error of Decode is, -1 where it does not say.
func offset(err error) int64 {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	var twice *record.DuplicateKey
	switch {
	case errors.As(err, &twice):
		return twice.Offset
	case errors.As(err, &syntax):
		return syntax.Offset
	case errors.As(err, &wrong):
		return wrong.Offset
	}
	return -1
}

// loneSurrogate returns an escape that is half of a pair, "" where there is none.
func loneSurrogate(data []byte) string {
	if !bytes.Contains(data, []byte(`\ud`)) && !bytes.Contains(data, []byte(`\uD`)) {
		return ""
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		code, ok := escape(data[i:])
		switch {
		case !ok || code < 0xd800 || code > 0xdfff:
			i++ // whatever is escaped
		case code >= 0xdc00:
			return string(data[i : i+6])
		default:
			if low, ok := escape(data[i+6:]); !ok || low < 0xdc00 || low > 0xdfff {
				return string(data[i : i+6])
			}
			i += 11
		}
	}
	return ""
}

// escape reads \uXXXX at the start of data.
func escape(data []byte) (int64, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseInt(string(data[2:6]), 16, 32)
	return code, err == nil && code >= 0
}

// quoteNaN puts Python's names for what is no number into quotes.
func quoteNaN(data []byte) []byte {
	out := make([]byte, 0, len(data)+64)
	inside := false
	for i := 0; i < len(data); {
		if inside {
			switch data[i] {
			case '\\':
				n := min(2, len(data)-i)
				out = append(out, data[i:i+n]...)
				i += n
				continue
			case '"':
				inside = false
			}
		} else if data[i] == '"' {
			inside = true
		} else if word := notANumber(data[i:]); word != "" {
			out = append(out, '"')
			out = append(out, word...)
			out = append(out, '"')
			i += len(word)
			continue
		}
		out = append(out, data[i])
		i++
	}
	return out
}

func notANumber(data []byte) string {
	for _, word := range []string{"NaN", "-Infinity", "Infinity"} {
		if bytes.HasPrefix(data, []byte(word)) {
			return word
		}
	}
	return ""
}

// Number is a number as Python programs write it into JSON: null leaves it unset, and
// what is no number may be a name in a text ("nan", "-inf"). Other texts, true and
// false are none.
type Number struct {
	Value float64 // may be NaN or infinite
	Set   bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(data []byte) error {
	v, ok := Number{}, true
	switch {
	case string(data) == "null":
	case data[0] == '"':
		ok = v.parse(data) && !v.Finite()
	default:
		ok = v.parse(data)
	}
	if !ok {
		return noNumber(data)
	}
	*n = v
	return nil
}

// parse reads a number, in a text or not.
func (n *Number) parse(data []byte) bool {
	text := string(data)
	if data[0] == '"' && json.Unmarshal(data, &text) != nil {
		return false
	}
	v, ok := ParseNumber(text)
	*n = Number{v, ok}
	return ok
}

func noNumber(data []byte) error {
	value := string(data)
	if len(value) > 40 {
		value = value[:37] + "..."
	}
	return &json.UnmarshalTypeError{Value: value, Type: reflect.TypeFor[Number]()}
}

// Loose is a Number that some programs also write as a text ("-1.5"), or as true (1)
// and false (0).
type Loose struct{ Number }

// UnmarshalJSON implements json.Unmarshaler.
func (n *Loose) UnmarshalJSON(data []byte) error {
	var v Number
	switch string(data) {
	case "null":
	case "true":
		v = Number{1, true}
	case "false":
		v = Number{0, true}
	default:
		if !v.parse(data) {
			return noNumber(data)
		}
	}
	n.Number = v
	return nil
}

// ParseNumber reads a number as Python prints it, NaN and infinities included.
// Numbers that do not fit are no numbers.
func ParseNumber(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	switch strings.ToLower(s) {
	case "nan":
		return math.NaN(), true
	case "inf", "infinity", "+inf":
		return math.Inf(1), true
	case "-inf", "-infinity":
		return math.Inf(-1), true
	}
	if s == "" || strings.ContainsAny(s, "xX_pP") { // Go's own ways of writing numbers
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// Finite reports whether the number is there and is one.
func (n Number) Finite() bool {
	return n.Set && !math.IsNaN(n.Value) && !math.IsInf(n.Value, 0)
}

// String says what is wrong with a number that is not finite.
func (n Number) String() string {
	if !n.Set {
		return "missing"
	}
	return strconv.FormatFloat(n.Value, 'g', -1, 64)
}

// Pointer returns the number, nil where it is not there or not finite.
func (n Number) Pointer() *float64 {
	if !n.Finite() {
		return nil
	}
	v := n.Value
	return &v
}
