package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"olmes"
	"olmes/engine"
	"olmes/engine/llamacpp"
)

// Cost is what one task in one formulation costs. Seconds are of the wall
// clock; where several trees are computed at the same time, the time spent in
// them is divided by their number.
type Cost struct {
	Task        string            `json:"task"`
	Variants    []string          `json:"variants,omitempty"` // computed together; none means the standard's own rendering
	Formulation olmes.Formulation `json:"formulation"`
	Instances   int               `json:"instances"`
	Requests    int               `json:"requests"` // unconditional ones included

	TokensNaive    int64 `json:"tokens_naive"`    // each request computed alone
	TokensDistinct int64 `json:"tokens_distinct"` // each token once
	TokensComputed int64 `json:"tokens_computed"` // that the engine decoded
	Rows           int64 `json:"rows"`            // tokens whose logits were wanted
	Depth          int   `json:"depth"`           // mean number of tokens before a computed one

	SecondsFetch    float64 `json:"seconds_fetch"`       // model, library and rows, of the whole command
	SecondsRender   float64 `json:"seconds_render"`      // prompts
	SecondsTokenize float64 `json:"seconds_tokenize"`    //
	SecondsSchedule float64 `json:"seconds_schedule"`    // cutting into chunks
	SecondsDecode   float64 `json:"seconds_decode"`      // in the library
	SecondsSum      float64 `json:"seconds_log_sum_exp"` // in sums over the vocabulary
	SecondsPack     float64 `json:"seconds_pack"`        // rest of the engine's time, the pipe to it included
	SecondsWrite    float64 `json:"seconds_write"`       // journal and record
	SecondsTotal    float64 `json:"seconds_total"`       // all but fetch

	TokensPerSecond float64 `json:"tokens_per_second"` // computed in SecondsTotal
	SecondsLimit    float64 `json:"seconds_limit"`     // of plain decoding of as many tokens and rows; 0 if not measured
	LimitRatio      float64 `json:"limit_ratio"`       // SecondsLimit / SecondsDecode; 0 if not measured
	Parallel        int     `json:"parallel"`          // trees computed at the same time
	PeakRSSBytes    int64   `json:"peak_rss_bytes"`    // of the engine's process so far, without what measuring the limit takes; 0 where not known
}

// limiter is an engine that can measure how long plain decoding takes.
type limiter interface {
	Limit(ctx context.Context, q llamacpp.LimitRequest) (seconds float64, err error)
}

// processed is an engine in a process of its own.
type processed interface{ PID() int }

// Bench scores what c says, task by task, and gives each one's cost as it
// becomes known. With limit set, each chunk is followed by plain decoding of as
// many tokens and rows, so that what else the machine does hits both. Records
// are written to a temporary folder and deleted.
func Bench(ctx context.Context, c Config, limit bool, env Env, each func(Cost) error) error {
	started := time.Now()
	r, all, err := start(ctx, c, Options{}, env)
	if err != nil {
		return err
	}
	defer r.engine.Close()
	if _, ok := r.engine.(engine.Counter); !ok {
		return fmt.Errorf("the engine %s does not count what it computes", r.description.Engine)
	}
	if _, ok := r.engine.(limiter); limit && !ok {
		return fmt.Errorf("the engine %s cannot measure its limit", r.description.Engine)
	}
	fetch := time.Since(started)
	if err := r.encode(ctx, all); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "olmes-bench-")
	if err != nil {
		return fmt.Errorf("make a folder for records: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &bench{limit: limit, parallel: max(1, r.description.Parallel), dir: dir}
	for _, u := range r.units {
		one := *r
		one.units = []*unit{u}
		cost, err := b.unit(ctx, &one, u)
		if err != nil {
			return err
		}
		cost.SecondsFetch = fetch.Seconds()
		if err := each(cost); err != nil {
			return err
		}
	}
	return nil
}

// bench is what the units of one Bench share.
type bench struct {
	limit    bool
	parallel int
	dir      string

	mu    sync.Mutex
	extra int64   // bytes that measuring limits added to the engine's peak
	begun bool    // limits have been measured
	spent float64 // seconds in limits, of all workers
}

func (b *bench) unit(ctx context.Context, r *Run, u *unit) (Cost, error) {
	cost := Cost{Task: u.task.Name, Variants: u.variants(), Formulation: u.formulation, Instances: len(u.preds), Requests: u.counts.Requests,
		TokensNaive: int64(u.counts.Naive), TokensDistinct: int64(u.counts.Distinct), Depth: u.depth(), Parallel: b.parallel,
		SecondsRender: u.took.render.Seconds(), SecondsTokenize: u.took.tokenize.Seconds(), SecondsSchedule: u.took.schedule.Seconds()}
	id, err := r.identity()
	if err != nil {
		return cost, err
	}
	started := time.Now()
	prov, err := r.provenance(started)
	if err != nil {
		return cost, err
	}
	dir := filepath.Join(b.dir, u.task.Name+"-"+string(u.formulation))
	w, finished, err := r.openRecord(dir, id, prov, Options{})
	if err != nil {
		return cost, err
	}
	defer w.Close()
	opened := time.Since(started)
	before, err := r.engine.(engine.Counter).Stats(ctx)
	if err != nil {
		return cost, fmt.Errorf("read the engine's counts: %w", err)
	}
	s, err := r.scoring(w, finished)
	if err != nil {
		return cost, err
	}
	b.spent = 0
	if b.limit {
		s.after = func(ctx context.Context, c *chunk, scores engine.Scores) error {
			return b.measure(ctx, r, c, scores.Computed, cost.Depth)
		}
	}
	if err := s.do(ctx); err != nil {
		return cost, err
	}
	s.phase.Done(fmt.Sprintf("%s %s", u.name(), u.formulation))
	after, err := r.engine.(engine.Counter).Stats(ctx)
	if err != nil {
		return cost, fmt.Errorf("read the engine's counts: %w", err)
	}
	sealing := time.Now()
	if _, err := r.seal(w, dir, id, prov, started); err != nil {
		return cost, err
	}
	n := float64(b.parallel)
	cost.TokensComputed, cost.Rows = after.Computed-before.Computed, after.Rows-before.Rows
	cost.SecondsDecode, cost.SecondsSum = (after.Decode-before.Decode)/n, (after.Sum-before.Sum)/n
	cost.SecondsPack = s.scorings.Seconds()/n - cost.SecondsDecode - cost.SecondsSum
	cost.SecondsWrite = s.appends.Seconds()/n + (opened + time.Since(sealing)).Seconds()
	cost.SecondsTotal = cost.SecondsRender + cost.SecondsTokenize + cost.SecondsSchedule + s.scorings.Seconds()/n + cost.SecondsWrite
	cost.TokensPerSecond = float64(cost.TokensComputed) / cost.SecondsTotal
	if b.limit {
		cost.SecondsLimit = b.spent / n
		cost.LimitRatio = cost.SecondsLimit / cost.SecondsDecode
	}
	cost.PeakRSSBytes = max(0, peak(r.engine)-b.extra)
	return cost, os.RemoveAll(dir)
}

// measure has the engine decode as many plain tokens and rows as it has just
// computed of a chunk.
func (b *bench) measure(ctx context.Context, r *Run, c *chunk, tokens, depth int) error {
	rows := 0
	for i, w := range c.Tree.Wants {
		if i == 0 || w.Node != c.Tree.Wants[i-1].Node {
			rows++
		}
	}
	q := llamacpp.LimitRequest{Tokens: tokens, Rows: rows, Depth: depth}
	b.mu.Lock()
	if !b.begun {
		// The first one makes what limits need, while the other workers wait
		// or score.
		before := peak(r.engine)
		errs := make(chan error, b.parallel)
		for range b.parallel {
			go func() {
				_, err := r.engine.(limiter).Limit(ctx, q)
				errs <- err
			}()
		}
		var err error
		for range b.parallel {
			err = errors.Join(err, <-errs)
		}
		if err != nil {
			b.mu.Unlock()
			return fmt.Errorf("measure the engine's limit: %w", err)
		}
		b.extra = peak(r.engine) - before
		b.begun = true
	}
	b.mu.Unlock()
	seconds, err := r.engine.(limiter).Limit(ctx, q)
	if err != nil {
		return fmt.Errorf("measure the engine's limit: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += seconds
	return nil
}

// depth returns the mean number of tokens before a token of the unit's chunks.
func (u *unit) depth() int {
	var sum, n int64
	for i := range u.chunks {
		t := &u.chunks[i].Tree
		depths, _ := t.Depths()
		for _, d := range depths[t.Prefix:] {
			sum += int64(d) - 1
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return int(sum / n)
}

// peak returns the largest memory in use of the engine's process so far, in
// bytes; 0 where that is not known.
func peak(e engine.Engine) int64 {
	p, ok := e.(processed)
	if !ok || p.PID() == 0 {
		return 0
	}
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "VmHWM:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
