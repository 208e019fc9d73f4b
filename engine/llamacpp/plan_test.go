package llamacpp

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"olmes/engine"
)

// The shapes of the two models that the tests and the standard's pages use,
// with weights of 32 bits.
func smolShape() Shape {
	return Shape{Parameters: 134_515_008, Context: 8192, Vocab: 49_152, Layers: 30, Embedding: 576, FeedForward: 1536,
		Heads: 9, KVHeads: 3, KeyLength: 64, WeightBytes: 539_845_696}
}

func gemmaShape() Shape {
	return Shape{Parameters: 268_098_176, Context: 32_768, Vocab: 262_144, Layers: 18, Embedding: 640, FeedForward: 2048,
		Heads: 4, KVHeads: 1, KeyLength: 256, WeightBytes: 1_078_917_824}
}

func drawShape(t *rapid.T) Shape {
	draw := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	return Shape{
		Parameters: rapid.Int64Range(0, 500e9).Draw(t, "parameters"), Context: draw("context", 0, 1<<20), Vocab: draw("vocab", 0, 1<<20),
		Layers: draw("layers", 0, 200), Embedding: draw("embedding", 0, 20_000), FeedForward: draw("feed forward", 0, 100_000),
		Heads: draw("heads", 0, 200), KVHeads: draw("kv heads", 0, 200), KeyLength: draw("key length", 0, 1000),
		WeightBytes: rapid.Int64Range(0, 1e12).Draw(t, "weights"), Widened: rapid.Bool().Draw(t, "widened"), GPU: rapid.Bool().Draw(t, "gpu"),
	}
}

func TestDefaultPlans(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape Shape
		want  engine.Plan
	}{
		{"nothing known", Shape{}, engine.Plan{Batch: 512, MicroBatch: 512, Cells: 4608, Rows: 512, Sequences: 256, ChunkTokens: 1024, FlashAttention: true, KVType: "f16"}},
		{"smollm2", smolShape(), engine.Plan{Batch: 512, MicroBatch: 512, Cells: 4608, Rows: 208, Sequences: 208, ChunkTokens: 1024, FlashAttention: true, KVType: "f16"}},
		{"gemma", gemmaShape(), engine.Plan{Batch: 512, MicroBatch: 512, Cells: 4608, Rows: 32, Sequences: 32, ChunkTokens: 1024, FlashAttention: true, KVType: "f16"}},
		{"short context", Shape{Context: 512, Vocab: 50_000}, engine.Plan{Batch: 512, MicroBatch: 512, Cells: 1536, Rows: 208, Sequences: 208, ChunkTokens: 1024, FlashAttention: true, KVType: "f16"}},
		{"gpu", Shape{Parameters: 7e9, Context: 4096, Vocab: 128_256, GPU: true}, engine.Plan{Batch: 2048, MicroBatch: 2048, Cells: 6144, Rows: 1040, Sequences: 256, ChunkTokens: 16384, FlashAttention: true, KVType: "f16"}},
	} {
		if got := DefaultPlan(c.shape); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
	exact := ExactPlan(smolShape())
	if exact.FlashAttention || exact.KVType != "f32" {
		t.Errorf("exact plan %+v", exact)
	}
}

// Whatever the model, its plan is one that the engine takes, rows stay within
// their bound, and a GPU gets larger batches and chunks.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t)
		p := DefaultPlan(s)
		if err := CheckPlan(p); err != nil {
			t.Fatal(err)
		}
		if p != DefaultPlan(s) {
			t.Fatal("a second plan differs")
		}
		bound := rowBytes
		if s.GPU {
			bound = rowBytesGPU
		}
		if p.Rows > minRows && 4*p.Rows*s.Vocab > bound {
			t.Fatalf("%d rows of %d tokens", p.Rows, s.Vocab)
		}
		s.GPU = false
		cpu := DefaultPlan(s)
		s.GPU = true
		if gpu := DefaultPlan(s); gpu.Batch <= cpu.Batch || gpu.ChunkTokens <= cpu.ChunkTokens || gpu.Rows < cpu.Rows {
			t.Fatalf("on a GPU %+v, on a CPU %+v", gpu, cpu)
		}
	})
}

func TestCheckPlan(t *testing.T) {
	for want, change := range map[string]func(*engine.Plan){
		"":             func(p *engine.Plan) { p.Rows = 0 },
		"batch":        func(p *engine.Plan) { p.Batch = 0 },
		"micro_batch":  func(p *engine.Plan) { p.MicroBatch = p.Batch + 1 },
		"cells":        func(p *engine.Plan) { p.Cells = p.Batch - 1 },
		"rows":         func(p *engine.Plan) { p.Rows = p.Batch + 1 },
		"sequences":    func(p *engine.Plan) { p.Rows = p.Sequences - 1 },
		"chunk_tokens": func(p *engine.Plan) { p.ChunkTokens = 0 },
		"sequences is 208, must be at most batch (128)": func(p *engine.Plan) { p.Batch, p.MicroBatch, p.Rows = 128, 128, 0 },
		"kv_type": func(p *engine.Plan) { p.KVType = "q8_0" },
	} {
		p := DefaultPlan(smolShape())
		change(&p)
		err := CheckPlan(p)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), "plan: "+want)) {
			t.Errorf("%q: error %v", want, err)
		}
	}
}

// The cache is what llama.cpp says it takes (101.25 MiB and 81 MiB), and what
// is not weights and cache stays below 300 MB with a lane.
func TestMemoryOfKnownModels(t *testing.T) {
	for name, c := range map[string]struct {
		shape Shape
		cache int64
	}{"smollm2": {smolShape(), 101<<20 + 1<<18}, "gemma": {gemmaShape(), 81 << 20}} {
		f := Memory(c.shape, DefaultPlan(c.shape))
		if f.Cache != c.cache || f.Weights != c.shape.WeightBytes {
			t.Errorf("%s: %+v, want a cache of %d", name, f, c.cache)
		}
		if rest := f.Total(1) - f.Weights - f.Cache; rest > 300e6 {
			t.Errorf("%s: %d MB beside weights and cache", name, rest/1e6)
		}
		if exact := Memory(c.shape, ExactPlan(c.shape)); exact.Cache != 2*f.Cache || exact.Scratch <= f.Scratch {
			t.Errorf("%s: exact %+v, default %+v", name, exact, f)
		}
	}
	// A BLAS widens the largest matrix, here the vocabulary's.
	s := gemmaShape()
	narrow := Memory(s, DefaultPlan(s))
	s.Widened = true
	if wide := Memory(s, DefaultPlan(s)); wide.Scratch-narrow.Scratch != 4*640*262_144 {
		t.Errorf("widening takes %d", wide.Scratch-narrow.Scratch)
	}
}

func TestFit(t *testing.T) {
	s := gemmaShape()
	p := DefaultPlan(s)
	need := Memory(s, p).Total(1)
	enough := need*16/15 + 16
	for _, free := range []int64{0, -1, enough, 1 << 60} {
		if q, err := Fit(s, p, free); err != nil || q != p {
			t.Errorf("%d bytes free: %+v, %v; want the plan itself", free, q, err)
		}
	}
	q, err := Fit(s, p, enough-enough/100)
	if err != nil || q.Batch >= p.Batch || q.Cells < Need(s, q.Batch) {
		t.Errorf("a little less: %+v, %v; want smaller batches", q, err)
	}
	wide := p
	wide.Cells = 1 << 20
	if q, err := Fit(s, wide, enough); err != nil || q != p {
		t.Errorf("many cells: %+v, %v; want only their number reduced", q, err)
	}
	_, err = Fit(s, p, 1_000_000_000)
	var e *MemoryError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "of which 1000 MB are free") || !strings.Contains(err.Error(), "weights 1079") || e.Hint() == "" {
		t.Errorf("less than the weights: %v", err)
	}
	s.GPU = true
	if q, err := Fit(s, p, 1); err != nil || q != p {
		t.Errorf("on a GPU: %+v, %v", q, err)
	}
}

func TestFitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t)
		s.GPU = false
		s.WeightBytes %= 4e9
		p := DefaultPlan(s)
		if rapid.Bool().Draw(t, "other") {
			p = Resize(s, p, rapid.IntRange(16, 4096).Draw(t, "batch"))
			p.Cells += rapid.IntRange(0, 100_000).Draw(t, "cells")
			p.Sequences = rapid.IntRange(3, p.Sequences).Draw(t, "sequences")
		}
		free := rapid.Int64Range(1, 20e9).Draw(t, "free")
		q, err := Fit(s, p, free)
		if err != nil {
			if q != p {
				t.Fatalf("refused, and changed to %+v", q)
			}
			return
		}
		if got := Memory(s, q).Total(1); got > free {
			t.Fatalf("%d bytes of %d", got, free)
		}
		if err := CheckPlan(q); err != nil {
			t.Fatal(err)
		}
		if q.Cells < Need(s, q.Batch) || q.Batch > p.Batch || q.Rows > p.Rows || q.Sequences > p.Sequences || q.Cells > p.Cells {
			t.Fatalf("%+v became %+v", p, q)
		}
		if q.KVType != p.KVType || q.FlashAttention != p.FlashAttention || q.ChunkTokens != p.ChunkTokens {
			t.Fatalf("%+v became %+v", p, q)
		}
	})
}

func TestLanes(t *testing.T) {
	for _, c := range []struct {
		threads       int
		perLane, free int64
		want          int
	}{
		{2, 300 << 20, 20 << 30, 2},
		{64, 300 << 20, 200 << 30, 16},
		{8, 1 << 30, 4 << 30, 3},
		{8, 1 << 30, 1 << 30, 1},
		{8, 1 << 30, 1, 1},
		{8, 1 << 30, 0, 8},
		{8, 1 << 30, -5, 8},
		{8, 0, 1 << 30, 8},
		{0, 1, 1, 1},
		{-3, 1, 0, 1},
		{4, 1, 1 << 62, 4},
	} {
		if got := Lanes(c.threads, c.perLane, c.free); got != c.want {
			t.Errorf("%d threads, %d a lane, %d free: %d lanes, want %d", c.threads, c.perLane, c.free, got, c.want)
		}
	}
}

func TestFreeMemory(t *testing.T) {
	const info = "MemTotal: 1000000 kB\nMemFree: 5 kB\nMemAvailable:   1000 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none":      {nil, 0},
		"machine":   {map[string]string{"/proc/meminfo": info}, 1000 << 10},
		"no limit":  {map[string]string{"/proc/meminfo": info, "/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/memory.current": "77\n"}, 1000 << 10},
		"group":     {map[string]string{"/proc/meminfo": info, "/sys/fs/cgroup/memory.max": "5000\n", "/sys/fs/cgroup/memory.current": "4000\n", "/sys/fs/cgroup/memory.stat": "anon 1000\nfile 3000\n"}, 4000},
		"full":      {map[string]string{"/proc/meminfo": info, "/sys/fs/cgroup/memory.max": "5000\n", "/sys/fs/cgroup/memory.current": "6000\n"}, 1},
		"wide room": {map[string]string{"/proc/meminfo": info, "/sys/fs/cgroup/memory.max": fmt.Sprint(1 << 40), "/sys/fs/cgroup/memory.current": "0\n"}, 1000 << 10},
		"files in memory": {map[string]string{"/proc/meminfo": info, "/sys/fs/cgroup/memory.max": "5000\n", "/sys/fs/cgroup/memory.current": "4000\n",
			"/sys/fs/cgroup/memory.stat": "anon 500\nfile 3500\nshmem 500\n"}, 4000},
		// As a batch system puts a job into a group of its own.
		"group within": {map[string]string{"/proc/meminfo": info, "/proc/self/cgroup": "0::/slurm/job_7/step_0\n",
			"/sys/fs/cgroup/slurm/job_7/memory.max": "9000\n", "/sys/fs/cgroup/slurm/job_7/memory.current": "2000\n",
			"/sys/fs/cgroup/slurm/job_7/step_0/memory.max": "max\n", "/sys/fs/cgroup/slurm/job_7/step_0/memory.current": "2000\n"}, 7000},
		"first form": {map[string]string{"/proc/meminfo": info, "/proc/self/cgroup": "9:name=systemd:/x\n4:cpu,memory:/job\n0::/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "/sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
			"/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "8000\n", "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": "6000\n",
			"/sys/fs/cgroup/memory/job/memory.stat": "cache 9\ntotal_cache 1500\ntotal_shmem 100\n"}, 3400},
	} {
		got := freeMemory(func(file string) ([]byte, error) {
			if text, ok := c.files[file]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
