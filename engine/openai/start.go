package openai

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"olmes/engine"
	"olmes/trie"
)

// Start probes the server and returns the engine, an *Engine. It fails with an
// UnfitError where the server cannot give exact log-probabilities. ctx may stop
// the probe, and does not bound the engine's life.
func Start(ctx context.Context, o Options) (engine.Engine, error) {
	e, err := start(ctx, o)
	if err != nil {
		if o.Child != nil {
			o.Child.Close()
		}
		return nil, err
	}
	return e, nil
}

func start(ctx context.Context, o Options) (*Engine, error) {
	o, err := o.resolved()
	if err != nil {
		return nil, err
	}
	if o.Child != nil {
		if err := o.Child.Ensure(ctx); err != nil {
			return nil, err
		}
	}
	p := &probe{c: newClient(o), o: o}
	p.c.probing = true
	p.d = engine.Description{Architecture: o.Architecture, DType: o.DType, Quantization: o.Quantization, Parallel: 2, BOS: -1, EOS: -1, Vocab: o.Vocab}
	if err := p.find(ctx); err != nil {
		return nil, fmt.Errorf("probe %s: %w", redactURL(o.URL), err)
	}
	if err := p.tokenizer(ctx); err != nil {
		return nil, fmt.Errorf("probe %s: %w", redactURL(o.URL), err)
	}
	if err := p.measure(ctx); err != nil {
		return nil, fmt.Errorf("probe %s: %w", redactURL(o.URL), p.refusal(err))
	}
	p.c.probing = false
	p.c.calls.Store(0)
	p.c.failed.Store(0)
	e := &Engine{c: p.c, b: p.b, model: p.model, text: p.text, d: p.d, strategy: p.strategy, block: p.block, meter: p.meter, echoMost: p.echoMost}
	e.since(ctx) // what was computed before does not count
	return e, nil
}

// probe finds out what a server does.
type probe struct {
	c *client
	o Options
	b backend
	d engine.Description

	model    string
	claimed  int // tokens a request may have, by the server's word; 0 unknown
	ids      []int32
	text     textTokenizer
	offers   []string // strategies that work
	strategy string
	block    int
	meter    *meter
	echoMost int // tokens before the predicted one that echo can have
}

func (p *probe) note(format string, args ...any) {
	p.d.Notes = append(p.d.Notes, p.c.redact(fmt.Sprintf(format, args...)))
}

// refusal makes an UnfitError of an answer that shows that the server does not
// do what is needed.
func (p *probe) refusal(err error) error {
	var answer *AnswerError
	if errors.As(err, &answer) {
		return &UnfitError{Reason: answer.Reason, Tip: otherServers}
	}
	return err
}

// tokenizer decides who cuts text into ids, and takes a sample of ids.
func (p *probe) tokenizer(ctx context.Context) error {
	_, err := p.b.tokenize(ctx, "a", false)
	served := err == nil
	if err != nil && !absent(err) && !isAnswerError(err) {
		return err
	}
	p.text = textTokenizer{own: p.o.Tokenizer, b: p.b, lanes: p.o.Concurrency}
	switch {
	case !served && p.o.Tokenizer == nil:
		return unfit("name a GGUF file with the model's own tokenizer (--tokenizer)", "it has no interface that cuts text into ids (/tokenize)")
	case served && p.o.Tokenizer != nil:
		if err := compareTokenizers(ctx, p.o.Tokenizer, p.b); err != nil {
			return err
		}
		p.note("The tokenizer given and the server's agree.")
	case served:
		if _, ok := p.b.(*llamaServer); !ok { // llama-server reads text as text
			if p.text.special, err = findSpecials(ctx, p.b); err != nil {
				return err
			}
		}
	}
	if served {
		if err := p.findBOS(ctx); err != nil {
			return err
		}
	}
	if p.o.BOS != nil {
		p.d.BOS = *p.o.BOS
	}
	ids, err := p.text.tokenize(ctx, samples[:2])
	if err != nil {
		return err
	}
	if p.ids = slices.Concat(ids...); len(p.ids) < 16 {
		return unfit("", "its tokenizer makes %d ids of %d words", len(p.ids), len(strings.Fields(samples[0]+samples[1])))
	}
	if b, ok := p.b.(*completions); ok {
		if t, ok := p.o.Tokenizer.(engine.Detokenizer); ok {
			pieces, err := t.Pieces(ctx)
			if err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return fmt.Errorf("read the vocabulary: %w", err)
			}
			b.pieces = pieces
			if p.d.Vocab == 0 {
				p.d.Vocab = len(pieces)
			}
		}
	}
	return nil
}

// findBOS asks which token the model's tokenizer puts first.
func (p *probe) findBOS(ctx context.Context) error {
	plain, err := p.b.tokenize(ctx, samples[0], false)
	if err != nil {
		return err
	}
	special, err := p.b.tokenize(ctx, samples[0], true)
	if err != nil {
		return err
	}
	if n := len(special) - len(plain); n > 0 && sameIDs(special[1:1+len(plain)], plain) == nil {
		p.d.BOS, p.d.AddBOS = special[0], true
	}
	return nil
}

// measure finds out which strategies work, and how.
func (p *probe) measure(ctx context.Context) error {
	var err error
	switch b := p.b.(type) {
	case *completions:
		err = p.measureCompletions(ctx, b)
	case *llamaServer:
		err = p.measureLlama(ctx, b)
	default:
		p.offers = p.b.strategies()
	}
	if err != nil {
		return err
	}
	if p.strategy, err = p.choose(); err != nil {
		return err
	}
	if err := p.repeat(ctx); err != nil {
		return err
	}
	if err := p.raw(ctx); err != nil {
		return err
	}
	if err := p.length(ctx); err != nil {
		return err
	}
	if err := p.order(ctx); err != nil {
		return err
	}
	if err := p.compare(ctx); err != nil {
		return err
	}
	p.d.Engine = p.b.name()
	p.d.Packing = p.strategy
	if p.strategy == Auto {
		p.d.Packing = strings.Join(p.offers, "+")
	}
	return nil
}

// choose takes the strategy asked for, if the server offers it.
func (p *probe) choose() (string, error) {
	if len(p.offers) == 0 {
		return "", unfit(otherServers, "it tells the log-probabilities neither of a prompt's tokens nor of named ones")
	}
	if p.o.Strategy != Auto {
		if !slices.Contains(p.offers, p.o.Strategy) {
			return "", unfit("leave --strategy away", "it does not serve the strategy %s, but %s", p.o.Strategy, strings.Join(p.offers, ", "))
		}
		return p.o.Strategy, nil
	}
	if slices.Contains(p.offers, Native) {
		return Native, nil
	}
	if len(p.offers) > 1 {
		return Auto, nil
	}
	return p.offers[0], nil
}

// one asks the job that a strategy would make for a short request: the last four
// of n sample ids and one more.
func (p *probe) one(ctx context.Context, strategy string, n int) ([]float64, error) {
	ids := p.sample(n + 1)
	j := &job{ids: ids[:n], from: n, tokens: ids[n:]}
	switch strategy {
	case Echo:
		j = &job{ids: ids, from: max(1, n-3)}
	case Native:
		j.from = max(1, n-3)
	}
	if b, ok := p.b.(*completions); ok && b.top > 0 {
		return b.likely(ctx, ids[:n])
	}
	got, _, err := p.b.ask(ctx, []*job{j})
	if err != nil {
		return nil, err
	}
	return append(got[0].path, got[0].last...), nil
}

// sample returns n ids of text.
func (p *probe) sample(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = p.ids[i%len(p.ids)]
	}
	return ids
}

// first is the strategy that checks are made with.
func (p *probe) first() string {
	if p.strategy == Auto {
		return p.offers[0]
	}
	return p.strategy
}

// Limits of what the probe accepts, in nats.
const (
	repeatLimit  = 0.05 // between a request and its repetition
	compareLimit = 0.25 // between two strategies, in any precision
	exactLimit   = 5e-3 // the same in 32 bits
)

// repeat asks the same twice.
func (p *probe) repeat(ctx context.Context) error {
	n := len(p.ids) - 1
	a, err := p.one(ctx, p.first(), n)
	if err != nil {
		return err
	}
	b, err := p.one(ctx, p.first(), n)
	if err != nil {
		return err
	}
	switch d := largest(a, b); {
	case d > repeatLimit:
		return unfit("a server that spreads requests over different machines or models does so", "the same request gives log-probabilities that differ by %.2g nats", d)
	case d == 0:
		p.note("A repeated request gives the same numbers.")
	default:
		p.note("A repeated request gives numbers that differ by up to %.2g nats.", d)
	}
	return nil
}

// raw asks with another temperature.
func (p *probe) raw(ctx context.Context) error {
	n := len(p.ids) - 1
	defer func() { p.c.temperature = 1 }()
	a, err := p.one(ctx, p.first(), n)
	if err != nil {
		return err
	}
	p.c.temperature = 0.5
	b, err := p.one(ctx, p.first(), n)
	switch d := largest(a, b); {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		p.note("Requests with a temperature other than 1 fail; all have 1.")
	case d > repeatLimit:
		p.note("Log-probabilities are those after temperature; all requests ask for 1, at which they are the model's.")
	default:
		p.note("Log-probabilities are those before temperature.")
	}
	return nil
}

// longest is the most tokens before a predicted one that the probe tries, one
// more than the standard's window.
const longest = 2049

// length finds the longest request that each strategy in use can make: the
// claimed length, or a little less.
func (p *probe) length(ctx context.Context) (err error) {
	if p.d.ContextTrain, err = p.longest(ctx, p.first()); err != nil {
		return err
	}
	p.echoMost = p.d.ContextTrain
	if p.strategy == Auto {
		if p.echoMost, err = p.longest(ctx, Echo); err != nil {
			return err
		}
	}
	return nil
}

// longest returns how many tokens before a predicted one the strategy can have.
func (p *probe) longest(ctx context.Context, strategy string) (int, error) {
	tried := p.claimed
	if tried == 0 || tried > longest {
		tried = longest
	}
	// Whether the predicted token counts, and one more, differs by server.
	candidates := []int{tried, tried - 1, tried - 2, tried - 3}
	if p.claimed == 0 {
		candidates = append(candidates, 2048, 2047, 2046, 1024, 512, 256)
	}
	var last error
	for _, n := range candidates {
		if n < 16 {
			break
		}
		_, err := p.one(ctx, strategy, n)
		if err == nil {
			p.noteLength(strategy, n)
			return max(n, p.claimed-3), nil
		}
		var status *StatusError
		if !isAnswerError(err) && !errors.As(err, &status) {
			return 0, err
		}
		last = err
	}
	return 0, fmt.Errorf("find the longest request that is served: %w", last)
}

func (p *probe) noteLength(strategy string, n int) {
	said := "The server does not say how many tokens it takes"
	if p.claimed > 0 {
		said = fmt.Sprintf("The server says that it takes %d tokens", p.claimed)
	}
	p.note("%s; %d before the predicted one were served (%s).", said, n, strategy)
}

// order asks two prompts in one call and each alone: the answers must be those of
// their own prompts.
func (p *probe) order(ctx context.Context) error {
	long, short := p.sample(len(p.ids)), p.sample(12)
	jobs := []*job{{ids: long[:len(long)-1], from: len(long) - 1, tokens: long[len(long)-1:]}, {ids: short[:11], from: 11, tokens: short[11:]}}
	if p.first() == Echo {
		jobs = []*job{{ids: long, from: len(long) - 1}, {ids: short, from: 11}}
	}
	if !p.b.joins(jobs[:1], jobs[1]) {
		return nil
	}
	flat := func(a []answer) (x []float64) {
		for _, v := range a {
			x = append(append(x, v.path...), v.last...)
		}
		return x
	}
	var alone []answer
	for _, j := range jobs {
		a, _, err := p.b.ask(ctx, []*job{j})
		if err != nil {
			return err
		}
		alone = append(alone, a...)
	}
	got, _, err := p.b.ask(ctx, jobs)
	if err == nil && largest(flat(got), flat(alone)) <= compareLimit {
		return nil
	}
	b, ok := p.b.(*completions)
	if ctx.Err() != nil || !ok {
		return p.refusal(errors.Join(err, &AnswerError{"", "several prompts in one call get other numbers than each alone"}))
	}
	b.unbatched = true
	p.note("Several prompts in one call are not answered, or not in their places; each call has one.")
	return nil
}

// compare computes a few instances by every strategy that will be used.
func (p *probe) compare(ctx context.Context) error {
	strategies := p.offers
	if p.strategy != Auto && p.strategy != Native || len(strategies) < 2 {
		return nil
	}
	tree, err := p.instances()
	if err != nil {
		return err
	}
	e := &Engine{c: p.c, b: p.b, d: p.d, block: p.block, echoMost: p.echoMost}
	var results [][]float64
	for _, s := range strategies[:2] {
		e.strategy = s
		got, err := e.Score(ctx, tree)
		if err != nil {
			return err
		}
		results = append(results, got.LogProbs)
	}
	limit := compareLimit
	if p.o.DType == "float32" {
		limit = exactLimit
	}
	d := largest(results[0], results[1])
	if d > limit {
		return unfit("try --strategy "+strategies[1], "the strategies %s and %s give log-probabilities that differ by %.2g nats", strategies[0], strategies[1], d)
	}
	p.note("The strategies %s and %s differ by up to %.2g nats in %d log-probabilities of a few instances.", strategies[0], strategies[1], d, len(tree.Wants))
	return nil
}

// instances makes a small tree: three contexts, each with three continuations.
func (p *probe) instances() (*trie.Tree, error) {
	var groups [][]trie.Sequence
	n := len(p.ids)
	for g := range 3 {
		stem := slices.Concat(p.ids[:n/2], p.ids[n/2+g:n/2+g+3])
		var choices []trie.Sequence
		for c := range 3 {
			end := p.ids[(5*g+3*c)%(n-4):][:1+c]
			choices = append(choices, trie.Sequence{IDs: slices.Concat(stem, end), Start: len(stem)})
		}
		groups = append(groups, choices)
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: 1 << 20})
	if err != nil {
		return nil, err
	}
	return &chunks[0].Tree, nil
}

// largest is the largest difference; of lists of different lengths it is
// infinite.
func largest(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	d := 0.0
	for i := range a {
		d = max(d, math.Abs(a[i]-b[i]))
	}
	return d
}

func isAnswerError(err error) bool {
	var answer *AnswerError
	return errors.As(err, &answer)
}
