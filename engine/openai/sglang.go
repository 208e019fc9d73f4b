package openai

import (
	"context"
	"errors"
	"fmt"
)

// sglang is SGLang's own interface: the log-probabilities of a prompt's tokens
// from a start position on, what comes before being taken from its cache, and
// those of named tokens after it.
type sglang struct {
	c     *client
	model string
}

func (b *sglang) name() string         { return "sglang" }
func (b *sglang) strategies() []string { return []string{Native, Step, Echo} }
func (b *sglang) most() int            { return 1024 }

func (b *sglang) joins(batch []*job, next *job) bool {
	if len(batch) >= callPrompts || (len(next.tokens) == 0) != (len(batch[0].tokens) == 0) {
		return false
	}
	ids := len(next.ids)
	for _, j := range batch {
		ids += len(j.ids)
	}
	return ids <= callIDs
}

// sglangToken is [log-probability, id, text], the text often null.
type sglangToken [3]any

func (t sglangToken) id() (int32, bool) {
	v, ok := t[1].(float64)
	return int32(v), ok
}

func (t sglangToken) logprob() *float64 {
	if v, ok := t[0].(float64); ok {
		return &v
	}
	return nil
}

type sglangAnswer struct {
	Meta struct {
		ID     string          `json:"id"`
		Prompt int             `json:"prompt_tokens"`
		Cached *int            `json:"cached_tokens"`
		Input  []sglangToken   `json:"input_token_logprobs"`
		Named  [][]sglangToken `json:"output_token_ids_logprobs"`
	} `json:"meta_info"`
}

func (b *sglang) ask(ctx context.Context, jobs []*job) ([]answer, usage, error) {
	var got []answer
	var cost usage
	err := b.c.call(ctx, b.c.root+"/generate", func() (any, any, func() error) {
		n := len(jobs)
		ids, starts, rids, params := make([][]int32, n), make([]int, n), make([]string, n), make([]any, n)
		var named [][]int32
		for i, j := range jobs {
			// The token at the start position itself comes without a number.
			ids[i], starts[i] = j.ids, j.from-1
			if j.from == len(j.ids) {
				starts[i] = -1
			}
			rids[i] = fmt.Sprintf("olmes-%08x", b.c.nonce.Add(1))
			params[i] = map[string]any{"max_new_tokens": 1, "temperature": b.c.temperature, "top_p": 1, "top_k": -1, "min_p": 0,
				"frequency_penalty": 0, "presence_penalty": 0, "repetition_penalty": 1, "ignore_eos": true}
			if len(j.tokens) > 0 {
				named = append(named, j.tokens)
			}
		}
		body := map[string]any{"input_ids": ids, "sampling_params": params, "return_logprob": true, "logprob_start_len": starts,
			"rid": rids, "return_text_in_logprobs": false, "stream": false}
		if named != nil {
			body["token_ids_logprob"] = named
		}
		out := &[]sglangAnswer{}
		return body, out, func() (err error) {
			got, cost, err = b.read(jobs, rids, *out)
			return err
		}
	})
	return got, cost, err
}

func (b *sglang) read(jobs []*job, rids []string, out []sglangAnswer) ([]answer, usage, error) {
	u := usage{}
	if err := count("answers", len(out), len(jobs)); err != nil {
		return nil, u, err
	}
	at := make(map[string]*sglangAnswer, len(out))
	for i := range out {
		at[out[i].Meta.ID] = &out[i]
	}
	got := make([]answer, len(jobs))
	for i, j := range jobs {
		a, ok := at[rids[i]]
		if !ok {
			return nil, u, fmt.Errorf("request %s is not answered", rids[i])
		}
		if a.Meta.Prompt != len(j.ids) {
			return nil, u, fmt.Errorf("the server counts %d tokens of prompt, %d were sent", a.Meta.Prompt, len(j.ids))
		}
		u.prompt += a.Meta.Prompt
		if a.Meta.Cached == nil {
			u.cached = -1
		} else if u.cached >= 0 {
			u.cached += *a.Meta.Cached
		}
		var err error
		if got[i].path, err = sglangPath(j, a.Meta.Input); err == nil {
			got[i].last, err = sglangNamed(j, a.Meta.Named)
		}
		if err != nil {
			return nil, u, fmt.Errorf("answer %d: %w", i, err)
		}
	}
	return got, u, nil
}

// sglangPath reads the numbers of ids[from:], which end the list.
func sglangPath(j *job, input []sglangToken) ([]float64, error) {
	want := len(j.ids) - j.from
	if want == 0 {
		return nil, nil
	}
	if len(input) < want {
		return nil, fmt.Errorf("%d of the prompt's tokens have numbers, %d are wanted", len(input), want)
	}
	values := make([]*float64, want)
	for i, t := range input[len(input)-want:] {
		id, ok := t.id()
		if !ok || id != j.ids[j.from+i] {
			return nil, fmt.Errorf("token %d of the prompt is %v, %d was sent", j.from+i, t[1], j.ids[j.from+i])
		}
		values[i] = t.logprob()
	}
	return finite(values, vllmFloor)
}

func sglangNamed(j *job, named [][]sglangToken) ([]float64, error) {
	if len(j.tokens) == 0 {
		return nil, nil
	}
	if len(named) == 0 {
		return nil, errors.New("the named tokens are not told")
	}
	told := map[int32]*float64{}
	for _, t := range named[0] {
		if id, ok := t.id(); ok {
			told[id] = t.logprob()
		}
	}
	values := make([]*float64, len(j.tokens))
	for i, t := range j.tokens {
		v, ok := told[t]
		if !ok {
			return nil, fmt.Errorf("token %d was asked for and is not told", t)
		}
		values[i] = v
	}
	return finite(values, vllmFloor)
}

func (b *sglang) tokenize(ctx context.Context, text string, special bool) ([]int32, error) {
	var out struct {
		Tokens []int32 `json:"tokens"`
		Count  *int    `json:"count"`
	}
	err := b.c.call(ctx, b.c.root+"/tokenize", func() (any, any, func() error) {
		out.Tokens, out.Count = nil, nil
		return map[string]any{"model": b.model, "prompt": text, "add_special_tokens": special}, &out, func() error {
			if out.Count == nil || *out.Count != len(out.Tokens) {
				return errors.New("its count is not that of its tokens")
			}
			return nil
		}
	})
	return out.Tokens, err
}
