// Package child runs an engine in a process of its own that speaks engine/wire
// on its standard input and output, and writes its log to its standard error.
//
// Steps of use: Start a command, use the Engine, Close it. When the process
// dies, the calls in progress fail with an ExitError, and the next call starts
// another process and loads again. No process outlives the one that started it.
//
// What a certain engine loads, and what it can do beyond the protocol, is the
// matter of that engine's package.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// Options say how to start an engine.
type Options struct {
	Command []string      // program, looked up on PATH, and its arguments
	Dir     string        // working directory; "" is this process's
	Env     []string      // nil is this process's
	Load    any           // args of the load operation, which is sent to an engine that offers it; nil: it is not sent
	Log     io.Writer     // takes the child's log lines, each in one Write; nil: nowhere
	Hello   time.Duration // to wait for the first answer; 30 s if 0
	Grace   time.Duration // to wait for a cancelled call to stop, before the child is killed; 2 s if 0
	Leave   time.Duration // that Close leaves the child to end by itself; 0: it is killed at once
}

// defaultHello is Options.Hello where that is 0.
const defaultHello = 30 * time.Second

// ExitError says that the engine's process has ended.
type ExitError struct {
	State string   // "exit status 2", "signal: killed"; "killed by this program, …"
	Log   []string // its last lines
	Wrote string   // text on its standard output where a frame was expected
}

func (e *ExitError) Error() string {
	text := "engine process has died: " + e.State
	if e.State == "signal: killed" {
		text += " (out of memory, perhaps)"
	}
	if e.Wrote != "" {
		text += fmt.Sprintf("; it wrote %q where a frame of the protocol was expected", e.Wrote)
	}
	if len(e.Log) > 0 {
		text += "; it said last: " + strings.Join(e.Log, " | ")
	}
	return text
}

// Hint says what the user can do.
func (e *ExitError) Hint() string {
	if e.Wrote != "" {
		return outputHint
	}
	return ""
}

// ProtocolError says that the engine's process did not keep to the protocol, for
// which it was killed.
type ProtocolError struct {
	Err   error    // a wire.ErrProtocol
	Wrote string   // text on its standard output where a frame was expected
	Log   []string // its last lines
}

func (e *ProtocolError) Error() string {
	text := e.Err.Error()
	if len(e.Log) > 0 {
		text += "; the engine said last: " + strings.Join(e.Log, " | ")
	}
	return text
}

// Unwrap returns Err.
func (e *ProtocolError) Unwrap() error { return e.Err }

// Hint says what the user can do.
func (e *ProtocolError) Hint() string {
	if e.Wrote != "" {
		return outputHint
	}
	return "docs/engine-protocol.md says what an engine writes"
}

const outputHint = "an engine's standard output belongs to the protocol (docs/engine-protocol.md): have the program write its messages to standard error"

// Engine is an engine in a child process. It implements engine.Engine,
// engine.Detokenizer and engine.Counter; the last two fail with
// errors.ErrUnsupported where the child's engine lacks them.
type Engine struct {
	o Options

	mu     sync.Mutex // guards what follows
	p      *process   // nil if there is none
	hello  wire.Hello
	closed bool
}

// Start starts an engine and loads what o says. ctx may stop the loading, and
// does not bound the engine's life.
func Start(ctx context.Context, o Options) (*Engine, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("start the engine process: no program is given")
	}
	program, err := exec.LookPath(o.Command[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return nil, fmt.Errorf("find the engine's program: %w", err)
	}
	o.Command = append([]string{program}, o.Command[1:]...)
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
		e.p.endsWithin(lastWords) // by itself, of what it died of
		e.p.end("its connection had ended")
		e.p = nil
	}
	p, err := spawn(ctx, e.o)
	if err != nil {
		return nil, err
	}
	if e.o.Load != nil && slices.Contains(p.hello.Ops, "load") {
		p.client.Grace = 1 // a load cannot be told to stop
		if err := p.client.Load(ctx, e.o.Load); err != nil {
			err = p.explain(err)
			p.kill()
			return nil, err
		}
	}
	p.client.Grace = e.o.Grace
	e.p, e.hello = p, p.hello
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
		p.end("it did not stop when it was told to")
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

// Reload sets the args of the load operation of processes that are started from
// here on. The one that runs keeps what it has.
func (e *Engine) Reload(args any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.o.Load = args
}

// Call makes one request of an operation, which may be one beyond the
// protocol's own, as wire.Client.Call does.
func (e *Engine) Call(ctx context.Context, op string, args, result any, body []byte) (out []byte, err error) {
	err = e.do(ctx, func(c *wire.Client) error {
		out, err = c.Call(ctx, op, args, result, body)
		return err
	})
	return out, err
}

// Hello returns what the child said first.
func (e *Engine) Hello() wire.Hello {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hello
}

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

// Close ends the child, also where a call is in progress. No call succeeds
// afterwards.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.p == nil {
		return nil
	}
	e.p.leave(e.o.Leave)
	e.p = nil
	return nil
}
