// Package replay is an engine that gives recorded log-probabilities: for tests,
// and for scoring a record again without its model.
//
// Steps of use: New with the description of the engine that was recorded, Add
// the scores of each chunk, and use it as an engine. What was not added is an
// error, never a number.
package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"olmes/engine"
	"olmes/trie"
)

// Engine gives back what was added. It implements engine.Engine and
// engine.Counter.
type Engine struct {
	description engine.Description

	mu       sync.Mutex
	scores   map[string]engine.Scores
	ids      map[string][]int32
	computed int64
	closed   bool
}

// ErrAbsent marks a request for what was not recorded.
var ErrAbsent = errors.New("not in the recording")

// New returns an engine without any recording.
func New(d engine.Description) *Engine {
	return &Engine{description: d, scores: map[string]engine.Scores{}, ids: map[string][]int32{}}
}

// Add records the scores of the chunk with this id (trie.Chunk.ID).
func (e *Engine) Add(chunk string, s engine.Scores) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scores[chunk] = s
}

// AddText records the ids of a text.
func (e *Engine) AddText(text string, ids []int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids[text] = ids
}

var errClosed = errors.New("engine is closed")

// Score implements engine.Scorer. It looks the tree up by its own id.
func (e *Engine) Score(ctx context.Context, tree *trie.Tree) (engine.Scores, error) {
	if err := ctx.Err(); err != nil {
		return engine.Scores{}, err
	}
	if err := tree.Validate(); err != nil {
		return engine.Scores{}, engine.InputError(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return engine.Scores{}, errClosed
	}
	if len(tree.Token) == 0 {
		return engine.Scores{}, nil
	}
	id := tree.ID()
	s, ok := e.scores[id]
	switch {
	case !ok:
		return engine.Scores{}, engine.InputError(fmt.Errorf("chunk %.12s: %w", id, ErrAbsent))
	case len(s.LogProbs) != len(tree.Wants):
		return engine.Scores{}, engine.InputError(fmt.Errorf("chunk %.12s: recording has %d log-probabilities, %d are wanted", id, len(s.LogProbs), len(tree.Wants)))
	}
	s.LogProbs = append([]float64(nil), s.LogProbs...)
	e.computed += int64(s.Computed)
	return s, nil
}

// Describe implements engine.Describer.
func (e *Engine) Describe(context.Context) (engine.Description, error) {
	return e.description, nil
}

// Tokenize implements engine.Tokenizer.
func (e *Engine) Tokenize(ctx context.Context, texts []string) ([][]int32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	ids := make([][]int32, len(texts))
	for i, text := range texts {
		known, ok := e.ids[text]
		if !ok && text != "" {
			return nil, &engine.TextError{Index: i, Reason: "is " + ErrAbsent.Error()}
		}
		ids[i] = append([]int32(nil), known...)
	}
	return ids, nil
}

// Stats implements engine.Counter. Computed are the tokens that the recorded
// engine computed.
func (e *Engine) Stats(context.Context) (engine.Stats, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return engine.Stats{Computed: e.computed, Library: -1}, nil
}

// Close implements io.Closer.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return nil
}
