package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// ExitError says that the server has ended by itself.
type ExitError struct {
	Kind  string   // of server
	State string   // "exit status 1", "signal: killed"
	Log   string   // file with all that it said
	Last  []string // its last lines
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s has ended: %s", e.Kind, e.State)
	if len(e.Last) > 0 {
		text += "; it said last: " + joined(e.Last)
	}
	return text
}

// Hint says where its messages are.
func (e *ExitError) Hint() string { return "its log is " + e.Log }

// Server is a server that runs as a child process.
type Server struct {
	o    Options
	port int
	log  *os.File
	tail *tail

	mu     sync.Mutex // guards what follows, and is held while a server starts
	p      *process
	closed bool
	starts int
}

// starts is how often a server is started in all: one that dies of every
// request would otherwise go on for ever.
const mostStarts = 5

// Start starts a server and waits until it answers. ctx may stop the waiting,
// and does not bound the server's life.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Name == "" {
		o.Name = "model"
	}
	if o.DType == "" {
		o.DType = "auto"
	}
	if o.Ready == 0 {
		o.Ready = 20 * time.Minute
	}
	model, err := filepath.Abs(o.Model)
	if err != nil {
		return nil, err
	}
	if o.Model != "" {
		o.Model = model
		if _, err := os.Stat(model); err != nil {
			return nil, fmt.Errorf("start %s: find the model: %w", o.Kind, err)
		}
	}
	if o.Context == 0 {
		o.Context = window
		if n := trained(o.Model); n > 0 {
			o.Context = min(o.Context, n+1)
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("start %s: find a free port: %w", o.Kind, err)
	}
	if _, _, err := command(o, port); err != nil {
		return nil, err
	}
	s := &Server{o: o, port: port}
	if o.Log == "" {
		s.log, err = os.CreateTemp("", "olmes-"+o.Kind+"-*.log")
	} else {
		s.log, err = os.OpenFile(o.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", o.Kind, err)
	}
	w := io.Writer(s.log)
	if o.Progress != nil {
		w = io.MultiWriter(s.log, o.Progress)
	}
	s.tail = &tail{w: w}
	if err := s.Ensure(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// URL returns the server's address.
func (s *Server) URL() string { return "http://" + s.address() }

func (s *Server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// LogFile returns the file that holds the server's output.
func (s *Server) LogFile() string { return s.log.Name() }

// PID returns the server's process id, or 0 if none runs.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p == nil {
		return 0
	}
	return s.p.cmd.Process.Pid
}

// Command returns the command line of the server.
func (s *Server) Command() []string {
	argv, _, _ := command(s.o, s.port)
	return argv
}

// Ensure returns at once while the server runs. Where it has ended by itself it
// is started again at the same address, and waited for.
func (s *Server) Ensure(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("server is closed")
	}
	if s.p != nil {
		select {
		case <-s.p.ended:
			s.p.kill() // what is left of its group
			if s.starts >= mostStarts {
				return s.exit()
			}
			fmt.Fprintf(s.tail, "olmes: %v; starting it again\n", s.exit())
			s.p = nil
		default:
			return nil
		}
	}
	argv, env, err := command(s.o, s.port)
	if err != nil {
		return err
	}
	s.starts++
	if s.p, err = spawn(argv, environ(env, s.o.Env), s.tail); err != nil {
		return fmt.Errorf("start %s: %w", s.o.Kind, err)
	}
	if err := s.wait(ctx); err != nil {
		s.p.kill()
		return err
	}
	return nil
}

// wait waits until the server answers.
func (s *Server) wait(ctx context.Context) error {
	limited, stop := context.WithTimeout(ctx, s.o.Ready)
	defer stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if ready(limited, s.URL()) {
			return nil
		}
		select {
		case <-s.p.ended:
			return fmt.Errorf("start %s: %w", s.o.Kind, s.exit())
		case <-limited.Done():
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("start %s: %w", s.o.Kind, err)
			}
			return fmt.Errorf("start %s: no answer after %v; its log is %s", s.o.Kind, s.o.Ready, s.log.Name())
		case <-tick.C:
		}
	}
}

// ready asks the server for its health. All three kinds have the same path for
// it.
func ready(ctx context.Context, url string) bool {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return false
	}
	// Not through a proxy of the environment: this is the loopback address.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	return resp.StatusCode == http.StatusOK
}

// exit says how the server, which has ended, did so.
func (s *Server) exit() *ExitError {
	state := "exit status 0"
	if s.p.state != nil {
		state = s.p.state.Error()
	}
	return &ExitError{Kind: s.o.Kind, State: state, Log: s.log.Name(), Last: s.tail.last()}
}

// Close stops the server and every process of its group.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.p != nil {
		s.p.stop(5 * time.Second)
	}
	return s.log.Close()
}

// freePort returns a port of the loopback address that nothing listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// process is one child.
type process struct {
	cmd   *exec.Cmd
	guard *exec.Cmd     // watchdog, nil where there is none
	pipe  io.Closer     // whose end the watchdog waits for
	ended chan struct{} // closed when the child has been waited for
	state error         // of Wait; read after ended
	once  sync.Once
}
