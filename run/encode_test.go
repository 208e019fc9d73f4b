package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"olmes"
)

// toyBPE merges pairs of pieces in order, over single bytes.
type toyBPE struct {
	merges [][2]string
	ids    map[string]int32
	pieces [][]byte
}

func newToyBPE(merges ...[2]string) *toyBPE {
	t := &toyBPE{merges: merges, ids: map[string]int32{}}
	add := func(s string) {
		if _, ok := t.ids[s]; !ok {
			t.ids[s] = int32(len(t.pieces))
			t.pieces = append(t.pieces, []byte(s))
		}
	}
	for b := range 256 {
		add(string([]byte{byte(b)}))
	}
	for _, m := range merges {
		add(m[0] + m[1])
	}
	return t
}

func (t *toyBPE) Tokenize(_ context.Context, texts []string) ([][]int32, error) {
	out := make([][]int32, len(texts))
	for i, text := range texts {
		var parts []string
		for k := range len(text) {
			parts = append(parts, text[k:k+1])
		}
		for _, m := range t.merges {
			for k := 0; k+1 < len(parts); k++ {
				if parts[k] == m[0] && parts[k+1] == m[1] {
					parts = slices.Replace(parts, k, k+2, m[0]+m[1])
				}
			}
		}
		for _, p := range parts {
			out[i] = append(out[i], t.ids[p])
		}
	}
	return out, nil
}

func scoreRequest(context, continuation string) olmes.Request {
	return olmes.Request{Key: olmes.Key{Task: "toy", Formulation: olmes.CF}, Kind: olmes.KindScore, Prompt: olmes.Prompt{Text: context}, Continuation: continuation}
}

func encodeOne(t *testing.T, e *Encoder, context, continuation string) (Encoded, error) {
	t.Helper()
	es, err := e.Encode(t.Context(), []olmes.Request{scoreRequest(context, continuation)}, nil)
	if err != nil {
		return Encoded{}, err
	}
	return es[0], nil
}

func decode(e *Encoder, ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if id != e.BOS {
			b.Write(e.Pieces[id])
		}
	}
	return b.String()
}

func TestEncodeMergeAcrossBoundary(t *testing.T) {
	bpe := newToyBPE([2]string{"A", "n"}, [2]string{"An", "s"}, [2]string{"Ans", "w"}, [2]string{"e", "r"})
	e := &Encoder{Tokenizer: bpe, Pieces: bpe.pieces, BOS: -1, Window: 100}
	got, err := encodeOne(t, e, "Ans", "wer")
	if err != nil {
		t.Fatal(err)
	}
	if s := decode(e, got.Sequence.IDs); s != "Answer" {
		t.Errorf("ids decode to %q", s)
	}
	if !got.Differs {
		t.Error("a merge across the boundary was not counted as a difference")
	}
	if n := len(got.Sequence.IDs) - got.Sequence.Start; n != 1 {
		t.Errorf("continuation has %d tokens, want 1", n)
	}
}

func TestEncodeContinuationWithoutToken(t *testing.T) {
	bpe := newToyBPE([2]string{":", "C"})
	e := &Encoder{Tokenizer: bpe, Pieces: bpe.pieces, BOS: -1, Window: 100}
	_, err := encodeOne(t, e, ":", "C")
	var ce *ContinuationError
	if !errors.As(err, &ce) {
		t.Fatalf("a continuation swallowed by a merge gave %v", err)
	}
}

func TestEncodeMovesSpace(t *testing.T) {
	bpe := newToyBPE([2]string{" ", "B"})
	e := &Encoder{Tokenizer: bpe, Pieces: bpe.pieces, BOS: -1, Window: 100}
	got, err := encodeOne(t, e, "A ", "B")
	if err != nil {
		t.Fatal(err)
	}
	if s := decode(e, got.Sequence.IDs[got.Sequence.Start:]); s != " B" {
		t.Errorf("continuation is %q, want the moved space and B", s)
	}
}

func TestEncodeTruncation(t *testing.T) {
	bpe := newToyBPE()
	bos := int32('^')
	for _, tc := range []struct {
		name           string
		bos            int32
		context        string
		window         int
		ids            string
		start, dropped int
		fails          bool
	}{
		{"fits", -1, "abcdefg", 8, "abcdefgXY", 7, 0, false},
		{"one over", -1, "abcdefgh", 8, "bcdefghXY", 7, 1, false},
		{"with bos fits", bos, "abcdef", 8, "^abcdefXY", 7, 0, false},
		{"with bos over", bos, "abcdefgh", 8, "^cdefghXY", 7, 2, false},
		{"continuation fills the window", -1, "abcd", 2, "dXY", 1, 3, false},
		{"continuation too long", -1, "abcd", 1, "", 0, 0, true},
		{"bos alone before", bos, "abcd", 2, "^XY", 1, 4, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &Encoder{Tokenizer: bpe, Pieces: bpe.pieces, BOS: tc.bos, Window: tc.window}
			got, err := encodeOne(t, e, tc.context, "XY")
			if tc.fails {
				var ce *ContinuationError
				if !errors.As(err, &ce) {
					t.Fatalf("got %v, want a ContinuationError", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, id := range got.Sequence.IDs {
				b.Write(bpe.pieces[id])
			}
			if b.String() != tc.ids || got.Sequence.Start != tc.start || got.Dropped != tc.dropped || got.ContextTokens != tc.start {
				t.Errorf("got %q start %d dropped %d, want %q %d %d", b.String(), got.Sequence.Start, got.Dropped, tc.ids, tc.start, tc.dropped)
			}
		})
	}
}

func TestEncodeEmptyContext(t *testing.T) {
	bpe := newToyBPE()
	e := &Encoder{Tokenizer: bpe, Pieces: bpe.pieces, BOS: -1, Window: 10}
	if _, err := encodeOne(t, e, "", "XY"); err == nil {
		t.Error("an empty context without BOS must be refused")
	}
	e.BOS = 0
	if got, err := encodeOne(t, e, "", "XY"); err != nil || got.Sequence.Start != 1 {
		t.Errorf("an empty context with BOS: %+v, %v", got, err)
	}
}

func TestEncodeVocabularyCannotServe(t *testing.T) {
	bpe := newToyBPE()
	e := &Encoder{Tokenizer: bpe, Pieces: slices.Clone(bpe.pieces), BOS: -1, Window: 100}
	e.Pieces['z'] = []byte("<unk>")
	_, err := encodeOne(t, e, "fizz", " buzz")
	if err == nil || !strings.Contains(err.Error(), "vocabulary cannot serve") {
		t.Errorf("got %v", err)
	}
}

// A tokenizer that puts a space in front of every text, as SentencePiece does for
// Llama 2, also puts one in front of a text that begins with a space.
func TestSpaceInFront(t *testing.T) {
	e := &Encoder{Pieces: [][]byte{[]byte(" "), []byte(" A"), []byte("A"), []byte("  A")}}
	for _, c := range []struct {
		text string
		ids  []int32
		ok   bool
	}{
		{"A", []int32{2}, true}, {"A", []int32{1}, true}, {" A", []int32{1}, true}, {" A", []int32{0, 1}, true}, {" A", []int32{3}, true},
		{"", nil, true}, {"", []int32{0}, true},
		{" A", []int32{2}, false}, {" A", []int32{0, 3}, false}, {"A", []int32{3}, false}, {"A", []int32{0, 1}, false}, {"A", []int32{2, 0}, false}, {"A", []int32{4}, false},
	} {
		if err := e.decodes(c.text, c.ids); (err == nil) != c.ok {
			t.Errorf("%q as %v: %v", c.text, c.ids, err)
		}
	}
}
