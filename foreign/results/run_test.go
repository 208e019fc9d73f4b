package results

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func packed(t *testing.T, content string, cut int) string {
	t.Helper()
	var b strings.Builder
	z := gzip.NewWriter(&b)
	z.Write([]byte(content))
	z.Close()
	return write(t, "a.gz", b.String()[:b.Len()-cut])
}

func TestLines(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		want string // lines joined by |, numbers before them
		err  string
	}{
		"plain":          {write(t, "a", "x\ny\n"), "1x|2y", ""},
		"no last end":    {write(t, "a", "x\ny"), "1x|2y", ""},
		"windows":        {write(t, "a", "x\r\n\r\ny\r\n"), "1x|3y", ""},
		"byte order":     {write(t, "a", "\xef\xbb\xbfx\n"), "1x", ""},
		"line separator": {write(t, "a", "x\u2028y\n"), "1x\u2028y", ""},
		"gzip":           {packed(t, "x\ny\n", 0), "1x|2y", ""},
		"blank":          {write(t, "a", "\n \n\n"), "", ""},
		"empty":          {write(t, "a", ""), "", "the file is empty"},
		"empty gzip":     {packed(t, "", 0), "", "the file is empty"},
		"cut gzip":       {packed(t, strings.Repeat("abcdefgh\n", 9999), 9), "", "the compressed data is cut off"},
		"utf-16":         {write(t, "a", "\xff\xfex\x00"), "", "it is UTF-16"},
		"parquet":        {write(t, "a", "PAR1...."), "", "it is a Parquet file"},
		"folder":         {t.TempDir(), "", "it is a folder"},
		"absent":         {filepath.Join(t.TempDir(), "no"), "", "no such file"},
	} {
		var got []string
		f, err := Lines(context.Background(), c.path, "test", func(n int, line []byte) error {
			if c.err == "" {
				got = append(got, string(rune('0'+n))+string(line))
			}
			return nil
		})
		switch {
		case c.err != "":
			var at *Error
			if err == nil || !strings.Contains(err.Error(), c.err) || !errors.As(err, &at) || at.File != c.path {
				t.Errorf("%s: error %v, want %q", name, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case strings.Join(got, "|") != c.want:
			t.Errorf("%s: %q, want %q", name, got, c.want)
		default:
			if info, err := os.Stat(c.path); err != nil || f.Bytes != info.Size() || len(f.SHA256) != 64 {
				t.Errorf("%s: %+v of %d bytes", name, f, info.Size())
			}
		}
	}
	if _, err := Lines(context.Background(), write(t, "a", "x\ny\n"), "test", func(n int, _ []byte) error {
		if n == 2 {
			return errors.New("bad")
		}
		return nil
	}); err == nil || !strings.HasSuffix(err.Error(), ": line 2: bad") {
		t.Errorf("error %v", err)
	}
}

func TestDecode(t *testing.T) {
	type value struct {
		A Number      `json:"a"`
		B string      `json:"b"`
		C int         `json:"c"`
		F *float64    `json:"f"`
		L Loose       `json:"l"`
		N json.Number `json:"n"`
	}
	for doc, want := range map[string]string{
		`{"a": -1.5}`:                         "-1.5",
		`{"a": "-1.5"}`:                       `error: a: want a number, got "-1.5"`,
		`{"l": "-1.5"}`:                       "-1.5",
		`{"l": true}`:                         "1",
		`{"l": "high"}`:                       `error: l: want a number, got "high"`,
		`{"n": {}}`:                           "error: n: want a number, got an object",
		`{"f": {}}`:                           "error: f: want a number, got an object",
		`{"f": 1e999}`:                        "error: f: the number 1e999 is beyond what 64 bits hold",
		`{"c": {}}`:                           "error: c: want a whole number, got an object",
		`{"b": []}`:                           "error: b: want a text, got a list",
		`{"a": 1, "a": 2}`:                    `error: the key "a" is there twice in one object`,
		`{"a": NaN, "x": [{"y": 1, "y": 2}]}`: `error: the key "y" is there twice in one object`,
		`{"a": 1, "A": 2}`:                    `error: the keys "a" and "A" of one object differ in case alone`,
		`{"a": 1, "x": {"y": 1, "Y": 2}}`:     "1",
		`{"a": NaN, "b": "NaN \"NaN"}`:        "NaN",
		`{"a": -Infinity}`:                    "-Inf",
		`{"a": "nan"}`:                        "NaN",
		`{"a": "-inf"}`:                       "-Inf",
		`{"a": true}`:                         "error: a: want a number, got true",
		`{"a": null}`:                         "missing",
		`{}`:                                  "missing",
		`{"a": 1e999}`:                        "error: a: want a number, got 1e999",
		`{"a": "0x1p-2"}`:                     `error: a: want a number, got "0x1p-2"`,
		`{"a": [1]}`:                          "error: a: want a number, got [1]",
		`{"a": 1`:                             "error: the JSON is cut off",
		`{"a": 1} {`:                          "error: more follows the JSON value",
		`{"a": nope}`:                         "error: not valid JSON: invalid character 'o' in literal null (expecting 'u')",
		`{"c": 1.5}`:                          "error: c: want a whole number, got number 1.5",
		`[1]`:                                 "error: want an object, got a list",
		"{\"b\": \"\xff\"}":                   "error: a text is not valid UTF-8",
		`{"b": "\ud83d"}`:                     `error: a text has half of a surrogate pair, \ud83d, which no UTF-8 can hold`,
		`{"b": "\ude00"}`:                     `error: a text has half of a surrogate pair, \ude00, which no UTF-8 can hold`,
		`{"a": 2, "b": "\ud83d\ude00"}`:       "2",
		`{"a": 3, "b": "\\ud83d \\\\\ud83d\ude00"}`: "3",
		`{"b": "\\\ud83d"}`:                         `error: a text has half of a surrogate pair, \ud83d, which no UTF-8 can hold`,
	} {
		var v value
		got := ""
		if err := Decode([]byte(doc), &v); err != nil {
			got = "error: " + err.Error()
		} else {
			got = v.A.String()
			if v.L.Set {
				got = v.L.String()
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", doc, got, want)
		}
	}
	var v value
	if err := Decode([]byte(`{"a": NaN, "b": "NaN \"NaN"}`), &v); err != nil || v.B != `NaN "NaN` || !math.IsNaN(v.A.Value) {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestWhole(t *testing.T) {
	path := write(t, "a.json", "{\n\"a\": 1,\n\"a\": }\n")
	var v any
	twice := write(t, "b.json", "{\n\"a\": NaN,\n\"b\": 2,\n\"a\": 2}\n")
	if _, err := Whole(twice, "test", &v); err == nil || err.Error() != twice+`: line 4: the key "a" is there twice in one object` {
		t.Errorf("error %v", err)
	}
	if _, err := Whole(path, "test", &v); err == nil || err.Error() != path+": line 3: not valid JSON: invalid character '}' looking for beginning of value" {
		t.Errorf("error %v", err)
	}
}

// FuzzDecode: whatever is read is either an error or a value, and texts come
// back as they are.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a": NaN}`, `"\ud83d\ude00"`, `[1, "-Infinity", Infinity]`, "\xff", `{"a": {"b": [`, `"\\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		if err := Decode(data, &v); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		var n Number
		if Decode(data, &n) == nil && n.Set && n.String() == "missing" {
			t.Errorf("%q is set and missing", data)
		}
	})
}

func TestModelName(t *testing.T) {
	for name, want := range map[string]string{"org/model": "org/model", "gpt2": "gpt2", "/a/b/step1-hf/": "step1-hf", "./m": "m", "~/m": "m", "a/b/c": "c", `C:\\m\\x`: "x", "": ""} {
		if got := ModelName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
