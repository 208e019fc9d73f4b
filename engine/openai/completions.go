package openai

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// completions is OpenAI's completions interface, with what vLLM adds to it
// where the server is vLLM.
type completions struct {
	c     *client
	model string
	vllm  bool // ids in the answer, logprob_token_ids, request ids

	// Found by the probe.
	byText    bool     // prompts are texts: the server takes no ids
	pieces    [][]byte // bytes of each id; needed for byText
	zero      bool     // max_tokens 0 is served
	unbatched bool     // one prompt a call
	steps     bool     // logprob_token_ids is served
	top       int      // log-probabilities of the top tokens that a generated one comes with; 0: not used
}

func (b *completions) name() string {
	if b.vllm {
		return "vllm"
	}
	return "completions"
}

func (b *completions) strategies() []string {
	if b.vllm {
		return []string{Step, Echo}
	}
	return []string{Echo}
}

// vllmTokens is vLLM's own limit of logprob_token_ids.
const vllmTokens = 128

func (b *completions) most() int { return vllmTokens }

// Limits of one call.
const (
	callPrompts = 16
	callIDs     = 1 << 15
)

func (b *completions) joins(batch []*job, next *job) bool {
	if b.unbatched || len(batch) >= callPrompts || b.top > 0 {
		return false
	}
	ids := len(next.ids)
	for _, j := range batch {
		ids += len(j.ids)
	}
	if ids > callIDs || (len(next.tokens) == 0) != (len(batch[0].tokens) == 0) {
		return false
	}
	return len(union(append(batch[:len(batch):len(batch)], next))) <= vllmTokens
}

// union is the set of all tokens that the jobs name.
func union(jobs []*job) []int32 {
	seen := map[int32]bool{}
	var all []int32
	for _, j := range jobs {
		for _, t := range j.tokens {
			if !seen[t] {
				seen[t] = true
				all = append(all, t)
			}
		}
	}
	return all
}

type completionRequest struct {
	Model       string   `json:"model"`
	Prompt      any      `json:"prompt"`
	MaxTokens   int      `json:"max_tokens"`
	Temperature float64  `json:"temperature"`
	TopP        float64  `json:"top_p"`
	N           int      `json:"n"`
	Echo        bool     `json:"echo,omitempty"`
	Logprobs    int      `json:"logprobs"`
	LogitBias   any      `json:"logit_bias,omitempty"`
	Stop        []string `json:"stop,omitempty"`

	// vLLM's own.
	TokenIDs     []int32  `json:"logprob_token_ids,omitempty"`
	AsIDs        bool     `json:"return_tokens_as_token_ids,omitempty"`
	ReturnIDs    bool     `json:"return_token_ids,omitempty"`
	AddSpecial   *bool    `json:"add_special_tokens,omitempty"`
	RequestID    string   `json:"request_id,omitempty"`
	TopK         *int     `json:"top_k,omitempty"`
	MinP         *float64 `json:"min_p,omitempty"`
	Repetition   *float64 `json:"repetition_penalty,omitempty"`
	PresencePen  *float64 `json:"presence_penalty,omitempty"`
	FrequencyPen *float64 `json:"frequency_penalty,omitempty"`
}

type completionAnswer struct {
	ID      string `json:"id"`
	Choices []struct {
		Index        *int    `json:"index"`
		Text         string  `json:"text"`
		PromptIDs    []int32 `json:"prompt_token_ids"`
		FinishReason string  `json:"finish_reason"`
		Logprobs     *struct {
			Tokens        []string              `json:"tokens"`
			TokenLogprobs []*float64            `json:"token_logprobs"`
			TopLogprobs   []map[string]*float64 `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens int `json:"prompt_tokens"`
		Details      *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// request makes the body of a call for the jobs, all of one kind.
func (b *completions) request(jobs []*job) *completionRequest {
	r := &completionRequest{Model: b.model, Temperature: b.c.temperature, TopP: 1, N: 1, Logprobs: 1}
	prompts := make([]any, len(jobs))
	for i, j := range jobs {
		prompts[i] = j.ids
		if b.byText {
			prompts[i] = b.text(j.ids)
		}
	}
	r.Prompt = prompts
	if len(prompts) == 1 {
		r.Prompt = prompts[0]
	}
	if len(jobs[0].tokens) > 0 {
		r.MaxTokens = 1
		if b.top > 0 {
			r.Logprobs = b.top
		} else {
			r.TokenIDs = union(jobs)
			r.Logprobs = len(r.TokenIDs)
		}
	} else {
		r.Echo = true
		if !b.zero {
			r.MaxTokens = 1
		}
	}
	if b.vllm {
		if r.Echo {
			r.Logprobs = 0 // the prompt's own tokens alone
		}
		no, off, one, zero := false, -1, 1.0, 0.0
		r.AsIDs, r.ReturnIDs, r.AddSpecial, r.TopK = true, true, &no, &off
		r.MinP, r.Repetition, r.PresencePen, r.FrequencyPen = &zero, &one, &zero, &zero
		r.RequestID = fmt.Sprintf("olmes-%08x", b.c.nonce.Add(1))
	}
	return r
}

func (b *completions) text(ids []int32) string {
	var s strings.Builder
	for _, id := range ids {
		s.Write(b.pieces[id])
	}
	return s.String()
}

func (b *completions) ask(ctx context.Context, jobs []*job) ([]answer, usage, error) {
	var got []answer
	var cost usage
	err := b.c.call(ctx, b.c.api+"/completions", func() (any, any, func() error) {
		req, out := b.request(jobs), &completionAnswer{}
		return req, out, func() (err error) {
			got, cost, err = b.read(jobs, req, out)
			return err
		}
	})
	return got, cost, err
}

// read takes the jobs' answers out of a call's.
func (b *completions) read(jobs []*job, req *completionRequest, out *completionAnswer) ([]answer, usage, error) {
	u := usage{cached: -1}
	if b.vllm && out.ID != "cmpl-"+req.RequestID {
		return nil, u, fmt.Errorf("it is the answer to request %q, not to %q", out.ID, req.RequestID)
	}
	if err := count("choices", len(out.Choices), len(jobs)); err != nil {
		return nil, u, err
	}
	ids := 0
	for _, j := range jobs {
		ids += len(j.ids)
	}
	if out.Usage != nil {
		u.prompt = out.Usage.PromptTokens
		if u.prompt != ids {
			return nil, u, fmt.Errorf("the server counts %d tokens of prompt, %d were sent", u.prompt, ids)
		}
		if d := out.Usage.Details; d != nil && d.Cached != nil && len(jobs) == 1 { // of several, it is the last one's
			u.cached = *d.Cached
		}
	}
	got := make([]answer, len(jobs))
	seen := make([]bool, len(jobs))
	for n := range out.Choices {
		choice := &out.Choices[n]
		i := n
		if choice.Index != nil {
			i = *choice.Index
		} else if len(jobs) > 1 {
			return nil, u, errors.New("its choices have no index")
		}
		if i < 0 || i >= len(jobs) || seen[i] {
			return nil, u, fmt.Errorf("choice %d has index %d of %d", n, i, len(jobs))
		}
		seen[i] = true
		j := jobs[i]
		if b.vllm {
			if err := sameIDs(choice.PromptIDs, j.ids); err != nil {
				return nil, u, fmt.Errorf("choice %d: %w", i, err)
			}
		}
		l := choice.Logprobs
		if l == nil {
			return nil, u, errNoLogprobs
		}
		var err error
		switch {
		case len(j.tokens) == 0:
			got[i].path, err = b.echoed(j, l.Tokens, l.TokenLogprobs)
		case b.top > 0:
			got[i].last, err = b.ranked(j, l.TopLogprobs)
		default:
			got[i].last, err = named(j, l.TopLogprobs)
		}
		if err != nil {
			return nil, u, fmt.Errorf("choice %d: %w", i, err)
		}
	}
	return got, u, nil
}

var errNoLogprobs = errors.New("it has no log-probabilities")

// vllmFloor is what vLLM puts in the place of everything below.
const vllmFloor = -9999

// echoed reads the log-probabilities of a prompt's own tokens. They are told
// apart by their place; the tokens beside them prove that the places are right.
func (b *completions) echoed(j *job, tokens []string, logprobs []*float64) ([]float64, error) {
	if len(tokens) != len(logprobs) {
		return nil, fmt.Errorf("%d tokens have %d log-probabilities", len(tokens), len(logprobs))
	}
	n := len(j.ids)
	if !b.zero && len(tokens) > n {
		tokens, logprobs = tokens[:len(tokens)-1], logprobs[:len(logprobs)-1] // the generated one
	}
	switch got := len(tokens); {
	case got == n:
	case got == 0, got == 1 && n > 2:
		return nil, errors.New("it has no log-probabilities of the prompt: the server ignores echo")
	case got == n+1:
		return nil, fmt.Errorf("the prompt of %d tokens has %d: the server adds one of its own", n, got)
	case got == n-1:
		return nil, fmt.Errorf("the prompt of %d tokens has %d: the server drops one", n, got)
	default:
		return nil, count("tokens of the prompt", got, n)
	}
	if logprobs[0] != nil {
		return nil, errors.New("the first token, which has nothing before it, has a log-probability: the server adds a token of its own")
	}
	for i, id := range j.ids {
		if b.vllm {
			if tokens[i] != "token_id:"+strconv.Itoa(int(id)) {
				return nil, fmt.Errorf("token %d of the prompt is %q, %d was sent", i, tokens[i], id)
			}
			continue
		}
		if b.pieces == nil || sameToken(tokens[i], b.pieces[id]) {
			continue
		}
		return nil, fmt.Errorf("token %d of the prompt is %q, %q was sent", i, tokens[i], b.pieces[id])
	}
	return finite(logprobs[j.from:], vllmFloor)
}

// sameToken tells whether the text a server gives a token can be of the bytes.
// Servers give ids as "token_id:17", bytes that are no text as "bytes:\xe2" or
// with a mark in their place, and some leave a leading space away.
func sameToken(text string, piece []byte) bool {
	const replacement = "\uFFFD"
	s := string(piece)
	switch {
	case text == s, text == strings.TrimPrefix(s, " "), strings.HasPrefix(text, "bytes:"):
		return true
	case strings.Contains(text, replacement):
		return strings.ToValidUTF8(s, replacement) != s
	}
	return false
}

// named reads the log-probabilities of the tokens that a job named.
func named(j *job, top []map[string]*float64) ([]float64, error) {
	if err := count("generated tokens", len(top), 1); err != nil {
		return nil, err
	}
	values := make([]*float64, len(j.tokens))
	for i, t := range j.tokens {
		v, ok := top[0]["token_id:"+strconv.Itoa(int(t))]
		if !ok {
			return nil, fmt.Errorf("token %d was asked for and is not told", t)
		}
		values[i] = v
	}
	return finite(values, vllmFloor)
}

// sameIDs compares the ids the server says it has read with those sent.
func sameIDs(got, want []int32) error {
	if len(got) != len(want) {
		return fmt.Errorf("the server has read %d ids, %d were sent", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("the server has read id %d at %d, %d was sent", got[i], i, want[i])
		}
	}
	return nil
}

// tokenize uses vLLM's own interface.
func (b *completions) tokenize(ctx context.Context, text string, special bool) ([]int32, error) {
	var out struct {
		Count  *int    `json:"count"`
		Tokens []int32 `json:"tokens"`
	}
	err := b.c.call(ctx, b.c.root+"/tokenize", func() (any, any, func() error) {
		out.Count, out.Tokens = nil, nil
		body := map[string]any{"model": b.model, "prompt": text, "add_special_tokens": special}
		return body, &out, func() error {
			if out.Count == nil || *out.Count != len(out.Tokens) {
				return errors.New("its count is not that of its tokens")
			}
			return nil
		}
	})
	return out.Tokens, err
}
