package openai

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// llamaServer is llama-server's own completion interface. It tells the raw
// log-probabilities of the most likely tokens and of the sampled one; a bias
// makes the sampled one the one that is wanted, and does not change what is
// told, which is computed from the model's own logits.
type llamaServer struct {
	c     *client
	slots int   // requests the server computes at once, each with a cache of its own
	vocab int   // number of token ids
	plain int32 // a token whose bytes are text
}

func (b *llamaServer) name() string         { return "llama-server" }
func (b *llamaServer) strategies() []string { return []string{Step} }

// most is how many tokens are hoped to be among the most likely ones in one
// call; a node with more is asked more often.
func (b *llamaServer) most() int { return 32 }

func (b *llamaServer) joins([]*job, *job) bool { return false }

// force is the bias that makes a token the sampled one: beyond any difference
// of logits, and small enough for its sum to stay exact where it matters.
const force = 1e6

// leastTop is how many of the most likely tokens are asked for where several are
// wanted: labels are nearly always among them.
const leastTop = 64

type llamaToken struct {
	ID      *int32   `json:"id"`
	Logprob *float64 `json:"logprob"`
}

type llamaAnswer struct {
	Evaluated int  `json:"tokens_evaluated"`
	Predicted int  `json:"tokens_predicted"`
	Truncated bool `json:"truncated"`
	Settings  struct {
		Seed *uint32 `json:"seed"`
	} `json:"generation_settings"`
	Timings struct {
		Cached *int `json:"cache_n"`
	} `json:"timings"`
	Probs []struct {
		llamaToken
		Top []llamaToken `json:"top_logprobs"`
	} `json:"completion_probabilities"`
}

func (b *llamaServer) ask(ctx context.Context, jobs []*job) ([]answer, usage, error) {
	j := jobs[0]
	if j.from < len(j.ids) {
		return nil, usage{}, errors.New("llama-server tells nothing of a prompt's own tokens")
	}
	told := map[int32]float64{}
	cost := usage{}
	for i, t := range j.tokens {
		if _, ok := told[t]; ok {
			continue
		}
		top := 1
		if i == 0 && len(j.tokens) > 1 {
			top = leastTop
		}
		cached, err := b.one(ctx, j.ids, t, top, told)
		if err != nil {
			return nil, cost, err
		}
		cost.prompt += len(j.ids)
		if cached < 0 {
			cost.cached = -1
		} else if cost.cached >= 0 {
			cost.cached += cached
		}
	}
	a := answer{last: make([]float64, len(j.tokens))}
	for i, t := range j.tokens {
		a.last[i] = told[t]
	}
	return []answer{a}, cost, nil
}

// one asks for the log-probability of token after ids, and for those of the most
// likely tokens, and puts them into told.
func (b *llamaServer) one(ctx context.Context, ids []int32, token int32, top int, told map[int32]float64) (cached int, err error) {
	cached, err = b.sampled(ctx, ids, token, top, told)
	if errors.Is(err, errPartial) && token != b.plain {
		// The whole vocabulary, beside a token that is text.
		cached, err = b.sampled(ctx, ids, b.plain, b.vocab, told)
		if _, ok := told[token]; err == nil && !ok {
			err = &AnswerError{"/completion", fmt.Sprintf("token %d is not among all tokens", token)}
		}
	}
	return cached, err
}

// sampled is one where the token's bytes are whole characters; else it fails with
// errPartial.
func (b *llamaServer) sampled(ctx context.Context, ids []int32, token int32, top int, told map[int32]float64) (cached int, err error) {
	partial := false
	err = b.c.call(ctx, b.c.root+"/completion", func() (any, any, func() error) {
		seed := b.c.nonce.Add(1) &^ (1 << 31)
		out := &llamaAnswer{}
		body := map[string]any{
			"prompt": ids, "n_predict": 1, "n_probs": top, "post_sampling_probs": false, "cache_prompt": true,
			"seed": seed, "temperature": b.c.temperature, "samplers": []string{"temperature"}, "ignore_eos": false,
			"logit_bias": []any{[]any{token, force}}, "return_tokens": true, "stream": false, "n_keep": -1,
		}
		return body, out, func() error {
			cached = -1
			if out.Timings.Cached != nil {
				cached = *out.Timings.Cached
			}
			if partial = out.partial(seed); partial {
				return nil
			}
			return out.read(ids, token, seed, told)
		}
	})
	if err == nil && partial {
		err = errPartial
	}
	return cached, err
}

// errPartial says that the token is a part of a character, whose numbers the
// server does not tell, or tells those of the token that makes it whole.
var errPartial = errors.New("the token is a part of a character")

// partial tells whether the server has kept a token's numbers back because its
// bytes are no whole character.
func (out *llamaAnswer) partial(seed uint32) bool {
	mine := out.Settings.Seed != nil && *out.Settings.Seed == seed
	return mine && (out.Predicted > 1 || out.Predicted == 1 && len(out.Probs) == 0)
}

func (out *llamaAnswer) read(ids []int32, token int32, seed uint32, told map[int32]float64) error {
	switch {
	case out.Settings.Seed == nil:
		return errors.New("it does not say which request it answers")
	case *out.Settings.Seed != seed:
		return fmt.Errorf("it is the answer to request %d, not to %d", *out.Settings.Seed, seed)
	case out.Truncated:
		return fmt.Errorf("the server has cut the prompt of %d tokens", len(ids))
	case out.Evaluated != len(ids):
		return fmt.Errorf("the server counts %d tokens of prompt, %d were sent", out.Evaluated, len(ids))
	}
	if err := count("generated tokens", len(out.Probs), 1); err != nil {
		return err
	}
	first := out.Probs[0]
	if first.ID == nil || *first.ID != token {
		return errors.New("the sampled token is not the one that was asked for")
	}
	// A probability that is zero in 32 bits is told as the lowest number.
	values, err := finite([]*float64{first.Logprob}, llamaFloor)
	if err != nil {
		return fmt.Errorf("token %d: %w", token, err)
	}
	for _, t := range first.Top {
		if t.ID != nil && t.Logprob != nil && *t.Logprob > llamaFloor && *t.Logprob <= 1e-3 {
			told[*t.ID] = min(*t.Logprob, 0)
		}
	}
	if other, ok := told[token]; ok && math.Abs(other-values[0]) > 1e-4 {
		return fmt.Errorf("token %s has two log-probabilities, %g and %g", strconv.Itoa(int(token)), values[0], other)
	}
	told[token] = values[0]
	return nil
}

// llamaFloor is below every logarithm of a 32-bit number above zero, with the
// last few bits of those that are hardly above it given away.
const llamaFloor = -87

func (b *llamaServer) tokenize(ctx context.Context, text string, special bool) ([]int32, error) {
	var out struct {
		Tokens []int32 `json:"tokens"`
	}
	err := b.c.call(ctx, b.c.root+"/tokenize", func() (any, any, func() error) {
		out.Tokens = nil
		return map[string]any{"content": text, "add_special": special, "parse_special": false}, &out, func() error {
			if out.Tokens == nil {
				return errors.New("it has no tokens")
			}
			return nil
		}
	})
	return out.Tokens, err
}
