//go:build unix

package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/engine/wire"
	"olmes/trie"
)

// TestMain makes the test binary its own engine process: "host" has its model,
// "loader" loads one, "confused" answers what was not asked. The first two have an operation "die". After its end it writes the
// file that $OLMES_TEST_END names.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "confused" {
		confused()
		os.Exit(0)
	}
	if len(os.Args) > 1 && slices.Contains([]string{"host", "loader"}, os.Args[1]) {
		s := wire.Server{Name: os.Args[1], Engine: &enginetest.Bigram{}, Ops: map[string]func(context.Context, json.RawMessage) (any, error){
			"die": func(context.Context, json.RawMessage) (any, error) {
				fmt.Fprintln(os.Stderr, "all is lost")
				os.Exit(3)
				return nil, nil
			},
		}}
		if os.Args[1] == "loader" {
			s.Engine = nil
			s.Load = func(_ context.Context, raw json.RawMessage) (engine.Engine, error) {
				b := &enginetest.Bigram{}
				if err := json.Unmarshal(raw, b); err != nil || b.Context == 0 {
					return nil, engine.InputError(errors.New("there is no such model"))
				}
				return b, nil
			}
		}
		err := wire.Serve(context.Background(), os.Stdin, os.Stdout, s)
		if end := os.Getenv("OLMES_TEST_END"); end != "" {
			os.WriteFile(end, nil, 0o666)
		}
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type loadArgs struct{ Context int }

func start(t *testing.T, o Options) *Engine {
	t.Helper()
	e, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestConformance(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) engine.Engine { return start(t, Options{Command: []string{os.Args[0], "host"}}) })
}

var path = &trie.Tree{Token: []int32{'a'}, Parent: []int32{-1}, Wants: []trie.Want{{Node: 0, Token: 'b'}}}

// A child that has died is an ExitError with its last words; the next call
// starts another one, which loads the same again.
func TestRestart(t *testing.T) {
	var log strings.Builder
	e := start(t, Options{Command: []string{os.Args[0], "loader"}, Load: loadArgs{77}, Log: &log})
	if h := e.Hello(); h.Name != "loader" || !slices.Contains(h.Ops, "load") {
		t.Errorf("hello %+v", h)
	}
	first := e.PID()
	_, err := e.Call(t.Context(), "die", nil, nil, nil)
	var died *ExitError
	if !errors.As(err, &died) || died.State != "exit status 3" || !slices.Equal(died.Log, []string{"all is lost"}) {
		t.Errorf("error %v, want an ExitError with state and log", err)
	}
	d, err := e.Describe(t.Context())
	if err != nil || d.ContextTrain != 77 {
		t.Errorf("the next child has context %d (%v), want 77", d.ContextTrain, err)
	}
	if e.PID() == first {
		t.Error("the same child answers")
	}
	if log.String() != "all is lost\n" {
		t.Errorf("log %q", log.String())
	}
}

// What an engine does not offer to load is not sent to it.
func TestLoadNotOffered(t *testing.T) {
	e := start(t, Options{Command: []string{os.Args[0], "host"}, Load: loadArgs{77}})
	if d, err := e.Describe(t.Context()); err != nil || d.ContextTrain != 4096 {
		t.Errorf("context %d (%v), want its own", d.ContextTrain, err)
	}
}

func TestStartErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"none", Options{}, "no program is given"},
		{"no program", Options{Command: []string{"no-such-program-here"}}, "executable file not found"},
		{"ends", Options{Command: []string{"false"}}, "exit status 1"},
		{"speaks otherwise", Options{Command: []string{"echo", "hello, hello, hello"}}, "died"},
		{"says why", Options{Command: []string{"sh", "-c", "echo no module named x >&2; exit 4"}}, "exit status 4; it said last: no module named x"},
		{"silent", Options{Command: []string{"sleep", "60"}, Hello: 50 * time.Millisecond, Grace: time.Millisecond}, "it has not answered for 50ms"},
		{"load", Options{Command: []string{os.Args[0], "loader"}, Load: loadArgs{0}}, "there is no such model"},
		{"no folder", Options{Command: []string{os.Args[0], "host"}, Dir: "/no/such/folder"}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			e, err := Start(t.Context(), c.o)
			if err == nil {
				e.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Command: []string{os.Args[0], "host"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// A program named by a path is found from this process's folder, whatever the
// child's is.
func TestRelativeProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "engine")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	start(t, Options{Command: []string{"./engine", "host"}, Dir: t.TempDir()})
}

// grandchild starts an engine through a shell that leaves a process of its own
// beside it, and returns that one's id.
func grandchild(t *testing.T) (*Engine, int) {
	t.Helper()
	r, w := io.Pipe()
	e := start(t, Options{Command: []string{"sh", "-c", `sleep 300 </dev/null >/dev/null & echo $! >&2; "$0" host`, os.Args[0]}, Log: w})
	line := make([]byte, 100)
	n, _ := r.Read(line)
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatalf("the shell says %q", line[:n])
	}
	go io.Copy(io.Discard, r)
	return e, pid
}

// gone waits until a process is dead.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(state), ") Z ") {
			return // dead, and nobody has waited for it
		}
		if time.Now().After(deadline) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d is left", pid)
		}
	}
}

// Whatever the child has started ends with it, in whichever way it ends.
func TestGroup(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		e, pid := grandchild(t)
		e.Close()
		gone(t, pid)
	})
	t.Run("killed", func(t *testing.T) {
		e, pid := grandchild(t)
		syscall.Kill(e.PID(), syscall.SIGKILL)
		gone(t, pid)
		<-e.p.ended // before that a call is one in progress
		if s, err := e.Score(t.Context(), path); err != nil || len(s.LogProbs) != 1 {
			t.Errorf("the next child: %v, %v", s, err)
		}
	})
}

// Close lets a child that wants to finish do so, and kills one that does not.
func TestLeave(t *testing.T) {
	end := filepath.Join(t.TempDir(), "end")
	env := append(os.Environ(), "OLMES_TEST_END="+end)
	e := start(t, Options{Command: []string{os.Args[0], "host"}, Env: env, Leave: 20 * time.Second})
	e.Close()
	if _, err := os.Stat(end); err != nil {
		t.Errorf("the child was not left to end by itself: %v", err)
	}
	e = start(t, Options{Command: []string{"sh", "-c", `trap "" TERM; "$0" host; sleep 300`, os.Args[0]}, Leave: 100 * time.Millisecond})
	pid := e.PID()
	began := time.Now()
	e.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Close took %v", took)
	}
	gone(t, pid)
}

// A child that hangs is killed when the call is cancelled.
func TestHanging(t *testing.T) {
	e := start(t, Options{Command: []string{os.Args[0], "host"}, Grace: 50 * time.Millisecond})
	pid := e.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Score(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
	if _, err := e.Score(t.Context(), path); err != nil || e.PID() == pid {
		t.Errorf("afterwards: %v, child %d, was %d", err, e.PID(), pid)
	}
}
