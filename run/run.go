package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"olmes"
	"olmes/engine"
	"olmes/engine/child"
	"olmes/record"
	"olmes/score"
)

// Options say how a run is carried out; none of them changes its results.
type Options struct {
	Dir     string // folder of the record; "" is Env.Runs/ID
	Resume  bool   // go on with an interrupted run
	NoReuse bool   // score chunks that a finished run holds again

	MaxNoise       float64 // nats that another schedule may move a request's log-probability; 0 for no limit
	NoiseInstances int     // instances computed again to measure that; 0 for about 2% of the tokens
}

// Outcome is where a finished run lies and how complete it is.
type Outcome struct {
	Dir       string
	ID        string
	Instances int  // predictions made
	Errors    int  // of them without a score
	Already   bool // the folder held the finished run before
}

// Run is an evaluation in progress.
type Run struct {
	config      Config
	options     Options
	env         Env
	backend     backend
	setup       Setup
	planFile    planFile
	engine      engine.Engine
	description engine.Description
	encoder     *Encoder
	units       []*unit
	currentEnv  int // index of this machine's environment in the record
	seed        uint64
	noise       *record.Noise // of the run so far
	donors      donors
}

// Plan is what a run would compute.
type Plan struct {
	ID         string              `json:"id"`
	Model      string              `json:"model"`
	Identity   record.Identity     `json:"identity"`
	Tasks      []record.TaskTokens `json:"tasks"` // computed is what is left to compute, prefixes once
	Tokens     record.Tokens       `json:"tokens"`
	Chunks     int                 `json:"chunks"`
	Reused     int                 `json:"reused_chunks"` // that finished runs hold
	Deviations []record.Deviation  `json:"deviations"`
}

// Do carries out a run and seals its record.
func Do(ctx context.Context, c Config, o Options, env Env) (Outcome, error) {
	started := time.Now()
	if o.Resume {
		if err := c.resumable(); err != nil {
			return Outcome{}, err
		}
	}
	r, id, err := prepare(ctx, c, o, env)
	if err != nil {
		return Outcome{}, err
	}
	defer r.engine.Close()
	dir := o.Dir
	if dir == "" {
		dir = filepath.Join(env.Runs, id.ID()[:12])
	}
	prov, err := r.provenance(started)
	if err != nil {
		return Outcome{}, err
	}
	w, finished, err := r.openRecord(dir, id, prov, o)
	if errors.Is(err, record.ErrSealed) && !id.Model.Known() {
		return Outcome{}, &hinted{fmt.Errorf("%s holds a complete run of a model of this name, and the engine does not say which weights it has now", dir), "choose another folder with -o"}
	}
	if errors.Is(err, record.ErrSealed) {
		env.reporter().Note(fmt.Sprintf("%s holds this run already, complete", dir))
		return already(dir, id.ID())
	}
	if err != nil {
		return Outcome{}, err
	}
	defer w.Close()
	if !o.NoReuse {
		if err := r.reuse(w, id, finished); err != nil {
			return Outcome{}, err
		}
	}
	err = r.checkNoise(ctx, w, finished, o)
	if err == nil {
		err = r.score(ctx, w, finished)
	}
	if err != nil {
		var died *child.ExitError
		if ctx.Err() != nil || errors.As(err, &died) && died.Wrote == "" {
			return Outcome{}, &hinted{err, fmt.Sprintf("what is finished is kept in %s; the same command with --resume goes on", dir)}
		}
		return Outcome{}, err
	}
	return r.seal(w, dir, id, prov, started)
}

// DryRun prepares a run and says what it would compute.
func DryRun(ctx context.Context, c Config, env Env) (Plan, error) {
	r, id, err := prepare(ctx, c, Options{}, env)
	if err != nil {
		return Plan{}, err
	}
	defer r.engine.Close()
	p := Plan{ID: id.ID(), Model: r.setup.Model.Name, Identity: id, Deviations: record.Deviations(id, nil)}
	held, err := r.held(id)
	if err != nil {
		return Plan{}, err
	}
	planned := map[string]bool{}
	var before []int32 // prefix of the unit before
	for _, u := range r.units {
		var left int64
		prefix := -1
		for i := range u.chunks {
			t := &u.chunks[i].Tree
			if planned[u.chunks[i].ID] {
				continue
			}
			planned[u.chunks[i].ID] = true
			p.Chunks++
			if _, ok := held[u.chunks[i].ID]; ok {
				p.Reused++
				continue
			}
			left += int64(u.chunks[i].nodes)
			if prefix < 0 && slices.Equal(before, t.Token[:t.Prefix]) {
				prefix = t.Prefix
			}
			if t.Prefix != prefix {
				prefix = t.Prefix
				left += int64(prefix)
			}
			before = t.Token[:t.Prefix]
		}
		t := u.tokens()
		t.Computed = left
		p.Tasks = append(p.Tasks, t)
		p.Tokens.Naive += t.Naive
		p.Tokens.Distinct += t.Distinct
		p.Tokens.Computed += t.Computed
	}
	return p, nil
}

// prepare opens everything and renders, encodes and cuts every request. On
// success the run's engine is to be closed.
func prepare(ctx context.Context, c Config, o Options, env Env) (*Run, record.Identity, error) {
	r, all, err := start(ctx, c, o, env)
	if err != nil {
		return nil, record.Identity{}, err
	}
	if err := r.encode(ctx, all); err != nil {
		r.engine.Close()
		return nil, record.Identity{}, err
	}
	id, err := r.identity()
	if err != nil {
		r.engine.Close()
		return nil, record.Identity{}, err
	}
	r.seed = seedOf(id.ID())
	return r, id, nil
}

// encode prepares every unit.
func (r *Run) encode(ctx context.Context, all []chosen) error {
	var total int64
	for _, ch := range all {
		total += int64(len(ch.formulations) * len(ch.evaluated) * len(ch.shown))
	}
	phase := r.env.reporter().Phase("prepare", "instances", total)
	ren := &renderer{enc: r.encoder, chunk: r.setup.Plan.ChunkTokens}
	var done int64
	var requests int
	for len(all) > 0 {
		// A task's variants in one formulation follow each other, so that an
		// engine still holds the examples that they share.
		n := 1
		for n < len(all) && all[n].task.Name == all[0].task.Name {
			n++
		}
		for _, f := range all[0].formulations {
			family := len(r.units)
			for _, ch := range all[:n] {
				u := &unit{task: ch.task, shown: ch.shown, formulation: f, split: ch.split, data: ch.data}
				state := fmt.Sprintf("%s %s", u.name(), f)
				err := ren.prepare(ctx, u, ch.evaluated, r.config.pmi(ch.task, f), func(n int) {
					done++
					requests += n
					phase.Update(done, state)
				})
				if err != nil {
					return err
				}
				u.shown = slices.DeleteFunc(slices.Clone(u.shown), func(s shown) bool { return len(u.of(s.variant)) == 0 })
				if len(u.preds) > 0 {
					r.units = append(r.units, u)
				}
			}
			countDistinct(r.units[family:])
		}
		all = all[n:]
	}
	phase.Done(fmt.Sprintf("%d requests", requests))
	return nil
}

// openRecord creates the record's folder or takes up an interrupted one.
func (r *Run) openRecord(dir string, id record.Identity, prov record.Provenance, o Options) (*record.Writer, map[string]record.ChunkScores, error) {
	w, err := record.Create(dir, id, prov)
	finished := map[string]record.ChunkScores{}
	if errors.Is(err, record.ErrExists) {
		if !o.Resume {
			return nil, nil, &hinted{err, "go on with --resume, or choose another folder with -o"}
		}
		w, finished, err = record.Resume(dir, id)
		if err == nil && !id.Model.Known() {
			r.env.reporter().Note("the engine does not say which weights it has: what is finished is taken to be of the same ones")
		}
	} else if err == nil && o.Resume {
		r.env.reporter().Note(fmt.Sprintf("no interrupted run of these settings is in %s; a new one starts", dir))
	}
	if err != nil {
		return nil, nil, err
	}
	r.currentEnv, err = w.Environment(r.environment())
	if err != nil {
		w.Close()
		return nil, nil, err
	}
	return w, finished, nil
}

// hinted is an error with what the user can do.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// Hint says what the user can do.
func (e *hinted) Hint() string { return e.hint }

func (r *Run) provenance(started time.Time) (record.Provenance, error) {
	resolved, err := json.Marshal(r.config)
	if err != nil {
		return record.Provenance{}, fmt.Errorf("encode settings: %w", err)
	}
	user, host := who()
	return record.Provenance{
		Evidence: record.Scored, Created: started.UTC(), Started: started.UTC(), Command: r.env.Command, Resolved: resolved, User: user, Host: host,
	}, nil
}

// seal makes predictions and metrics and writes the record's final files.
func (r *Run) seal(w *record.Writer, dir string, id record.Identity, prov record.Provenance, started time.Time) (Outcome, error) {
	out := Outcome{Dir: dir, ID: id.ID()}
	var preds []olmes.Prediction
	left, err := r.config.unavailable()
	if err != nil {
		return Outcome{}, err
	}
	prov.Notes = append(prov.Notes, left...)
	for _, u := range r.units {
		for i := range u.preds {
			score.Predict(&u.preds[i], id.Normalizations)
			if score.Failed(&u.preds[i]) {
				out.Errors++
			}
		}
		preds = append(preds, u.preds...)
		t := u.tokens()
		t.Computed = int64(u.computed)
		prov.TaskTokens = append(prov.TaskTokens, t)
		prov.Tokens.Naive += t.Naive
		prov.Tokens.Distinct += t.Distinct
		prov.Tokens.Computed += t.Computed
		if u.differ > 0 {
			prov.Notes = append(prov.Notes, fmt.Sprintf("%s %s: %d of %d requests would have other ids if context and continuation were tokenized apart", u.name(), u.formulation, u.differ, u.counts.Requests))
		}
	}
	out.Instances = len(preds)
	metrics, err := score.Summarize(id.Facts(), score.Seq(preds))
	if err != nil {
		return Outcome{}, fmt.Errorf("sum up the predictions: %w", err)
	}
	for _, d := range record.Deviations(id, &metrics) {
		prov.Deviations = append(prov.Deviations, d.Text)
	}
	prov.Notes = append(prov.Notes, r.backend.notes()...)
	prov.Notes = append(prov.Notes, r.description.Notes...)
	prov.Noise = r.noise
	prov.Finished = time.Now().UTC()
	prov.WallSeconds = time.Since(started).Seconds()
	if err := w.Seal(preds, metrics, prov); err != nil {
		return Outcome{}, fmt.Errorf("seal the record: %w", err)
	}
	return out, nil
}

// tokens are the unit's costs, computed ones left out.
func (u *unit) tokens() record.TaskTokens {
	return record.TaskTokens{Task: u.task.Name, Formulation: string(u.formulation), Variants: u.variants(),
		Tokens: record.Tokens{Naive: int64(u.counts.Naive), Distinct: int64(u.counts.Distinct)}}
}

// already describes a run that was complete before.
func already(dir, id string) (Outcome, error) {
	out := Outcome{Dir: dir, ID: id, Already: true}
	rec, err := record.Open(dir)
	if err != nil {
		return out, err
	}
	for p, err := range rec.Predictions() {
		if err != nil {
			return out, err
		}
		out.Instances++
		if score.Failed(&p) {
			out.Errors++
		}
	}
	return out, nil
}
