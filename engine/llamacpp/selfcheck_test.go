//go:build unix

package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"olmes"
	"olmes/artifact"
	"olmes/engine"
	"olmes/engine/llamacpp/library"
	"olmes/noise"
	"olmes/trie"
)

// inProcess is llama.cpp in the test's own process, where it can be loaded once.
var inProcess = sync.OnceValues(func() (*binding, error) {
	store, err := artifact.Open("")
	if err != nil {
		return nil, err
	}
	lib, err := library.Best(context.Background(), store)
	if err != nil {
		return nil, err
	}
	return openLibrary(lib.Dir, &nativeLog{w: io.Discard})
})

// faultyCache stands between packing and llama.cpp and spoils what passes.
type faultyCache struct {
	cache
	shared bool // the tree's prefix is one that an engine may keep
	spoil  func(c *faultyCache, slots []slot)
	stale  bool // the spine keeps cells that it should have lost
}

func (c *faultyCache) decode(slots []slot) error {
	if c.spoil != nil {
		slots = slices.Clone(slots)
		c.spoil(c, slots)
	}
	return c.cache.decode(slots)
}

func (c *faultyCache) remove(seq, from int32) error {
	if c.stale && seq == seqSpine {
		return nil
	}
	return c.cache.remove(seq, from)
}

// faultyEngine is a model with a faultyCache.
type faultyEngine struct {
	model *loaded
	cache *faultyCache
}

func (e *faultyEngine) Score(ctx context.Context, t *trie.Tree) (engine.Scores, error) {
	e.cache.shared = len(t.Wants) > 0 && int(t.Wants[0].Node) >= t.Prefix
	return e.model.Score(ctx, t)
}

// ends reports whether slot k ends a path that its batch began.
func ends(slots []slot, k int) bool {
	return k > 0 && k+1 < len(slots) && len(slots[k].seqs) == 1 && slices.Contains(slots[k-1].seqs, slots[k].seqs[0]) &&
		!slices.Contains(slots[k+1].seqs, slots[k].seqs[0]) && slots[k].seqs[0] >= seqFirst
}

// faults are what a schedule may do wrong. llama.cpp takes each of them without a
// word; most other faults of these kinds it refuses.
var faults = map[string]func(c *faultyCache){
	"stale cell": func(c *faultyCache) { c.stale = true },
	"wrong position": func(c *faultyCache) { // a path's last token stands where the one before it does
		c.spoil = func(_ *faultyCache, slots []slot) {
			for k := len(slots) - 1; k > 0; k-- {
				if ends(slots, k) {
					slots[k].pos--
				}
			}
		}
	},
	"wrong mask": func(c *faultyCache) { // a choice sees the first token of the one before it
		c.spoil = func(_ *faultyCache, slots []slot) {
			for k := len(slots) - 1; k > 0; k-- {
				last := slots[k].seqs[len(slots[k].seqs)-1]
				for i := range slots[:k] { // the token before both
					if slots[i].pos == slots[k].pos-1 && slots[i].seqs[0] >= seqFirst && slices.Contains(slots[i].seqs, last) && slices.Contains(slots[i].seqs, last+1) {
						slots[k].seqs = append(slices.Clone(slots[k].seqs), last+1)
						break
					}
				}
			}
		}
	},
	"missing BOS": func(c *faultyCache) {
		c.spoil = func(c *faultyCache, slots []slot) {
			if c.shared && slots[0].pos == 0 && slots[0].seqs[0] == seqPrefix {
				slots[0].token = slots[1].token
			}
		}
	},
}

// questions are a few-shot prefix and instances of four choices, as ids with a BOS.
func questions(t *testing.T, m *loaded, instances int) *trie.Chunk {
	t.Helper()
	animals := strings.Fields("cow trout parrot camel spider wolf penguin mole bat crab lizard owl")
	places := []string{" in a wide green field near the farm", " under the old stone bridge", " high up in a tall tree", " at the bottom of the sea"}
	shots := ""
	for i, a := range []string{"horse", "shark", "monkey", "duck"} {
		shots += fmt.Sprintf("Question: Where would you look for a %s, if you had a day to do it?\nAnswer:%s\n\n", a, places[i])
	}
	var groups [][]trie.Sequence
	for _, a := range animals[:instances] {
		question := shots + fmt.Sprintf("Question: Someone asks where a %s can be found. What is the best reply?\nAnswer:", a)
		texts := []string{question}
		for _, p := range places {
			texts = append(texts, question+p)
		}
		ids, err := m.Tokenize(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		var group []trie.Sequence
		for _, whole := range ids[1:] {
			group = append(group, trie.Sequence{IDs: append([]int32{max(0, m.special("bos"))}, whole...), Start: 1 + len(ids[0])})
		}
		groups = append(groups, group)
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return &chunks[0]
}

// selfCheck scores a chunk and repeats some of its instances, as a run does
// before it scores anything else.
func selfCheck(t *testing.T, e engine.Scorer, c *trie.Chunk, batch int, bound float64) (*noise.Meter, error) {
	t.Helper()
	s, err := e.Score(t.Context(), &c.Tree)
	if err != nil {
		t.Fatal(err)
	}
	var instances []noise.Instance
	for _, g := range noise.Pick(rand.New(rand.NewPCG(1, 0)), c, batch, 2) {
		in := noise.Instance{Name: fmt.Sprint("instance ", g), Formulation: olmes.CF, Normalization: olmes.Token, Requests: noise.Requests(c, g, s.LogProbs)}
		for _, q := range in.Requests {
			in.Choices = append(in.Choices, olmes.Choice{Tokens: len(q.LogProbs), Chars: 4 * len(q.LogProbs)})
		}
		instances = append(instances, in)
	}
	m := &noise.Meter{Scorer: e, Bound: bound}
	return m, m.Repeat(t.Context(), instances, 1, c.Tree.Prefix)
}

// broken loads a model and runs the self-check on it without a fault and with
// each of those named. The bound is the one that a run has in these settings;
// every fault must be above it a hundred times.
func broken(t *testing.T, arch string, instances int, files []string, names ...string) {
	t.Helper()
	lib, err := inProcess()
	if err != nil {
		t.Fatal(err)
	}
	plan := ExactPlan(Shape{Context: 1024})
	plan.Batch, plan.MicroBatch, plan.Sequences = 64, 64, 32 // several batches a chunk
	m, err := open(lib, loadArgs{Model: files, Plan: plan, Threads: 1, Lanes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c := questions(t, m, instances)
	bound := noise.Arithmetic{Weights: "f32", KVType: plan.KVType, FlashAttention: plan.FlashAttention, HalfGELU: RoundsGELU(arch)}.Bound()
	lane := m.lanes.all[0]
	native := lane.packer.cache
	e := &faultyEngine{model: m, cache: &faultyCache{cache: native}}
	lane.packer.cache = e.cache
	meter, err := selfCheck(t, e, c, plan.Batch, bound)
	if err != nil {
		t.Fatalf("a right schedule: %v", err)
	}
	n := meter.Noise()
	t.Logf("bound %g; a right schedule: largest %.2g nats a token of %d", bound, n.ValueLargest, n.Values)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			lane.packer.usable = false // what the fault before has left is not kept
			e.cache = &faultyCache{cache: native}
			lane.packer.cache = e.cache
			faults[name](e.cache)
			_, err := selfCheck(t, e, c, plan.Batch, 100*bound)
			var wrong *noise.Error
			if !errors.As(err, &wrong) {
				t.Fatalf("the self-check says %v", err)
			}
			t.Log(wrong)
		})
	}
}

// TestSelfCheck breaks the schedule in the ways that llama.cpp does not notice.
func TestSelfCheck(t *testing.T) {
	wide := filepath.Join(t.TempDir(), "f32.gguf")
	if err := Expand(t.Context(), Options{Library: libraryDir(t)}, realModel(t, "smollm2-135m-instruct"), wide, "f32"); err != nil {
		t.Fatal(err)
	}
	broken(t, "llama", 12, []string{wide}, "stale cell", "wrong position", "wrong mask")
}

// TestSelfCheckBOS leaves out the BOS of a model that depends on it.
func TestSelfCheckBOS(t *testing.T) {
	wide := filepath.Join(t.TempDir(), "f32.gguf")
	if err := Expand(t.Context(), Options{Library: libraryDir(t)}, realModel(t, "gemma-3-270m", "gemma"), wide, "f32"); err != nil {
		t.Fatal(err)
	}
	broken(t, "gemma3", 2, []string{wide}, "missing BOS")
}
