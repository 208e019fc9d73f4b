package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// RankError says that a wanted token is not among the few most likely ones, the
// only ones whose log-probabilities the server tells.
type RankError struct {
	Token string
	Top   int
}

func (e *RankError) Error() string {
	return fmt.Sprintf("this server tells the log-probabilities of the %d most likely tokens alone, and %q is not among them: it cannot be measured", e.Top, e.Token)
}

// Hint says what can be measured.
func (e *RankError) Hint() string {
	return "such a server may serve for mcf (-f mcf), if every label is always among them; never for cf: " + otherServers
}

// ranked reads the log-probabilities of a job's tokens where the server tells
// those of the most likely tokens alone, by text.
func (b *completions) ranked(j *job, top []map[string]*float64) ([]float64, error) {
	if err := count("generated tokens", len(top), 1); err != nil {
		return nil, err
	}
	values := make([]*float64, len(j.tokens))
	for i, t := range j.tokens {
		text := string(b.pieces[t])
		v, ok := top[0][text]
		if !ok {
			return nil, &RankError{text, b.top}
		}
		if other := b.ambiguous(t); other != "" {
			return nil, fmt.Errorf("the server tells tokens by text, and %q may be token %d or another: %s", text, t, other)
		}
		values[i] = v
	}
	return finite(values, vllmFloor)
}

// likely returns the log-probabilities of the most likely tokens after ids,
// falling.
func (b *completions) likely(ctx context.Context, ids []int32) ([]float64, error) {
	var told []float64
	jobs := []*job{{ids: ids, from: len(ids), tokens: []int32{ids[0]}}}
	err := b.c.call(ctx, b.c.api+"/completions", func() (any, any, func() error) {
		req, out := b.request(jobs), &completionAnswer{}
		return req, out, func() error {
			_, _, err := b.read(jobs, req, out)
			var rank *RankError
			if err != nil && !errors.As(err, &rank) {
				return err
			}
			var values []*float64
			for _, v := range out.Choices[0].Logprobs.TopLogprobs[0] {
				values = append(values, v)
			}
			told, err = finite(values, vllmFloor)
			slices.SortFunc(told, func(a, b float64) int { return cmp.Compare(b, a) })
			return err
		}
	})
	return told, err
}

// ambiguous says, where the text of token t does not tell it from all others,
// which it may be mixed up with.
func (b *completions) ambiguous(t int32) string {
	text := b.pieces[t]
	if !utf8.Valid(text) || len(text) == 0 {
		return "its bytes are no text of their own"
	}
	for id, p := range b.pieces {
		switch {
		case int32(id) == t:
		case bytes.Equal(p, text):
			return fmt.Sprintf("token %d has the same text", id)
		case !strings.HasPrefix(string(text), " ") && bytes.Equal(bytes.TrimPrefix(p, []byte(" ")), text):
			return fmt.Sprintf("token %d is the same after a space, which some servers leave away", id)
		}
	}
	return ""
}
