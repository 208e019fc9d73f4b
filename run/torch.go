package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"olmes/engine"
	"olmes/engine/llamacpp"
	"olmes/engine/torch"
	"olmes/noise"
	"olmes/record"
)

// torchBackend is the backend of transformers in worker processes.
type torchBackend struct {
	*Run
	why string // the plan is what it is
}

// planner is an engine that is asked, once the model is loaded, what its device
// can hold.
type planner interface {
	Memory(ctx context.Context, plans []engine.Plan, machine int64) (torch.Memory, error)
	SetPlan(ctx context.Context, p engine.Plan) error
}

// dtype is what the workers are told to compute in.
func (r *torchBackend) dtype() string {
	if r.config.Exact {
		return "float32"
	}
	return r.config.DType
}

// decide refuses what cannot be. The plan that it sets is what the user gives,
// or one that every device can load with: described chooses what fits.
func (r *torchBackend) decide(context.Context) error {
	c, f := r.config, r.planFile
	switch {
	case len(c.Devices) > 1:
		return usage("device takes one name with the engine torch; devices makes one worker for each")
	case len(c.Devices) > 0 && len(c.WorkerDevices) > 0:
		return usage("device and devices exclude each other; give one")
	case f.MicroBatch != nil || f.Cells != nil || f.Sequences != nil || f.FlashAttention != nil || f.KVType != nil:
		return usage("plan file %s: the engine torch takes batch, rows and chunk_tokens, and nothing else", c.Plan)
	}
	plans, err := r.plans(false)
	if err != nil {
		return err
	}
	r.setup.Plan = plans[0]
	return nil
}

// given reports whether the user decides how much is computed at once.
func (r *torchBackend) given() bool { return r.config.Batch > 0 || r.planFile.Batch != nil }

// plans returns those that the settings allow, from the largest to the smallest:
// one, where the user gives a batch.
func (r *torchBackend) plans(gpu bool) ([]engine.Plan, error) {
	c, f := r.config, r.planFile
	s := torch.Shape{Parameters: r.setup.Model.Parameters, Vocab: r.setup.Model.Vocab, GPU: gpu}
	all := torch.Plans(s)
	if f.Batch != nil {
		all = []engine.Plan{torch.Resize(s, *f.Batch)}
	}
	if c.Batch > 0 {
		all = []engine.Plan{torch.Resize(s, c.Batch)}
	}
	var plans []engine.Plan
	var wrong error
	for _, p := range all {
		p = f.over(p)
		if c.ChunkTokens > 0 {
			p.ChunkTokens = c.ChunkTokens
		}
		if err := torch.CheckPlan(p); err != nil {
			wrong = &UsageError{err} // a batch smaller than the rows given
			continue
		}
		plans = append(plans, p)
	}
	if len(plans) == 0 {
		return nil, wrong
	}
	return plans, nil
}

func (r *torchBackend) start(ctx context.Context, s Setup) (engine.Engine, error) {
	o := torch.Options{
		Python: r.config.Python, Model: s.Model.Dir, Devices: r.config.WorkerDevices, DType: r.dtype(), Plan: s.Plan, Memory: llamacpp.FreeMemory(),
		Threads: s.Threads, TrustRemoteCode: r.config.TrustRemoteCode, Packing: r.config.Packing, Log: r.env.EngineLog,
	}
	if s.Model.Adapter != nil {
		o.Adapter = s.Model.Adapter.Dir
	}
	if len(r.config.Devices) > 0 {
		o.Device = r.config.Devices[0]
	}
	e, err := torch.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (r *torchBackend) described(ctx context.Context, d *engine.Description) error {
	if m := &r.setup.Model; m.Parameters == 0 { // pickled weights do not tell
		m.Parameters = d.Parameters
	}
	if e, ok := r.engine.(planner); ok {
		return r.choosePlan(ctx, e, llamacpp.FreeMemory())
	}
	return nil
}

// choosePlan sets the run's plan, now that the model is loaded: that of the run
// which is taken up, whatever is free now, the user's, which must fit, or the
// largest that fits. machine is what is free of the machine's own memory, in
// bytes, 0 where that is not known.
func (r *torchBackend) choosePlan(ctx context.Context, e planner, machine int64) error {
	m, err := e.Memory(ctx, nil, machine)
	if err != nil {
		return err
	}
	plans, err := r.plans(m.GPU)
	if err != nil {
		return err
	}
	kept, dir, taken := r.kept()
	taken = taken && !r.given() && torch.CheckPlan(kept) == nil
	usual := torch.DefaultPlan(torch.Shape{GPU: m.GPU}).Batch
	switch {
	case taken:
		kept = r.planFile.over(kept)
		if r.config.ChunkTokens > 0 {
			kept.ChunkTokens = r.config.ChunkTokens
		}
		plans = []engine.Plan{kept}
	case m.Free == 0 && !r.given():
		// What fits is not known: no more than is usual.
		plans = slices.DeleteFunc(plans, func(p engine.Plan) bool { return p.Batch > usual })
	}
	if m, err = e.Memory(ctx, plans, machine); err != nil {
		return err
	}
	i, err := m.Fit(plans)
	p, need := plans[i], torch.MB(m.Needs[i].Total())
	free := fmt.Sprintf("%d MB are free on %s", m.Free/1_000_000, m.Device)
	r.why = fmt.Sprintf("batches are of %d tokens, ", p.Batch)
	note := ""
	switch {
	case taken:
		r.why += "as the run had them when it began"
		if err != nil {
			note = fmt.Sprintf("memory: %s, and the run in %s has batches of %d tokens, which may take %d MB: it goes on with them", free, dir, p.Batch, need)
		}
	case r.given():
		r.why += "as they were asked for"
		if m.Free > 0 && m.Needs[i].Total() > m.Free {
			return r.tooLarge(ctx, e, p, m, machine)
		}
	case err != nil:
		return fmt.Errorf("load %s: %w", r.setup.Model.Label(), err)
	case m.Free == 0:
		r.why += "as is usual: what memory is free is not known"
	default:
		r.why += fmt.Sprintf("which take up to %d MB of memory beside the weights, when %s", need, free)
		if i > 0 {
			r.why += fmt.Sprintf("; batches of %d could take %d MB", plans[i-1].Batch, torch.MB(m.Needs[i-1].Total()))
		}
		if p.Batch < usual {
			note = fmt.Sprintf("memory: %s, so batches are of %d tokens instead of %d; the run's identity says so", free, p.Batch, usual)
		}
	}
	if note != "" {
		r.env.reporter().Note(note)
	}
	r.setup.Plan = p
	return e.SetPlan(ctx, p)
}

// tooLarge says that the user's plan does not fit, and what would.
func (r *torchBackend) tooLarge(ctx context.Context, e planner, p engine.Plan, m torch.Memory, machine int64) error {
	err := fmt.Errorf("the plan of batch %d and %d rows takes up to %d MB of memory beside the weights (cache %d, logits %d, all else %d), of which %d MB are free on %s",
		p.Batch, p.Rows, torch.MB(m.Needs[0].Total()), torch.MB(m.Needs[0].Cache), torch.MB(m.Needs[0].Logits), torch.MB(m.Needs[0].Other), m.Free/1_000_000, m.Device)
	hint := "no smaller one fits either: free some memory, or take a smaller model"
	all := torch.Plans(torch.Shape{Parameters: r.setup.Model.Parameters, Vocab: r.setup.Model.Vocab, GPU: m.GPU})
	if m, asked := e.Memory(ctx, all, machine); asked == nil {
		if i, none := m.Fit(all); none == nil {
			hint = fmt.Sprintf("batch %d would fit; or leave the plan to the program", all[i].Batch)
		}
	}
	return &hinted{err, hint}
}

func (r *torchBackend) loaded() string {
	d := r.description
	return fmt.Sprintf("%s, %s, %s, packing %s, threads: %d", d.Version, d.Variant, d.DType, d.Packing, d.Threads)
}

func (r *torchBackend) precision() string { return precisionName(r.description.DType) }

func (r *torchBackend) onGPU() bool { return !strings.HasPrefix(r.description.Variant, "CPU") }

func (r *torchBackend) arithmetic() noise.Arithmetic {
	p := r.precision()
	return noise.Arithmetic{Weights: p, KVType: p, Kernels: true, GPU: r.onGPU()}
}

func (r *torchBackend) identify(id *record.Identity) { identifyFolder(id, r.Run) }

func (r *torchBackend) surroundings(env *record.Environment) {
	if r.onGPU() {
		env.Accelerator = r.description.Variant
	}
}

func (r *torchBackend) notes() []string {
	if r.why == "" {
		return nil
	}
	return []string{r.why}
}
