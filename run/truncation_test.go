package run

import (
	"path/filepath"
	"strings"
	"testing"

	"olmes"
	"olmes/engine/enginetest"
	"olmes/model/modeltest"
	"olmes/record"
)

// With shared cuts all choices of an instance lose what the longest must, and
// nothing else changes: not the unconditional requests, not other instances.
func TestEncodeShared(t *testing.T) {
	bpe := newToyBPE()
	request := func(doc int, context, continuation string, unconditional bool) olmes.Request {
		r := scoreRequest(context, continuation)
		r.DocID, r.Unconditional = doc, unconditional
		return r
	}
	reqs := []olmes.Request{
		request(1, "abcdefgh", "XYZ", false), request(1, "abcdefgh", "X", false), request(1, "abcdefghi", "XY", false),
		request(1, "abc", "XYZ", true), request(1, "abc", "X", true),
		request(2, "abcdef", "X", false), request(2, "abcdef", "XY", false),
	}
	for _, c := range []struct {
		name   string
		bos    int32
		shared bool
		want   []string
	}{
		{"standard", -1, false, []string{"cdefgh|XYZ", "abcdefgh|X", "cdefghi|XY", "abc|XYZ", "abc|X", "abcdef|X", "abcdef|XY"}},
		{"shared", -1, true, []string{"cdefgh|XYZ", "cdefgh|X", "cdefghi|XY", "abc|XYZ", "abc|X", "abcdef|X", "abcdef|XY"}},
		{"shared with BOS", '^', true, []string{"^defgh|XYZ", "^defgh|X", "^defghi|XY", "^abc|XYZ", "^abc|X", "^abcdef|X", "^abcdef|XY"}},
	} {
		e := &Encoder{Tokenizer: bpe, Pieces: bpe.pieces, BOS: c.bos, Window: 8, Shared: c.shared}
		got, err := e.Encode(t.Context(), reqs, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, enc := range got {
			var b strings.Builder
			for k, id := range enc.Sequence.IDs {
				if k == enc.Sequence.Start {
					b.WriteByte('|')
				}
				b.Write(bpe.pieces[id])
			}
			dropped := len(reqs[i].Prompt.Text) + len(reqs[i].Continuation) + e.first() - len(enc.Sequence.IDs)
			if b.String() != c.want[i] || enc.Dropped != dropped || enc.ContextTokens != enc.Sequence.Start {
				t.Errorf("%s: request %d is %s, %d dropped; want %s, %d", c.name, i, b.String(), enc.Dropped, c.want[i], dropped)
			}
		}
	}
	// Where the shared cut leaves one of them no context, that is an error.
	e := &Encoder{Tokenizer: bpe, Pieces: bpe.pieces, BOS: -1, Window: 8, Shared: true}
	if _, err := e.Encode(t.Context(), []olmes.Request{request(1, "abcdefgh", "XYZ", false), request(1, "ab", "X", false)}, nil); err == nil {
		t.Error("a context cut away gave no error")
	}
}

// boolq's long passages at a window that all of them exceed: yes and no have
// other lengths, so that by the standard's rule they share nothing.
func TestRunSharedTruncation(t *testing.T) {
	c, env := bigramRun(t, &enginetest.Bigram{})
	c.Model = filepath.Join(t.TempDir(), "short.gguf")
	if err := modeltest.Write(c.Model, modeltest.Options{Seed: 1, Context: 512}); err != nil {
		t.Fatal(err)
	}
	c.Tasks = []string{"boolq:cf"}
	plans := map[string]Plan{}
	for _, rule := range []string{"standard", "shared"} {
		c.Truncation = rule
		p, err := DryRun(t.Context(), c, env)
		fetched(t, err)
		plans[rule] = p
		marked := false
		for _, d := range p.Deviations {
			marked = marked || d.Code == "truncation" && d.OffStandard
		}
		if marked != (rule == "shared") || (p.Identity.Truncation == record.StandardTruncation) == marked {
			t.Errorf("%s: marked as off-standard %v, identity says %q", rule, marked, p.Identity.Truncation)
		}
	}
	standard, shared := plans["standard"], plans["shared"]
	if standard.ID == shared.ID {
		t.Error("both rules give the same run")
	}
	// Four instances of two requests, each of 511 or so tokens.
	if n := standard.Tokens.Distinct; n < 7*511 {
		t.Errorf("by the standard's rule %d distinct tokens: these requests share, and this test is no longer one", n)
	}
	if n := shared.Tokens.Distinct; n > standard.Tokens.Distinct*11/20 || shared.Tokens.Computed > n {
		t.Errorf("%d distinct tokens and %d to compute with shared cuts, %d without", n, shared.Tokens.Computed, standard.Tokens.Distinct)
	}
	t.Logf("distinct tokens: %d by the standard's rule, %d with shared cuts", standard.Tokens.Distinct, shared.Tokens.Distinct)
}
