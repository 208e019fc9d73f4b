package run

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"olmes"
	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/engine/wire"
)

// tokenizing tokenizes by a function, and tells a vocabulary where it has one.
type tokenizing func(text string) []int32

func (f tokenizing) Tokenize(_ context.Context, texts []string) ([][]int32, error) {
	out := make([][]int32, len(texts))
	for i, s := range texts {
		out[i] = f(s)
	}
	return out, nil
}

type telling struct {
	tokenizing
	vocab int
}

func (t telling) Describe(context.Context) (engine.Description, error) {
	return engine.Description{Vocab: t.vocab}, nil
}

// bytesAs gives an id a byte.
func bytesAs(id func(b byte) int32) tokenizing {
	return func(text string) []int32 {
		out := make([]int32, len(text))
		for i := range out {
			out[i] = id(text[i])
		}
		return out
	}
}

func own(b byte) int32 { return int32(b) }

func choices(context string, continuations ...string) []olmes.Request {
	out := make([]olmes.Request, len(continuations))
	for i, c := range continuations {
		out[i] = scoreRequest(context, c)
		out[i].Choice = i
	}
	return out
}

// An engine that shows no pieces may still be seen to give ids that are not those
// of the texts.
func TestMeaninglessIDs(t *testing.T) {
	labels := choices("Question: 1 + 1?\nAnswer:", " A", " B", " C")
	words := func(text string) []int32 { // their number alone
		out := make([]int32, len(strings.Fields(text)))
		for i := range out {
			out[i] = int32(i)
		}
		return out
	}
	lower := func(text string) []int32 { return bytesAs(own)(strings.ToLower(text)) }
	for name, c := range map[string]struct {
		tokenizer engine.Tokenizer
		reqs      []olmes.Request
		want      string
	}{
		"bytes":                    {telling{bytesAs(own), 256}, labels, ""},
		"outside":                  {telling{bytesAs(own), 64}, labels, "id 81 in text 0, which is outside its vocabulary of 64"},
		"all outside":              {telling{bytesAs(func(byte) int32 { return 9999 }), 256}, labels, "id 9999"},
		"at the end":               {telling{bytesAs(own), 'u'}, labels, "outside its vocabulary of 117"},
		"negative":                 {bytesAs(func(byte) int32 { return -1 }), labels, "id -1 in text 0, which is no token"},
		"vocabulary not told":      {telling{bytesAs(own), 0}, labels, ""},
		"one id":                   {bytesAs(func(byte) int32 { return 5 }), labels, "id 5 for everything"},
		"one id, one request":      {bytesAs(func(byte) int32 { return 5 }), labels[:1], "id 5 for everything"},
		"one character":            {bytesAs(own), choices("aaaaaaaa", "aa"), ""},
		"labels alike":             {tokenizing(words), labels, "same ids for different texts (toy cf, instance 0 choice 0 and instance 0 choice 1)"},
		"of other lengths":         {tokenizing(words), choices("Answer:", " one", " one two"), ""},
		"the same text twice":      {bytesAs(own), choices("Answer:", " one", " one"), ""},
		"lower case":               {tokenizing(lower), choices("Answer:", " One", " one"), ""},
		"lower case, other labels": {tokenizing(lower), labels, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Encoder{Tokenizer: c.tokenizer, BOS: -1, Window: 1000}
			_, err := e.Encode(t.Context(), c.reqs, nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	// With pieces, too.
	bpe := newToyBPE()
	e := &Encoder{Tokenizer: telling{bytesAs(own), 64}, Pieces: bpe.pieces, BOS: -1, Window: 100}
	if _, err := e.Encode(t.Context(), labels, nil); err == nil || !strings.Contains(err.Error(), "vocabulary of 64") {
		t.Errorf("with pieces: %v", err)
	}
}

func TestFolded(t *testing.T) {
	for a, b := range map[string]string{"É a\tb": "e A  b", "e\u0301": "é", "ﬁ½": "fi1⁄2"} {
		if folded(a) != folded(b) {
			t.Errorf("%q and %q: %q, %q", a, b, folded(a), folded(b))
		}
	}
	if folded("a b") == folded("ab") || folded("A") == folded("B") {
		t.Error("different texts are taken for the same")
	}
}

// init lets the test binary serve as an engine of one's own whose description is
// what a variable says.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "described-engine" {
		wire.Serve(context.Background(), os.Stdin, os.Stdout, wire.Server{Name: "described", Engine: &enginetest.Bigram{}, Ops: map[string]func(context.Context, json.RawMessage) (any, error){
			"describe": func(context.Context, json.RawMessage) (any, error) {
				return json.RawMessage(os.Getenv("OLMES_TEST_DESCRIPTION")), nil
			},
		}})
		os.Exit(0)
	}
}

// A model's name with what moves a terminal's cursor is refused.
func TestDescribedNames(t *testing.T) {
	for name, bad := range map[string]string{"tiny": "", `a\nb`: "U+000A", `\u001b[31mred`: "U+001B", `x\u202ey`: "U+202E"} {
		t.Setenv("OLMES_TEST_DESCRIPTION", fmt.Sprintf(`{"engine":"e","architecture":"llama","vocab":258,"context_train":4096,"model":"%s","model_sha256":%q}`, name, strings.Repeat("0", 64)))
		r := &Run{config: Config{Engine: fmt.Sprintf("exec:'%s' described-engine", os.Args[0])}, env: Env{Runs: t.TempDir()}}
		b := &execBackend{Run: r}
		e, err := b.start(t.Context(), Setup{})
		if err != nil {
			t.Fatal(err)
		}
		r.engine = e
		d, err := e.Describe(t.Context())
		if err == nil {
			err = b.described(t.Context(), &d)
		}
		e.Close()
		if bad == "" && (err != nil || r.setup.Model.Name != name) || bad != "" && (err == nil || !strings.Contains(err.Error(), bad) || strings.ContainsAny(err.Error(), "\n\x1b\u202e")) {
			t.Errorf("%s: error %q, want %q", name, err, bad)
		}
	}
}
