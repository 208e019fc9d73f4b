package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"unicode/utf8"

	"olmes"
	"olmes/prompt"
	"olmes/task"
	"olmes/trie"
)

// encodeBatch is how many instances are encoded in one call: enough to keep the
// tokenizer's workers busy, few enough that their texts stay small in memory.
const encodeBatch = 64

// unit is one task in one formulation: the span within which requests share a
// few-shot prefix.
type unit struct {
	task        task.Task
	formulation olmes.Formulation
	split       string
	data        unitData
	preds       []olmes.Prediction // evaluation order; log-probabilities are filled in by scoring
	chunks      []chunk
	counts      trie.Counts
	computed    int    // tokens the engine decoded for it, in all sessions
	requests    int    // requests of the choices, unconditional ones not counted
	digest      string // of all requests, unconditional ones included, in evaluation order
	differ      int    // requests whose ids differ when tokenized apart
	truncated   int    // requests cut from the left
	firstIDs    []int32
}

// unitData says where a unit's instances came from.
type unitData struct {
	task.Data
	whole bool // the standard's own instances, all of them
}

// chunk is a chunk of a unit with the predictions its groups belong to.
type chunk struct {
	trie.Chunk
	preds []int // index into the unit's preds, per group of the chunk
	nodes int   // new nodes, the retained prefix not counted
}

// renderer turns a unit's instances into encoded groups.
type renderer struct {
	enc   *Encoder
	chunk int // limit on a chunk's new tokens
}

// prepare renders, encodes and cuts one unit. evaluated are positions in the
// split's file order, in evaluation order.
func (r *renderer) prepare(ctx context.Context, u *unit, evaluated []int, pmi bool, step func(requests int)) error {
	var shared, cut [][]trie.Sequence // groups without and with a truncated request
	var sharedAt, cutAt []int
	digest := sha256.New()
	examples, err := prompt.Prefix(u.task.Template, u.data.Shots, u.formulation)
	if err != nil {
		return fmt.Errorf("render the examples of %s: %w", u.task.Name, err)
	}
	prefix := r.enc.prefixes(examples)
	u.preds = make([]olmes.Prediction, 0, len(evaluated))
	for start := 0; start < len(evaluated); start += encodeBatch {
		batch := evaluated[start:min(start+encodeBatch, len(evaluated))]
		var reqs []olmes.Request
		sizes := make([]int, len(batch))
		for i, doc := range batch {
			rs, err := r.render(u, u.data.Instances[doc], pmi)
			if err != nil {
				return err
			}
			sizes[i] = len(rs)
			reqs = append(reqs, rs...)
		}
		encoded, err := r.enc.Encode(ctx, reqs, prefix)
		if err != nil {
			return err
		}
		for i := range batch {
			rs, es := reqs[:sizes[i]], encoded[:sizes[i]]
			reqs, encoded = reqs[sizes[i]:], encoded[sizes[i]:]
			p, dropped := r.prediction(u, rs, es, digest)
			seqs := make([]trie.Sequence, len(es))
			for k, e := range es {
				seqs[k] = e.Sequence
			}
			if u.firstIDs == nil {
				u.firstIDs = es[0].Sequence.IDs[:min(8, len(es[0].Sequence.IDs))]
			}
			if dropped {
				cut, cutAt = append(cut, seqs), append(cutAt, len(u.preds))
			} else {
				shared, sharedAt = append(shared, seqs), append(sharedAt, len(u.preds))
			}
			u.preds = append(u.preds, p)
			step(len(rs))
		}
	}
	u.digest = hex.EncodeToString(digest.Sum(nil))
	u.counts = trie.Count(append(append([][]trie.Sequence(nil), shared...), cut...))
	for _, part := range []struct {
		groups [][]trie.Sequence
		at     []int
	}{{shared, sharedAt}, {cut, cutAt}} {
		chunks, err := trie.Cut(part.groups, trie.Limits{Tokens: r.chunk})
		if err != nil {
			return fmt.Errorf("cut %s %s into chunks: %w", u.task.Name, u.formulation, err)
		}
		for _, c := range chunks {
			k := chunk{Chunk: c, nodes: len(c.Tree.Token) - c.Tree.Prefix, preds: make([]int, len(c.Groups))}
			for i, g := range c.Groups {
				k.preds[i] = part.at[g]
				u.preds[part.at[g]].Chunk = c.ID
			}
			u.chunks = append(u.chunks, k)
		}
	}
	return nil
}

// render gives an instance's requests: one a choice, then the unconditional ones.
func (r *renderer) render(u *unit, in olmes.Instance, pmi bool) ([]olmes.Request, error) {
	rs, err := prompt.Requests(u.task.Template, u.data.Shots, in, u.formulation)
	if err != nil {
		return nil, fmt.Errorf("render %s %s instance %d: %w", u.task.Name, u.formulation, in.DocID, err)
	}
	if pmi {
		us, err := prompt.Unconditional(u.task.Template, in)
		if err != nil {
			return nil, fmt.Errorf("render %s instance %d: %w", u.task.Name, in.DocID, err)
		}
		rs = append(rs, us...)
	}
	return rs, nil
}

// prediction makes an instance's prediction, all but its log-probabilities.
func (r *renderer) prediction(u *unit, rs []olmes.Request, es []Encoded, digest hash.Hash) (p olmes.Prediction, dropped bool) {
	first := rs[0]
	p = olmes.Prediction{
		Task: u.task.Name, Formulation: u.formulation, Split: u.split, Kind: olmes.KindScore,
		DocID: first.DocID, NativeID: first.NativeID, Gold: first.Gold,
	}
	for i, q := range rs {
		e := es[i]
		if e.Differs {
			u.differ++
		}
		d := prompt.Digest(q)
		digest.Write([]byte(d))
		if q.Unconditional {
			continue
		}
		u.requests++
		if e.Dropped > 0 {
			u.truncated++
			dropped = true
		}
		seq := e.Sequence
		p.Choices = append(p.Choices, olmes.Choice{
			Tokens: len(seq.IDs) - seq.Start, Chars: utf8.RuneCountInString(q.Continuation), Bytes: len(q.Continuation),
			ContinuationIDs: append([]int32(nil), seq.IDs[seq.Start:]...),
			ContextTokens:   e.ContextTokens, Dropped: e.Dropped,
			RequestSHA256: d, IDsSHA256: e.IDsSHA256,
		})
	}
	return p, dropped
}

// fill puts a chunk's log-probabilities into the predictions of its groups.
func (u *unit) fill(c *chunk, logprobs []float64) {
	for g, at := range c.preds {
		p := &u.preds[at]
		n := len(p.Choices)
		for s, wants := range c.Index[g] {
			values := make([]float64, len(wants))
			var sum float64
			for i, w := range wants {
				values[i] = logprobs[w]
				sum += values[i]
			}
			ch := &p.Choices[s%n]
			if bad := notFinite(values); bad != "" {
				ch.Error = bad
				ch.LogProb, ch.TokenLogProbs, ch.Unconditional, ch.UnconditionalLogProbs = nil, nil, nil, nil
				continue
			}
			if ch.Error != "" {
				continue
			}
			if s < n {
				ch.LogProb, ch.TokenLogProbs = &sum, values
			} else {
				ch.Unconditional, ch.UnconditionalLogProbs = &sum, values
			}
		}
	}
}
