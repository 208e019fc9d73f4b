package enginetest_test

import (
	"math"
	"testing"

	"olmes/engine"
	"olmes/engine/enginetest"
)

func TestBigram(t *testing.T) {
	enginetest.Run(t, func(*testing.T) engine.Engine { return &enginetest.Bigram{} })
}

func TestBigramShortContext(t *testing.T) {
	enginetest.Run(t, func(*testing.T) engine.Engine { return &enginetest.Bigram{Context: 2048} })
}

func TestBigramSumsToOne(t *testing.T) {
	b := &enginetest.Bigram{}
	for _, prev := range []int32{'a', 'b', 'x', enginetest.BigramBOS} {
		sum := 0.0
		for next := range int32(258) {
			sum += math.Exp(b.LogProb(prev, next))
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("after %d the probabilities sum to %g", prev, sum)
		}
	}
}
