package run

import (
	"fmt"

	"olmes"
	"olmes/record"
)

// heldChunk is a chunk that a finished run has scored.
type heldChunk struct {
	scores record.ChunkScores
	env    record.Environment
}

// held finds the run's chunks in finished runs that share all that determines
// a chunk's bits: model, plan, BOS policy, precision, engine and program.
func (r *Run) held(id record.Identity) (map[string]heldChunk, error) {
	wanted := map[string]struct {
		u *unit
		c *chunk
	}{}
	for _, u := range r.units {
		for i := range u.chunks {
			wanted[u.chunks[i].ID] = struct {
				u *unit
				c *chunk
			}{u, &u.chunks[i]}
		}
	}
	out := map[string]heldChunk{}
	runs, err := record.Reusable(r.env.Runs, id)
	if err != nil {
		return nil, fmt.Errorf("look for finished runs in %s: %w", r.env.Runs, err)
	}
	for _, rec := range runs {
		byChunk := map[string]map[olmes.Key]olmes.Prediction{}
		for p, err := range rec.Predictions() {
			if err != nil {
				r.env.reporter().Note(fmt.Sprintf("not reusing %s: %v", rec.Dir, err))
				byChunk = nil
				break
			}
			if _, ok := wanted[p.Chunk]; ok {
				if byChunk[p.Chunk] == nil {
					byChunk[p.Chunk] = map[olmes.Key]olmes.Prediction{}
				}
				byChunk[p.Chunk][p.Key()] = p
			}
		}
		for chunkID, preds := range byChunk {
			w := wanted[chunkID]
			if h, ok := w.u.held(w.c, preds, rec.Provenance.Environments); ok {
				out[chunkID] = h
			}
		}
	}
	return out, nil
}

// held reads a chunk's log-probabilities back out of a finished run's
// predictions; ok is false where any is missing.
func (u *unit) held(c *chunk, preds map[olmes.Key]olmes.Prediction, envs []record.Environment) (h heldChunk, ok bool) {
	values := make([]float64, len(c.Tree.Wants))
	have := make([]bool, len(values))
	env := -1
	for g, at := range c.preds {
		p, ok := preds[u.preds[at].Key()]
		n := len(u.preds[at].Choices)
		if !ok || len(p.Choices) != n {
			return h, false
		}
		env = p.Env
		for s, wants := range c.Index[g] {
			from := p.Choices[s%n].TokenLogProbs
			if s >= n {
				from = p.Choices[s%n].UnconditionalLogProbs
			}
			if len(from) != len(wants) {
				return h, false
			}
			for i, w := range wants {
				values[w], have[w] = from[i], true
			}
		}
	}
	for _, ok := range have {
		if !ok {
			return h, false
		}
	}
	if env < 0 || env >= len(envs) {
		return h, false
	}
	return heldChunk{scores: record.ChunkScores{Chunk: c.ID, LogProbs: values}, env: envs[env]}, true
}

// reuse puts chunks that finished runs hold into the journal.
func (r *Run) reuse(w *record.Writer, id record.Identity, finished map[string]record.ChunkScores) error {
	held, err := r.held(id)
	if err != nil {
		return err
	}
	n := 0
	for _, u := range r.units { // in the run's order, so that the journal's is fixed
		for i := range u.chunks {
			c := &u.chunks[i]
			h, ok := held[c.ID]
			if _, done := finished[c.ID]; done || !ok {
				continue
			}
			if h.scores.Env, err = w.Environment(h.env); err != nil {
				return err
			}
			if err := w.Append(h.scores); err != nil {
				return fmt.Errorf("keep a reused chunk of %s: %w", u.task.Name, err)
			}
			finished[c.ID] = h.scores
			n++
		}
	}
	if n > 0 {
		r.env.reporter().Note(fmt.Sprintf("reuse: %d chunks are taken from finished runs of the same model and plan", n))
	}
	return nil
}
