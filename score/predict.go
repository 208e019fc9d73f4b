// Package score turns log-probabilities into predictions, accuracies and task
// scores by the rules of OLMES (paper, sections 3.3 to 3.5).
//
// The steps are: Predict fills the best choice of every prediction, Summarize
// makes the metrics of a run out of predictions and the facts about its tasks.
// The package reads no files and prints nothing. What is absent is absent: an
// instance with an error counts as an error and never as a wrong answer, and a
// task with any error or missing instance has no score.
package score

import (
	"math"

	"olmes"
)

// Predict fills p.Predictions with the best choice under each of norms; nil
// norms means all four. A normalization stays absent where it is undefined for
// any choice (see Value), MCF only has olmes.None, and a prediction with an
// error, without choices or of another kind than score has none at all.
func Predict(p *olmes.Prediction, norms []olmes.Normalization) {
	p.Predictions = map[olmes.Normalization]int{}
	if norms == nil {
		norms = olmes.Normalizations()
	}
	if !Scores(p) || Failed(p) {
		return
	}
	for _, n := range norms {
		if p.Formulation == olmes.MCF && n != olmes.None {
			continue
		}
		if best, ok := Best(p.Choices, n); ok {
			p.Predictions[n] = best
		}
	}
}

// Scores reports whether p is a multiple-choice prediction (kind score, which
// is also what an empty kind means).
func Scores(p *olmes.Prediction) bool { return p.Kind == olmes.KindScore || p.Kind == "" }

// Failed reports whether any choice or output of p has an error, or a choice
// has no finite log-probability, or there is nothing at all.
func Failed(p *olmes.Prediction) bool {
	for i := range p.Choices {
		c := &p.Choices[i]
		if c.Error != "" || c.LogProb == nil || !finite(*c.LogProb) {
			return true
		}
	}
	for i := range p.Outputs {
		if p.Outputs[i].Error != "" {
			return true
		}
	}
	return len(p.Choices) == 0 && (Scores(p) || len(p.Outputs) == 0)
}

// Best returns the index of the choice with the highest value under n, the
// first one on a tie. It reports false where there is no choice or n is
// undefined for any of them.
func Best(choices []olmes.Choice, n olmes.Normalization) (int, bool) {
	best, at := math.Inf(-1), -1
	for i := range choices {
		v, ok := Value(&choices[i], n)
		if !ok {
			return 0, false
		}
		if v > best {
			best, at = v, i
		}
	}
	return at, at >= 0
}

// Value returns the choice's log-probability under n: in nats for None and
// PMI, nats per token for Token, nats per code point for Character. It reports
// false where the choice has an error, a number is missing or not finite, or
// the length is not positive.
func Value(c *olmes.Choice, n olmes.Normalization) (float64, bool) {
	if c.Error != "" || c.LogProb == nil || !finite(*c.LogProb) {
		return 0, false
	}
	var v float64
	switch n {
	case olmes.None:
		v = *c.LogProb
	case olmes.Token:
		if c.Tokens <= 0 {
			return 0, false
		}
		v = *c.LogProb / float64(c.Tokens)
	case olmes.Character:
		if c.Chars <= 0 {
			return 0, false
		}
		v = *c.LogProb / float64(c.Chars)
	case olmes.PMI:
		if c.Unconditional == nil || !finite(*c.Unconditional) {
			return 0, false
		}
		v = *c.LogProb - *c.Unconditional
	default:
		return 0, false
	}
	return v, finite(v)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
