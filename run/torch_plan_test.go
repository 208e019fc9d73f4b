package run

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"olmes/artifact"
	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/engine/llamacpp"
	"olmes/engine/torch"
	"olmes/model"
	"olmes/record"
	"olmes/trie"
)

// device is a planner whose batches take a megabyte a token.
type device struct {
	*enginetest.Bigram
	gpu     bool
	free    int64 // megabytes; 0: not known
	machine int64 // as it was told
	set     engine.Plan
}

func (d *device) Memory(_ context.Context, plans []engine.Plan, machine int64) (torch.Memory, error) {
	m := torch.Memory{Device: "cpu", GPU: d.gpu, Free: d.free * 1e6}
	if d.gpu {
		m.Device = "cuda:0"
	}
	d.machine = machine
	for _, p := range plans {
		m.Needs = append(m.Needs, torch.Footprint{Cache: int64(p.Batch) * 1e6})
	}
	return m, nil
}

func (d *device) SetPlan(_ context.Context, p engine.Plan) error {
	d.set = p
	return torch.CheckPlan(p)
}

func torchRun(t *testing.T, c Config) (*torchBackend, *notes) {
	t.Helper()
	c, err := c.Resolved()
	if err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	r := &torchBackend{Run: &Run{config: c, env: Env{Reporter: n}}}
	r.setup.Model = model.Model{Facts: model.Facts{Parameters: 135e6, Vocab: 50_000}}
	if r.planFile, err = readPlan(c); err != nil {
		t.Fatal(err)
	}
	return r, n
}

// The plan follows from what the device has free, or is the user's; the record
// says which and why.
func TestTorchPlan(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		device device
		batch  int
		why    string
		note   string
	}{
		{"processor", Config{}, device{free: 100_000}, 512, "of 512 tokens, which take up to 512 MB of memory beside the weights, when 100000 MB are free on cpu", ""},
		{"little", Config{}, device{free: 300}, 256, "; batches of 512 could take 512 MB", "300 MB are free on cpu, so batches are of 256 tokens instead of 512"},
		{"not known", Config{}, device{}, 512, "as is usual", ""},
		{"GPU", Config{}, device{gpu: true, free: 140_000}, 8192, "of 8192 tokens", ""},
		{"small GPU", Config{}, device{gpu: true, free: 5_000}, 4096, "batches of 8192 could take 8192 MB", ""},
		{"full GPU", Config{}, device{gpu: true, free: 600}, 512, "batches of 1024 could", "so batches are of 512 tokens instead of 2048"},
		{"GPU, not known", Config{}, device{gpu: true}, 2048, "as is usual", ""},
		{"given", Config{Batch: 100}, device{free: 100}, 100, "as they were asked for", ""},
		{"given, larger", Config{Batch: 1000}, device{free: 1_050}, 1000, "as they were asked for", ""},
		{"given, not known", Config{Batch: 1000}, device{}, 1000, "as they were asked for", ""},
		{"file", Config{Plan: writePlan(t, "batch: 300\nrows: 20")}, device{free: 800}, 300, "as they were asked for", ""},
		{"file with rows alone", Config{Plan: writePlan(t, "rows: 100")}, device{free: 200}, 128, "batches of 256 could", "of 128 tokens instead"},
	} {
		r, n := torchRun(t, c.config)
		if err := r.decide(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := r.choosePlan(t.Context(), &c.device, 77)
		if err != nil || r.setup.Plan.Batch != c.batch || c.device.set != r.setup.Plan || c.device.machine != 77 {
			t.Errorf("%s: %+v (set %+v), %v; want a batch of %d", c.name, r.setup.Plan, c.device.set, err, c.batch)
		}
		if !strings.Contains(strings.Join(r.notes(), ""), c.why) || !n.has(c.note) && c.note != "" || c.note == "" && len(n.text) > 0 {
			t.Errorf("%s: %q, notes %q; want %q and %q", c.name, r.notes(), n.text, c.why, c.note)
		}
		if f := r.planFile.Rows; f != nil && r.setup.Plan.Rows != *f {
			t.Errorf("%s: %d rows, want %d", c.name, r.setup.Plan.Rows, *f)
		}
		if chunk := r.setup.Plan.ChunkTokens; (chunk > 4096) != c.device.gpu {
			t.Errorf("%s: chunks of %d", c.name, chunk)
		}
	}
}

// What cannot fit is refused with its numbers, before anything is scored.
func TestTorchPlanRefused(t *testing.T) {
	for _, c := range []struct {
		config     Config
		free       int64
		want, hint string
	}{
		{Config{}, 60, "even batches of 64 tokens takes 64 MB of memory beside the weights (cache 64, logits 0, all else 0), of which 60 MB are free on cpu", "smaller model"},
		{Config{Batch: 1000}, 900, "the plan of batch 1000 and 1000 rows takes up to 1000 MB of memory", "batch 512 would fit"},
		{Config{Plan: writePlan(t, "batch: 700")}, 300, "of which 300 MB are free on cpu", "batch 256 would fit"},
		{Config{Batch: 64}, 40, "the plan of batch 64", "no smaller one"},
		{Config{Plan: writePlan(t, "rows: 400")}, 300, "even batches of 512", ""},
	} {
		r, _ := torchRun(t, c.config)
		d := &device{free: c.free}
		err := r.choosePlan(t.Context(), d, 0)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(artifact.Hint(err), c.hint) || d.set.Batch != 0 {
			t.Errorf("%+v with %d MB: %v (hint %q), want %q and %q", c.config.Batch, c.free, err, artifact.Hint(err), c.want, c.hint)
		}
	}
}

// folderModel is a folder in Hugging Face's form of which only the facts exist.
func folderModel(t *testing.T, config string) string {
	t.Helper()
	header := `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	dir := t.TempDir()
	for name, data := range map[string]string{
		"config.json":       config,
		"tokenizer.json":    `{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"model.safetensors": string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + "12345678",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const tinyConfig = `{"model_type":"llama","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"max_position_embeddings":4096,"vocab_size":258}`

// A run that was broken off goes on with the plan that its folder has, whatever
// is free by then; all else is a run of its own.
func TestResumeWithOtherMemory(t *testing.T) {
	file := folderModel(t, tinyConfig)
	env := testEnv(t)
	report := &notes{}
	env.Reporter = report
	c := Config{Model: file, Tasks: []string{"openbookqa", "winogrande"}, Limit: 4, ChunkTokens: 256}
	var now *device
	start := func(free int64, before func(context.Context, *trie.Tree) error) {
		now = &device{Bigram: &enginetest.Bigram{Before: before}, free: free}
		env.Start = func(context.Context, Setup) (engine.Engine, error) { return now, nil }
	}
	// stop begins a run with so much memory and cancels it.
	stop := func(free int64, o Options) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int32
		start(free, func(context.Context, *trie.Tree) error {
			if calls.Add(1) == 3 {
				cancel()
				return ctx.Err()
			}
			return nil
		})
		_, err := Do(ctx, c, o, env)
		if ctx.Err() == nil {
			fetched(t, err)
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v", err)
		}
	}
	start(100_000, nil)
	whole, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)

	for _, c2 := range []struct {
		name        string
		first, then int64 // megabytes
	}{{"less", 400, 150}, {"more", 400, 100_000}, {"hardly any", 400, 1}, {"as much", 400, 400}} {
		for _, dir := range []string{"", filepath.Join(t.TempDir(), "r")} {
			t.Run(fmt.Sprintf("%s, folder named %v", c2.name, dir != ""), func(t *testing.T) {
				env.Runs = t.TempDir()
				o := Options{Dir: dir, NoReuse: true}
				stop(c2.first, o)
				if now.set.Batch != 256 {
					t.Fatalf("batch %d", now.set.Batch)
				}
				report.text = nil
				start(c2.then, nil)
				if dir != "" {
					if _, err := Do(t.Context(), c, o, env); !errors.Is(err, record.ErrExists) || !strings.Contains(artifact.Hint(err), "--resume") {
						t.Errorf("without resume: %v", err)
					}
				}
				start(c2.then, nil)
				o.Resume = true
				out, err := Do(t.Context(), c, o, env)
				if err != nil {
					t.Fatal(err)
				}
				rec := opened(t, out.Dir)
				if now.set.Batch != 256 || rec.Provenance.Resumed != 1 || !slices.ContainsFunc(rec.Provenance.Notes, func(n string) bool {
					return strings.Contains(n, "of 256 tokens, as the run had them when it began")
				}) {
					t.Errorf("batch %d, resumed %d times, notes %q", now.set.Batch, rec.Provenance.Resumed, rec.Provenance.Notes)
				}
				if told := report.has("it goes on with them"); told != (c2.then < 256) {
					t.Errorf("notes %q", report.text)
				}
				sameResults(t, whole.Dir, out.Dir)
			})
		}
	}
	t.Run("not taken up", func(t *testing.T) {
		env.Runs = t.TempDir()
		stop(400, Options{})
		start(100_000, nil)
		if _, err := Do(t.Context(), c, Options{}, env); err != nil || now.set.Batch != 512 {
			t.Errorf("without resume: batch %d, %v", now.set.Batch, err)
		}
		other := c
		other.Limit = 3
		start(100_000, nil)
		if _, err := Do(t.Context(), other, Options{Resume: true}, env); err != nil || now.set.Batch != 512 {
			t.Errorf("with other settings: batch %d, %v", now.set.Batch, err)
		}
		other = c
		other.Batch = 128
		start(100_000, nil)
		if _, err := Do(t.Context(), other, Options{Resume: true}, env); err != nil || now.set.Batch != 128 {
			t.Errorf("with a batch of the user's: %d, %v", now.set.Batch, err)
		}
	})
}

// The embedded engine takes a run up with its plan as well.
func TestLlamaKeepsPlan(t *testing.T) {
	first, _ := planRun(t, Config{})
	if err := first.choosePlan(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	whole := first.setup.Plan
	s, err := first.shape()
	if err != nil {
		t.Fatal(err)
	}
	small := llamacpp.Resize(s, whole, 128)
	id := record.Identity{Product: Version, Model: record.Model{Name: "m", SHA256: strings.Repeat("0a", 32)}, Plan: marshal(t, small)}
	runs := t.TempDir()
	dir := filepath.Join(runs, "one")
	w, err := record.Create(dir, id, record.Provenance{Resolved: marshal(t, first.config)})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	need := llamacpp.Memory(s, small).Total(1)
	for _, c := range []struct {
		name   string
		config Config
		sum    string
		o      Options
		free   int64
		want   engine.Plan
	}{
		{"folder", Config{}, id.Model.SHA256, Options{Dir: dir}, 0, small},
		{"resume", Config{}, id.Model.SHA256, Options{Resume: true}, 0, small},
		{"resume with more threads", Config{Threads: 2}, id.Model.SHA256, Options{Resume: true}, 0, small},
		{"little memory", Config{}, id.Model.SHA256, Options{Resume: true}, need / 2, small},
		{"neither", Config{}, id.Model.SHA256, Options{}, 0, whole},
		{"another model", Config{}, strings.Repeat("0b", 32), Options{Dir: dir, Resume: true}, 0, whole},
		{"other settings", Config{Tasks: []string{"boolq"}}, id.Model.SHA256, Options{Resume: true}, 0, whole},
		{"a batch of the user's", Config{Batch: 512}, id.Model.SHA256, Options{Dir: dir, Resume: true}, 0, whole},
	} {
		r, n := planRun(t, c.config)
		r.options, r.env.Runs, r.setup.Model.SHA256 = c.o, runs, c.sum
		if err := r.choosePlan(t.Context(), c.free); err != nil || r.setup.Plan != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, r.setup.Plan, err, c.want)
		}
		if told := n.has("it goes on with it"); told != (c.free > 0) {
			t.Errorf("%s: notes %q", c.name, n.text)
		}
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Quantized weights and adapters are marked.
func TestMarked(t *testing.T) {
	env := testEnv(t)
	env.Start = func(context.Context, Setup) (engine.Engine, error) {
		return &device{Bigram: &enginetest.Bigram{}, free: 1e6}, nil
	}
	quantized := func(method string) string {
		return strings.TrimSuffix(tinyConfig, "}") + `,"quantization_config":{"quant_method":"` + method + `","bits":4}}`
	}
	adapter := t.TempDir()
	for name, text := range map[string]string{"adapter_config.json": `{"peft_type":"LORA","base_model_name_or_path":"x"}`, "adapter_model.bin": "x"} {
		if err := os.WriteFile(filepath.Join(adapter, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		config     Config
		code, text string
	}{
		"gptq":    {Config{Model: folderModel(t, quantized("gptq"))}, "quantized", "gptq 4-bit"},
		"awq":     {Config{Model: folderModel(t, quantized("awq"))}, "quantized", "awq 4-bit"},
		"adapter": {Config{Model: folderModel(t, tinyConfig), Adapter: adapter}, "adapter", "is applied"},
	} {
		p, err := DryRun(t.Context(), withTask(c.config), env)
		fetched(t, err)
		if !slices.ContainsFunc(p.Deviations, func(d record.Deviation) bool {
			return d.Code == c.code && d.OffStandard && strings.Contains(d.Text, c.text)
		}) {
			t.Errorf("%s: %+v, want %s with %q", name, p.Deviations, c.code, c.text)
		}
	}
}
