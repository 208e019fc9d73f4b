//go:build unix

package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"olmes"
	"olmes/artifact/pythontest"
	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/engine/llamacpp"
	"olmes/engine/llamacpp/library"
	"olmes/engine/openai"
	"olmes/engine/openai/faultproxy"
	"olmes/engine/openai/server"
	"olmes/engine/openai/servertest"
	"olmes/engine/torch/torchtest"
	"olmes/model"
	"olmes/run"
	"olmes/trie"
)

// TestMain lets the test binary serve as the embedded engine's child process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine-host" {
		if err := llamacpp.Host(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// wide returns a file of SmolLM2 with weights of 32 bits.
func wide(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("real models take a while")
	}
	s := pythontest.Store(t)
	m, err := model.Resolve(t.Context(), s, "smollm2-135m-instruct", model.Options{})
	pythontest.Unavailable(t, err)
	lib, err := library.Best(t.Context(), s)
	pythontest.Unavailable(t, err)
	name := m.SHA256[:32] + "-f32-" + library.Version + ".gguf"
	path, err := s.Ensure(t.Context(), filepath.Join("expanded", name), func(ctx context.Context, tmp string) (string, error) {
		out := filepath.Join(tmp, name)
		return out, llamacpp.Expand(ctx, llamacpp.Options{Library: lib.Dir, Threads: 1}, m.Files, out, "f32")
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// embedded starts the embedded engine in exact mode.
func embedded(t *testing.T) engine.Engine {
	t.Helper()
	file := wide(t)
	lib, err := library.Best(t.Context(), pythontest.Store(t))
	pythontest.Unavailable(t, err)
	e, err := llamacpp.Start(t.Context(), llamacpp.Options{Library: lib.Dir, Model: []string{file}, Plan: llamacpp.ExactPlan(llamacpp.Shape{}), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// llamaServer starts llama-server in exact mode.
func llamaServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), server.Options{Kind: server.LlamaServer, Program: servertest.LlamaServer(t), Model: wide(t), Exact: true, Threads: 1,
		Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// vllmPython is the interpreter that has vLLM. It is a test of its own command,
// since making its environment takes 3 GB: OLMES_VLLM=1 go test ./engine/openai -run VLLM.
func vllmPython(t *testing.T) string {
	t.Helper()
	if os.Getenv("OLMES_VLLM") == "" {
		t.Skip("set OLMES_VLLM=1 to test with vLLM; its environment takes 3 GB")
	}
	return servertest.VLLM(t)
}

// startVLLM starts vLLM in 32 bits with a model's folder.
func startVLLM(t *testing.T, python, folder string) (*server.Server, error) {
	t.Helper()
	s, err := server.Start(t.Context(), server.Options{Kind: server.VLLM, Python: python, Model: folder, DType: "float32",
		Args: servertest.VLLMArgs(), Env: servertest.VLLMEnv(), Log: filepath.Join(t.TempDir(), "log")})
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// vllm starts vLLM with SmolLM2.
func vllm(t *testing.T) *server.Server {
	t.Helper()
	python := vllmPython(t)
	folder := os.Getenv("OLMES_VLLM_MODEL")
	if folder == "" {
		folder = torchtest.SmolLM2(t)
	}
	s, err := startVLLM(t, python, folder)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// vllmURL is the address of vLLM: of the server in OLMES_VLLM_URL, or of one that
// is started.
func vllmURL(t *testing.T) string {
	t.Helper()
	if url := os.Getenv("OLMES_VLLM_URL"); url != "" {
		return url
	}
	return vllm(t).URL()
}

func open(t *testing.T, url string, o openai.Options) *openai.Engine {
	t.Helper()
	o.URL = url
	if o.Architecture == "" {
		o.Architecture = "llama"
	}
	o.DType = "float32"
	e, err := openai.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(*openai.Engine)
}

// whole skips what takes llama-server minutes, unless it is asked for:
// OLMES_SERVERS=1, as .ci/full does.
func whole(t *testing.T) {
	t.Helper()
	if os.Getenv("OLMES_SERVERS") == "" {
		t.Skip("set OLMES_SERVERS=1 for what takes llama-server minutes")
	}
}

// The suite that every engine passes. Bits depend on what the server's cache
// holds and on what it computes beside, so equal trees are equal to a bound.
func TestLlamaServerConformance(t *testing.T) {
	whole(t)
	s := llamaServer(t)
	enginetest.RunWithin(t, enginetest.Tolerance, func(t *testing.T) engine.Engine { return open(t, s.URL(), openai.Options{}) })
}

func TestVLLMConformance(t *testing.T) {
	url := vllmURL(t)
	for _, strategy := range []string{openai.Step, openai.Echo} {
		t.Run(strategy, func(t *testing.T) {
			enginetest.RunWithin(t, enginetest.Tolerance, func(t *testing.T) engine.Engine {
				return open(t, url, openai.Options{Strategy: strategy})
			})
		})
	}
}

// part is the requests of one task and formulation, as chunks.
type part struct {
	name     string
	chunks   []trie.Chunk
	requests [][]olmes.Request // by group
}

// parts renders and encodes the first instances of a task.
func parts(t *testing.T, e engine.Engine, name string, limit int) []part {
	t.Helper()
	var out []part
	for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
		p := part{name: name + " " + string(f)}
		c := run.Config{Model: "smollm2-135m-instruct", Tasks: []string{name + ":" + string(f)}, Limit: limit}
		var all []olmes.Request
		for r, err := range run.Requests(t.Context(), c, run.Env{Store: pythontest.Store(t)}, false) {
			pythontest.Unavailable(t, err)
			all = append(all, r)
		}
		enc := run.Encoder{Tokenizer: e, BOS: -1, Window: 2048}
		ids, err := enc.Encode(t.Context(), all, nil)
		if err != nil {
			t.Fatal(err)
		}
		var groups [][]trie.Sequence
		for i, r := range all {
			if i == 0 || all[i-1].DocID != r.DocID {
				groups, p.requests = append(groups, nil), append(p.requests, nil)
			}
			last := len(groups) - 1
			groups[last] = append(groups[last], ids[i].Sequence)
			p.requests[last] = append(p.requests[last], r)
		}
		if p.chunks, err = trie.Cut(groups, trie.Limits{Tokens: 4096}); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// sums scores the part and returns each request's log-probability, by group.
func (p part) sums(t *testing.T, e engine.Engine) [][]float64 {
	t.Helper()
	out := make([][]float64, len(p.requests))
	for i := range p.chunks {
		c := &p.chunks[i]
		got, err := e.Score(t.Context(), &c.Tree)
		if err != nil {
			t.Fatal(err)
		}
		for i, sums := range enginetest.Sums(c, got.LogProbs) {
			out[c.Groups[i]] = sums
		}
	}
	return out
}

// compare returns the largest difference of two engines' numbers, and checks
// that none of their decisions differ but where two choices are about equal.
func (p part) compare(t *testing.T, name string, a, b [][]float64, bound float64) {
	t.Helper()
	worst, flipped, near := 0.0, 0, 0
	best := func(x []float64) (at int) {
		for i := range x {
			if x[i] > x[at] {
				at = i
			}
		}
		return at
	}
	for g := range a {
		for i := range a[g] {
			worst = max(worst, math.Abs(a[g][i]-b[g][i]))
		}
	}
	for g := range a {
		x, y := best(a[g]), best(b[g])
		switch {
		case x == y:
		case a[g][x]-a[g][y] <= 2*worst:
			near++
		default:
			flipped++
			t.Errorf("%s %s: instance %d flips", p.name, name, p.requests[g][0].DocID)
		}
	}
	t.Logf("%s, %s: largest difference %.2g nats in %d instances, %d decisions flipped, %d near-ties", p.name, name, worst, len(a), flipped, near)
	if worst > bound {
		t.Errorf("%s %s: differ by %.2g nats, bound %g", p.name, name, worst, bound)
	}
}

// parityInstances is how many instances of each task the servers are compared
// on.
const parityInstances = 20

// The numbers are those of the embedded engine in exact mode.
func TestLlamaServerParity(t *testing.T) {
	exact := embedded(t)
	e := open(t, llamaServer(t).URL(), openai.Options{})
	n := parityInstances
	if os.Getenv("OLMES_SERVERS") == "" {
		n = 5
	}
	for _, p := range parts(t, exact, "arc_easy", n) {
		// llama-server sums up a softmax in 32 bits, one after the other.
		p.compare(t, "llama-server and embedded", p.sums(t, exact), p.sums(t, e), 5e-3)
		logMetrics(t, e, p)
	}
}

func logMetrics(t *testing.T, e *openai.Engine, p part) {
	t.Helper()
	distinct, naive := 0, 0
	for _, c := range p.chunks {
		distinct += len(c.Tree.Token)
	}
	for g := range p.requests {
		naive += len(p.requests[g])
	}
	stats, err := e.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(e.Metrics(t.Context()))
	t.Logf("%s: %d distinct tokens with each chunk's prefix; computed so far %d; %s", p.name, distinct, stats.Computed, text)
}

func TestVLLMParity(t *testing.T) {
	exact := embedded(t)
	url := vllmURL(t)
	for _, p := range parts(t, exact, "arc_easy", parityInstances) {
		want := p.sums(t, exact)
		step := open(t, url, openai.Options{Strategy: openai.Step})
		steps := p.sums(t, step)
		logMetrics(t, step, p)
		echo := open(t, url, openai.Options{Strategy: openai.Echo})
		echoes := p.sums(t, echo)
		logMetrics(t, echo, p)
		p.compare(t, "vllm step and embedded", want, steps, 5e-3)
		p.compare(t, "vllm echo and embedded", want, echoes, 5e-3)
		p.compare(t, "vllm step and echo", steps, echoes, 2e-3)
	}
}

// kills has a server of ours killed in the middle, connections cut and calls put
// off: the numbers are the same, and nobody is left.
func kills(t *testing.T, s *server.Server, child bool) {
	proxy := faultproxy.New(s.URL(), 7, nil)
	proxy.Path = "/completion"
	if !child {
		proxy.Path = "/completions"
	}
	front := httptest.NewServer(proxy)
	defer front.Close()
	e := open(t, front.URL, openai.Options{Child: s})
	p := parts(t, e, "arc_easy", 6)[1]
	want := p.sums(t, e)
	proxy.Shares = map[faultproxy.Fault]float64{faultproxy.Cut: 0.05, faultproxy.Half: 0.02, faultproxy.NaN: 0.02, faultproxy.Broken: 0.02}
	p.compare(t, "with faults and without", want, p.sums(t, e), 1e-3)
	proxy.RefuseFor(10 * time.Second)
	p.compare(t, "refused for ten seconds and not", want, p.sums(t, e), 1e-3)
	pid := s.PID()
	syscall.Kill(pid, syscall.SIGSTOP) // it cannot answer before it is killed
	time.AfterFunc(300*time.Millisecond, func() { syscall.Kill(pid, syscall.SIGKILL) })
	p.compare(t, "killed in the middle and not", want, p.sums(t, e), 1e-3)
	if s.PID() == pid {
		t.Error("the server was not killed")
	}
	group := s.PID()
	e.Close()
	if err := syscall.Kill(-group, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("processes are left: %v", err)
	}
}

func TestLlamaServerKilled(t *testing.T) {
	whole(t)
	kills(t, llamaServer(t), true)
}

func TestVLLMKilled(t *testing.T) { kills(t, vllm(t), false) }
