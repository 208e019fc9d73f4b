package llamacpp

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"olmes/engine"
	"olmes/trie"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine-host" {
		if err := Host(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestDev(t *testing.T) {
	lib, model := os.Getenv("DEV_LIB"), os.Getenv("DEV_MODEL")
	if lib == "" {
		t.Skip()
	}
	o := Options{Threads: 1, Library: lib, Model: []string{model}, Plan: DefaultPlan(Shape{Parameters: 135e6, Context: 2048}), Log: os.Stderr}
	if os.Getenv("DEV_LOG") == "" {
		o.Log = nil
	}
	t0 := time.Now()
	e, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	t.Log("start", time.Since(t0))
	d, err := e.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", d)
	ids, err := e.Tokenize(t.Context(), []string{"The capital of France is Paris. The capital of Germany is", " Berlin", " Paris", ""})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(ids)
	var group []trie.Sequence
	for _, c := range ids[1:3] {
		group = append(group, trie.Sequence{IDs: append(append([]int32{}, ids[0]...), c...), Start: len(ids[0])})
	}
	chunks, err := trie.Cut([][]trie.Sequence{group}, trie.Limits{Tokens: 512})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Score(t.Context(), &chunks[0].Tree)
	t.Log(s, err)
	st, err := e.(engine.Counter).Stats(t.Context())
	t.Log(st, err)
	// A prefix of 500 and 400 questions of 40 tokens with 3 ends of 3.
	tree := &trie.Tree{Prefix: 500}
	add := func(p int32, tok int32) int32 {
		tree.Token = append(tree.Token, tok)
		tree.Parent = append(tree.Parent, p)
		return int32(len(tree.Token) - 1)
	}
	p := int32(-1)
	for i := range 500 {
		p = add(p, int32(100+i*7%4000))
	}
	for q := range 20 {
		n := p
		for j := range 40 {
			n = add(n, int32(1000+q*41+j))
		}
		for c := range 3 {
			m := n
			for k := range 4 {
				tree.Wants = append(tree.Wants, trie.Want{Node: m, Token: int32(300 + c)})
				if k < 3 {
					m = add(m, int32(2000+c*5+k))
				}
			}
		}
	}
	seen := map[trie.Want]bool{}
	var ws []trie.Want
	for i := range int32(len(tree.Token)) {
		for _, w := range tree.Wants {
			if w.Node == i && !seen[w] {
				seen[w] = true
				ws = append(ws, w)
			}
		}
	}
	tree.Wants = ws
	for range 2 {
		t0 = time.Now()
		c0 := cpu(e.(*Engine).PID())
		s, err = e.Score(t.Context(), tree)
		if err != nil {
			t.Fatal(err)
		}
		c := cpu(e.(*Engine).PID()) - c0
		t.Logf("%d tokens %d wants %v %.0f tok/s, cpu %v %.0f tok/cpu-s", s.Computed, len(ws), time.Since(t0), float64(s.Computed)/time.Since(t0).Seconds(), c, float64(s.Computed)/c)
	}
}

func TestDevExpand(t *testing.T) {
	lib, model := os.Getenv("DEV_LIB"), os.Getenv("DEV_MODEL")
	if lib == "" {
		t.Skip()
	}
	for _, to := range []string{"f16", "bf16", "f32"} {
		t0 := time.Now()
		err := Expand(t.Context(), Options{Library: lib}, []string{model}, "/tmp/models/smollm2-"+to+".gguf", to)
		t.Log(to, err, time.Since(t0))
	}
}

func cpu(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(b))
	u, _ := strconv.Atoi(f[13])
	v, _ := strconv.Atoi(f[14])
	return float64(u+v) / 100
}
