package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"olmes/engine"
)

// answering is a client of an engine that answers each request as answer says,
// by frames or by any bytes.
func answering(t *testing.T, answer func(w io.Writer, f Frame)) *Client {
	t.Helper()
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	go func() {
		for {
			f, err := ReadFrame(r1)
			if err != nil {
				w2.Close()
				return
			}
			answer(w2, f)
		}
	}()
	t.Cleanup(func() { w1.Close(); r2.Close() })
	return NewClient(r2, w1)
}

// as answers with the request's own header, changed.
func as(change func(h *Header)) func(io.Writer, Frame) {
	return func(w io.Writer, f Frame) {
		h := Header{ID: f.Header.ID, Op: f.Header.Op, Args: json.RawMessage(`{}`)}
		change(&h)
		WriteFrame(w, Frame{Header: h})
	}
}

// What does not answer what was asked ends the connection with the reason, at once.
func TestAnswersToNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *Header)
		want   string
	}{
		"unknown id":     {func(h *Header) { h.ID += 7 }, "request 8, which waits for none"},
		"unknown, error": {func(h *Header) { h.ID, h.Error = 0, &Error{Message: "boom\x1b[31m"} }, `request 0, which waits for none: boom\x1b[31m`},
		"another op":     {func(h *Header) { h.Op = "tokenize" }, `request 1, which is stats, with an answer to "tokenize"`},
		"no op":          {func(h *Header) { h.Op = "" }, `request 1, which is stats`},
	} {
		t.Run(name, func(t *testing.T) {
			client := answering(t, as(c.change))
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			_, err := client.Stats(ctx)
			if !errors.Is(err, ErrProtocol) || !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want an ErrProtocol with %q", err, c.want)
			}
			<-client.Done()
		})
	}
}

// A second answer is to nothing, too, but not to a request that was cancelled.
func TestSecondAnswers(t *testing.T) {
	client := answering(t, func(w io.Writer, f Frame) {
		as(func(*Header) {})(w, f)
		as(func(*Header) {})(w, f)
	})
	client.Stats(t.Context())
	<-client.Done()
	if _, err := client.Stats(t.Context()); !errors.Is(err, ErrProtocol) {
		t.Errorf("error %v, want ErrProtocol", err)
	}

	var first Frame
	cancelled := make(chan bool)
	client = answering(t, func(w io.Writer, f Frame) {
		switch {
		case first.Header.ID == 0:
			first = f
			close(cancelled)
		case f.Header.Op == opCancel:
			as(func(h *Header) { h.Op, h.Error = opStats, &Error{Kind: KindCancelled} })(w, first)
			as(func(h *Header) { h.Op = opStats })(w, first) // the result was under way
		default:
			as(func(*Header) {})(w, f)
		}
	})
	client.Grace = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-cancelled; stop() }()
	if _, err := client.Stats(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if _, err := client.Stats(t.Context()); err != nil {
		t.Errorf("after a cancelled one: %v", err)
	}
}

// Text where a frame should be is quoted, as much as has come.
func TestTextForFrames(t *testing.T) {
	for in, want := range map[string]struct{ what, wrote string }{
		"Hello there, loading model...\n": {`frame: the text "Hello there, loading model...\n" stands where one was expected (its header would have 1819043144 bytes, at most 1048576 are allowed)`, "Hello there, loading model...\n"},
		"hi\n":                            {`the text "hi\n" stands where one was expected (it ends in the header's length)`, "hi\n"},
		"\x1b[31m modèle " + strings.Repeat("é", 40): {`text "\x1b[31m mod`, "\x1b[31m modèle " + strings.Repeat("é", 13) + "…"},
		"\xff\xff\xff\xff\xff":                       {"it begins with the bytes ff ff ff ff ff", ""},
		"\x02\x00\x00\x00xx":                         {`the text "xx" stands where one was expected (its header is not JSON of the right form: invalid character 'x' looking for beginning of value)`, "xx"},
	} {
		_, err := ReadFrame(bufio.NewReader(strings.NewReader(in)))
		var frame *FrameError
		if !errors.As(err, &frame) || !strings.Contains(err.Error(), want.what) || frame.Wrote != want.wrote {
			t.Errorf("%q: %v (%+v), want %q", in, err, frame, want)
		}
	}
}

// full is an input that takes nothing.
type full struct{ io.WriteCloser }

func (full) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// What an engine has written before it took no more input is read, also where it
// comes a little later.
func TestLastWords(t *testing.T) {
	r, w := io.Pipe()
	client := NewClient(r, full{})
	go func() {
		time.Sleep(100 * time.Millisecond)
		io.WriteString(w, "Traceback of a program\n")
		w.Close()
	}()
	var frame *FrameError
	if _, err := client.Stats(t.Context()); !errors.As(err, &frame) || frame.Wrote != "Traceback of a program\n" {
		t.Errorf("error %v, want the text in a FrameError", err)
	}

	r, open := io.Pipe() // it says nothing, and its output stays open
	client = NewClient(r, full{})
	if _, err := client.Stats(t.Context()); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("error %v, want ErrClosed for the broken pipe", err)
	}
	open.Close()
	<-client.Done()
	if _, err := client.Stats(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}

func TestErrorsWithoutReason(t *testing.T) {
	for _, e := range []Error{{}, {Kind: KindCancelled}, {Kind: KindFailed, Message: " \n"}, {Kind: KindInput}, {Kind: "\x1b[1m"}, {Kind: KindUnsupported}} {
		client := answering(t, as(func(h *Header) { h.Error = &e }))
		_, err := client.Stats(t.Context())
		if err == nil || strings.HasSuffix(strings.TrimSpace(err.Error()), ":") || len(err.Error()) < 20 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%+v: %q", e, err)
		}
	}
}

// What an engine says goes to terminals and records as one line of text.
func TestWordsOfEngines(t *testing.T) {
	index := 0
	client := answering(t, as(func(h *Header) {
		h.Error = &Error{Kind: KindFailed, Message: "<b>boom</b>\x1b[31m\nline2", Index: &index}
	}))
	want := `<b>boom</b>\x1b[31m | line2`
	if _, err := client.Stats(t.Context()); err == nil || err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if _, err := client.Tokenize(t.Context(), []string{"a"}); err == nil || err.Error() != "text 0 "+want {
		t.Errorf("%q, want text 0 %q", err, want)
	}
	index = 5
	var at *engine.TextError
	if _, err := client.Tokenize(t.Context(), []string{"a"}); err == nil || errors.As(err, &at) {
		t.Errorf("a text that was not given is at fault: %v", err)
	}
	client = answering(t, as(func(h *Header) {
		h.Args = json.RawMessage(`{"name":"x\u001b[31m","engine":"x\u001b[31m"}`)
	}))
	for what, call := range map[string]func() error{
		"hello":    func() error { _, err := client.Hello(t.Context()); return err },
		"describe": func() error { _, err := client.Describe(t.Context()); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "U+001B") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %q", what, err)
		}
	}
}

// Counts that cannot be are refused.
func TestImpossibleCounts(t *testing.T) {
	for args, ok := range map[string]bool{
		`{"computed":0}`: true, `{"computed":2}`: true, `{"computed":64}`: true, // two paths, each filled up to two tokens, begun 16 times
		`{"computed":-1}`: false, `{"computed":65}`: false, `{"computed":1000000}`: false,
	} {
		client := answering(t, func(w io.Writer, f Frame) {
			WriteFrame(w, Frame{Header: Header{ID: f.Header.ID, Op: f.Header.Op, Args: json.RawMessage(args)}, Body: encodeFloats([]float64{-1})})
		})
		if s, err := client.Score(t.Context(), path); (err == nil) != ok {
			t.Errorf("%s: %+v, %v", args, s, err)
		}
	}
	for args, ok := range map[string]bool{
		`{"computed":0,"library":-1}`: true, `{"computed":7,"library":7}`: true, `{"computed":-5,"library":-1}`: false, `{"computed":1,"library":-2}`: false,
	} {
		client := answering(t, as(func(h *Header) { h.Args = json.RawMessage(args) }))
		if s, err := client.Stats(t.Context()); (err == nil) != ok {
			t.Errorf("%s: %+v, %v", args, s, err)
		}
	}
	if n := mostComputed(path); n != 64 {
		t.Errorf("at most %d, want 64", n)
	}
}
