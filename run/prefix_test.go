package run

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"olmes"
	"olmes/prompt"
)

// TestPrefixesToy compares, over random vocabularies and texts, ids made with
// the examples tokenized once with ids of whole strings.
func TestPrefixesToy(t *testing.T) {
	letters := []string{"\n", "a", "b", " ", "é"}
	text := func(min, max int) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(letters), min, max), func(p []string) string { return strings.Join(p, "") })
	}
	rapid.Check(t, func(t *rapid.T) {
		var merges [][2]string
		pieces := []string{"\n", "a", "b", " "}
		for range rapid.IntRange(0, 8).Draw(t, "merges") {
			m := [2]string{rapid.SampledFrom(pieces).Draw(t, "left"), rapid.SampledFrom(pieces).Draw(t, "right")}
			merges = append(merges, m)
			pieces = append(pieces, m[0]+m[1])
		}
		bpe := newToyBPE(merges...)
		e := &Encoder{Tokenizer: bpe, Pieces: bpe.pieces, BOS: -1, Window: 1000}
		prefix := text(1, 12).Draw(t, "prefix")
		shared := e.prefixes(prefix)
		for range 4 {
			r := scoreRequest(prefix+text(1, 6).Draw(t, "query")+"a", text(1, 4).Draw(t, "continuation"))
			got, err := e.Encode(t.Context(), []olmes.Request{r}, shared)
			want, errWant := e.Encode(t.Context(), []olmes.Request{r}, nil)
			if (err == nil) != (errWant == nil) {
				t.Fatalf("error %v, with whole strings %v", err, errWant)
			}
			if err == nil && (!slices.Equal(got[0].Sequence.IDs, want[0].Sequence.IDs) || got[0].Sequence.Start != want[0].Sequence.Start) {
				t.Fatalf("ids %v from %d, of the whole string %v from %d", got[0].Sequence.IDs, got[0].Sequence.Start, want[0].Sequence.IDs, want[0].Sequence.Start)
			}
		}
	})
}

// TestPrefixesReal does the same with the two real tokenizers on the standard's
// requests of every task.
func TestPrefixesReal(t *testing.T) {
	long(t)
	for _, name := range []string{"smollm2-135m-instruct", "gemma-3-270m"} {
		t.Run(name, func(t *testing.T) {
			env := testEnv(t)
			r, all, err := start(t.Context(), Config{Model: name, AcceptLicense: []string{"gemma"}, Weights: "as-is", Limit: 25}, Options{}, env)
			fetched(t, err)
			defer r.engine.Close()
			requests, fast := 0, 0
			for _, ch := range all {
				for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
					examples, err := prompt.Prefix(ch.task.Template, ch.data.Shots, f)
					if err != nil {
						t.Fatal(err)
					}
					shared := r.encoder.prefixes(examples)
					var reqs []olmes.Request
					for _, doc := range ch.evaluated {
						rs, err := prompt.Requests(ch.task.Template, ch.data.Shots, ch.data.Instances[doc], f)
						if err != nil {
							t.Fatal(err)
						}
						reqs = append(reqs, rs...)
					}
					got, err := r.encoder.Encode(t.Context(), reqs, shared)
					if err != nil {
						t.Fatal(err)
					}
					want, err := r.encoder.Encode(t.Context(), reqs, nil)
					if err != nil {
						t.Fatal(err)
					}
					for i := range reqs {
						requests++
						if got[i].IDsSHA256 != want[i].IDsSHA256 || got[i].ContextTokens != want[i].ContextTokens {
							t.Errorf("%s %s instance %d choice %d: other ids than the whole string's", ch.task.Name, f, reqs[i].DocID, reqs[i].Choice)
						}
					}
					for _, head := range shared.after {
						if head != nil {
							fast++
							break
						}
					}
				}
			}
			if fast == 0 {
				t.Error("the examples were never tokenized apart")
			}
			t.Logf("%d requests; examples tokenized once in %d task formulations", requests, fast)
		})
	}
}
