//go:build unix

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes the test binary a server, a server's own child, and a parent
// of a server.
func TestMain(m *testing.M) {
	switch os.Getenv("OLMES_TEST_ROLE") {
	case "server":
		serve()
	case "grandchild":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		time.Sleep(10 * time.Minute)
		os.Exit(0)
	case "parent":
		os.Unsetenv("OLMES_TEST_ROLE")
		s, err := Start(context.Background(), options(os.Getenv("OLMES_TEST_MODEL")))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.PID())
		time.Sleep(10 * time.Minute)
	}
	os.Exit(m.Run())
}

// serve is a server that starts another process, as vLLM does, and is ready a
// little later.
func serve() {
	fmt.Println("server says hello; its arguments are", os.Args[1:])
	if os.Getenv("OLMES_TEST_FAIL") != "" {
		fmt.Println("RuntimeError: no such model")
		os.Exit(3)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OLMES_TEST_ROLE=grandchild")
	if err := cmd.Start(); err != nil {
		os.Exit(4)
	}
	started := time.Now()
	port := os.Args[slices.Index(os.Args, "--port")+1]
	http.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {
		if time.Since(started) < 300*time.Millisecond {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/die", func(http.ResponseWriter, *http.Request) { os.Exit(5) })
	fmt.Println(http.ListenAndServe("127.0.0.1:"+port, nil))
	os.Exit(6)
}

// options start this binary as a server.
func options(model string) Options {
	self, _ := os.Executable()
	return Options{Kind: LlamaServer, Program: self, Model: model, Env: []string{"OLMES_TEST_ROLE=server"}, Ready: time.Minute}
}

func file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// group returns how many processes of a group live.
func group(t *testing.T, id int) int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(found) == 0 {
		t.Skip("no /proc here")
	}
	n := 0
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		if f := strings.Fields(rest); len(f) > 2 && f[0] != "Z" && f[2] == strconv.Itoa(id) {
			n++
		}
	}
	return n
}

// gone waits until nobody of the group is left.
func gone(t *testing.T, id int, within time.Duration) {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if group(t, id) == 0 {
			return
		}
	}
	t.Errorf("%d processes of group %d are left", group(t, id), id)
	syscall.Kill(-id, syscall.SIGKILL)
}

func TestStartAndClose(t *testing.T) {
	o := options(file(t))
	o.Log = filepath.Join(t.TempDir(), "server.log")
	o.Args = []string{"--further", "argument"}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") {
		t.Errorf("it listens at %s", s.URL())
	}
	pid := s.PID()
	if n := group(t, pid); n != 2 {
		t.Errorf("%d processes in its group, want the server and its child", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	gone(t, pid, 10*time.Second)
	data, err := os.ReadFile(o.Log)
	if err != nil || !strings.Contains(string(data), "hello") || !strings.Contains(string(data), "--further argument") {
		t.Errorf("its log is %q, %v", data, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if err := s.Ensure(t.Context()); err == nil {
		t.Error("a closed server starts again")
	}
}

// A server that dies at the start is told with its own words.
func TestFailsAtStart(t *testing.T) {
	o := options(file(t))
	o.Env = append(o.Env, "OLMES_TEST_FAIL=1")
	_, err := Start(t.Context(), o)
	var exit *ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such model") || exit.Hint() == "" {
		t.Errorf("error %v, want an ExitError with its last words", err)
	}
}

// A server that dies is started again at the same address, a few times.
func TestRestart(t *testing.T) {
	s, err := Start(t.Context(), options(file(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := 1; ; i++ {
		pid := s.PID()
		if resp, err := http.Get(s.URL() + "/die"); err == nil {
			resp.Body.Close()
		}
		<-s.p.ended
		err := s.Ensure(t.Context())
		gone(t, pid, 10*time.Second)
		if i == mostStarts {
			var exit *ExitError
			if !errors.As(err, &exit) {
				t.Errorf("after %d starts: error %v, want an ExitError", i, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get(s.URL() + "/health")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
}

// Stopping while it gets ready leaves nothing behind.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o := options(file(t))
	o.Log = filepath.Join(t.TempDir(), "log")
	if _, err := Start(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
}

// When the program that started it is killed, the server and its own children
// go too, even those that ignore signals.
func TestParentKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), "OLMES_TEST_ROLE=parent", "OLMES_TEST_MODEL="+file(t))
	parent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatalf("the parent says %q", line[:n])
	}
	if group(t, pid) != 2 {
		t.Errorf("%d processes in the server's group", group(t, pid))
	}
	parent.Process.Kill()
	io.Copy(io.Discard, out)
	parent.Wait()
	gone(t, pid, time.Minute)
}

func TestCommand(t *testing.T) {
	if _, _, err := command(Options{Kind: "tgi", Model: "m"}, 1); err == nil || !strings.Contains(err.Error(), "vllm, sglang, llama-server") {
		t.Errorf("another kind: %v", err)
	}
	var missing *MissingError
	if _, _, err := command(Options{Kind: LlamaServer, Program: "no-such-program", Model: "m", DType: "auto"}, 1); !errors.As(err, &missing) || missing.Hint() == "" {
		t.Errorf("no program: %v", err)
	}
	if _, _, err := command(Options{Kind: VLLM, Python: "no-such-python", Model: "m"}, 1); !errors.As(err, &missing) {
		t.Errorf("no Python: %v", err)
	}
	self, _ := os.Executable()
	if _, _, err := command(Options{Kind: LlamaServer, Program: self, Model: "m", DType: "float16"}, 1); err == nil {
		t.Error("llama-server takes a dtype")
	}
	argv, _, err := command(Options{Kind: LlamaServer, Program: self, Model: "m", DType: "auto", Exact: true, Name: "model", Context: 2050, Args: []string{"-x"}}, 17)
	if line := strings.Join(argv, " "); err != nil || !strings.Contains(line, "--host 127.0.0.1 --port 17") || !strings.Contains(line, "--cache-type-k f32") || !strings.HasSuffix(line, " -x") {
		t.Errorf("%s, %v", line, err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(`{"text_config":{"max_position_embeddings":1024}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := trained(folder); n != 1024 {
		t.Errorf("the folder's model has %d positions, want 1024", n)
	}
	t.Setenv("LLAMA_ARG_HOST", "0.0.0.0")
	t.Setenv("VLLM_API_KEY", "abc")
	if env := environ(nil, nil); slices.Contains(env, "LLAMA_ARG_HOST=0.0.0.0") || slices.Contains(env, "VLLM_API_KEY=abc") {
		t.Error("a variable makes the server listen elsewhere, or ask for a key")
	}
}
