package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"olmes/engine"
	"olmes/engine/child"
	"olmes/record"
)

// engineTries is how often one chunk is given to an engine that dies of it.
const engineTries = 3

// score has the engine score every chunk that is not finished yet, each made
// durable before it counts, and fills the predictions.
func (r *Run) score(ctx context.Context, w *record.Writer, finished map[string]record.ChunkScores) error {
	s, err := r.scoring(w, finished)
	if err != nil {
		return err
	}
	if err := s.do(ctx); err != nil {
		return err
	}
	said := "nothing was left"
	if s.scored > 0 {
		said = fmt.Sprintf("%d tokens in %s", s.scored, time.Since(s.started).Round(100*time.Millisecond))
	}
	s.phase.Done(said)
	return nil
}

// scoring finds out what is left to score.
func (r *Run) scoring(w *record.Writer, finished map[string]record.ChunkScores) (*scoring, error) {
	s := &scoring{run: r, writer: w, finished: finished}
	var total int64
	queued := map[string]bool{} // variants may have a chunk in common
	for _, u := range r.units {
		q := &queue{unit: u}
		for i := range u.chunks {
			c := &u.chunks[i]
			if queued[c.ID] {
				continue
			}
			queued[c.ID] = true
			total += int64(c.nodes)
			if scores, ok := finished[c.ID]; ok {
				if err := u.check(c, scores); err != nil {
					return nil, err
				}
				s.done += int64(c.nodes)
				q.instances += c.instances()
				continue
			}
			q.chunks = append(q.chunks, i)
			q.left += c.nodes
		}
		s.queues = append(s.queues, q)
	}
	s.phase = r.env.reporter().Phase("score", "tokens", total)
	s.phase.Update(s.done, "")
	return s, nil
}

// do scores with as many workers as the engine computes trees at the same time,
// and fills the predictions.
func (s *scoring) do(ctx context.Context) error {
	s.started = time.Now()
	group, working := errgroup.WithContext(ctx)
	for range max(1, s.run.description.Parallel) {
		group.Go(func() error { return s.work(working) })
	}
	err := group.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	counted := map[string]bool{}
	for _, u := range s.run.units {
		for i := range u.chunks {
			c := &u.chunks[i]
			u.fill(c, s.finished[c.ID].LogProbs)
			if !counted[c.ID] {
				counted[c.ID] = true
				u.computed += s.finished[c.ID].Computed
			}
			c.Tree.Token, c.Tree.Parent = nil, nil
		}
	}
	return nil
}

// queue is what is left to score of a unit.
type queue struct {
	unit      *unit
	chunks    []int // indices of chunks that nobody has taken
	left      int   // their new tokens
	taken     bool  // somebody works on the unit
	instances int   // scored
}

// scoring is the state that the workers of one run share. Each works on a unit
// of its own as long as there are enough, since every worker that takes part in
// a unit computes its few-shot prefix again.
type scoring struct {
	run    *Run
	writer *record.Writer
	phase  Phase

	// after, if set, is called by a worker when it has finished a chunk.
	after func(ctx context.Context, c *chunk, scores engine.Scores) error

	mu       sync.Mutex // guards what follows
	finished map[string]record.ChunkScores
	queues   []*queue
	started  time.Time
	done     int64         // tokens of finished chunks
	scored   int64         // tokens computed in this session
	scorings time.Duration // all workers' time in scoring chunks
	appends  time.Duration // and in making them durable
}

// work scores chunks until none is left.
func (s *scoring) work(ctx context.Context) error {
	var q *queue
	for {
		var i int
		if q, i = s.next(q); q == nil {
			return nil
		}
		u := q.unit
		c := &u.chunks[i]
		started := time.Now()
		scores, done, err := s.run.scoreOf(ctx, u, i)
		scored := time.Now()
		if err != nil {
			return err
		}
		if err := s.writer.Append(done); err != nil {
			return fmt.Errorf("keep the scores of chunk %d of %s %s: %w", i+1, u.name(), u.formulation, err)
		}
		s.finish(q, c, done, scored.Sub(started), time.Since(scored))
		if s.after != nil {
			if err := s.after(ctx, c, scores); err != nil {
				return err
			}
		}
	}
}

// next takes a chunk: of the unit the worker is at, of one that nobody works
// on, or of the one with most left.
func (s *scoring) next(q *queue) (*queue, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q == nil || len(q.chunks) == 0 {
		q = nil
		for _, other := range s.queues {
			switch {
			case len(other.chunks) == 0:
			case q == nil, q.taken && !other.taken, q.taken && other.left > q.left:
				q = other
			}
		}
		if q == nil {
			return nil, 0
		}
	}
	i := q.chunks[0]
	q.chunks = q.chunks[1:]
	q.left -= q.unit.chunks[i].nodes
	q.taken = true
	return q, i
}

func (s *scoring) finish(q *queue, c *chunk, done record.ChunkScores, scoring, appending time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scorings += scoring
	s.appends += appending
	s.finished[c.ID] = done
	s.done += int64(c.nodes)
	s.scored += int64(done.Computed)
	q.instances += c.instances()
	rate := float64(s.scored) / time.Since(s.started).Seconds()
	s.phase.Update(s.done, fmt.Sprintf("%s %s, %d of %d instances, %.0f tokens/s",
		q.unit.name(), q.unit.formulation, q.instances, len(q.unit.preds), rate))
}

// check refuses log-probabilities that are not those of chunk c.
func (u *unit) check(c *chunk, scores record.ChunkScores) error {
	if len(scores.LogProbs) != len(c.Tree.Wants) {
		return fmt.Errorf("score %s %s: chunk %s has %d log-probabilities for %d wanted; the journal is of another plan",
			u.name(), u.formulation, c.ID[:12], len(scores.LogProbs), len(c.Tree.Wants))
	}
	return nil
}

// scoreOf scores chunk i of a unit.
func (r *Run) scoreOf(ctx context.Context, u *unit, i int) (engine.Scores, record.ChunkScores, error) {
	c := &u.chunks[i]
	s, err := r.scoreChunk(ctx, c)
	if err != nil {
		return s, record.ChunkScores{}, fmt.Errorf("score %s %s, chunk %d of %d: %w", u.name(), u.formulation, i+1, len(u.chunks), err)
	}
	done := record.ChunkScores{Chunk: c.ID, Env: r.currentEnv, Computed: s.Computed, LogProbs: s.LogProbs}
	return s, done, u.check(c, done)
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
		var died *child.ExitError
		if !errors.As(err, &died) || ctx.Err() != nil {
			break
		}
		if try+1 == engineTries {
			break
		}
		r.env.reporter().Note(fmt.Sprintf("the engine died (%v); starting it again, try %d of %d", err, try+2, engineTries))
	}
	return engine.Scores{}, err
}
