package run

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"olmes"
	"olmes/engine"
)

// What follows refuses a tokenizer whose ids are not those of the texts, as far as
// that shows without the bytes that each id stands for.

const tokenizerHint = "docs/engine-protocol.md says what tokenize gives: each text's own ids, all below the vocabulary's size"

// inVocabulary checks that ids are tokens of the vocabulary, where the tokenizer
// is an engine that tells its size.
func (e *Encoder) inVocabulary(ctx context.Context, ids [][]int32) error {
	if e.vocab == 0 {
		e.vocab = -1
		if of, ok := e.Tokenizer.(engine.Describer); ok {
			d, err := of.Describe(ctx)
			if err != nil {
				e.vocab = 0
				return fmt.Errorf("ask the engine for its vocabulary: %w", err)
			}
			if d.Vocab > 0 {
				e.vocab = d.Vocab
			}
		}
	}
	for i, list := range ids {
		for _, id := range list {
			switch {
			case id < 0:
				return &hinted{fmt.Errorf("tokenize: the engine gave id %d in text %d, which is no token", id, i), tokenizerHint}
			case e.vocab > 0 && int(id) >= e.vocab:
				return &hinted{fmt.Errorf("tokenize: the engine gave id %d in text %d, which is outside its vocabulary of %d; scores would mean nothing", id, i, e.vocab), tokenizerHint}
			}
		}
	}
	return nil
}

// encodedText is a text and its ids.
type encodedText struct {
	text string
	ids  []int32
}

// leastOfOne is how many tokens of one id show that it stands for everything.
const leastOfOne = 8

// distinct checks that texts of requests, context and continuation as one, have
// different ids where they differ in more than a tokenizer may take away.
func distinct(reqs []olmes.Request, wholes []encodedText) error {
	if id, ok := onlyID(wholes); ok {
		return &hinted{fmt.Errorf("tokenize: the engine gives id %d for everything; scores would mean nothing", id), tokenizerHint}
	}
	seed := maphash.MakeSeed()
	seen := make(map[uint64]int, len(wholes))
	var b []byte
	for i, w := range wholes {
		if len(w.ids) == 0 {
			continue // its request cannot be scored, which join says
		}
		b = b[:0]
		for _, id := range w.ids {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
		key := maphash.Bytes(seed, b)
		first, ok := seen[key]
		if !ok {
			seen[key] = i
			continue
		}
		o := wholes[first]
		if w.text == o.text || !slices.Equal(w.ids, o.ids) || folded(w.text) == folded(o.text) {
			continue
		}
		p, q := reqs[first], reqs[i]
		return &hinted{fmt.Errorf("tokenize: the engine gives the same ids for different texts (%s %s, instance %d choice %d and instance %d choice %d); they would get the same score",
			p.Task, p.Formulation, p.DocID, p.Choice, q.DocID, q.Choice), tokenizerHint}
	}
	return nil
}

// onlyID returns the one id that all texts consist of, if there is one and they
// consist of several characters.
func onlyID(wholes []encodedText) (int32, bool) {
	n := 0
	var only int32
	characters := map[rune]bool{}
	for _, w := range wholes {
		for _, id := range w.ids {
			if n > 0 && id != only {
				return 0, false
			}
			only = id
			n++
		}
		for _, r := range w.text {
			if characters[r] = true; len(characters) > 1 {
				break
			}
		}
	}
	return only, n >= leastOfOne && len(characters) > 1
}

// folded is a text without what tokenizers may take away: case, the kind and
// amount of white space, Unicode's forms and accents.
func folded(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(text))
	return strings.Join(strings.Fields(text), " ")
}
