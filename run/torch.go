package run

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"olmes/engine"
	"olmes/engine/torch"
	"olmes/noise"
	"olmes/record"
)

// torchBackend is the backend of transformers in worker processes.
type torchBackend struct{ *Run }

// dtype is what the workers are told to compute in.
func (r torchBackend) dtype() string {
	if r.config.Exact {
		return "float32"
	}
	return r.config.DType
}

func (r torchBackend) decide(context.Context) error {
	c, f := r.config, r.planFile
	switch {
	case len(c.Devices) > 1:
		return usage("device takes one name with the engine torch; devices makes one worker for each")
	case len(c.Devices) > 0 && len(c.WorkerDevices) > 0:
		return usage("device and devices exclude each other; give one")
	case f.MicroBatch != nil || f.Cells != nil || f.Sequences != nil || f.FlashAttention != nil || f.KVType != nil:
		return usage("plan file %s: the engine torch takes batch, rows and chunk_tokens, and nothing else", c.Plan)
	}
	m := r.setup.Model
	p := torch.DefaultPlan(torch.Shape{Parameters: m.Parameters, Vocab: m.Vocab, GPU: r.gpu(os.Stat)})
	resize := func(batch int) {
		p.Batch, p.MicroBatch, p.Rows = batch, batch, min(p.Rows, batch)
	}
	if f.Batch != nil {
		resize(*f.Batch)
	}
	p = f.over(p)
	if c.Batch > 0 {
		resize(c.Batch)
	}
	if c.ChunkTokens > 0 {
		p.ChunkTokens = c.ChunkTokens
	}
	if err := torch.CheckPlan(p); err != nil {
		return &UsageError{err}
	}
	r.setup.Plan = p
	return nil
}

// gpu tells whether the model will be computed on a GPU, which decides the size
// of batches before anything is loaded: by the devices' names, or by what the
// machine seems to have.
func (r torchBackend) gpu(stat func(string) (os.FileInfo, error)) bool {
	names := slices.Concat(r.config.Devices, r.config.WorkerDevices)
	if len(names) > 0 && names[0] != "auto" {
		return names[0] != "cpu"
	}
	if runtime.GOOS == "darwin" {
		return runtime.GOARCH == "arm64"
	}
	for _, driver := range []string{"/dev/nvidiactl", "/dev/kfd"} { // NVIDIA's, AMD's
		if _, err := stat(driver); err == nil {
			return true
		}
	}
	return false
}

func (r torchBackend) start(ctx context.Context, s Setup) (engine.Engine, error) {
	o := torch.Options{
		Python: r.config.Python, Model: s.Model.Dir, Devices: r.config.WorkerDevices, DType: r.dtype(), Plan: s.Plan,
		Threads: s.Threads, TrustRemoteCode: r.config.TrustRemoteCode, Packing: r.config.Packing, Log: r.env.EngineLog,
	}
	if s.Model.Adapter != nil {
		o.Adapter = s.Model.Adapter.Dir
	}
	if len(r.config.Devices) > 0 {
		o.Device = r.config.Devices[0]
	}
	return torch.Start(ctx, o)
}

func (r torchBackend) described(_ context.Context, d *engine.Description) error {
	if m := &r.setup.Model; m.Parameters == 0 { // pickled weights do not tell
		m.Parameters = d.Parameters
	}
	return nil
}

func (r torchBackend) loaded() string {
	d := r.description
	return fmt.Sprintf("%s, %s, %s, packing %s, threads: %d", d.Version, d.Variant, d.DType, d.Packing, d.Threads)
}

func (r torchBackend) precision() string { return precisionName(r.description.DType) }

func (r torchBackend) onGPU() bool { return !strings.HasPrefix(r.description.Variant, "CPU") }

func (r torchBackend) arithmetic() noise.Arithmetic {
	p := r.precision()
	return noise.Arithmetic{Weights: p, KVType: p, Kernels: true, GPU: r.onGPU()}
}

func (r torchBackend) identify(id *record.Identity) { identifyFolder(id, r.Run) }

func (r torchBackend) surroundings(env *record.Environment) {
	if r.onGPU() {
		env.Accelerator = r.description.Variant
	}
}

func (r torchBackend) notes() []string { return nil }
