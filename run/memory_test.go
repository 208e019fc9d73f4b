package run

import (
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"olmes/engine/llamacpp"
	"olmes/trie"
)

// highWater returns the most memory, in bytes, that a process has held at once, and
// whether the system tells.
func highWater(pid int) (int64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10, true
		}
	}
	return 0, false
}

// path is a tree of n tokens in a row, with log-probabilities wanted after the
// last of them, each of its own chunk.
func path(n, wanted, vocab int) *trie.Tree {
	t := &trie.Tree{}
	for i := range n {
		t.Token, t.Parent = append(t.Token, int32(i*31%vocab)), append(t.Parent, int32(i-1))
		if i >= n-wanted {
			t.Wants = append(t.Wants, trie.Want{Node: int32(i), Token: int32(i % vocab)})
		}
	}
	return t
}

// TestPeakMemory has the default plan's engine, in two lanes, score a task of 50
// tokens and right after it one of 2,000, with more rows wanted than a batch
// takes: the process stays within its estimate, which stays within what is told
// of it: weights, cache and 300 MB.
func TestPeakMemory(t *testing.T) {
	long(t)
	for _, name := range []string{"smollm2-135m-instruct", "gemma-3-270m"} {
		t.Run(name, func(t *testing.T) {
			env := testEnv(t)
			r, _, err := start(t.Context(), Config{Model: name, AcceptLicense: []string{"gemma"}, Tasks: []string{"openbookqa:cf"}, Limit: 1, Threads: 2}, Options{}, env)
			fetched(t, err)
			defer r.engine.Close()
			vocab := r.setup.Model.Vocab
			lanes := max(1, r.description.Parallel)
			var group sync.WaitGroup
			for lane := range lanes {
				group.Go(func() {
					for _, tree := range []*trie.Tree{path(50+lane, 3, vocab), path(2000-1300*lane, 600, vocab)} {
						s, err := r.engine.Score(t.Context(), tree)
						if err != nil || s.Computed != len(tree.Token) || len(s.LogProbs) != len(tree.Wants) {
							t.Errorf("%d tokens: %d computed, %v", len(tree.Token), s.Computed, err)
						}
						for _, x := range s.LogProbs {
							if math.IsNaN(x) || x > 0 {
								t.Errorf("log-probability %v", x)
								return
							}
						}
					}
				})
			}
			group.Wait()
			p, ok := r.engine.(interface{ PID() int })
			if !ok {
				t.Fatalf("engine %T has no process", r.engine)
			}
			used, ok := highWater(p.PID())
			if !ok {
				t.Skip("this system does not tell a process's peak memory")
			}
			s, err := llama{r}.shape()
			if err != nil {
				t.Fatal(err)
			}
			f := llamacpp.Memory(s, r.setup.Plan)
			told := f.Weights + int64(lanes)*f.Cache + 300e6
			t.Logf("peak %d MB in %d lanes; weights %d, cache %d a lane, beside them %d; estimated %d", used/1e6, lanes, f.Weights/1e6, f.Cache/1e6,
				(used-f.Weights-int64(lanes)*f.Cache)/1e6, f.Total(lanes)/1e6)
			if used > told {
				t.Errorf("%d MB, more than the %d MB of weights, cache and 300 MB", used/1e6, told/1e6)
			}
			if used > f.Total(lanes) {
				t.Errorf("%d MB, more than the estimate of %d", used/1e6, f.Total(lanes)/1e6)
			}
		})
	}
}
