package openai

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"olmes/engine/enginetest"
	"olmes/trie"
)

type ctx = context.Context

func pieces(t *testing.T) [][]byte {
	t.Helper()
	p, err := (&enginetest.Bigram{}).Pieces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sortWants(w []trie.Want) {
	slices.SortFunc(w, func(a, b trie.Want) int { return int(a.Token - b.Token) })
}

// The bound grows with success and halves once a round trip of failures.
func TestLimiterAdapts(t *testing.T) {
	l := newLimiter(32)
	for range 200 {
		done, err := l.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done(true, 0)
	}
	grown := l.bound
	if grown < 12 || grown > 32 {
		t.Errorf("after 200 successes the bound is %d", grown)
	}
	var dones []func(bool, time.Duration)
	for range grown {
		done, _ := l.enter(t.Context())
		dones = append(dones, done)
	}
	for _, done := range dones {
		done(false, 0)
	}
	if l.bound != grown/2 {
		t.Errorf("after one round of failures the bound is %d, want %d", l.bound, grown/2)
	}
}

// Nobody starts while the server asks for patience, and everybody does later.
func TestLimiterPauses(t *testing.T) {
	l := newLimiter(2)
	done, _ := l.enter(t.Context())
	done(false, 100*time.Millisecond)
	started := time.Now()
	if _, err := l.enter(t.Context()); err != nil || time.Since(started) < 90*time.Millisecond {
		t.Errorf("entered after %v, %v", time.Since(started), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.until = time.Now().Add(time.Hour)
	if _, err := l.enter(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}
