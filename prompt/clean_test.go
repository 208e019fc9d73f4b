package prompt

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"unicode"

	"olmes"
)

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"  a  ":                       "a",
		"a [title] b":                 "a. b",
		"a. [title] b":                "a. b",
		"a.. [title] b":               "a.. b",
		"[title] b":                   " b",
		"a [step] b":                  "a b",
		"a [x]":                       "a ",
		"a [unclosed":                 "a [unclosed",
		"a [two\nlines] b":            "a [two\nlines] b",
		"a [[b] c]":                   "a c]",
		"a   b":                       "a  b",
		"a    b":                      "a  b",
		"\u00a0a\x1c":                 "a",
		"line \nChoose: \n A.  [s] b": "line \nChoose: \n A.  b",
	} {
		if got := Clean(olmes.WikiHow, text); got != want {
			t.Errorf("Clean(%q) = %q, want %q", text, got, want)
		}
		if got := Clean(olmes.NoCleaning, text); got != text {
			t.Errorf("no cleaning changes %q to %q", text, got)
		}
	}
}

// TestCleanPython compares cleaning and trimming with Python's own strip, sub
// and replace on random texts, and on every character.
func TestCleanPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no python3 to compare with")
	}
	const script = `
import json, re, sys
def clean(s):
    s = re.sub(r"\.? \[title\]", ". ", s.strip())
    return re.sub(r"\[.*?\]", "", s).replace("  ", " ")
print(json.dumps([[s.strip(), clean(s)] for s in json.load(sys.stdin)]))
`
	var texts []string
	for r := rune(0); r <= unicode.MaxRune; r++ {
		// Only separators and controls can be white space.
		if unicode.In(r, unicode.Z, unicode.C, unicode.White_Space) && (r < 0xd800 || r > 0xdfff) && r < 0xe000 {
			texts = append(texts, string(r)+"a"+string(r)+"b"+string(r))
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	pieces := []string{" ", "  ", ".", ". ", "[", "]", "[title]", " [title]", "[step]", "a", "é", "\n", "\r", "\u2028", "\u0085", "\t"}
	for range 3000 {
		var b bytes.Buffer
		for range rng.IntN(12) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		texts = append(texts, b.String())
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", script)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want [][2]string
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != len(texts) {
		t.Fatalf("%d answers to %d texts", len(want), len(texts))
	}
	for i, s := range texts {
		if got := Trim(s); got != want[i][0] {
			t.Errorf("Trim(%q) = %q, Python %q", s, got, want[i][0])
		}
		if got := Clean(olmes.WikiHow, s); got != want[i][1] {
			t.Errorf("Clean(%q) = %q, Python %q", s, got, want[i][1])
		}
	}
}
