//go:build unix

package child

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"olmes/engine/wire"
)

// A program that writes something else than frames is shown with what it wrote,
// and is not taken for one that was out of memory.
func TestTextForFrames(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		want    string
		died    bool
	}{
		"goes on":    {[]string{"yes"}, `the text "y\ny\ny\n`, false},
		"waits":      {[]string{"sh", "-c", "echo Hello there, loading model...; echo seen >&2; exec sleep 60"}, `the text "Hello there, loading model...\n" stands where one was expected (its header would have 1819043144 bytes, at most 1048576 are allowed); the engine said last: seen`, false},
		"ends":       {[]string{"echo", "hi"}, `died: exit status 0; it wrote "hi\n" where a frame`, true},
		"ends, long": {[]string{"sh", "-c", "echo Traceback of a program; exit 3"}, `died: exit status 3; it wrote "Traceback of a program\n" where a frame`, true},
		"escapes":    {[]string{"printf", `\033[31mred\n`}, `it wrote "\x1b[31mred\n"`, true},
		"no text":    {[]string{"sh", "-c", `printf '\377\377\377\377\377'; exec sleep 60`}, "begins with the bytes ff ff ff ff", false},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := Start(t.Context(), Options{Command: c.command})
			if err == nil {
				t.Fatal("no error")
			}
			var died *ExitError
			var broken *ProtocolError
			if errors.As(err, &died) != c.died || errors.As(err, &broken) == c.died || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "memory") {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
			var hint interface{ Hint() string }
			if !errors.As(err, &hint) || strings.Contains(hint.Hint(), "standard error") != (name != "no text") {
				t.Errorf("the hint of %q does not fit", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// An answer to nothing ends the engine's process, and the next call has another.
func TestBrokenLater(t *testing.T) {
	e := start(t, Options{Command: []string{os.Args[0], "confused"}})
	_, err := e.Score(t.Context(), path)
	var broken *ProtocolError
	if !errors.As(err, &broken) || !errors.Is(err, wire.ErrProtocol) || !strings.Contains(err.Error(), "waits for none") {
		t.Errorf("error %v, want a ProtocolError", err)
	}
	if _, err := e.Describe(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// confused is an engine that answers a score with another request's id.
func confused() {
	for {
		f, err := wire.ReadFrame(os.Stdin)
		if err != nil {
			return
		}
		h := wire.Header{ID: f.Header.ID, Op: f.Header.Op, Args: []byte(`{}`)}
		if h.Op == "score" {
			h.ID += 7
		}
		wire.WriteFrame(os.Stdout, wire.Frame{Header: h})
	}
}

// Who was killed by someone else may have been out of memory and may go on; who
// was killed by this program was not out of memory.
func TestKills(t *testing.T) {
	e := start(t, Options{Command: []string{os.Args[0], "host"}})
	stopped := e.PID()
	if err := syscall.Kill(stopped, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { _, err := e.Score(t.Context(), path); result <- err }()
	time.Sleep(50 * time.Millisecond)
	syscall.Kill(stopped, syscall.SIGKILL)
	err := <-result
	var died *ExitError
	if !errors.As(err, &died) || !strings.Contains(err.Error(), "out of memory, perhaps") {
		t.Errorf("killed by another: %v", err)
	}

	e = start(t, Options{Command: []string{os.Args[0], "host"}, Grace: 20 * time.Millisecond})
	if err := syscall.Kill(e.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	go func() { _, err := e.Score(t.Context(), path); result <- err }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	e.Score(ctx, path)
	if err := <-result; !errors.As(err, &died) || strings.Contains(err.Error(), "memory") || !strings.Contains(err.Error(), "killed by this program, since it did not stop") {
		t.Errorf("killed by this program: %v", err)
	}
}
