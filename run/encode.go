package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"olmes"
	"olmes/engine"
	"olmes/trie"
)

// Encoder turns requests into the ids an engine is fed, by the standard's
// boundary rule, BOS policy and window.
type Encoder struct {
	Tokenizer engine.Tokenizer
	Pieces    [][]byte // bytes of every token id; nil skips the check that ids decode to their text
	BOS       int32    // id put first, exactly once; -1 for none
	Window    int      // tokens the model may see at once; one more is only predicted

	// Shared cuts all choices of an instance at the same place, the largest cut
	// that any of them needs, so that they share what is left. It is not the
	// standard's way.
	Shared bool

	pairs map[[2]byte]bool // neighbouring bytes within pieces
	vocab int              // ids are below it; 0: not asked yet, -1: the engine does not tell
}

// Encoded is one request as ids.
type Encoded struct {
	Sequence      trie.Sequence
	ContextTokens int    // ids before the continuation, BOS included, after truncation
	Dropped       int    // ids cut from the left
	IDsSHA256     string // of Sequence.IDs as little-endian int32
	Differs       bool   // context and continuation tokenized apart would give other ids
}

// ContinuationError says that a request's continuation cannot be scored by
// this model: its vocabulary or its window does not serve.
type ContinuationError struct {
	Request olmes.Request
	Reason  string
}

func (e *ContinuationError) Error() string {
	r := e.Request
	return fmt.Sprintf("%s %s instance %d choice %d: %s", r.Task, r.Formulation, r.DocID, r.Choice, e.Reason)
}

// pythonSpace is the white space the boundary rule moves: what Python's
// str.rstrip removes, since the rule is stated in its terms.
const pythonSpace = " \t\n\r\v\f\x1c\x1d\x1e\x1f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

// Encode tokenizes context and continuation as one string each and takes the
// tokens after the context's own count as the continuation's. White space at a
// context's end moves to the front of its continuation first. Where requests
// begin with the text of shared (nil for none), its ids are not computed again.
func (e *Encoder) Encode(ctx context.Context, reqs []olmes.Request, shared *prefixes) ([]Encoded, error) {
	var texts []string
	var heads [][]int32
	at := make(map[string]int)
	place := func(s string) (int, error) {
		i, ok := at[s]
		if !ok {
			head, rest, err := shared.split(ctx, s)
			if err != nil {
				return 0, err
			}
			i = len(texts)
			at[s] = i
			texts, heads = append(texts, rest), append(heads, head)
		}
		return i, nil
	}
	type places struct{ context, continuation, whole int }
	where := make([]places, len(reqs))
	for i, r := range reqs {
		if len(r.Prompt.Messages) > 0 {
			return nil, fmt.Errorf("encode: %s instance %d: a chat prompt needs an engine's template, which scoring does not use", r.Task, r.DocID)
		}
		c, t := boundary(r.Prompt.Text, r.Continuation)
		for _, p := range []struct {
			index *int
			text  string
		}{{&where[i].context, c}, {&where[i].continuation, t}, {&where[i].whole, c + t}} {
			var err error
			if *p.index, err = place(p.text); err != nil {
				return nil, err
			}
		}
	}
	ids, err := e.Tokenizer.Tokenize(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("tokenize %d texts: %w", len(texts), err)
	}
	if len(ids) != len(texts) {
		return nil, fmt.Errorf("tokenize: engine gave %d answers for %d texts", len(ids), len(texts))
	}
	if err := e.inVocabulary(ctx, ids); err != nil {
		return nil, err
	}
	if e.Pieces != nil {
		for i := range texts {
			if err := e.decodes(texts[i], ids[i]); err != nil {
				return nil, err
			}
		}
	}
	for i, head := range heads {
		if head != nil {
			ids[i] = slices.Concat(head, ids[i])
		}
	}
	if e.Pieces == nil {
		wholes := make([]encodedText, len(reqs))
		for i, w := range where {
			wholes[i] = encodedText{texts[w.whole], ids[w.whole]}
		}
		if err := distinct(reqs, wholes); err != nil {
			return nil, err
		}
	}
	over := make([]int, len(reqs))
	for i, w := range where {
		over[i] = max(0, len(ids[w.whole])+e.first()-(e.Window+1))
	}
	if e.Shared {
		shareCuts(reqs, over)
	}
	out := make([]Encoded, len(reqs))
	for i, r := range reqs {
		w := where[i]
		out[i], err = e.join(ids[w.context], ids[w.continuation], ids[w.whole], over[i])
		if err != nil {
			return nil, &ContinuationError{Request: r, Reason: err.Error()}
		}
	}
	return out, nil
}

// shareCuts gives all choices of an instance the largest cut among them.
// Unconditional requests are apart.
func shareCuts(reqs []olmes.Request, over []int) {
	for start := 0; start < len(reqs); {
		end, most := start, 0
		for end < len(reqs) && reqs[end].DocID == reqs[start].DocID && reqs[end].Unconditional == reqs[start].Unconditional {
			most = max(most, over[end])
			end++
		}
		for ; start < end; start++ {
			over[start] = most
		}
	}
}

// first is the number of ids put before a text's own.
func (e *Encoder) first() int {
	if e.BOS >= 0 {
		return 1
	}
	return 0
}

// boundary moves white space at the context's end to the continuation's front.
func boundary(context, continuation string) (string, string) {
	c := strings.TrimRight(context, pythonSpace)
	return c, context[len(c):] + continuation
}

// join makes a request of its ids, over of them cut from the left.
func (e *Encoder) join(context, continuation, whole []int32, over int) (Encoded, error) {
	n := len(context)
	if n >= len(whole) {
		return Encoded{}, errors.New("the continuation has no token of its own after the context; this model's vocabulary cannot score it")
	}
	enc := Encoded{Differs: !slices.Equal(whole[:n], context) || !slices.Equal(whole[n:], continuation)}
	ids := make([]int32, 0, len(whole)+1)
	if e.BOS >= 0 {
		ids = append(ids, e.BOS)
	}
	ids = append(ids, whole...)
	start := len(ids) - (len(whole) - n)
	if over > 0 {
		if start-over < 1 {
			return Encoded{}, fmt.Errorf("its continuation of %d tokens does not fit the model's window of %d after a context; use a model with a larger window", len(whole)-n, e.Window)
		}
		keep := e.first()
		ids = append(ids[:keep], ids[keep+over:]...)
		start -= over
		enc.Dropped = over
	}
	if start < 1 {
		return Encoded{}, errors.New("no token comes before its continuation: the context is empty and this model gets no BOS, so its first token has no probability")
	}
	enc.Sequence = trie.Sequence{IDs: ids, Start: start}
	enc.ContextTokens = start
	enc.IDsSHA256 = idsDigest(ids)
	return enc, nil
}

// decodes checks that ids are the text, byte for byte. A tokenizer that puts a
// space in front of every text (SentencePiece) shows that one space more.
func (e *Encoder) decodes(text string, ids []int32) error {
	err := e.spell(text, ids)
	if err != nil && e.spell(" "+text, ids) == nil {
		return nil
	}
	return err
}

// spell checks that the pieces of ids are the text.
func (e *Encoder) spell(text string, ids []int32) error {
	at := 0
	for _, id := range ids {
		if id < 0 || int(id) >= len(e.Pieces) {
			return fmt.Errorf("tokenize: id %d is outside the vocabulary of %d", id, len(e.Pieces))
		}
		p := e.Pieces[id]
		if len(text)-at < len(p) || text[at:at+len(p)] != string(p) {
			return vocabularyError(text, at, p)
		}
		at += len(p)
	}
	if at != len(text) {
		return vocabularyError(text, at, nil)
	}
	return nil
}

func vocabularyError(text string, at int, piece []byte) error {
	rest := text[at:]
	r, _ := utf8.DecodeRuneInString(rest)
	return fmt.Errorf("the model's vocabulary cannot serve: ids do not decode to their text at byte %d of %d (character %U became %q); scores would be of another text", at, len(text), r, bytes.ToValidUTF8(piece, []byte("?")))
}

func idsDigest(ids []int32) string {
	b := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
