package torch

import (
	"errors"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"olmes/engine"
)

// simulated is a model as a worker describes it: bytes of a token's keys and
// values, of a batch's token, of one and one that it sees, and of a row.
type simulated struct{ cache, token, pair, row int64 }

func (s simulated) needs(plans []engine.Plan) (out []Footprint) {
	for _, p := range plans {
		b := int64(p.Batch)
		out = append(out, Footprint{Cache: s.cache * (3*engine.Window + b), Logits: s.row * int64(p.Rows), Other: b*s.token + b*(engine.Window+b)*s.pair + 64<<20})
	}
	return out
}

// What SmolLM2-135M takes in 32 bits, and a Llama of 8 billion parameters in 16.
var (
	small = simulated{cache: 46080, token: 54528, pair: 10, row: 393216}
	large = simulated{cache: 131072, token: 376832, pair: 6, row: 769536}
)

// The batch follows from the memory that is free: the largest that fits, down to
// a refusal.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape Shape
		model simulated
		free  int64 // megabytes
		batch int   // 0: refused
	}{
		{"processor, much", Shape{Parameters: 135e6, Vocab: 49152}, small, 100_000, 512},
		{"processor, not known", Shape{Parameters: 135e6, Vocab: 49152}, small, 0, 512},
		{"processor, enough", Shape{Parameters: 135e6, Vocab: 49152}, small, 760, 512},
		{"processor, little", Shape{Parameters: 135e6, Vocab: 49152}, small, 600, 256},
		{"processor, less", Shape{Parameters: 135e6, Vocab: 49152}, small, 500, 128},
		{"processor, least", Shape{Parameters: 135e6, Vocab: 49152}, small, 445, 64},
		{"processor, none", Shape{Parameters: 135e6, Vocab: 49152}, small, 400, 0},
		{"small on a large GPU", Shape{Parameters: 135e6, Vocab: 49152, GPU: true}, small, 80_000, 8192},
		{"small on a GPU of 8 GB", Shape{Parameters: 135e6, Vocab: 49152, GPU: true}, small, 7_500, 8192},
		{"small on a shared GPU", Shape{Parameters: 135e6, Vocab: 49152, GPU: true}, small, 3_000, 4096},
		{"small on a full GPU", Shape{Parameters: 135e6, Vocab: 49152, GPU: true}, small, 1_050, 1024},
		{"small on a GPU with nothing left", Shape{Parameters: 135e6, Vocab: 49152, GPU: true}, small, 300, 0},
		{"large on a large GPU", Shape{Parameters: 8e9, Vocab: 128256, GPU: true}, large, 120_000, 2048},
		{"large on a GPU of 24 GB", Shape{Parameters: 8e9, Vocab: 128256, GPU: true}, large, 7_000, 2048},
		{"large on a GPU of 20 GB", Shape{Parameters: 8e9, Vocab: 128256, GPU: true}, large, 3_200, 1024},
		{"large, hardly loaded", Shape{Parameters: 8e9, Vocab: 128256, GPU: true}, large, 1_150, 64},
		{"large, too little left", Shape{Parameters: 8e9, Vocab: 128256, GPU: true}, large, 1_000, 0},
		{"middling on a large GPU", Shape{Parameters: 3e9, Vocab: 128256, GPU: true}, large, 120_000, 4096},
	} {
		plans := Plans(c.shape)
		m := Memory{Device: "there", GPU: c.shape.GPU, Free: c.free * 1e6, Needs: c.model.needs(plans)}
		i, err := m.Fit(plans)
		if c.batch == 0 {
			var e *MemoryError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), "even batches of 64 tokens") || !strings.Contains(err.Error(), "MB are free on there") || e.Hint() == "" {
				t.Errorf("%s: %+v, error %v, want a refusal", c.name, plans[i], err)
			}
			continue
		}
		if err != nil || plans[i].Batch != c.batch {
			t.Errorf("%s: batch %d, %v, want %d", c.name, plans[i].Batch, err, c.batch)
			for i, n := range m.Needs {
				t.Logf("batch %d takes %d MB", plans[i].Batch, MB(n.Total()))
			}
		}
	}
}

// Plans are powers of two from large to small, so that there are few, and each
// takes less than the one before.
func TestPlans(t *testing.T) {
	for _, s := range []Shape{{}, {GPU: true}, {Parameters: 135e6, Vocab: 49152}, {Parameters: 270e6, Vocab: 262144}, {Parameters: 270e6, Vocab: 262144, GPU: true}, {Parameters: 70e9, Vocab: 1 << 20, GPU: true}} {
		plans := Plans(s)
		if !slices.Contains(plans, DefaultPlan(s)) || plans[len(plans)-1].Batch != minBatch {
			t.Errorf("%+v: %+v, want the usual plan among them and the smallest last", s, plans)
		}
		for i, p := range plans {
			if err := CheckPlan(p); err != nil || bits.OnesCount(uint(p.Batch)) != 1 || p.ChunkTokens != plans[0].ChunkTokens || p.Rows < 1 {
				t.Errorf("%+v: %+v, %v", s, p, err)
			}
			if i > 0 && (p.Batch != plans[i-1].Batch/2 || p.Rows > plans[i-1].Rows) {
				t.Errorf("%+v: %+v after %+v", s, p, plans[i-1])
			}
			if most := rowBytesGPU; 4*s.Vocab*p.Rows > most {
				t.Errorf("%+v: rows of %+v take %d bytes", s, p, 4*s.Vocab*p.Rows)
			}
		}
	}
}

// Of several workers the one with least counts, and those on one device share it.
func TestLeast(t *testing.T) {
	gpu := func(name string, free int64, need int64) Memory {
		return Memory{Device: name, GPU: true, Free: free, Needs: []Footprint{{Other: need}}}
	}
	cpu := func(mapped int64) Memory {
		return Memory{Device: "cpu", Mapped: mapped, Needs: []Footprint{{Other: 5}}}
	}
	for _, c := range []struct {
		name    string
		all     []Memory
		machine int64
		device  string
		free    int64
		need    int64
	}{
		{"one", []Memory{gpu("cuda:0", 900, 7)}, 100, "cuda:0", 900, 7},
		{"the smallest", []Memory{gpu("cuda:0", 900, 7), gpu("cuda:1", 400, 9), gpu("cuda:2", 800, 8)}, 100, "cuda:1", 400, 9},
		{"two on one", []Memory{gpu("cuda:0", 900, 7), gpu("cuda:1", 500, 7), gpu("cuda:0", 900, 7)}, 0, "cuda:0", 450, 7},
		{"one does not tell", []Memory{gpu("cuda:0", 0, 7), gpu("cuda:1", 500, 7)}, 0, "cuda:1", 500, 7},
		{"none tells", []Memory{gpu("npu:0", 0, 7)}, 100, "npu:0", 0, 7},
		{"the machine's", []Memory{cpu(100)}, 1000, "cpu", 900, 5},
		{"the machine's, shared", []Memory{cpu(100), cpu(200)}, 1000, "cpu", 300, 5},
		{"more is mapped than free", []Memory{cpu(2000)}, 1000, "cpu", 1, 5},
		{"the machine does not tell", []Memory{cpu(100)}, 0, "cpu", 0, 5},
	} {
		if got := least(c.all, c.machine); got.Device != c.device || got.Free != c.free || got.Needs[0].Other != c.need {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
