package document

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// word reads its own text.
type word string

func (w *word) UnmarshalYAML(text []byte) error {
	*w = word(text)
	if *w == "bad" {
		return errors.New("bad is no word")
	}
	return nil
}

type inner struct {
	Shots string `yaml:"shots"`
}

type item struct {
	ID    string `yaml:"id"`
	inner `yaml:"-"`
	Inner inner `yaml:",inline"`
	Value word  `yaml:"value"`
}

type sample struct {
	Batch *int     `yaml:"batch"`
	Limit int      `yaml:"limit"`
	Small int8     `yaml:"small"`
	Exact bool     `yaml:"exact"`
	Title string   `yaml:"title"`
	Tasks []string `yaml:"tasks"`
	Items []item   `yaml:"items"`
	None  string   `yaml:"-"`
}

func TestRead(t *testing.T) {
	batch := 512
	for _, c := range []struct {
		name, text string
		want       sample
	}{
		{"fields", "batch: 512\nlimit: 3\nexact: true\ntitle: a b\ntasks: [a, 'b']\n", sample{Batch: &batch, Limit: 3, Exact: true, Title: "a b", Tasks: []string{"a", "b"}}},
		{"mark and CRLF", "\ufeffbatch: 512\r\nlimit: 3\r\n", sample{Batch: &batch, Limit: 3}},
		{"JSON", `{"batch": 512, "tasks": ["a", "b"], "items": [{"id": "x", "shots": 5, "value": 1.50}]}`,
			sample{Batch: &batch, Tasks: []string{"a", "b"}, Items: []item{{ID: "x", Inner: inner{"5"}, Value: "1.50"}}}},
		{"one document between marks", "# a\n---\nlimit: 3\n...\n", sample{Limit: 3}},
		{"null", "batch:\ntasks: ~\nlimit: 3\n", sample{Limit: 3}},
		{"numbers as text", "title: 5\n", sample{Title: "5"}},
		{"brackets in text", "title: '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[['\n", sample{Title: strings.Repeat("[", 52)}},
		{"negative", "limit: -3\n", sample{Limit: -3}},
	} {
		var got sample
		if err := Read(strings.NewReader(c.text), &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "\ufeff", "\n\n"} {
		if err := Read(strings.NewReader(text), new(sample)); !errors.Is(err, ErrEmpty) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestReadFaults(t *testing.T) {
	long := strings.Repeat("y", 1000)
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", "limit: 1\nlimt: 3\n", "line 2: unknown field \"limt\"\n  limt: 3"},
		{"unknown field within", "items:\n  - {id: a, valu: 3}\n", "line 2: unknown field \"valu\""},
		{"unknown field of a list's field", "items:\n  - id: a\n    none: 3\n", "line 3: unknown field"},
		{"excluded field", "none: 3\n", "unknown field \"none\""},
		{"unknown JSON field", `{"batch": 1, "bach": 2}`, "unknown field \"bach\""},
		{"duplicate field", "batch: 512\nbatch: 256\n", "line 2: mapping key \"batch\" already defined"},
		{"duplicate JSON field", `{"batch":512,"batch":256}`, "already defined"},
		{"duplicate in quotes", "batch: 512\n'batch': 256\n", "already defined"},
		{"duplicate within", "items:\n  - {id: a, id: b}\n", "already defined"},
		{"fraction", "batch: 512.5\n", "line 1: a number that is not whole where a whole number is wanted\n  batch: 512.5"},
		{"fraction of nothing", "limit: 512.0\n", "not whole"},
		{"exponent", "batch: 5.125e2\n", "where a whole number is wanted"},
		{"infinity", "limit: -.inf\n", "not whole"},
		{"no number", "limit: .nan\n", "not whole"},
		{"quoted number", "batch: \"512\"\n", "a text where a whole number is wanted"},
		{"large", "limit: 99999999999999999999\n", "line 1: "},
		{"larger", "limit: 1e400\n", "line 1: "},
		{"large for its type", "small: 128\n", "too large"},
		{"above int64", "limit: 9223372036854775808\n", "too large"},
		{"list for number", "limit: [1]\n", "a list where a whole number is wanted"},
		{"text for truth", "exact: maybe\n", "\"maybe\" where true or false is wanted"},
		{"mapping for text", "title: {a: b}\n", "a mapping where a text is wanted"},
		{"text for list", "tasks: a\n", "\"a\" where a list is wanted"},
		{"list for mapping", "[1,2]\n", "a list where fields are wanted"},
		{"own text", "items:\n  - {id: a, value: bad}\n", "line 2: bad is no word"},
		{"second document", "batch: 512\n---\nbatch: 256\n", "line 2: a second document"},
		{"empty second document", "batch: 512\n---\n", "line 2: a second document"},
		{"after the end", "batch: 512\n...\nbatch: 256\n", "line 3: a second document"},
		{"anchor", "title: &a b\n", "line 1: anchors, aliases and tags"},
		{"alias", "title: a\ntasks: *a\n", "line 2: anchors"},
		{"merge", "<<: {batch: 1}\n", "anchors"},
		{"tag", "batch: !!int '5'\n", "anchors"},
		{"complex key", "? batch\n: 5\n", "after ?"},
		{"zeros", "\x00\x00\x00", "line 1: this is no text"},
		{"UTF-16", "\xff\xfeb\x00", "line 1: this is no text"},
		{"Latin-1", "limit: 1\ntitle: caf\xe9\n", "line 2: this is no text"},
		{"flow", "tasks: " + strings.Repeat("[", 40) + "\n", "line 1: nested deeper than 32"},
		{"closers in quotes", "tasks: " + strings.Repeat(`["]",`, 40) + "\n", "nested deeper"},
		{"flow mappings", "tasks: " + strings.Repeat("{a: ", 40) + "\n", "nested deeper"},
		{"dashes", strings.Repeat("- ", 40) + "\n", "nested deeper"},
		{"unclosed", "title: \"a\n", "line 1: "},
		{"long line", "title: \"" + long + "\"\nitems: [" + long + "\n", "line 2: "},
		{"long key", long + ": 1\n", "unknown field"},
		{"escaped escape", "title: \"\\e[31mred\"\n", "line 1: this text has the character U+001B"},
		{"written right to left", "title: a\u202eb\n", "the character U+202E"},
		{"escapes", "\"\\e[31mred\": 1\n", "unknown field"},
	} {
		err := Read(strings.NewReader(c.text), new(sample))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		} else if n := len(err.Error()); n > 400 || strings.ContainsAny(err.Error(), "\x1b\x00\r") {
			t.Errorf("%s: an error of %d bytes: %q", c.name, n, err)
		}
	}
}

// What is too large is not read to its end.
func TestReadBounded(t *testing.T) {
	r := &endless{}
	if err := Read(r, new(sample)); err == nil || !strings.Contains(err.Error(), "more than 1 MB") || r.n > 4*MaxBytes {
		t.Errorf("error %v after %d bytes", err, r.n)
	}
	whole := "title: " + strings.Repeat("x", MaxBytes-8) + "\n"
	if err := Read(strings.NewReader(whole), new(sample)); err != nil {
		t.Error(err)
	}
}

type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.n += len(p)
	return len(p), nil
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := ReadFile(path, new(sample)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("limit: 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var s sample
	if err := ReadFile(path, &s); err != nil || s.Limit != 7 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Texts of one shape on which a parser may spend the square of their length are
// read or refused at a cost of memory and time that grows with their length: of
// 128 kB the decoder of goccy/go-yaml 1.19 makes up to 14 GB.
func TestReadCost(t *testing.T) {
	const size = MaxBytes / 8
	fill := func(head, part, tail string) string {
		return head + strings.Repeat(part, (size-len(head)-len(tail))/len(part)) + tail
	}
	numbered := func(head, format, tail string) string {
		var b bytes.Buffer
		b.WriteString(head)
		for i := 0; b.Len() < size-100; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String() + tail
	}
	indented := func(part string) string {
		var b bytes.Buffer
		for i := 0; b.Len()+i+len(part) < size; i++ {
			b.WriteString(strings.Repeat(" ", i) + part)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"brackets": fill("tasks: ", "[", "\n"), "closed": fill("tasks: ", "[", "]"), "pairs": fill("tasks: [", "[],", "]\n"), "braces": fill("tasks: ", "{a: ", "\n"),
		"quoted closers": fill("tasks: ", `["]",`, "\n"), "dashes": fill("", "- ", "\n"), "keys on a line": fill("", "a: ", "\n"), "questions": fill("", "? ", "\n"),
		"keys": numbered("", "k%d: 1\n", ""), "keys within": numbered("items:\n- id: 1\n", "  k%d: 1\n", ""), "flow keys": numbered("items: [{", "k%d: 1, ", "}]\n"),
		"bare fields": fill("items:\n", "- id:\n", ""), "bare entries": fill("tasks:\n", "-\n", ""), "bare flow": fill("items: [", "{id},", "]\n"), "bare flow fields": fill("items: [", "{id:},", "]\n"),
		"bare pairs": fill("tasks: [", "a:,", "]\n"), "bare with comments": fill("items:\n", "- id: # x\n", ""), "flow keys without values": numbered("items: [{", "k%d, ", "}]\n"), "one key": fill("", "limit: 1\n", ""), "deep": indented("a:\n"), "deep lists": indented("-\n"),
		"flow list": fill("tasks: [", "1,", "]\n"), "list": fill("tasks:\n", "- 1\n", ""), "items": fill("items:\n", "- {id: a, shots: 5, value: 1}\n", ""),
		"block items": fill("items:\n", "- id: a\n  shots: 5\n  value: 1\n", ""), "bad items": fill("items:\n", "- {id: a, value: bad}\n", ""),
		"anchors": fill("title: ", "&a ", "\n"), "aliases": fill("title: ", "*a ", "\n"), "tags": fill("title: ", "!!a ", "\n"), "closers": fill("title: ", "] ", "\n"),
		"directives": fill("", "%a\n", ""), "documents": fill("", "---\n", ""), "ends": fill("", "...\n", ""), "comments": fill("", "# x\n", "limit: 1\n"), "quotes": fill("tasks: [", `"a" `, "]\n"),
		"open quotes": fill("", "\" ", ""), "bars": fill("", "|\n", ""), "text": fill("title: ", "x ", "\n"), "lines": fill("title: x\n", "  x\n", ""),
		"literal": fill("title: |\n", "  x\n", ""), "folded": fill("title: >\n", "  x\n", ""), "quoted": fill("title: \"x\n", " \\n\n", "\"\n"), "blank": fill("", "\n", "limit: 1\n"),
		"spaces": fill("", " ", "limit: 1\n"), "returns": fill("", "\r", "limit: 1\n"), "tabs": fill("", "\t\n", ""), "colons": fill("", ":\n", ""), "commas": fill("tasks: [", ",", "]\n"),
		"at": fill("", "@\n", ""), "comments between": fill("items:\n", "# x\n- id: a\n", ""), "trailing comments": fill("tasks: [", "a, # x\n", "]\n"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		err := Read(strings.NewReader(text), new(sample))
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		mb := (after.TotalAlloc - before.TotalAlloc) >> 20
		if mb > 120 || took > 30*time.Second {
			t.Errorf("%s: %v and %d MB", name, took, mb)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

func TestReadDepth(t *testing.T) {
	for _, deep := range []int{30, 33} {
		text := "title: x\n" + "tasks: " + strings.Repeat("[", deep) + strconv.Itoa(deep) + strings.Repeat("]", deep) + "\n"
		err := Read(strings.NewReader(text), new(sample))
		if refused := err != nil && strings.Contains(err.Error(), "nested deeper"); refused != (deep > MaxDepth) {
			t.Errorf("%d levels: %v", deep, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{"limit: 1\ntasks: [a, b]\n", "items:\n  - {id: a, shots: 5, value: 1.5}\n", "a: [[[{b: c}]]]\n", "--- \ntitle: >\n  a\n  b\n...\n", "title: \"a\\n\"\n? a\n: b\n", "\ufeffbatch: 5\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := Read(strings.NewReader(text), new(sample)); err != nil && len(err.Error()) > 800 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
