package run

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"olmes"
	"olmes/engine"
	"olmes/noise"
	"olmes/record"
	"olmes/trie"
)

// Of a run's tokens, so many are computed again under other schedules: one in
// noiseShare, and of a small run up to one in noiseShareSmall as long as that is
// less than noiseSmall tokens. Below that, two instances of each kind are what
// the check and the count of near-ties need.
const (
	noiseShare      = 50
	noiseShareSmall = 10
	noiseSmall      = 4096
	noiseLeast      = 2 // instances of each formulation and normalization
	noiseMost       = 8 // instances of one chunk
)

// NoiseError says that a run's noise is above what the user allows.
type NoiseError struct {
	Largest float64 // nats
	Max     float64 // nats
}

func (e *NoiseError) Error() string {
	return fmt.Sprintf("another schedule moves a request's log-probability by %.2g nats, the limit is %g; nothing is sealed", e.Largest, e.Max)
}

// Hint says what the user can do.
func (e *NoiseError) Hint() string {
	return "--exact has the least noise; or allow more with --max-noise, and --resume to go on"
}

// donors are the finished runs whose chunks a run takes.
type donors struct {
	noise  record.Noise // of those that have measured theirs
	silent bool         // some have not
}

func (d *donors) add(n *record.Noise) {
	if n == nil {
		d.silent = true
		return
	}
	other := *n
	other.Tokens = 0 // not computed for this run
	d.noise.Merge(other)
}

// sample is a few instances of a unit that are computed again.
type sample struct {
	unit      *unit
	preds     []int // positions in unit.preds
	chunks    []int // of the unit, ascending, that hold their requests
	prefix    int   // of the chunk that the first of them is in
	alone     int   // of the instances, those also computed alone
	cost      int   // tokens of the repetition, about
	instances []noise.Instance
}

// checkNoise has the engine score a few chunks and computes some of their
// instances again under other schedules, before anything else is kept. An
// engine that contradicts itself is a noise.Error, noise above Options.MaxNoise
// a NoiseError. The chunks count as scored, the noise is kept in
// r.noise.
//
// Noise that earlier sessions of the run, or the finished runs whose chunks it
// takes, have measured is its noise too; where nothing is left to compute, that
// is enough.
func (r *Run) checkNoise(ctx context.Context, w *record.Writer, finished map[string]record.ChunkScores, o Options) error {
	known := r.donors.noise
	if before := w.Noise(); before != nil {
		known.Merge(*before)
	}
	if err := limitNoise(known.Largest, o); err != nil {
		return err
	}
	left := r.left(finished)
	if left == 0 && known.Instances > 0 && !r.donors.silent {
		r.noise = &known
		return nil
	}
	n := &noiseCheck{run: r, writer: w, finished: finished, options: o, bound: r.noiseBound()}
	found, err := n.do(ctx, r.samples(finished, left, o.NoiseInstances))
	var contradiction *noise.Error
	if errors.As(err, &contradiction) && r.setup.Engine != kindLlama {
		return &hinted{err, "the engine computes a request otherwise where others stand beside it: look at its positions, its mask and what it keeps of a prefix"}
	}
	if err != nil {
		return err
	}
	found.Merge(known)
	r.noise = &found
	return w.KeepNoise(found)
}

func limitNoise(largest float64, o Options) error {
	if o.MaxNoise > 0 && largest > o.MaxNoise {
		return &NoiseError{largest, o.MaxNoise}
	}
	return nil
}

// noiseBound is the difference of a token's log-probability that the run's
// arithmetic explains.
func (r *Run) noiseBound() float64 { return r.backend.arithmetic().Bound() }

// left is how many tokens are still to be computed, a prefix once a unit.
func (r *Run) left(finished map[string]record.ChunkScores) (tokens int) {
	counted := map[string]bool{}
	for _, u := range r.units {
		prefix := 0
		for i := range u.chunks {
			if _, ok := finished[u.chunks[i].ID]; !ok && !counted[u.chunks[i].ID] {
				counted[u.chunks[i].ID] = true
				tokens += u.chunks[i].nodes
				prefix = max(prefix, u.chunks[i].Tree.Prefix)
			}
		}
		tokens += prefix
	}
	return tokens
}

// inForce is the normalization that counts for the unit.
func (u *unit) inForce() olmes.Normalization {
	if u.formulation == olmes.MCF {
		return olmes.None
	}
	return u.task.Normalization
}

// kind is what the noise of a margin is measured for.
type kind struct {
	formulation   olmes.Formulation
	normalization olmes.Normalization
	units         []*unit // in a drawn order, in turn
	instances     int     // drawn
	done          bool    // nothing more can be drawn, or paid for
}

// twins are the units that compute nothing of their own: variants that change
// nothing of one formulation.
func (r *Run) twins() map[*unit]bool {
	out, seen := map[*unit]bool{}, map[string]bool{}
	for _, u := range r.units {
		out[u] = true
		for i := range u.chunks {
			if id := u.chunks[i].ID; !seen[id] {
				seen[id], out[u] = true, false
			}
		}
	}
	return out
}

// kinds sorts the units by kind. Those of a single instance go last: beside none
// of their own, they tell little.
func (r *Run) kinds(rng *rand.Rand) []*kind {
	var out []*kind
	twins := r.twins()
	for _, least := range []int{noiseLeast, 0} {
		for _, i := range rng.Perm(len(r.units)) {
			u := r.units[i]
			if big := len(u.preds) >= noiseLeast; big != (least > 0) || twins[u] {
				continue
			}
			at := slices.IndexFunc(out, func(k *kind) bool { return k.formulation == u.formulation && k.normalization == u.inForce() })
			if at < 0 {
				at = len(out)
				out = append(out, &kind{formulation: u.formulation, normalization: u.inForce()})
			}
			out[at].units = append(out[at].units, u)
		}
	}
	return out
}

// samples draws what is repeated: of every kind the least there may be, then of
// the kind that has fewest, each time of another unit, as long as the tokens
// last or until the instances wanted (0: by tokens) are reached. The draw depends
// on the run's id and on what is finished.
func (r *Run) samples(finished map[string]record.ChunkScores, left, instances int) []sample {
	rng := rand.New(rand.NewPCG(r.seed, 0))
	kinds := r.kinds(rng)
	budget := max(left/noiseShare, min(left/noiseShareSmall, noiseSmall))
	if instances > 0 {
		budget = math.MaxInt
	}
	var out []sample
	spent, drawn := 0, 0
	taken := map[*unit][]int{} // positions in its preds
	add := func(k *kind, n, alone, budget int) bool {
		for i, u := range k.units {
			s := r.sample(rng, u, taken[u], n, alone, finished)
			switch {
			case len(s.preds) == 0:
				continue
			case spent+s.cost > budget:
				return false
			}
			taken[u] = append(taken[u], s.preds...)
			k.units = slices.Concat(k.units[i+1:], k.units[:i+1])
			k.instances += len(s.instances)
			drawn += len(s.instances)
			spent += s.cost
			out = append(out, s)
			return true
		}
		return false
	}
	for i, k := range kinds {
		add(k, noiseLeast, max(0, 1-i), math.MaxInt)
	}
	for instances == 0 || drawn < instances {
		var few *kind
		for _, k := range kinds {
			if !k.done && (few == nil || k.instances < few.instances) {
				few = k
			}
		}
		if few == nil {
			return out
		}
		if instances > 0 {
			few.done = !add(few, min(noiseMost, instances-drawn), 1, budget)
			continue
		}
		few.done = !add(few, noiseMost, 1, budget) && !add(few, noiseMost/2, 1, budget) && !add(few, noiseLeast, 0, budget)
	}
	return out
}

// sample draws n instances of u that are not taken, out of as few chunks as hold
// them. More than one chunk matters where they are small: beside those of its own
// chunk an instance comes out as it did.
func (r *Run) sample(rng *rand.Rand, u *unit, taken []int, n, alone int, finished map[string]record.ChunkScores) sample {
	s := sample{unit: u, alone: alone}
	first := -1
	for _, c := range rng.Perm(len(u.chunks)) {
		if len(s.preds) == n {
			break
		}
		k := &u.chunks[c]
		for _, g := range noise.Pick(rng, &k.Chunk, r.setup.Plan.Batch, len(k.Groups)) {
			for _, ref := range k.refs[g] {
				if len(s.preds) == n || ref.unconditional || slices.Contains(taken, ref.pred) || slices.Contains(s.preds, ref.pred) {
					continue
				}
				s.preds = append(s.preds, ref.pred)
				if first < 0 {
					first, s.prefix = c, k.Tree.Prefix
				}
			}
		}
	}
	if first < 0 {
		return s
	}
	for i := range u.chunks {
		if slices.ContainsFunc(u.chunks[i].refs, func(refs []ref) bool { return slices.Contains(s.preds, refs[0].pred) }) {
			s.chunks = append(s.chunks, i)
		}
	}
	s.instances = s.build(nil)
	s.cost = noise.Cost(s.instances, s.alone, s.prefix)
	if _, ok := finished[u.chunks[first].ID]; ok {
		s.cost += s.prefix
	}
	return s
}

// build makes the sample's instances out of the log-probabilities of its chunks,
// or without any.
func (s *sample) build(scores map[string]record.ChunkScores) []noise.Instance {
	u := s.unit
	out := make([]noise.Instance, len(s.preds))
	for i, at := range s.preds {
		p := &u.preds[at]
		out[i] = noise.Instance{
			Name:        fmt.Sprintf("%s %s, instance %d", olmes.Label(p.Task, p.Variant), p.Formulation, p.DocID),
			Formulation: u.formulation, Normalization: u.inForce(), Choices: p.Choices,
		}
		for _, c := range s.chunks {
			k := &u.chunks[c]
			logProbs := make([]float64, len(k.Tree.Wants))
			if scores != nil {
				logProbs = scores[k.ID].LogProbs
			}
			for g, refs := range k.refs {
				if refs[0].pred != at {
					continue
				}
				for j, q := range noise.Requests(&k.Chunk, g, logProbs) {
					q.Choice, q.Unconditional = refs[j].choice, refs[j].unconditional
					out[i].Requests = append(out[i].Requests, q)
				}
			}
		}
	}
	return out
}

// noiseCheck is the state that the workers of checkNoise share.
type noiseCheck struct {
	run     *Run
	writer  *record.Writer
	options Options
	bound   float64
	phase   Phase

	mu       sync.Mutex // guards what follows
	finished map[string]record.ChunkScores
	done     int64
}

// do repeats samples, those of a unit one after the other so that its prefix
// stays in the engine, and several units at the same time where the engine can.
func (n *noiseCheck) do(ctx context.Context, samples []sample) (record.Noise, error) {
	var total int64
	var units [][]int // indices of samples
	// Variants of one task may have a chunk in common, which must not be scored
	// twice at the same time.
	type family struct {
		task        string
		formulation olmes.Formulation
	}
	of := map[family]int{}
	fresh := map[string]bool{}
	for i := range samples {
		s := &samples[i]
		total += int64(s.cost)
		for _, c := range s.chunks {
			if k := &s.unit.chunks[c]; !fresh[k.ID] {
				if _, ok := n.finished[k.ID]; !ok {
					fresh[k.ID] = true
					total += int64(k.nodes)
				}
			}
		}
		f := family{s.unit.task.Name, s.unit.formulation}
		if _, ok := of[f]; !ok {
			of[f] = len(units)
			units = append(units, nil)
		}
		units[of[f]] = append(units[of[f]], i)
	}
	n.phase = n.run.env.reporter().Phase("self-check", "tokens", total)
	found := make([]record.Noise, len(samples))
	workers := max(1, n.run.description.Parallel)
	fill := n.newFiller(samples, fresh)
	fillers := min(workers-1, len(fill.chunks), len(units)*workers) // none without samples
	var left atomic.Int64                                           // units to repeat
	left.Store(int64(len(units)))
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, unit := range units {
		if working.Err() != nil {
			break
		}
		group.Go(func() error {
			for _, k := range unit {
				if err := working.Err(); err != nil {
					return err
				}
				var err error
				if found[k], err = n.repeat(working, &samples[k]); err != nil {
					return err
				}
			}
			if left.Add(-1) == 0 {
				fill.stop()
			}
			return nil
		})
	}
	for range fillers {
		group.Go(func() error { return fill.work(working) })
	}
	err := group.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = fill.keep()
	}
	if err != nil {
		n.phase.Done("failed")
		return record.Noise{}, err
	}
	var sum record.Noise
	for _, f := range found { // in order, so that the sum does not depend on who was first
		sum.Merge(f)
	}
	n.phase.Done(fmt.Sprintf("largest difference %.2g nats, of %d requests computed apart", sum.Largest, sum.Requests))
	return sum, nil
}

// repeat scores a sample's chunks and repeats its instances.
func (n *noiseCheck) repeat(ctx context.Context, s *sample) (record.Noise, error) {
	scores := map[string]record.ChunkScores{}
	var fresh []record.ChunkScores
	for _, i := range s.chunks {
		c := &s.unit.chunks[i]
		n.mu.Lock()
		have, ok := n.finished[c.ID]
		n.mu.Unlock()
		if !ok {
			var err error
			if _, have, err = n.run.scoreOf(ctx, s.unit, i); err != nil {
				return record.Noise{}, fmt.Errorf("check the engine: %w", err)
			}
			fresh = append(fresh, have)
			n.update(int64(c.nodes), s)
		}
		if err := s.unit.check(c, have); err != nil {
			return record.Noise{}, fmt.Errorf("check the engine: %w", err)
		}
		scores[c.ID] = have
	}
	m := noise.Meter{Scorer: steady{n.run}, Bound: n.bound}
	if err := m.Repeat(ctx, s.build(scores), s.alone, s.prefix); err != nil {
		return record.Noise{}, fmt.Errorf("check the engine: %w", err)
	}
	found := m.Noise()
	if err := limitNoise(found.Largest, n.options); err != nil {
		return record.Noise{}, err
	}
	for _, c := range fresh {
		if err := n.writer.Append(c); err != nil {
			return record.Noise{}, fmt.Errorf("keep the scores of a chunk of %s: %w", s.unit.name(), err)
		}
		n.mu.Lock()
		n.finished[c.Chunk] = c
		n.mu.Unlock()
	}
	n.update(int64(s.cost), s)
	return found, nil
}

func (n *noiseCheck) update(tokens int64, s *sample) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.done += tokens
	n.phase.Update(n.done, fmt.Sprintf("%s %s", s.unit.name(), s.unit.formulation))
}

// steady is the run's engine, started again where it dies.
type steady struct{ run *Run }

// Score implements engine.Scorer.
func (s steady) Score(ctx context.Context, t *trie.Tree) (engine.Scores, error) {
	return s.run.scoreChunk(ctx, &chunk{Chunk: trie.Chunk{Tree: *t}})
}

// seedOf is the first 64 bits of a run's id.
func seedOf(id string) uint64 {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}
