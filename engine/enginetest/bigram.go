package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"olmes/engine"
	"olmes/trie"
)

// Bigram is an engine in memory: a model whose next token depends on the last
// one alone, over bytes. Its log-probabilities can be computed by hand. It
// implements engine.Engine, engine.Detokenizer and engine.Counter. The zero
// value is ready; fields are set before the first call.
//
// P(b|a) = 0.9 and P(c|b) = 0.5, the rest of these rows and all of the others
// being spread over the other tokens in a fixed, uneven way.
type Bigram struct {
	// Context is the most tokens of a path; 4096 if 0.
	Context int
	// Parallel is Description.Parallel; the bigram itself serves any number.
	Parallel int
	// Before, if set, is called at the start of each Score, and may wait or fail.
	Before func(ctx context.Context, tree *trie.Tree) error
	// Change, if set, gives the log-probability to return for next after prev
	// instead of the true one, such as NaN.
	Change func(prev, next int32, logProb float64) float64

	mu       sync.Mutex
	closed   bool
	computed int64
}

// Ids of the Bigram's special tokens; those below are bytes.
const (
	BigramBOS   = 256
	BigramEOS   = 257
	bigramVocab = 258
)

var errClosed = errors.New("engine is closed")

func (b *Bigram) open() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	return nil
}

func (b *Bigram) context() int {
	if b.Context == 0 {
		return 4096
	}
	return b.Context
}

// LogProb returns the true log-probability, in nats, of next after prev.
func (b *Bigram) LogProb(prev, next int32) float64 {
	fixed := map[int32]struct {
		next int32
		p    float64
	}{'a': {'b', 0.9}, 'b': {'c', 0.5}}
	weight := func(n int32) float64 { return 1 + float64((7*prev+13*n)%31) }
	known, ok := fixed[prev]
	if ok && next == known.next {
		return math.Log(known.p)
	}
	sum := 0.0
	for n := range int32(bigramVocab) {
		if !ok || n != known.next {
			sum += weight(n)
		}
	}
	p := weight(next) / sum
	if ok {
		p *= 1 - known.p
	}
	return math.Log(p)
}

// Score implements engine.Scorer.
func (b *Bigram) Score(ctx context.Context, t *trie.Tree) (engine.Scores, error) {
	if err := b.open(); err != nil {
		return engine.Scores{}, err
	}
	if err := t.Validate(); err != nil {
		return engine.Scores{}, engine.InputError(err)
	}
	if _, deepest := t.Depths(); deepest > b.context() {
		return engine.Scores{}, engine.InputError(fmt.Errorf("tree is %d tokens deep, the model's context takes %d", deepest, b.context()))
	}
	for i, id := range t.Token {
		if id >= bigramVocab {
			return engine.Scores{}, engine.InputError(fmt.Errorf("tree node %d has token %d, the vocabulary has %d", i, id, bigramVocab))
		}
	}
	for i, w := range t.Wants {
		if w.Token >= bigramVocab {
			return engine.Scores{}, engine.InputError(fmt.Errorf("want %d is of token %d, the vocabulary has %d", i, w.Token, bigramVocab))
		}
	}
	if b.Before != nil {
		if err := b.Before(ctx, t); err != nil {
			return engine.Scores{}, err
		}
	}
	s := engine.Scores{LogProbs: make([]float64, len(t.Wants)), Computed: len(t.Token)}
	for i, w := range t.Wants {
		if err := ctx.Err(); err != nil {
			return engine.Scores{}, err
		}
		prev := t.Token[w.Node]
		s.LogProbs[i] = b.LogProb(prev, w.Token)
		if b.Change != nil {
			s.LogProbs[i] = b.Change(prev, w.Token, s.LogProbs[i])
		}
	}
	b.mu.Lock()
	b.computed += int64(s.Computed)
	b.mu.Unlock()
	return s, ctx.Err()
}

// Describe implements engine.Describer.
func (b *Bigram) Describe(context.Context) (engine.Description, error) {
	return engine.Description{
		Engine: "bigram", Version: "1", Threads: 1, Parallel: b.Parallel, Architecture: "bigram", Parameters: bigramVocab * bigramVocab,
		WeightType: "F64", ContextTrain: b.context(), Vocab: bigramVocab, BOS: BigramBOS, EOS: BigramEOS,
	}, b.open()
}

// Tokenize implements engine.Tokenizer: a token a byte.
func (b *Bigram) Tokenize(ctx context.Context, texts []string) ([][]int32, error) {
	if err := errors.Join(b.open(), ctx.Err()); err != nil {
		return nil, err
	}
	ids := make([][]int32, len(texts))
	for i, s := range texts {
		for _, c := range []byte(s) {
			ids[i] = append(ids[i], int32(c))
		}
	}
	return ids, nil
}

// Pieces implements engine.Detokenizer.
func (b *Bigram) Pieces(context.Context) ([][]byte, error) {
	pieces := make([][]byte, bigramVocab)
	for i := range pieces {
		pieces[i] = []byte{byte(i)}
	}
	pieces[BigramBOS], pieces[BigramEOS] = []byte("<s>"), []byte("</s>")
	return pieces, b.open()
}

// Stats implements engine.Counter.
func (b *Bigram) Stats(context.Context) (engine.Stats, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return engine.Stats{Computed: b.computed, Library: b.computed}, nil
}

// Close implements io.Closer.
func (b *Bigram) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}
