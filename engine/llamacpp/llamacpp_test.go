//go:build unix

package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"olmes/artifact"
	"olmes/engine"
	"olmes/engine/child"
	"olmes/engine/enginetest"
	"olmes/engine/llamacpp/library"
	"olmes/model"
	"olmes/model/modeltest"
	"olmes/trie"
)

// TestMain makes the test binary its own engine process, and a parent of one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine-host" {
		if err := Host(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 3 && os.Args[1] == "engine-parent" {
		e, err := Start(context.Background(), Options{Library: os.Args[2], Model: os.Args[3:], Plan: DefaultPlan(Shape{})})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(e.(*Engine).PID())
		time.Sleep(time.Minute)
	}
	os.Exit(m.Run())
}

// libraryDir returns llama.cpp's directory. Without one, and without a network
// to get it, the test is skipped, except in CI.
func libraryDir(t *testing.T) string {
	t.Helper()
	store, err := artifact.Open("")
	if err != nil {
		t.Fatal(err)
	}
	lib, err := library.Best(t.Context(), store)
	unavailable(t, err)
	return lib.Dir
}

func unavailable(t *testing.T, err error) {
	t.Helper()
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("needs a download: ", err)
	}
}

// realModel returns the files of a registered model.
func realModel(t *testing.T, name string, accept ...string) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("real models take a while")
	}
	store, err := artifact.Open("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Resolve(t.Context(), store, name, model.Options{AcceptLicense: accept})
	unavailable(t, err)
	return m.Files
}

// tiny writes a small model with random weights.
func tiny(t *testing.T, o modeltest.Options) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := modeltest.Write(file, o); err != nil {
		t.Fatal(err)
	}
	return file
}

// smallPlan makes many batches of few tokens.
func smallPlan() engine.Plan {
	p := ExactPlan(Shape{Context: 4096})
	p.Batch, p.MicroBatch, p.Sequences = 64, 64, 12
	return p
}

func start(t *testing.T, plan engine.Plan, files ...string) *Engine {
	t.Helper()
	e, err := Start(t.Context(), Options{Library: libraryDir(t), Model: files, Plan: plan, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(*Engine)
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		o    modeltest.Options
	}{
		{"bpe", modeltest.Options{Merges: []string{"a n", "Ġ a", "Ġa n"}, Seed: 1}},
		{"sentencepiece", modeltest.Options{Tokenizer: modeltest.SentencePiece, Merges: []string{"▁a", "an"}, Context: 2048, Seed: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := tiny(t, c.o)
			enginetest.Run(t, func(t *testing.T) engine.Engine { return start(t, smallPlan(), file) })
		})
	}
}

func TestConformanceRealModel(t *testing.T) {
	files := realModel(t, "smollm2-135m-instruct")
	wide := filepath.Join(t.TempDir(), "f32.gguf")
	if err := Expand(t.Context(), Options{Library: libraryDir(t)}, files, wide, "f32"); err != nil {
		t.Fatal(err)
	}
	enginetest.Run(t, func(t *testing.T) engine.Engine { return start(t, ExactPlan(Shape{}), wide) })
}

// A file whose next token depends on the last alone, computed by hand:
// P(b|a) = 0.9, P(c|b) = 0.5.
func TestBigramFile(t *testing.T) {
	o := modeltest.Options{}
	vocab := len(o.Tokens())
	a, b, c := o.ID("a"), o.ID("b"), o.ID("c")
	o.Bigram = func(prev, next int32) float64 {
		p := 1 / float64(vocab)
		switch {
		case prev == a && next == b:
			p = 0.9
		case prev == a:
			p = 0.1 / float64(vocab-1)
		case prev == b && next == c:
			p = 0.5
		case prev == b:
			p = 0.5 / float64(vocab-1)
		}
		return math.Log(p)
	}
	e := start(t, smallPlan(), tiny(t, o))
	ids, err := e.Tokenize(t.Context(), []string{"abc"})
	if err != nil || !slices.Equal(ids[0], []int32{a, b, c}) {
		t.Fatalf("ids %v, %v", ids, err)
	}
	chunks, err := trie.Cut([][]trie.Sequence{{{IDs: ids[0], Start: 1}}}, trie.Limits{Tokens: 9})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Score(t.Context(), &chunks[0].Tree)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.LogProbs[0]+s.LogProbs[1], math.Log(0.9)+math.Log(0.5); math.Abs(got-want) > 1e-4 {
		t.Errorf("got %.6f, want %.6f", got, want)
	}
}

// chunksOf cuts questions with a common lead of lead tokens, below vocab.
func chunksOf(t *testing.T, lead, questions, limit, vocab int) []trie.Chunk {
	t.Helper()
	x := uint32(1)
	ids := func(n int) []int32 {
		out := make([]int32, n)
		for i := range out {
			x = x*1664525 + 1013904223
			out[i] = int32(x>>8)%int32(vocab-10) + 10
		}
		return out
	}
	shots := ids(lead)
	var groups [][]trie.Sequence
	for q := range questions {
		stem := append(slices.Clone(shots), ids(12+q%9)...)
		var seqs []trie.Sequence
		for range 4 {
			seqs = append(seqs, trie.Sequence{IDs: append(slices.Clone(stem), ids(1+q%5)...), Start: len(stem)})
		}
		seqs = append(seqs, trie.Sequence{IDs: append(slices.Clone(shots[:1]), ids(3)...), Start: 2}) // as unconditional requests
		groups = append(groups, seqs)
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: limit})
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

// sameBits scores every chunk after the one before it, and again in another
// process that has scored nothing.
func sameBits(t *testing.T, plan engine.Plan, chunks []trie.Chunk, files ...string) {
	t.Helper()
	e := start(t, plan, files...)
	kept := 0
	for k, c := range chunks {
		after, err := e.Score(t.Context(), &c.Tree)
		if err != nil {
			t.Fatal(err)
		}
		if after.Computed < len(c.Tree.Token) {
			kept++
		}
		if k == 0 {
			continue
		}
		alone, err := start(t, plan, files...).Score(t.Context(), &c.Tree)
		if err != nil {
			t.Fatal(err)
		}
		if alone.Computed != len(c.Tree.Token) {
			t.Errorf("chunk %d alone computed %d of %d tokens", k, alone.Computed, len(c.Tree.Token))
		}
		if !slices.Equal(after.LogProbs, alone.LogProbs) {
			t.Errorf("chunk %d has other bits after chunk %d than alone", k, k-1)
		}
	}
	if kept != len(chunks)-1 {
		t.Errorf("%d of %d chunks found their prefix kept", kept, len(chunks)-1)
	}
}

// What proves that keeping the prefix changes nothing: chunk k after chunk k-1
// has the bits of chunk k alone.
func TestChunkAfterChunk(t *testing.T) {
	vocab := len(modeltest.Options{}.Tokens())
	file := tiny(t, modeltest.Options{Seed: 3, Weights: modeltest.F16})
	for name, plan := range map[string]engine.Plan{"exact": smallPlan(), "default": DefaultPlan(Shape{Context: 4096})} {
		t.Run(name, func(t *testing.T) { sameBits(t, plan, chunksOf(t, 600, 40, 300, vocab), file) })
	}
}

// The same with sliding window attention: the prefix is longer than the window.
func TestChunkAfterChunkSlidingWindow(t *testing.T) {
	files := realModel(t, "gemma-3-270m", "gemma")
	sameBits(t, DefaultPlan(Shape{}), chunksOf(t, 700, 6, 120, 20000)[:2], files...)
}

// The number of threads changes no bit.
func TestThreads(t *testing.T) {
	vocab := len(modeltest.Options{}.Tokens())
	file := tiny(t, modeltest.Options{Seed: 4, Weights: modeltest.F16})
	chunks := chunksOf(t, 300, 10, 500, vocab)
	var want []float64
	for _, n := range []int{1, 2, 3} {
		e, err := Start(t.Context(), Options{Library: libraryDir(t), Model: []string{file}, Plan: DefaultPlan(Shape{}), Threads: n})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s, err := e.Score(t.Context(), &chunks[0].Tree)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = s.LogProbs
		}
		if !slices.Equal(s.LogProbs, want) {
			t.Errorf("%d threads give other bits than 1", n)
		}
	}
}

// A child that is killed fails the call it is in, with the reason, and the next
// call has another child and the same bits.
func TestKilledChild(t *testing.T) {
	file := tiny(t, modeltest.Options{Seed: 5})
	e := start(t, smallPlan(), file)
	c := chunksOf(t, 30, 4, 1000, len(modeltest.Options{}.Tokens()))[0]
	want, err := e.Score(t.Context(), &c.Tree)
	if err != nil {
		t.Fatal(err)
	}
	long := trie.Sequence{IDs: make([]int32, 4000), Start: 1}
	big, err := trie.Cut([][]trie.Sequence{{long}}, trie.Limits{Tokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	pid := e.PID()
	timer := time.AfterFunc(20*time.Millisecond, func() { syscall.Kill(pid, syscall.SIGKILL) })
	defer timer.Stop()
	for err = nil; err == nil; {
		_, err = e.Score(t.Context(), &big[0].Tree)
	}
	var died *child.ExitError
	if !errors.As(err, &died) || died.State != "signal: killed" {
		t.Errorf("error %v, want an ExitError that says signal: killed", err)
	}
	got, err := e.Score(t.Context(), &c.Tree)
	if err != nil || !slices.Equal(got.LogProbs, want.LogProbs) {
		t.Errorf("the next child: other bits (%v)", err)
	}
	if e.PID() == pid {
		t.Error("the same child answers")
	}
}

// A child that hangs is killed when the call is cancelled.
func TestHangingChild(t *testing.T) {
	e := start(t, smallPlan(), tiny(t, modeltest.Options{}))
	pid := e.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	tree := &trie.Tree{Token: []int32{5}, Parent: []int32{-1}}
	if _, err := e.Score(ctx, tree); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
	if _, err := e.Score(t.Context(), tree); err != nil || e.PID() == pid {
		t.Errorf("afterwards: %v, child %d, was %d", err, e.PID(), pid)
	}
}

func TestChildDiesWithParent(t *testing.T) {
	file := tiny(t, modeltest.Options{})
	cmd := exec.Command(os.Args[0], "engine-parent", libraryDir(t), file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	n, _ := out.Read(line)
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatalf("the parent says %q", line[:n])
	}
	cmd.Process.Kill()
	cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(state), ") Z ") {
			break // dead, and nobody has waited for it
		}
		if time.Now().After(deadline) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child outlives its parent")
		}
	}
}

func TestStartErrors(t *testing.T) {
	dir := libraryDir(t)
	good := tiny(t, modeltest.Options{})
	write := func(name string, b []byte) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return file
	}
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	plan := func(change func(*engine.Plan)) engine.Plan {
		p := smallPlan()
		change(&p)
		return p
	}
	same := func(*engine.Plan) {}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no library", Options{Library: filepath.Join(dir, "none"), Model: []string{good}}, "engine install"},
		{"empty library", Options{Library: t.TempDir(), Model: []string{good}}, "engine install"},
		{"no program", Options{Executable: []string{"/no/such/program"}, Library: dir, Model: []string{good}}, "no such file"},
		{"no host", Options{Executable: []string{"/bin/false"}, Library: dir, Model: []string{good}}, "exit status 1"},
		{"no protocol", Options{Executable: []string{"/bin/echo", "hello, hello, hello"}, Library: dir, Model: []string{good}}, "died"},
		{"no model", Options{Library: dir, Model: []string{filepath.Join(dir, "none.gguf")}}, "no such file"},
		{"no file", Options{Library: dir}, "no model file"},
		{"text", Options{Library: dir, Model: []string{write("text.gguf", []byte("hello"))}}, "llama.cpp says"},
		{"cut", Options{Library: dir, Model: []string{write("cut.gguf", whole[:len(whole)-1000])}}, "llama.cpp says"},
		{"NaN", Options{Library: dir, Model: []string{tiny(t, modeltest.Options{NaN: true})}}, "invalid"},
		{"cells", Options{Library: dir, Model: []string{good}, Plan: plan(func(p *engine.Plan) { p.Cells = 1 << 30 })}, "cells"},
		{"memory", Options{Library: dir, Model: []string{tiny(t, modeltest.Options{Layers: 64, Heads: 8})}, Plan: plan(func(p *engine.Plan) { p.Cells = 1 << 22 })}, "free"},
		{"sequences", Options{Library: dir, Model: []string{good}, Plan: plan(func(p *engine.Plan) { p.Sequences = 257 })}, "sequences"},
		{"batch", Options{Library: dir, Model: []string{good}, Plan: plan(func(p *engine.Plan) { p.MicroBatch = 65 })}, "micro_batch"},
		{"type", Options{Library: dir, Model: []string{good}, Plan: plan(func(p *engine.Plan) { p.KVType = "q4_0" })}, "kv_type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Plan == (engine.Plan{}) {
				c.o.Plan = plan(same)
			}
			e, err := Start(t.Context(), c.o)
			if err == nil {
				e.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
		})
	}
}

func TestStartCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, Options{Library: libraryDir(t), Model: []string{tiny(t, modeltest.Options{})}, Plan: smallPlan()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestExpand(t *testing.T) {
	o := Options{Library: libraryDir(t)}
	dir := t.TempDir()
	src := []string{tiny(t, modeltest.Options{Weights: modeltest.Q8, Seed: 6})}
	for _, to := range []string{"f16", "bf16", "f32"} {
		dst := filepath.Join(dir, to+".gguf")
		if err := Expand(t.Context(), o, src, dst, to); err != nil {
			t.Fatal(err)
		}
		d, err := start(t, smallPlan(), dst).Describe(t.Context())
		if err != nil || !strings.Contains(strings.ToLower(d.WeightType), to) {
			t.Errorf("expanded to %s, the file has %q (%v)", to, d.WeightType, err)
		}
	}
	again := filepath.Join(dir, "again.gguf")
	if err := Expand(t.Context(), o, src, again, "f16"); err != nil {
		t.Fatal(err)
	}
	one, _ := os.ReadFile(filepath.Join(dir, "f16.gguf"))
	if two, err := os.ReadFile(again); err != nil || !slices.Equal(one, two) {
		t.Errorf("expanding twice gives different files (%v)", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"type":      Expand(t.Context(), o, src, filepath.Join(dir, "x"), "q4_0"),
		"no source": Expand(t.Context(), o, []string{filepath.Join(dir, "none")}, filepath.Join(dir, "x"), "f16"),
		"no folder": Expand(t.Context(), o, src, filepath.Join(dir, "none", "x"), "f16"),
		"cancelled": Expand(ctx, o, src, filepath.Join(dir, "x"), "f16"),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v are left (%v), want the four copies", entries, err)
	}
}

// A hundred thousand texts of a few kB pass through in frames.
func TestTokenizeMany(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	e := start(t, smallPlan(), tiny(t, modeltest.Options{}))
	text := strings.Repeat("Question: which of these? ", 40)
	texts := slices.Repeat([]string{text}, 20_000)
	ids, err := e.Tokenize(t.Context(), texts)
	if err != nil || len(ids) != len(texts) || len(ids[len(ids)-1]) != len(text) {
		t.Fatalf("%d lists (%v)", len(ids), err)
	}
}

// Measuring the limit leaves what is scored as it is.
func TestLimit(t *testing.T) {
	vocab := len(modeltest.Options{}.Tokens())
	e := start(t, DefaultPlan(Shape{}), tiny(t, modeltest.Options{Seed: 6}))
	chunks := chunksOf(t, 300, 10, 500, vocab)
	want, err := e.Score(t.Context(), &chunks[0].Tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []LimitRequest{{Tokens: 1300, Rows: 40, Depth: 700}, {Tokens: 10, Rows: 10}, {Tokens: 0}} {
		seconds, err := e.Limit(t.Context(), q)
		if err != nil || (seconds > 0) != (q.Tokens > 0) || seconds > 100 {
			t.Errorf("%+v: %v s, %v", q, seconds, err)
		}
	}
	for _, q := range []LimitRequest{{Tokens: -1}, {Tokens: 5, Rows: 6}, {Tokens: 5, Depth: -1000}} {
		if _, err := e.Limit(t.Context(), q); !errors.Is(err, engine.ErrInput) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	got, err := e.Score(t.Context(), &chunks[0].Tree)
	if err != nil || !slices.Equal(got.LogProbs, want.LogProbs) {
		t.Errorf("other bits after measuring the limit (%v)", err)
	}
}
