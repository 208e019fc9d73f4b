package replay_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/engine/replay"
	"olmes/trie"
)

// recorder plays what it has, and records from the true engine what it lacks.
type recorder struct {
	*replay.Engine
	from *enginetest.Bigram
}

func (r recorder) Score(ctx context.Context, tree *trie.Tree) (engine.Scores, error) {
	s, err := r.Engine.Score(ctx, tree)
	if !errors.Is(err, replay.ErrAbsent) {
		return s, err
	}
	if s, err = r.from.Score(ctx, tree); err != nil {
		return s, err
	}
	r.Add(tree.ID(), s)
	return r.Engine.Score(ctx, tree)
}

func (r recorder) Tokenize(ctx context.Context, texts []string) ([][]int32, error) {
	ids, err := r.from.Tokenize(ctx, texts)
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		r.AddText(text, ids[i])
	}
	return r.Engine.Tokenize(ctx, texts)
}

// The suite on recordings made as it goes.
func TestConformance(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) engine.Engine {
		from := &enginetest.Bigram{}
		d, err := from.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return recorder{replay.New(d), from}
	})
}

func TestAbsent(t *testing.T) {
	e := replay.New(engine.Description{Engine: "recorded"})
	tree := &trie.Tree{Token: []int32{1, 2}, Parent: []int32{-1, 0}, Wants: []trie.Want{{Node: 0, Token: 2}}}
	if _, err := e.Score(t.Context(), tree); !errors.Is(err, replay.ErrAbsent) {
		t.Errorf("error %v, want ErrAbsent", err)
	}
	e.Add(tree.ID(), engine.Scores{LogProbs: []float64{-1, -2}})
	if _, err := e.Score(t.Context(), tree); !errors.Is(err, engine.ErrInput) {
		t.Errorf("two recorded for one wanted: error %v", err)
	}
	e.Add(tree.ID(), engine.Scores{LogProbs: []float64{-1}, Computed: 2})
	s, err := e.Score(t.Context(), tree)
	if err != nil || !slices.Equal(s.LogProbs, []float64{-1}) || s.Computed != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	s.LogProbs[0] = 5 // the recording does not change with it
	if s, _ = e.Score(t.Context(), tree); s.LogProbs[0] != -1 {
		t.Error("the recording has changed")
	}
	var at *engine.TextError
	if _, err := e.Tokenize(t.Context(), []string{"", "unknown"}); !errors.As(err, &at) || at.Index != 1 {
		t.Errorf("error %v, want a TextError for text 1", err)
	}
}
