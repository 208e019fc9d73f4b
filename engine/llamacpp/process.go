package llamacpp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"olmes/engine"
	"olmes/engine/wire"
	"olmes/trie"
)

// Options say how to start the engine.
type Options struct {
	Executable []string    // program and arguments that call Host; nil: this program with "engine-host"
	Library    string      // directory of llama.cpp's shared libraries
	Model      []string    // GGUF files, in order
	Plan       engine.Plan // see DefaultPlan and ExactPlan
	Threads    int         // that compute; 0: one a physical core
	Lanes      int         // trees computed at once, sharing Threads; 0: as many as threads and free memory allow
	GPULayers  int         // layers computed on a GPU; -1: all; 0: none
	Devices    []string    // GPUs that hold them, as Devices names them; nil: llama.cpp's choice
	Log        io.Writer   // takes the child's log lines, each in one Write; nil: nowhere
}

// ExitError says that the engine's process has ended by itself.
type ExitError struct {
	State string   // "exit status 2", "signal: killed"
	Log   []string // its last lines
}

func (e *ExitError) Error() string {
	text := "engine process has died: " + e.State
	if strings.Contains(e.State, "killed") {
		text += " (out of memory, perhaps)"
	}
	if len(e.Log) > 0 {
		text += "; it said last: " + strings.Join(e.Log, " | ")
	}
	return text
}

// resolved returns o with absolute paths.
func (o Options) resolved() (Options, error) {
	var err error
	if o.Library, err = filepath.Abs(o.Library); err != nil {
		return o, err
	}
	if info, err := os.Stat(o.Library); err != nil || !info.IsDir() {
		return o, engine.InputError(fmt.Errorf("engine library: no directory %s: install one with `olmes engine install`", o.Library))
	}
	if len(o.Executable) > 0 {
		program, err := exec.LookPath(o.Executable[0])
		if err == nil {
			program, err = filepath.Abs(program)
		}
		if err != nil {
			return o, fmt.Errorf("find the engine's program: %w", err)
		}
		o.Executable = append([]string{program}, o.Executable[1:]...)
	}
	o.Model, err = absolute(o.Model)
	return o, err
}

func absolute(files []string) ([]string, error) {
	out := make([]string, len(files))
	for i, file := range files {
		var err error
		if out[i], err = filepath.Abs(file); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// process is a child that runs Host.
type process struct {
	cmd    *exec.Cmd
	client *wire.Client
	stdin  io.Closer
	tail   *tail
	ended  chan struct{} // closed when the child has been waited for
	state  error         // of Wait; read after ended
	once   sync.Once
}

// spawn starts a child and exchanges hellos.
func spawn(ctx context.Context, o Options) (*process, error) {
	argv := o.Executable
	if len(argv) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program, to start the engine: %w", err)
		}
		argv = []string{self, "engine-host"}
	}
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), tail: &tail{w: o.Log}, ended: make(chan struct{})}
	// The prebuilt libraries look for others in the working directory too: that
	// must be one that nobody else writes to.
	p.cmd.Dir = o.Library
	// ggml would load one more file that the first names, and start a debugger,
	// if there is one, on a failed assertion without the second.
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GGML_BACKEND_PATH=") })
	// OpenBLAS would start a thread for each core at once; ggml tells it how many
	// it may use.
	p.cmd.Env = append(p.cmd.Env, "GGML_NO_BACKTRACE=1", "OPENBLAS_NUM_THREADS=1")
	p.cmd.Stderr = p.tail
	p.cmd.SysProcAttr = childAttributes()
	p.cmd.WaitDelay = time.Second // if a grandchild keeps stderr open
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: Wait would close it before the last answer is read.
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = out
	err = p.cmd.Start()
	out.Close()
	if err != nil {
		stdout.Close()
		return nil, fmt.Errorf("start the engine process: %w", err)
	}
	p.stdin = stdin
	p.client = wire.NewClient(stdout, stdin)
	go func() {
		p.state = p.cmd.Wait()
		close(p.ended)
		<-p.client.Done()
		stdout.Close()
	}()
	hello, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if _, err := p.client.Hello(hello); err != nil {
		p.kill()
		return nil, fmt.Errorf("start the engine process: %w", p.explain(err))
	}
	return p, nil
}

// kill ends the child and its children, and waits for it.
func (p *process) kill() {
	p.once.Do(func() {
		select {
		case <-p.ended:
		default:
			killGroup(p.cmd)
		}
		p.stdin.Close()
	})
	<-p.ended
}

// explain turns the error of a call on a dead child into an ExitError.
func (p *process) explain(err error) error {
	if !errors.Is(err, wire.ErrClosed) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(2 * time.Second): // its output has ended, but it lives
		return err
	}
	state := "exit status 0"
	if p.state != nil {
		state = p.state.Error()
	}
	return &ExitError{State: state, Log: p.tail.last()}
}

// Engine is llama.cpp in a child process. It implements engine.Engine,
// engine.Detokenizer and engine.Counter. When the child dies, the calls in
// progress fail with an ExitError, and the next one starts another child.
type Engine struct {
	o Options

	mu     sync.Mutex // guards what follows
	p      *process   // nil if there is none
	closed bool
}

// Start starts the engine, which is an *Engine, and loads the model. ctx may
// stop the loading, and does not bound the engine's life.
func Start(ctx context.Context, o Options) (engine.Engine, error) {
	if err := checkPlan(o.Plan); err != nil {
		return nil, engine.InputError(err)
	}
	o, err := o.resolved()
	if err != nil {
		return nil, err
	}
	e := &Engine{o: o}
	if _, err := e.process(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// process returns the child, started if need be.
func (e *Engine) process(ctx context.Context) (*process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	if e.p != nil {
		select {
		case <-e.p.ended:
		case <-e.p.client.Done():
		default:
			return e.p, nil
		}
		e.p.kill()
		e.p = nil
	}
	p, err := spawn(ctx, e.o)
	if err != nil {
		return nil, err
	}
	args := loadArgs{Library: e.o.Library, Model: e.o.Model, Plan: e.o.Plan, Threads: e.o.Threads, Lanes: e.o.Lanes, GPULayers: e.o.GPULayers, Devices: e.o.Devices}
	p.client.Grace = 1 // a load cannot be told to stop
	err = p.client.Load(ctx, args)
	if err != nil {
		p.kill()
		return nil, p.explain(err)
	}
	p.client.Grace = 0
	e.p = p
	return p, nil
}

// do makes one call.
func (e *Engine) do(ctx context.Context, call func(*wire.Client) error) error {
	p, err := e.process(ctx)
	if err != nil {
		return err
	}
	err = call(p.client)
	if errors.Is(err, wire.ErrUnresponsive) {
		p.kill()
	}
	if err == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	return p.explain(err)
}

var errClosed = errors.New("engine is closed")

// Score implements engine.Scorer.
func (e *Engine) Score(ctx context.Context, tree *trie.Tree) (s engine.Scores, err error) {
	err = e.do(ctx, func(c *wire.Client) error {
		s, err = c.Score(ctx, tree)
		return err
	})
	return s, err
}

// Describe implements engine.Describer.
func (e *Engine) Describe(ctx context.Context) (d engine.Description, err error) {
	err = e.do(ctx, func(c *wire.Client) error {
		d, err = c.Describe(ctx)
		return err
	})
	return d, err
}

// Tokenize implements engine.Tokenizer.
func (e *Engine) Tokenize(ctx context.Context, texts []string) (ids [][]int32, err error) {
	err = e.do(ctx, func(c *wire.Client) error {
		ids, err = c.Tokenize(ctx, texts)
		return err
	})
	return ids, err
}

// Pieces implements engine.Detokenizer.
func (e *Engine) Pieces(ctx context.Context) (pieces [][]byte, err error) {
	err = e.do(ctx, func(c *wire.Client) error {
		pieces, err = c.Pieces(ctx)
		return err
	})
	return pieces, err
}

// Stats implements engine.Counter. A child that was started again counts from 0.
func (e *Engine) Stats(ctx context.Context) (s engine.Stats, err error) {
	err = e.do(ctx, func(c *wire.Client) error {
		s, err = c.Stats(ctx)
		return err
	})
	return s, err
}

// PID returns the child's process id, or 0 if none runs.
func (e *Engine) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.p == nil {
		return 0
	}
	return e.p.cmd.Process.Pid
}

// Close ends the child, killing it if a call is in progress. No call succeeds
// afterwards.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.p == nil {
		return nil
	}
	e.p.kill()
	e.p = nil
	return nil
}

// tail passes on a child's log line by line and keeps the last ones.
type tail struct {
	mu    sync.Mutex
	w     io.Writer
	part  []byte
	lines []string
}

// tailLines is how many lines are kept, and tailBytes how much of each.
const (
	tailLines = 60
	tailBytes = 400
)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			t.part = append(t.part, b...)
			break
		}
		line := append(t.part, b[:i+1]...)
		b, t.part = b[i+1:], nil
		if t.w != nil {
			t.w.Write(line) // a log that cannot be written must not stop the engine
		}
		t.lines = append(t.lines, string(line[:min(len(line)-1, tailBytes)]))
		t.lines = t.lines[max(0, len(t.lines)-tailLines):]
	}
	return n, nil
}

// last returns the lines that tell most: from a crash's own message on, or the
// last few.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	if len(t.part) > 0 {
		lines = append(lines, string(t.part[:min(len(t.part), tailBytes)]))
	}
	for i, line := range lines {
		for _, mark := range []string{"panic:", "fatal error:", "GGML_ASSERT", "GGML_ABORT", "terminate called", "SIGSEGV", "unexpected fault"} {
			if strings.Contains(line, mark) {
				return lines[i:min(i+4, len(lines))]
			}
		}
	}
	return lines[max(0, len(lines)-4):]
}
