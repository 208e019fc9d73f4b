package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"olmes/engine"
	"olmes/engine/llamacpp"
	"olmes/record"
)

// engineTries is how often one chunk is given to an engine that dies of it.
const engineTries = 3

// score has the engine score every chunk that is not finished yet, each made
// durable before the next begins, and fills the predictions.
func (r *Run) score(ctx context.Context, w *record.Writer, finished map[string]record.ChunkScores) error {
	var total, done int64
	for _, u := range r.units {
		for i := range u.chunks {
			total += int64(u.chunks[i].nodes)
		}
	}
	phase := r.env.reporter().Phase("score", "tokens", total)
	var scored int64
	var spent time.Duration
	for _, u := range r.units {
		state := fmt.Sprintf("%s %s", u.task.Name, u.formulation)
		instances := 0
		for i := range u.chunks {
			c := &u.chunks[i]
			s, ok := finished[c.ID]
			if !ok {
				start := time.Now()
				scores, err := r.scoreChunk(ctx, c)
				if err != nil {
					return fmt.Errorf("score %s, chunk %d of %d: %w", state, i+1, len(u.chunks), err)
				}
				spent += time.Since(start)
				scored += int64(scores.Computed)
				s = record.ChunkScores{Chunk: c.ID, Env: r.currentEnv, Computed: scores.Computed, LogProbs: scores.LogProbs}
				if err := w.Append(s); err != nil {
					return fmt.Errorf("keep the scores of chunk %d of %s: %w", i+1, state, err)
				}
				finished[c.ID] = s
			}
			if len(s.LogProbs) != len(c.Tree.Wants) {
				return fmt.Errorf("score %s: chunk %s has %d log-probabilities for %d wanted; the journal is of another plan", state, c.ID[:12], len(s.LogProbs), len(c.Tree.Wants))
			}
			instances += u.fill(c, s.LogProbs)
			u.computed += s.Computed
			c.Tree.Token, c.Tree.Parent = nil, nil
			done += int64(c.nodes)
			rate := ""
			if scored > 0 {
				rate = fmt.Sprintf(", %.0f tokens/s", float64(scored)/spent.Seconds())
			}
			phase.Update(done, fmt.Sprintf("%s, %d of %d instances%s", state, instances, len(u.preds), rate))
		}
	}
	phase.Done(fmt.Sprintf("%d tokens in %s", scored, spent.Round(100*time.Millisecond)))
	return nil
}

// scoreChunk scores one chunk. An engine that dies starts again with the chunk:
// its bits do not depend on what the engine did before.
func (r *Run) scoreChunk(ctx context.Context, c *chunk) (engine.Scores, error) {
	var err error
	for try := range engineTries {
		if err := ctx.Err(); err != nil {
			return engine.Scores{}, err
		}
		var s engine.Scores
		s, err = r.engine.Score(ctx, &c.Tree)
		if err == nil {
			return s, nil
		}
		var died *llamacpp.ExitError
		if !errors.As(err, &died) || ctx.Err() != nil {
			break
		}
		r.env.reporter().Note(fmt.Sprintf("the engine died (%v); starting it again, try %d of %d", err, try+2, engineTries))
	}
	return engine.Scores{}, err
}
