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
	noise  *record.Noise // of the run
}

// held finds the run's chunks in finished runs that share all that determines
// a chunk's bits: model, plan, BOS policy, precision, engine and program. Where
// it is not known which weights the model has there are none.
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
	if !id.Model.Known() {
		return out, nil // the name alone does not say that it is the same model
	}
	runs, err := record.Reusable(r.env.Runs, id)
	if err != nil {
		return nil, fmt.Errorf("look for finished runs in %s: %w", r.env.Runs, err)
	}
	for _, rec := range runs {
		common := 0
		for chunkID := range rec.Provenance.Chunks {
			if _, ok := wanted[chunkID]; ok {
				common++
			}
		}
		if common == 0 {
			continue
		}
		preds := map[olmes.Key]olmes.Prediction{}
		for p, err := range rec.Predictions() {
			if err != nil {
				r.env.reporter().Note(fmt.Sprintf("not reusing %s: %v", rec.Dir, err))
				clear(preds)
				break
			}
			preds[p.Key()] = p
		}
		for chunkID, env := range rec.Provenance.Chunks {
			w, ok := wanted[chunkID]
			if !ok || env < 0 || env >= len(rec.Provenance.Environments) {
				continue
			}
			if values, ok := w.u.held(w.c, preds); ok {
				out[chunkID] = heldChunk{record.ChunkScores{Chunk: chunkID, LogProbs: values}, rec.Provenance.Environments[env], rec.Provenance.Noise}
			}
		}
	}
	return out, nil
}

// held reads a chunk's log-probabilities back out of the predictions of a run
// that scored the same chunk; ok is false where any is missing.
func (u *unit) held(c *chunk, preds map[olmes.Key]olmes.Prediction) (values []float64, ok bool) {
	values = make([]float64, len(c.Tree.Wants))
	have := 0
	seen := make([]bool, len(values))
	for g, refs := range c.refs {
		for s, r := range refs {
			mine := &u.preds[r.pred]
			p, ok := preds[mine.Key()]
			if !ok || len(p.Choices) != len(mine.Choices) || p.Choices[r.choice].IDsSHA256 != mine.Choices[r.choice].IDsSHA256 {
				return nil, false
			}
			from := p.Choices[r.choice].TokenLogProbs
			if r.unconditional {
				from = p.Choices[r.choice].UnconditionalLogProbs
			} else if r.choice == 0 && p.Chunk != c.ID {
				return nil, false
			}
			if len(from) != len(c.Index[g][s]) {
				return nil, false
			}
			for i, w := range c.Index[g][s] {
				if !seen[w] {
					seen[w] = true
					have++
				}
				values[w] = from[i]
			}
		}
	}
	return values, have == len(values)
}

// reuse puts chunks that finished runs hold into the journal.
func (r *Run) reuse(w *record.Writer, id record.Identity, finished map[string]record.ChunkScores) error {
	held, err := r.held(id)
	if err != nil {
		return err
	}
	n := 0
	donors := map[*record.Noise]bool{}
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
			if !donors[h.noise] {
				donors[h.noise] = true
				r.donors.add(h.noise)
			}
			n++
		}
	}
	if n > 0 {
		r.env.reporter().Note(fmt.Sprintf("reuse: %d chunks are taken from finished runs of the same model and plan", n))
	}
	return nil
}
