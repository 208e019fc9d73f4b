package openai

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// modelList is what /v1/models answers, with what servers add to it.
type modelList struct {
	Data []struct {
		ID      string `json:"id"`
		OwnedBy string `json:"owned_by"`
		Length  int    `json:"max_model_len"`
		Parent  string `json:"parent"`
		Meta    *struct {
			Vocab      int   `json:"n_vocab"`
			Parameters int64 `json:"n_params"`
		} `json:"meta"`
	} `json:"data"`
}

// find tells what kind of server it is and which model it serves.
func (p *probe) find(ctx context.Context) error {
	var list modelList
	err := p.c.get(ctx, p.c.api+"/models", &list)
	switch {
	case unreachable(err):
		return fmt.Errorf("%w: is the server running, and the address right?", err)
	case err != nil && !absent(err) && !isAnswerError(err):
		return err
	}
	if err := p.chooseModel(list); err != nil {
		return err
	}
	owner := ""
	for _, m := range list.Data {
		if m.ID == p.model {
			owner, p.claimed = m.OwnedBy, m.Length
			if m.Meta != nil {
				p.d.Parameters = m.Meta.Parameters
				if p.d.Vocab == 0 {
					p.d.Vocab = m.Meta.Vocab
				}
			}
		}
	}
	for _, kind := range []func(context.Context, string) (bool, error){p.llama, p.sglang, p.vllm} {
		if ok, err := kind(ctx, owner); ok || err != nil {
			return err
		}
	}
	p.b = &completions{c: p.c, model: p.model}
	return nil
}

// chooseModel takes the model asked for, or the only one.
func (p *probe) chooseModel(list modelList) error {
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	p.model = p.o.Model
	switch {
	case p.model == "" && len(names) == 1:
		p.model = names[0]
	case p.model == "" && len(names) == 0:
		return unfit("name the model (-m)", "it does not say which models it serves")
	case p.model == "":
		return unfit("name one of them (-m)", "it serves %d models: %s", len(names), strings.Join(names[:min(len(names), 10)], ", "))
	case len(names) > 0 && !slices.Contains(names, p.model):
		return unfit("name one of these (-m)", "it serves no model %q, but %s", p.model, strings.Join(names[:min(len(names), 10)], ", "))
	}
	return nil
}

// ask gets a small thing; a server that lacks it is no error.
func (p *probe) has(ctx context.Context, address string, out any) (bool, error) {
	err := p.c.get(ctx, address, out)
	if err == nil {
		return true, nil
	}
	var status *StatusError
	if isAnswerError(err) || errors.As(err, &status) {
		return false, nil
	}
	return false, err
}

// llama finds llama-server.
func (p *probe) llama(ctx context.Context, owner string) (bool, error) {
	if owner != "llamacpp" && owner != "" {
		return false, nil
	}
	var props struct {
		Slots    int `json:"total_slots"`
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Build string `json:"build_info"`
	}
	ok, err := p.has(ctx, p.c.root+"/props", &props)
	if err != nil || !ok || props.Slots == 0 {
		return false, err
	}
	p.b = &llamaServer{c: p.c, slots: props.Slots, vocab: p.d.Vocab}
	p.claimed, p.d.Version = props.Settings.Context, props.Build
	p.d.Parallel = 1 // two trees would drive each other out of a slot's cache
	p.block = 1
	return true, nil
}

// sglang finds SGLang.
func (p *probe) sglang(ctx context.Context, owner string) (bool, error) {
	if owner != "sglang" && owner != "" {
		return false, nil
	}
	var info struct {
		Path  string `json:"model_path"`
		Type  string `json:"model_type"`
		Vocab int    `json:"vocab_size"`
	}
	found := false
	for _, path := range []string{"/model_info", "/get_model_info"} { // the new name, the old one
		ok, err := p.has(ctx, p.c.root+path, &info)
		if err != nil {
			return false, err
		}
		if found = ok && info.Path != ""; found {
			break
		}
	}
	if !found {
		return false, nil
	}
	var about struct {
		Version string `json:"version"`
		DType   string `json:"dtype"`
		Quant   string `json:"quantization"`
	}
	for _, path := range []string{"/server_info", "/get_server_info"} {
		ok, err := p.has(ctx, p.c.root+path, &about)
		if err != nil {
			return false, err
		}
		if ok && about.Version != "" {
			break
		}
	}
	p.d.Version = about.Version
	if p.d.Quantization == "" {
		p.d.Quantization = about.Quant
	}
	if p.d.DType == "" && about.DType != "auto" {
		p.d.DType = about.DType
	}
	if p.d.Vocab == 0 {
		p.d.Vocab = info.Vocab
	}
	if p.d.Architecture == "" {
		p.d.Architecture = info.Type
	}
	p.b = &sglang{c: p.c, model: p.model}
	p.block = 1
	return true, nil
}

// vllm finds vLLM.
func (p *probe) vllm(ctx context.Context, owner string) (bool, error) {
	if owner != "vllm" && owner != "" {
		return false, nil
	}
	var about struct {
		Version string `json:"version"`
	}
	ok, err := p.has(ctx, p.c.root+"/version", &about)
	if err != nil || owner == "" && (!ok || about.Version == "") {
		return false, err
	}
	p.d.Version = about.Version
	p.b = &completions{c: p.c, model: p.model, vllm: true, zero: true}
	p.block = 16
	var metrics string
	if ok, err := p.has(ctx, p.c.root+"/metrics", &metrics); err != nil {
		return false, err
	} else if ok {
		p.cacheConfig(metrics)
		if _, ok := computedTokens(metrics); ok {
			p.meter = &meter{}
		}
	}
	if p.o.Block > 0 {
		p.block = p.o.Block
	}
	return true, nil
}

var (
	cacheLine   = regexp.MustCompile(`(?m)^vllm:cache_config_info\{([^}]*)\}`)
	blockSize   = regexp.MustCompile(`\bblock_size="(\d+)"`)
	prefixCache = regexp.MustCompile(`\benable_prefix_caching="(\w+)"`)
)

// noCache stands for the block size of a server without a prefix cache: every
// prompt is computed whole.
const noCache = 1 << 30

// cacheConfig reads vLLM's cache settings out of its metrics.
func (p *probe) cacheConfig(metrics string) {
	line := cacheLine.FindStringSubmatch(metrics)
	if line == nil {
		return
	}
	if m := blockSize.FindStringSubmatch(line[1]); m != nil {
		p.block, _ = strconv.Atoi(m[1])
	}
	if m := prefixCache.FindStringSubmatch(line[1]); m != nil && m[1] == "False" {
		p.block = noCache
		p.note("The server's prefix cache is off: every prompt is computed whole.")
	} else {
		p.note("The server's prefix cache has blocks of %d tokens.", p.block)
	}
	p.block = max(p.block, 1)
}

// measureCompletions finds out what the completions interface tells.
func (p *probe) measureCompletions(ctx context.Context, b *completions) error {
	if b.vllm {
		_, err := p.one(ctx, Step, 8)
		switch {
		case err == nil:
			b.steps = true
			p.offers = append(p.offers, Step)
			if err := p.vocab(ctx, b); err != nil {
				return err
			}
		case !absent(err) && !isAnswerError(err):
			return err
		default:
			p.note("The server does not tell named tokens (logprob_token_ids): %v.", err)
		}
	}
	err := p.echo(ctx, b)
	if err != nil && b.vllm && !b.steps && isAnswerError(err) {
		// An old version, or something that looks like one.
		b.vllm = false
		err = p.echo(ctx, b)
	}
	switch {
	case err == nil:
		p.offers = append(p.offers, Echo)
	case len(p.offers) > 0:
		p.note("The server does not tell a prompt's own tokens: %v.", err)
	case ctx.Err() != nil, !absent(err) && !isAnswerError(err):
		return err
	default:
		return p.ranks(ctx, b, err)
	}
	return nil
}

// echo finds the form of a request for a prompt's own tokens that works.
func (p *probe) echo(ctx context.Context, b *completions) error {
	var first error
	for _, form := range []struct{ byText, zero bool }{{false, true}, {false, false}, {true, true}, {true, false}} {
		if form.byText && b.pieces == nil {
			continue
		}
		b.byText, b.zero = form.byText, form.zero
		err := p.echoes(ctx)
		if err == nil {
			how := "token ids"
			if form.byText {
				how = "text"
			}
			p.note("The server takes a prompt as %s and tells its tokens' log-probabilities (echo).", how)
			return nil
		}
		if ctx.Err() != nil || !absent(err) && !isAnswerError(err) {
			return err
		}
		// The last one's reason tells most: the answer, not the status.
		if first == nil || isAnswerError(err) && !isAnswerError(first) || !form.byText && !form.zero {
			first = err
		}
	}
	return first
}

// echoes asks for a prompt's log-probabilities, and for those of its beginning,
// which must be the same: nothing that follows may change them.
func (p *probe) echoes(ctx context.Context) error {
	n := len(p.ids)
	whole, _, err := p.b.ask(ctx, []*job{{ids: p.ids, from: 1}})
	if err != nil {
		return err
	}
	part, _, err := p.b.ask(ctx, []*job{{ids: p.ids[:n/2], from: 1}})
	if err != nil {
		return err
	}
	if d := largest(whole[0].path[:n/2-1], part[0].path); d > compareLimit {
		return &AnswerError{"/v1/completions", fmt.Sprintf("the beginning of a prompt has other log-probabilities than the same text alone, by %.2g nats", d)}
	}
	return nil
}

// vocab finds the number of token ids: what is beyond is refused. The ids that are
// tried stand in prompts and their log-probabilities are not asked for: models may
// have more ids than their tokenizers have tokens, and vLLM 0.32 dies of writing
// such a one as text.
func (p *probe) vocab(ctx context.Context, b *completions) error {
	if p.d.Vocab > 0 {
		return nil
	}
	known := func(id int) (bool, error) {
		_, _, err := b.ask(ctx, []*job{{ids: []int32{p.ids[0], int32(id)}, from: 2, tokens: p.ids[:1]}})
		var status *StatusError
		if errors.As(err, &status) && status.Status/100 == 4 {
			return false, nil
		}
		return err == nil, err
	}
	low, high := int(slices.Max(p.ids)), 1<<24
	for high-low > 1 {
		mid := low + (high-low)/2
		if low*2 < high {
			mid = low * 2 // vocabularies are small numbers
		}
		ok, err := known(mid)
		if err != nil {
			return fmt.Errorf("find the size of the vocabulary: %w", err)
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	p.d.Vocab = low + 1
	return nil
}

// ranks is what is left where nothing else is told: the most likely tokens.
func (p *probe) ranks(ctx context.Context, b *completions, reason error) error {
	why := reason.Error()
	var answer *AnswerError
	if errors.As(reason, &answer) {
		why = answer.Reason
	}
	if b.pieces == nil {
		return unfit(otherServers, "%s; and the few most likely tokens, told by text, cannot be told apart without the model's tokenizer (--tokenizer)", why)
	}
	b.byText, b.zero = false, false
	for _, form := range []bool{false, true} {
		b.byText = form
		for _, top := range []int{20, 5} {
			b.top = top
			told, err := b.likely(ctx, p.ids)
			if err == nil && len(told) > 0 {
				b.top = min(top, len(told))
				p.offers = []string{Step}
				p.note("The server tells the log-probabilities of the %d most likely tokens alone (%s): only what is among them can be measured.", b.top, why)
				return nil
			}
			if ctx.Err() != nil {
				return err
			}
		}
	}
	b.top = 0
	return unfit(otherServers, "%s", why)
}

// measureLlama checks that a bias makes a token the sampled one and leaves what
// is told alone.
func (p *probe) measureLlama(ctx context.Context, b *llamaServer) error {
	if b.vocab == 0 {
		return unfit("a newer llama-server tells it", "it does not tell the size of its vocabulary")
	}
	b.plain = p.ids[0]
	n := len(p.ids) - 1
	told := map[int32]float64{}
	if _, err := b.one(ctx, p.ids[:n], p.ids[n], leastTop, told); err != nil {
		return err
	}
	checked := 0
	for t, v := range told {
		if checked == 4 {
			break
		}
		again := map[int32]float64{}
		if _, err := b.one(ctx, p.ids[:n], t, 1, again); err != nil {
			return err
		}
		if d := again[t] - v; d > repeatLimit || d < -repeatLimit {
			return unfit(otherServers, "its log-probabilities change with a bias, by %.2g nats: they are not the model's own", d)
		}
		checked++
	}
	p.offers = []string{Step}
	p.note("The server tells the log-probability of any token that a bias makes it sample, before that bias.")
	return nil
}
