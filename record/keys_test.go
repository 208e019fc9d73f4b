package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUniqueKeys(t *testing.T) {
	var many, twice []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"k%d": {"a": %d}`, i, i))
	}
	twice = append(append(twice, many...), `"k50": 1`)
	for doc, want := range map[string]string{
		`{"a": 1, "b": {"a": [{"a": 2}, {"a": 3}]}}`:      "",
		`{"a": "a", "b": ["a", "a"], "c": {}, "d": [[]]}`: "",
		`{"a": 1, "a": 1}`: `the key "a" is there twice`,
		`[0, {"b": {"x": 1, "y": {"x": 1}, "x": 2}}]`:  `the key "x" is there twice`,
		`{"a": 1, "\u0061": 1}`:                        `the key "a" is there twice`,
		`{"a\"": ",{", "a\\": "\"", "a\"": 2}`:         `is there twice`,
		`{"a": NaN, "b": -Infinity, "a": 1}`:           `the key "a" is there twice`,
		`{"a": 1, "A": 1}`:                             `the keys "a" and "A" of one object differ in case alone`,
		`{"a": {"a": 1, "A": 1}}`:                      "",
		"{" + strings.Join(many, ", ") + "}":           "",
		"{" + strings.Join(twice, ", ") + "}":          `the key "k50" is there twice`,
		"{" + strings.Join(many, ", ") + `, "K50": 1}`: "differ in case alone",
		`1`: "", `"a"`: "", `{}`: "", `[]`: "",
	} {
		err := UniqueKeys([]byte(doc), 1)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80s: %v, want %q", doc, err, want)
		}
		var dup *DuplicateKey
		if errors.As(err, &dup) && doc[dup.Offset] != '"' {
			t.Errorf("%.80s: offset %d", doc, dup.Offset)
		}
	}
}

// A manifest that says something twice is damaged, whatever the decoder takes.
func TestManifestTwice(t *testing.T) {
	id, preds, chunks := testRun()
	dir := filepath.Join(t.TempDir(), "run")
	seal(t, dir, id, preds, chunks)
	path := filepath.Join(dir, manifestName)
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range []string{`{"provenance": {}, `, `{"Provenance": {}, `, `{"\u0069d": "00", `} {
		doc := strings.Replace(string(was), "{", edit, 1)
		if !json.Valid([]byte(doc)) {
			t.Fatal(edit)
		}
		if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "of one object") && !strings.Contains(err.Error(), "in one object") {
			t.Errorf("%s: %v", edit, err)
		}
	}
}

func TestCheckSizes(t *testing.T) {
	id, preds, chunks := testRun()
	for name, damage := range map[string]func(path string) error{
		"":          func(string) error { return nil },
		"missing":   os.Remove,
		"truncated": func(path string) error { return os.Truncate(path, 100) },
	} {
		dir := filepath.Join(t.TempDir(), "run")
		seal(t, dir, id, preds, chunks)
		r := must[*Record](t)(Open(dir))
		if err := damage(filepath.Join(dir, predictionsName)); err != nil {
			t.Fatal(err)
		}
		if err := r.CheckSizes(); errors.Is(err, ErrDamaged) != (name != "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
