package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"olmes/engine"
	"olmes/engine/wire"
)

// process is one child.
type process struct {
	cmd    *exec.Cmd
	client *wire.Client
	hello  wire.Hello
	stdin  io.Closer
	tail   *tail
	ended  chan struct{} // closed when the child has been waited for
	state  error         // of Wait; read after ended
	once   sync.Once
	reason string // why this program killed it, "" where it did not; read after end
}

// spawn starts a child and exchanges hellos.
func spawn(ctx context.Context, o Options) (*process, error) {
	p := &process{cmd: exec.Command(o.Command[0], o.Command[1:]...), tail: &tail{w: o.Log}, ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = o.Dir, o.Env
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
		killGroup(p.cmd) // what it has started and left
		close(p.ended)
		<-p.client.Done()
		stdout.Close()
	}()
	wait := o.Hello
	if wait == 0 {
		wait = defaultHello
	}
	hello, stop := context.WithTimeoutCause(ctx, wait, fmt.Errorf("it has not answered for %v", wait))
	defer stop()
	if p.hello, err = p.client.Hello(hello); err != nil {
		if ctx.Err() == nil && hello.Err() != nil {
			err = context.Cause(hello)
		}
		err = p.explain(err)
		p.kill()
		return nil, fmt.Errorf("start the engine process: %w", err)
	}
	return p, nil
}

// kill ends the child and its children, and waits for it.
func (p *process) kill() { p.end("") }

// end is kill with the reason that calls in progress get.
func (p *process) end(reason string) {
	p.once.Do(func() {
		select {
		case <-p.ended:
		default:
			p.reason = reason
			killGroup(p.cmd)
		}
		p.stdin.Close()
	})
	<-p.ended
}

// leave ends the child's input and kills it where it has not ended after wait.
func (p *process) leave(wait time.Duration) {
	if wait > 0 {
		p.stdin.Close()
		p.endsWithin(wait)
	}
	p.kill()
}

// lastWords is how long a child that has broken the protocol may take to end by
// itself: one that prints why and ends has died.
const lastWords = 200 * time.Millisecond

// explain turns the error of a call on a dead child into an ExitError. A child
// that lives and does not keep to the protocol is killed: a ProtocolError.
func (p *process) explain(err error) error {
	if !errors.Is(err, wire.ErrClosed) {
		return err
	}
	var frame *wire.FrameError
	wrote, broken := "", errors.Is(err, wire.ErrProtocol)
	if errors.As(err, &frame) {
		wrote, broken = frame.Wrote, !frame.Cut
	}
	died := false
	switch {
	case !broken:
		died = p.endsWithin(2 * time.Second)
	case wrote != "":
		died = p.endsWithin(lastWords)
	}
	if !died && !broken {
		return err // its output has ended, but it lives
	}
	p.end("it did not keep to the protocol") // where it lives
	if broken && (!died || p.reason != "") {
		return &ProtocolError{Err: err, Wrote: wrote, Log: p.tail.last()}
	}
	state := "exit status 0"
	switch {
	case p.reason != "":
		state = "killed by this program, since " + p.reason
	case p.state != nil:
		state = p.state.Error()
	}
	return &ExitError{State: state, Log: p.tail.last(), Wrote: wrote}
}

// endsWithin waits for the child's end and reports whether it has come.
func (p *process) endsWithin(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
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
// last few. What a terminal takes for more than text is escaped in them.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := make([]string, 0, len(t.lines)+1)
	for _, line := range t.lines {
		lines = append(lines, engine.Line(line))
	}
	if len(t.part) > 0 {
		lines = append(lines, engine.Line(string(t.part[:min(len(t.part), tailBytes)])))
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
