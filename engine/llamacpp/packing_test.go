package llamacpp

import (
	"slices"
	"testing"

	"olmes/engine"
	"olmes/trie"
)

// ids counts up from first, so that what is not meant to be shared is not.
func ids(first int32, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = (first*5 + int32(i)*7 + int32(i)*int32(i)) % testVocab
	}
	return out
}

// group makes an instance of choices after the parts of a context.
func group(choices [][]int32, context ...[]int32) []trie.Sequence {
	stem := slices.Concat(context...)
	var out []trie.Sequence
	for _, c := range choices {
		out = append(out, trie.Sequence{IDs: slices.Concat(stem, c), Start: len(stem)})
	}
	return out
}

// The shapes that tasks come in, each at a plan that they do not fit at once:
// every wanted token sees its path, and every distinct token is computed once.
func TestPackingShapes(t *testing.T) {
	plan := engine.Plan{Batch: 8, MicroBatch: 8, Cells: 200, Sequences: 6}
	with := func(change func(*engine.Plan)) engine.Plan { p := plan; change(&p); return p }
	many := func(n, length int) (out [][]int32) {
		for i := range n {
			out = append(out, slices.Concat([]int32{int32(i) % testVocab, int32(i/testVocab) % testVocab}, ids(int32(i), length)))
		}
		return out
	}
	levels := func() (out [][]trie.Sequence) { // examples, passage, question, choice, and half a choice
		for passage := range int32(3) {
			for question := range int32(3) {
				choices := [][]int32{{1, 2, 3}, {1, 2, 4}, {5, 2, 3}, {5, 6}}
				out = append(out, group(choices, ids(1, 20), []int32{passage}, ids(passage, 11), []int32{9 + question}, ids(question, 5)))
			}
		}
		return out
	}
	comb := func() (out []trie.Sequence) { // a branch at every token
		spine := ids(3, 30)
		for n := 1; n < len(spine); n++ {
			leaf := []int32{(spine[n] + 1) % testVocab, 2, 3}
			out = append(out, trie.Sequence{IDs: slices.Concat(spine[:n], leaf), Start: n})
		}
		return append(out, trie.Sequence{IDs: spine, Start: 29})
	}
	for _, c := range []struct {
		name   string
		plan   engine.Plan
		groups [][]trie.Sequence
		rows   int // wanted in a batch at most; 0: as the plan says
	}{
		{"several levels of prefix", plan, levels(), 0},
		{"several levels, two paths at once", with(func(p *engine.Plan) { p.Sequences = seqFirst + 2 }), levels(), 0},
		{"a long instance beside short ones", plan, [][]trie.Sequence{
			group(many(2, 1), ids(1, 12), ids(2, 3)), group(many(3, 2), ids(1, 12), ids(7, 90)), group(many(2, 1), ids(1, 12), ids(4, 2)),
		}, 0},
		{"a long instance that shares nothing", plan, [][]trie.Sequence{
			group(many(2, 1), ids(1, 12), ids(2, 3)), group(many(2, 2), ids(9, 90)), group(many(2, 1), ids(1, 12), ids(4, 2)),
		}, 0},
		{"choices longer than a batch", plan, [][]trie.Sequence{group(many(3, 40), ids(1, 5)), group(many(2, 1), ids(1, 5), ids(3, 2))}, 0},
		{"more choices than sequences", plan, [][]trie.Sequence{group(many(60, 1), ids(1, 5)), group(many(20, 3), ids(1, 5), ids(3, 2))}, 0},
		{"one path at a time", with(func(p *engine.Plan) { p.Sequences = seqFirst + 1 }), [][]trie.Sequence{group(many(20, 2), ids(1, 5))}, 0},
		{"a branch at every token", plan, [][]trie.Sequence{comb()}, 0},
		{"more wanted rows than the plan has", with(func(p *engine.Plan) { p.Rows = 3 }), [][]trie.Sequence{group(many(4, 30), ids(1, 9))}, 3},
		{"batches of one token", with(func(p *engine.Plan) { p.Batch, p.MicroBatch = 1, 1 }), levels(), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			chunks, err := trie.Cut(c.groups, trie.Limits{Tokens: 1 << 20})
			if err != nil || len(chunks) != 1 {
				t.Fatalf("%d chunks, %v", len(chunks), err)
			}
			tree := &chunks[0].Tree
			cache := newCells(c.plan, testVocab)
			batches := 0
			cache.abort = func(slots []slot) error {
				batches++
				rows, paths := 0, map[int32]bool{}
				for _, s := range slots {
					if s.output {
						rows++
					}
					for _, q := range s.seqs {
						paths[q] = true
					}
				}
				if c.rows > 0 && rows > c.rows || len(paths) > c.plan.Sequences-seqFirst {
					t.Errorf("batch %d has %d rows and %d paths", batches, rows, len(paths))
				}
				return nil
			}
			got, err := newPacker(cache, c.plan).score(t.Context(), tree)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range tree.Wants {
				row := hashRow(testVocab, tree.Path(w.Node), nil)
				if want := float64(row[w.Token]) - logSumExp(row); got.LogProbs[i] != want {
					t.Fatalf("want %d: %g, of its path %g", i, got.LogProbs[i], want)
				}
			}
			distinct := trie.Count(c.groups).Distinct
			if got.Computed != distinct || cache.decoded != distinct {
				t.Errorf("%d computed, %d in the cache, %d distinct", got.Computed, cache.decoded, distinct)
			}
			if fewest := (distinct + c.plan.Batch - 1) / c.plan.Batch; batches < fewest || batches == 1 {
				t.Errorf("%d batches for %d tokens", batches, distinct)
			}
		})
	}
}
