package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// prefixes tokenizes texts that begin with the same few-shot examples without
// tokenizing the examples again for each.
//
// The ids of prefix + rest are those of the prefix followed by those of the
// rest if no token can span the place where they meet. That is so where no
// piece of the vocabulary holds the two bytes that meet there: every token is
// a piece, and merges on one side do not depend on the other. What a
// pre-tokenizer looks ahead for is only the character that follows, so the
// prefix's own ids are kept for each first character of a rest. Both are
// checked against the whole string the first time that a character comes up;
// where they fail (a tokenizer that puts a space before every text), whole
// strings are tokenized.
type prefixes struct {
	enc   *Encoder
	text  string
	after map[rune][]int32 // ids of the prefix before a rest with this first character; nil: not safe
}

func (e *Encoder) prefixes(text string) *prefixes {
	return &prefixes{enc: e, text: text, after: map[rune][]int32{}}
}

// split cuts a text into the ids of its prefix and the rest that is still to be
// tokenized; a text that cannot be cut comes back whole.
func (p *prefixes) split(ctx context.Context, text string) (head []int32, rest string, err error) {
	if p == nil || p.text == "" || len(text) <= len(p.text) || !strings.HasPrefix(text, p.text) {
		return nil, text, nil
	}
	rest = text[len(p.text):]
	first, _ := utf8.DecodeRuneInString(rest)
	head, known := p.after[first]
	if !known {
		if head, err = p.learn(ctx, text, rest); err != nil {
			return nil, "", err
		}
		p.after[first] = head
	}
	if head == nil {
		return nil, text, nil
	}
	return head, rest, nil
}

// learn returns the prefix's ids before rest, or nil where the text cannot be
// cut there.
func (p *prefixes) learn(ctx context.Context, text, rest string) ([]int32, error) {
	if p.enc.spans(p.text[len(p.text)-1], rest[0]) {
		return nil, nil
	}
	ids, err := p.enc.Tokenizer.Tokenize(ctx, []string{text, rest})
	if err != nil {
		return nil, fmt.Errorf("tokenize few-shot examples: %w", err)
	}
	whole, tail := ids[0], ids[1]
	n := len(whole) - len(tail)
	if n < 1 || !slices.Equal(whole[n:], tail) {
		return nil, nil
	}
	head := slices.Clone(whole[:n])
	if err := p.enc.decodes(p.text, head); err != nil {
		return nil, nil // whole strings will say what is wrong
	}
	return head, nil
}

// spans reports whether a piece of the vocabulary holds byte a followed by byte
// b. Without the pieces nothing is known, and it is true.
func (e *Encoder) spans(a, b byte) bool {
	if e.Pieces == nil {
		return true
	}
	if e.pairs == nil {
		e.pairs = make(map[[2]byte]bool)
		for _, piece := range e.Pieces {
			for i := 1; i < len(piece); i++ {
				e.pairs[[2]byte{piece[i-1], piece[i]}] = true
			}
		}
	}
	return e.pairs[[2]byte{a, b}]
}
