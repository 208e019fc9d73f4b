package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/trie"
)

// connect serves s and returns a client of it. The server has ended when the
// test has.
func connect(t *testing.T, s Server) *Client {
	t.Helper()
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Serve(context.Background(), r1, w2, s)
		w2.Close()
		ended <- err
	}()
	c := NewClient(r2, w1)
	t.Cleanup(func() {
		c.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

func TestConformance(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) engine.Engine {
		return connect(t, Server{Name: "test", Engine: &enginetest.Bigram{}})
	})
}

var path = &trie.Tree{Token: []int32{'a', 'b'}, Parent: []int32{-1, 0}, Wants: []trie.Want{{Node: 0, Token: 'b'}}}

func TestHelloAndLoad(t *testing.T) {
	type args struct{ Model string }
	c := connect(t, Server{
		Name: "test",
		Load: func(_ context.Context, raw json.RawMessage) (engine.Engine, error) {
			var a args
			if err := json.Unmarshal(raw, &a); err != nil || a.Model != "toy" {
				return nil, engine.InputError(errors.New("no such model"))
			}
			return &enginetest.Bigram{}, nil
		},
		Ops: map[string]func(context.Context, json.RawMessage) (any, error){
			"double": func(_ context.Context, raw json.RawMessage) (any, error) {
				var n int
				err := json.Unmarshal(raw, &n)
				return 2 * n, err
			},
		},
	})
	h, err := c.Hello(t.Context())
	if err != nil || h.Name != "test" || !strings.Contains(strings.Join(h.Ops, " "), "double hello load") {
		t.Errorf("hello: %+v, %v", h, err)
	}
	if _, err := c.Score(t.Context(), path); err == nil || !strings.Contains(err.Error(), "no model is loaded") {
		t.Errorf("score before load: %v", err)
	}
	if err := c.Load(t.Context(), args{"other"}); !errors.Is(err, engine.ErrInput) || err.Error() != "no such model" {
		t.Errorf("load of another: %v", err)
	}
	if err := c.Load(t.Context(), args{"toy"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context(), args{"toy"}); err == nil {
		t.Error("loaded twice")
	}
	if _, err := c.Score(t.Context(), path); err != nil {
		t.Errorf("score: %v", err)
	}
	var n int
	if _, err := c.Call(t.Context(), "double", 21, &n, nil); err != nil || n != 42 {
		t.Errorf("double: %d, %v", n, err)
	}
	if _, err := c.Call(t.Context(), "generate", nil, nil, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("unknown operation: %v", err)
	}
}

// scoring has only what an engine must have.
type scoring struct{ engine.Engine }

func TestUnsupported(t *testing.T) {
	c := connect(t, Server{Engine: scoring{&enginetest.Bigram{}}})
	if _, err := c.Pieces(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("pieces: %v", err)
	}
	if _, err := c.Stats(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("stats: %v", err)
	}
	if err := c.Load(t.Context(), nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("load: %v", err)
	}
}

func TestNotFinite(t *testing.T) {
	give := math.NaN()
	c := connect(t, Server{Engine: &enginetest.Bigram{Change: func(int32, int32, float64) float64 { return give }}})
	for _, give = range []float64{math.NaN(), math.Inf(-1), math.Inf(1)} {
		s, err := c.Score(t.Context(), path)
		if err != nil || s.LogProbs[0] != give && !(math.IsNaN(give) && math.IsNaN(s.LogProbs[0])) {
			t.Errorf("%g came over as %v, %v", give, s, err)
		}
	}
}

// Many texts go over in several frames, and the index of a bad one is that in
// the whole call.
func TestTokenizeFrames(t *testing.T) {
	refuse := refusing{&enginetest.Bigram{}}
	c := connect(t, Server{Engine: refuse})
	texts := make([]string, 30)
	for i := range texts {
		texts[i] = strings.Repeat(string(rune('a'+i%26)), 300_000)
	}
	ids, err := c.Tokenize(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ids {
		if len(ids[i]) != 300_000 || ids[i][5] != int32('a'+i%26) {
			t.Fatalf("text %d has %d ids", i, len(ids[i]))
		}
	}
	texts[23] = "bad"
	var at *engine.TextError
	if _, err = c.Tokenize(t.Context(), texts); !errors.As(err, &at) || at.Index != 23 || at.Reason != "is bad" {
		t.Errorf("error %v, want text 23 is bad", err)
	}
}

type refusing struct{ *enginetest.Bigram }

func (r refusing) Tokenize(ctx context.Context, texts []string) ([][]int32, error) {
	for i, s := range texts {
		if s == "bad" {
			return nil, &engine.TextError{Index: i, Reason: "is bad"}
		}
	}
	return r.Bigram.Tokenize(ctx, texts)
}

// A cancel reaches an engine that is computing, and one that waits.
func TestCancel(t *testing.T) {
	started := make(chan bool, 2)
	slow := &enginetest.Bigram{Before: func(ctx context.Context, _ *trie.Tree) error {
		started <- true
		<-ctx.Done()
		return ctx.Err()
	}}
	c := connect(t, Server{Engine: slow})
	c.Grace = time.Minute
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	go func() { _, err := c.Score(first, path); errs <- err }()
	<-started
	go func() { _, err := c.Score(second, path); errs <- err }()
	cancelSecond()
	cancelFirst()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnresponsive) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	}
	if _, err := c.Describe(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestScoresAtOnce has an engine that answers no score until three are there.
func TestScoresAtOnce(t *testing.T) {
	var there sync.WaitGroup
	there.Add(3)
	e := &enginetest.Bigram{Before: func(context.Context, *trie.Tree) error {
		there.Done()
		there.Wait()
		return nil
	}}
	c := connect(t, Server{Engine: e})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if _, err := c.Score(t.Context(), path); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestUnresponsive(t *testing.T) {
	hang := make(chan bool)
	defer close(hang)
	stuck := &enginetest.Bigram{Before: func(context.Context, *trie.Tree) error { <-hang; return nil }}
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	go Serve(context.Background(), r1, w2, Server{Engine: stuck})
	c := NewClient(r2, w1)
	c.Grace = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Score(ctx, path); !errors.Is(err, ErrUnresponsive) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want ErrUnresponsive and the context's own", err)
	}
	w2.Close()
	<-c.Done()
	if _, err := c.Describe(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v, want ErrClosed", err)
	}
	w1.Close()
}

// The engine's side ends, and the engine's work with it, when the input does.
func TestServeEndsWithInput(t *testing.T) {
	waiting := make(chan bool)
	b := &enginetest.Bigram{Before: func(ctx context.Context, _ *trie.Tree) error {
		close(waiting)
		<-ctx.Done()
		return ctx.Err()
	}}
	args, body := encodeTree(path)
	raw, _ := json.Marshal(args)
	r, w := io.Pipe()
	ended := make(chan error)
	go func() { ended <- Serve(context.Background(), r, io.Discard, Server{Engine: b}) }()
	if err := WriteFrame(w, Frame{Header: Header{ID: 1, Op: opScore, Args: raw}, Body: body}); err != nil {
		t.Fatal(err)
	}
	<-waiting
	w.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := b.Score(t.Context(), path); err == nil {
		t.Error("the engine was not closed")
	}
}

func TestServeDamage(t *testing.T) {
	for name, b := range map[string][]byte{
		"text":        []byte("GET / HTTP/1.1\r\n\r\n"),
		"cut":         {40, 0, 0, 0, '{'},
		"not JSON":    {2, 0, 0, 0, 'x', 'x'},
		"huge header": {0xff, 0xff, 0xff, 0xff},
	} {
		err := Serve(context.Background(), bytes.NewReader(b), io.Discard, Server{})
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: error %v, want a damaged frame", name, err)
		}
	}
	var b bytes.Buffer
	if err := WriteFrame(&b, Frame{Header: Header{ID: 1, Op: opHello}}); err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(b.Bytes(), []byte(`"v":1`), []byte(`"v":2`), 1)
	if _, err := ReadFrame(bytes.NewReader(newer)); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("newer version: %v", err)
	}
}

// A length that lies takes no memory.
func TestReadFrameLyingLength(t *testing.T) {
	head := []byte(`{"v":1,"id":1,"op":"score"}`)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	b = append(b, head...)
	b = binary.LittleEndian.AppendUint64(b, MaxBody)
	b = append(b, 1, 2, 3)
	if n := testing.AllocsPerRun(1, func() {
		if _, err := ReadFrame(bytes.NewReader(b)); !errors.Is(err, ErrProtocol) {
			t.Fatal(err)
		}
	}); n > 100 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzReadFrame(f *testing.F) {
	args, body := encodeTree(path)
	raw, _ := json.Marshal(args)
	for _, frame := range []Frame{
		{Header: Header{ID: 1, Op: opHello}},
		{Header: Header{ID: 2, Op: opScore, Args: raw}, Body: body},
		{Header: Header{ID: 3, Op: opScore, Error: &Error{Kind: KindInput, Message: "no"}}},
	} {
		var b bytes.Buffer
		if err := WriteFrame(&b, frame); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte{1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := ReadFrame(bytes.NewReader(b))
		if err != nil {
			return
		}
		// What was read can be written and read again.
		var w bytes.Buffer
		if err := WriteFrame(&w, frame); err != nil {
			t.Fatal(err)
		}
		again, err := ReadFrame(&w)
		if err != nil || again.Header.Op != frame.Header.Op || again.Header.ID != frame.Header.ID || !bytes.Equal(again.Body, frame.Body) {
			t.Fatalf("%+v became %+v (%v)", frame, again, err)
		}
	})
}

// FuzzServe feeds any bytes to a server and any args and body to its operations.
func FuzzServe(f *testing.F) {
	args, body := encodeTree(path)
	raw, _ := json.Marshal(args)
	f.Add(opScore, raw, body)
	f.Add(opTokenize, []byte(`{"count":2}`), encodeStrings([]string{"a", "bc"}))
	f.Add(opTokenize, []byte(`{"count":-1}`), []byte{1, 2, 3, 4})
	f.Add(opScore, []byte(`{"nodes":9999999999,"wants":-9999999998}`), []byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, op string, args, body []byte) {
		var in bytes.Buffer
		frame := Frame{Header: Header{ID: 1, Op: op}, Body: body}
		if json.Valid(args) {
			frame.Header.Args = args
		}
		if err := WriteFrame(&in, frame); err != nil {
			return
		}
		in.Write(args)
		var out bytes.Buffer
		Serve(context.Background(), &in, &out, Server{Engine: &enginetest.Bigram{}})
		for {
			if _, err := ReadFrame(&out); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("the server wrote a bad frame: %v", err)
			}
		}
		// The client's decoders take the same bytes.
		n := len(body) / 5
		decodeStrings[string](body, n)
		decodeIDs(body, n)
		decodeFloats(body, n)
	})
}
