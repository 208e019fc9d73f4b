package torch

import (
	"context"
	"fmt"
	"sync"

	"olmes/engine"
)

// Footprint is what scoring with a plan takes of memory at most beside the
// model's weights, in bytes. It is the worker's estimate, rather too high than
// too low.
type Footprint struct {
	Cache  int64 `json:"cache"`  // keys and values of what was computed before, and of a batch
	Logits int64 `json:"logits"` // of a batch's wanted tokens, as computed and in 32 bits
	Other  int64 `json:"other"`  // masks, scores and what layers compute
}

// Total returns the sum.
func (f Footprint) Total() int64 { return f.Cache + f.Logits + f.Other }

// Memory is what a loaded engine says of memory.
type Memory struct {
	Device string      `json:"device"` // the one where least is free: "cuda:0", "cpu"
	GPU    bool        `json:"gpu"`
	Free   int64       `json:"free"`   // bytes that can be taken there beside the weights; 0: not known
	Mapped int64       `json:"mapped"` // bytes of files that are in the machine's memory, count as free, and are needed
	Needs  []Footprint `json:"needs"`  // of each plan asked for
}

// memoryArgs are the args of the worker's memory operation.
type memoryArgs struct {
	Plans  []planArgs `json:"plans"`
	Window int        `json:"window"`
}

// planArgs are those of its plan operation.
type planArgs struct {
	Batch int `json:"batch"`
	Rows  int `json:"rows,omitempty"`
}

// Memory asks the workers, now that the model is loaded, what each plan takes for
// trees that are nowhere deeper than engine.Window, and what is free. machine is how
// many bytes of the machine's own memory can be taken, 0 where that is not known; it
// counts for models on the processor. Workers on one device share what it has. Of
// several, the one with least free counts.
func (e *Engine) Memory(ctx context.Context, plans []engine.Plan, machine int64) (Memory, error) {
	args := memoryArgs{Window: engine.Window}
	for _, p := range plans {
		args.Plans = append(args.Plans, planArgs{p.Batch, p.Rows})
	}
	all := make([]Memory, len(e.workers))
	for i, w := range e.workers {
		if _, err := w.Call(ctx, "memory", args, &all[i], nil); err != nil {
			return Memory{}, fmt.Errorf("ask for free memory: %w", err)
		}
		if len(all[i].Needs) != len(plans) {
			return Memory{}, fmt.Errorf("ask for free memory: the worker answers for %d plans of %d", len(all[i].Needs), len(plans))
		}
	}
	return least(all, machine), nil
}

// least puts the workers' answers together.
func least(all []Memory, machine int64) Memory {
	sharing := map[string]int64{}
	for _, m := range all {
		sharing[m.Device]++
	}
	out := all[0]
	out.Free = 0
	for _, m := range all {
		switch share := sharing[m.Device]; {
		case m.GPU:
			m.Free /= share
		case machine > 0:
			m.Free = max(1, machine/share-m.Mapped)
		}
		if m.Free > 0 && (out.Free == 0 || m.Free < out.Free) {
			out.Device, out.Free = m.Device, m.Free
		}
		for i, n := range m.Needs {
			if n.Total() > out.Needs[i].Total() {
				out.Needs[i] = n
			}
		}
	}
	return out
}

// SetPlan has the workers compute with another plan from here on, those that
// are started again included. Nothing may be scored meanwhile. A plan that
// CheckPlan refuses is an engine.ErrInput.
func (e *Engine) SetPlan(ctx context.Context, p engine.Plan) error {
	if err := CheckPlan(p); err != nil {
		return engine.InputError(err)
	}
	errs := make([]error, len(e.workers))
	var group sync.WaitGroup
	for i, w := range e.workers {
		group.Go(func() {
			w.load.Plan = p
			w.Reload(w.load)
			_, errs[i] = w.Call(ctx, "plan", planArgs{p.Batch, p.Rows}, nil, nil)
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("set the plan: %w", err)
		}
	}
	return nil
}

// Fit returns which of the plans that m was asked for is the first to fit. A
// part of what is free is left for what no estimate knows. Where it is not
// known what is free that is the first of all. The error is a *MemoryError.
func (m Memory) Fit(plans []engine.Plan) (int, error) {
	for i := range plans {
		if m.Free <= 0 || m.Needs[i].Total() <= m.Free-m.Free/8 {
			return i, nil
		}
	}
	last := len(plans) - 1
	return last, &MemoryError{Plan: plans[last], Need: m.Needs[last], Memory: m}
}

// MemoryError says that a model is loaded, and that what is free beside it is too
// little for any plan.
type MemoryError struct {
	Plan   engine.Plan // the smallest
	Need   Footprint   // what it takes
	Memory Memory
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("to compute even batches of %d tokens takes %d MB of memory beside the weights (cache %d, logits %d, all else %d), of which %d MB are free on %s",
		e.Plan.Batch, MB(e.Need.Total()), MB(e.Need.Cache), MB(e.Need.Logits), MB(e.Need.Other), e.Memory.Free/1_000_000, e.Memory.Device)
}

// Hint says what the user can do.
func (e *MemoryError) Hint() string {
	if e.Memory.GPU {
		return "free some of the GPU's memory, take another or several (--device auto), or a smaller model; --batch N tries nevertheless where N fits"
	}
	return "free some memory, or take a smaller model; --dtype bfloat16 halves what one of 32 bits needs, off-standard"
}

// MB is a number of bytes in millions, rounded up.
func MB(n int64) int64 { return (n + 999_999) / 1_000_000 }
