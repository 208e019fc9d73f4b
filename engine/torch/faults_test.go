//go:build unix

package torch

import (
	"context"
	"encoding/json"
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

// patched makes each worker started from here on run a script on its module
// packing (as the variable module) after it is loaded, so that faults can be made
// without a place for them in the worker.
func patched(t *testing.T, script string) {
	t.Helper()
	const finder = `import sys
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
                exec(SCRIPT, {"module": module})
            spec.loader.exec_module = exec_module
            return spec
    sys.meta_path.insert(0, Finder())
`
	quoted, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), []byte(strings.ReplaceAll(finder, "SCRIPT", string(quoted))), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", dir)
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
	syscall.Kill(first, syscall.SIGSTOP) // it cannot answer before it is killed
	time.AfterFunc(50*time.Millisecond, func() { syscall.Kill(first, syscall.SIGKILL) })
	_, err = e.Score(t.Context(), questions(t, 900, 300))
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
call = module.Forward.__call__
def limited(self, ids, *args, **kwargs):
    if ids.numel() > 40:
        raise KIND("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes")
    return call(self, ids, *args, **kwargs)
module.Forward.__call__ = limited
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

// A packing with a fault is found by the self-check, and the next one taken.
func TestSelfCheck(t *testing.T) {
	const (
		shift = `
batch = module.TreePacking._batch
module.TreePacking._batch = lambda self, tree, columns, a, b, want, to, cache, end, depth: batch(
    self, tree, columns, a, b, want, to, cache, end, depth + (end < len(tree.token)))
`
		sibling = `
batch = module.TreePacking._batch
module.TreePacking._batch = lambda self, tree, columns, a, b, want, to, cache, end, depth: batch(
    self, tree, columns, a, b, want, to, cache, end + 1, depth)
`
		dropped = `
mask = module.TreePacking._mask
def _mask(self, seen, depth, depths):
    seen = seen.clone()
    seen[1:, 0] = False
    return mask(self, seen, depth, depths)
module.TreePacking._mask = _mask
`
		base = `
found = module.TreePacking._base
def _base(self, tree, prefix, columns, a, b, cache):
    nodes, layers = found(self, tree, prefix, columns, a, b, cache)
    return nodes, [(k.roll(1, 2), v) for k, v in layers]
module.TreePacking._base = _base
`
		stale = `
deepcopy = module.copy.deepcopy
module.copy = type("copy", (), {"deepcopy": staticmethod(lambda x: x)})
`
	)
	for _, c := range []struct{ name, script, dtype, want string }{
		{"none", "", "bfloat16", "tree"},
		{"a position is shifted", shift, "float32", "copy"},
		{"a position is shifted, 16 bits", shift, "bfloat16", "copy"},
		{"a sibling is seen", sibling, "float32", "copy"},
		{"a token is not seen", dropped, "float32", "copy"},
		{"what is kept is misplaced", base, "float32", "copy"},
		{"copies are not made", shift + stale, "float32", "plain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := tiny(t, "llama")
			patched(t, c.script)
			d := describe(t, start(t, Options{Model: folder, DType: c.dtype}))
			t.Logf("%q", d.Notes)
			if d.Packing != c.want {
				t.Errorf("packing %s, want %s", d.Packing, c.want)
			}
		})
	}
}
