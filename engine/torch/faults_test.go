//go:build unix

package torch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"olmes/engine"
	"olmes/engine/child"
	"olmes/engine/torch/torchtest"
	"olmes/trie"
)

// questions is a tree of a lead and some instances of three choices.
func questions(t *testing.T, lead, instances int) *trie.Tree {
	t.Helper()
	id := func(n int) int32 { return int32(10 + (n*7919+n*n)%240) }
	var groups [][]trie.Sequence
	for g := range instances {
		var ids []int32
		for i := range lead {
			ids = append(ids, id(i))
		}
		for i := range 5 + g%4 {
			ids = append(ids, id(1000+50*g+i))
		}
		var seqs []trie.Sequence
		for c := range 3 {
			choice := slices.Clone(ids)
			for i := range 1 + c {
				choice = append(choice, id(9000+60*g+10*c+i))
			}
			seqs = append(seqs, trie.Sequence{IDs: choice, Start: len(ids)})
		}
		groups = append(groups, seqs)
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return &chunks[0].Tree
}

// patched returns a Python that runs a script in each worker before the worker
// itself, so that faults can be made without a place for them in the worker.
func patched(t *testing.T, script string) string {
	t.Helper()
	python := torchtest.Python(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", dir)
	return python
}

// A worker that is killed ends its call with an ExitError; the next call starts
// another, which gives the same bits.
func TestKilledWorker(t *testing.T) {
	e := start(t, Options{Model: tiny(t, "llama")})
	tree := questions(t, 40, 6)
	want, err := e.Score(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	first := e.PIDs()[0]
	big := questions(t, 900, 300)
	time.AfterFunc(50*time.Millisecond, func() { syscall.Kill(first, syscall.SIGKILL) })
	_, err = e.Score(t.Context(), big)
	var exit *child.ExitError
	if !errors.As(err, &exit) || !strings.Contains(exit.State, "killed") {
		t.Errorf("error %v, want an ExitError by a kill", err)
	}
	got, err := e.Score(t.Context(), tree)
	if err != nil || !slices.Equal(got.LogProbs, want.LogProbs) {
		t.Errorf("after the kill: other bits (%v)", err)
	}
	if now := e.PIDs()[0]; now == first || now == 0 {
		t.Errorf("process %d after %d", now, first)
	}
}

// The worker ends with its input, whatever it is computing, and leaves nothing.
func TestClose(t *testing.T) {
	e := start(t, Options{Model: tiny(t, "llama")})
	pid, dir := e.PIDs()[0], e.dir
	go e.Score(t.Context(), questions(t, 900, 300))
	time.Sleep(50 * time.Millisecond)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d after Close: %v", pid, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %s after Close: %v", dir, err)
	}
}

// Cancelling stops between layers, so that the worker lives and keeps its prefix.
func TestCancel(t *testing.T) {
	e := start(t, Options{Model: tiny(t, "llama")})
	pid := e.PIDs()[0]
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := e.Score(ctx, questions(t, 900, 600)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("cancelling took %v", took)
	}
	if _, err := e.Score(t.Context(), questions(t, 40, 2)); err != nil {
		t.Error(err)
	}
	if now := e.PIDs()[0]; now != pid {
		t.Errorf("process %d, was %d: the worker was killed", now, pid)
	}
}

// Out of memory halves the batch, gives the results of the smaller one, and is
// told.
func TestOutOfMemory(t *testing.T) {
	const script = `
import sys
if sys.orig_argv[-1].endswith("main.py"):
    import importlib.abc, importlib.util
    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name != "olmes_torch.packing":
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            load = spec.loader.exec_module
            def exec_module(module):
                load(module)
                call = module.Forward.__call__
                def limited(self, ids, *args, **kwargs):
                    if ids.numel() > 40:
                        raise KIND("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes")
                    return call(self, ids, *args, **kwargs)
                module.Forward.__call__ = limited
            spec.loader.exec_module = exec_module
            return spec
    sys.meta_path.insert(0, Finder())
`
	folder, tree := tiny(t, "llama"), questions(t, 30, 9)
	small := start(t, Options{Model: folder, Plan: engine.Plan{Batch: 32, Rows: 20}})
	want, err := small.Score(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"RuntimeError", "MemoryError"} {
		patched(t, strings.ReplaceAll(script, "KIND", kind))
		// The tokens of the self-check's trees are fewer.
		e := start(t, Options{Model: folder, Packing: "tree", Plan: engine.Plan{Batch: 128, Rows: 80}})
		got, err := e.Score(t.Context(), tree)
		if err != nil || !slices.Equal(got.LogProbs, want.LogProbs) {
			t.Errorf("%s: other results than with small batches (%v)", kind, err)
		}
		if d := describe(t, e); !slices.ContainsFunc(d.Notes, func(n string) bool { return strings.Contains(n, "ran out of memory with batches of 64") }) {
			t.Errorf("%s: notes %q do not tell", kind, d.Notes)
		}
	}
}

// Two workers share the calls; each tree goes to the one that has its prefix.
func TestDevices(t *testing.T) {
	e := start(t, Options{Model: tiny(t, "llama"), Devices: []string{"cpu", "cpu"}})
	if d := describe(t, e); d.Parallel != 2 {
		t.Errorf("parallel is %d, want 2", d.Parallel)
	}
	trees := []*trie.Tree{questions(t, 40, 5), questions(t, 30, 5)}
	var want []engine.Scores
	for range 3 {
		for i, tree := range trees {
			s, err := e.Score(t.Context(), tree)
			if err != nil {
				t.Fatal(err)
			}
			if len(want) < 2 {
				want = append(want, s)
				continue
			}
			if n := len(tree.Token) - tree.Prefix; s.Computed != n {
				t.Errorf("tree %d again computed %d tokens, want the %d after its prefix", i, s.Computed, n)
			}
			if !slices.Equal(s.LogProbs, want[i].LogProbs) {
				t.Errorf("tree %d again has other bits", i)
			}
		}
	}
}
