//go:build linux

package torch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"olmes/engine"
	"olmes/engine/child"
	"olmes/engine/torch/torchtest"
	"olmes/trie"
)

// deep is a tree of a path of so many tokens, the first half of which is the
// prefix, and leaves of three tokens after its end, with something wanted after
// each token that follows the prefix.
func deep(depth, leaves int) *trie.Tree {
	t := &trie.Tree{Prefix: depth / 2}
	add := func(parent int) int {
		i := len(t.Token)
		t.Token, t.Parent = append(t.Token, int32(i*7919%240+5)), append(t.Parent, int32(parent))
		if i >= t.Prefix {
			t.Wants = append(t.Wants, trie.Want{Node: int32(i), Token: int32(i*31%240 + 5)})
		}
		return i
	}
	last := -1
	for range depth {
		last = add(last)
	}
	for range leaves {
		for i, parent := 0, last; i < 3; i++ {
			parent = add(parent)
		}
	}
	return t
}

// memoryOf returns a number of bytes out of a process's status, such as VmRSS.
func memoryOf(t *testing.T, pid int, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatalf("process %d has no %s", pid, name)
	return 0
}

// peak returns how much memory the worker has at most, in bytes, while it scores
// a tree.
func peak(t *testing.T, e *Engine, tree *trie.Tree) int64 {
	t.Helper()
	pid := e.PIDs()[0]
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Skip("the peak of a process's memory cannot be set back here: ", err)
	}
	if _, err := e.Score(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	return memoryOf(t, pid, "VmHWM")
}

// The estimate of what a plan takes is at least what it takes, and at most two
// and a half times that, for the tree that takes most: as deep as the window, cut
// at its end, and with something wanted after each token.
func TestPeakMemory(t *testing.T) {
	folder := torchtest.SmolLM2(t)
	all := Plans(Shape{Parameters: 135e6, Vocab: 49152})
	plans := []engine.Plan{all[len(all)-1], all[0]} // what the smaller leaves behind is less than the larger takes
	for _, c := range []struct{ dtype, packing string }{{"float32", "tree"}, {"bfloat16", "tree"}, {"float32", "copy"}} {
		e := start(t, Options{Model: folder, DType: c.dtype, Packing: c.packing})
		const machine = 1 << 40
		m, err := e.Memory(t.Context(), plans, machine)
		if err != nil {
			t.Fatal(err)
		}
		weights := int64(134_515_008 * 4)
		if c.dtype == "bfloat16" {
			weights /= 2
		}
		if m.Device != "cpu" || m.GPU || m.Free > machine-weights*95/100 || m.Free < machine-3*weights {
			t.Errorf("%s: %+v", c.dtype, m)
		}
		if err := e.SetPlan(t.Context(), plans[0]); err != nil {
			t.Fatal(err)
		}
		peak(t, e, deep(32, 8)) // what the first forward sets up for good
		before := memoryOf(t, e.PIDs()[0], "VmRSS")
		for i, p := range plans {
			if err := e.SetPlan(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			used, need := peak(t, e, deep(2040, p.Batch/2))-before, m.Needs[i].Total()
			t.Logf("%s, packing %s, batch %d: %d MB, estimated %d (%+v)", c.dtype, c.packing, p.Batch, used/1e6, need/1e6, m.Needs[i])
			if used > need || need > 5*used/2 && c.packing == "tree" {
				t.Errorf("%s, packing %s, batch %d: %d MB, estimated %d", c.dtype, c.packing, p.Batch, used/1e6, need/1e6)
			}
		}
		e.Close()
	}
}

// A plan can be changed, in processes that are started later too: it gives the
// bits of an engine that was started with it.
func TestSetPlan(t *testing.T) {
	folder, tree := tiny(t, "llama"), questions(t, 40, 9)
	for _, packing := range []string{"tree", "copy", "plain"} {
		other := engine.Plan{Batch: 24, Rows: 8}
		want, err := start(t, Options{Model: folder, Packing: packing, Plan: other}).Score(t.Context(), tree)
		if err != nil {
			t.Fatal(err)
		}
		e := start(t, Options{Model: folder, Packing: packing})
		if _, err := e.Score(t.Context(), tree); err != nil {
			t.Fatal(err)
		}
		if err := e.SetPlan(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := e.Score(t.Context(), tree)
			if err != nil || !slices.Equal(got.LogProbs, want.LogProbs) || got.Computed != want.Computed {
				t.Errorf("packing %s: other results than of an engine started with the plan (%v)", packing, err)
			}
			syscall.Kill(e.PIDs()[0], syscall.SIGKILL)
			var exit *child.ExitError
			if _, err := e.Score(t.Context(), tree); err != nil && !errors.As(err, &exit) {
				t.Errorf("packing %s: %v", packing, err)
			}
		}
		if err := e.SetPlan(t.Context(), engine.Plan{Batch: 4, Rows: 8}); !errors.Is(err, engine.ErrInput) {
			t.Errorf("more rows than the batch has: %v", err)
		}
	}
}

// Free memory is the device's own where it has some, and of several devices the
// smallest counts.
func TestMemoryOfDevices(t *testing.T) {
	const script = `
import torch
from olmes_torch import memory
free = {0: 9_000_000_000, 1: 5_000_000_000}
memory.free = lambda device: free[device.index] if device.type == "cuda" else None
module.Forward.devices = lambda self: [torch.device("cuda", 0), torch.device("cuda", 1)]
`
	folder := tiny(t, "llama")
	plans := Plans(Shape{Parameters: 1e6, Vocab: 260, GPU: true})
	patched(t, script)
	m, err := start(t, Options{Model: folder}).Memory(t.Context(), plans, 77)
	if err != nil || m.Device != "cuda:1" || !m.GPU || m.Free != 5e9 || m.Mapped != 0 || len(m.Needs) != len(plans) {
		t.Errorf("%+v, %v", m, err)
	}
	// Two workers there share what it has.
	m, err = start(t, Options{Model: folder, Devices: []string{"cpu", "cpu"}}).Memory(t.Context(), plans, 77)
	if err != nil || m.Free != 25e8 {
		t.Errorf("two workers: %+v, %v", m, err)
	}
}

// What a plan takes falls with its batch, whatever the packing, and asking counts
// as no work.
func TestNeeds(t *testing.T) {
	for _, recipe := range []string{"llama", "gemma3_text", "gemma2", "gpt_neox nfc", "mpt", "mamba"} {
		e := start(t, Options{Model: tiny(t, recipe)})
		plans := Plans(Shape{Vocab: 260, GPU: true})
		m, err := e.Memory(t.Context(), plans, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		packing := describe(t, e).Packing
		for i, n := range m.Needs {
			if n.Total() < 64<<20 || n.Cache < 0 || (n.Cache == 0) != (packing == "plain") || n.Logits <= 0 || n.Other <= 0 {
				t.Errorf("%s: %+v takes %+v", recipe, plans[i], n)
			}
			if last := m.Needs[max(0, i-1)]; n.Total() > last.Total() || i > 0 && n.Total() == last.Total() && packing != "plain" {
				t.Errorf("%s: %+v takes %d bytes, %+v %d", recipe, plans[i], n.Total(), plans[i-1], last.Total())
			}
		}
		if s, err := e.Stats(t.Context()); err != nil || s.Computed != 0 || s.Library != 0 {
			t.Errorf("%s: %+v, %v", recipe, s, err)
		}
		e.Close()
	}
}

// Weights that do not fit into the machine's memory are refused before they fill
// it.
func TestWeightsDoNotFit(t *testing.T) {
	o := Options{Model: tiny(t, "llama"), Memory: 1000}
	if err := try(t, o); !errors.Is(err, engine.ErrInput) || !strings.Contains(err.Error(), "the model's weights need 1 MB of memory, of which 0 MB are free") {
		t.Errorf("error %v", err)
	}
}
