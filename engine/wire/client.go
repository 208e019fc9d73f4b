package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"olmes/engine"
	"olmes/trie"
)

// ErrUnresponsive marks an engine that was told to cancel and did not answer
// within Client.Grace. Nothing more can be expected of it.
var ErrUnresponsive = errors.New("engine does not respond")

// ErrClosed marks calls on a connection that has ended.
var ErrClosed = errors.New("connection to the engine has ended")

// frameTexts is about how many bytes of text Tokenize puts into one frame, so
// that neither side holds all texts of a large run twice.
const frameTexts = 4 << 20

// lastRead is how long an engine's output is still read when its input takes no
// more.
const lastRead = time.Second

// Client is an engine at the other end of two streams. Its methods may be
// called from several goroutines; the engine serves them in turn.
type Client struct {
	// Grace is how long a cancelled call waits for the engine to stop; 2 s if 0.
	Grace time.Duration

	w       io.WriteCloser
	writing sync.Mutex

	mu        sync.Mutex
	last      uint64
	pending   map[uint64]request
	cancelled map[uint64]bool // requests that were told to stop: whatever comes for them is taken
	ended     error           // why the connection ended; set before done is closed
	done      chan struct{}   // closed when the connection has ended
}

// request is one that waits for its answer.
type request struct {
	op     string
	answer chan Frame
}

// NewClient speaks to the engine that reads w and writes r. The connection
// ends when r does.
func NewClient(r io.Reader, w io.WriteCloser) *Client {
	c := &Client{w: w, pending: map[uint64]request{}, cancelled: map[uint64]bool{}, done: make(chan struct{})}
	go c.read(bufio.NewReaderSize(r, 1<<16))
	return c
}

func (c *Client) read(r *bufio.Reader) {
	for {
		f, err := ReadFrame(r)
		if err == nil {
			err = c.take(f)
		}
		if err != nil {
			c.mu.Lock()
			c.ended = ErrClosed
			if errors.Is(err, ErrProtocol) {
				c.ended = endedError{err}
			} else if err != io.EOF {
				c.ended = fmt.Errorf("%w: %w", ErrClosed, err)
			}
			c.mu.Unlock()
			close(c.done)
			return
		}
	}
}

// take gives an answer to the call that waits for it.
func (c *Client) take(f Frame) error {
	h := f.Header
	c.mu.Lock()
	r, ok := c.pending[h.ID]
	delete(c.pending, h.ID)
	stopped := c.cancelled[h.ID]
	c.mu.Unlock()
	switch {
	case ok && (h.Op == r.op || stopped):
		r.answer <- f // has room
		return nil
	case ok:
		return brokenError{fmt.Sprintf("it answered request %d, which is %s, with an answer to %q", h.ID, r.op, engine.Line(h.Op))}
	case stopped:
		return nil
	}
	text := fmt.Sprintf("it sent an answer to request %d, which waits for none", h.ID)
	if h.Error != nil && h.Error.Message != "" {
		text += ": " + engine.Line(h.Error.Message)
	}
	return brokenError{text}
}

// brokenError is an ErrProtocol about an answer.
type brokenError struct{ what string }

func (e brokenError) Error() string { return "the engine does not keep to the protocol: " + e.what }

func (e brokenError) Is(target error) bool { return target == ErrProtocol }

// endedError is an ErrClosed that says why alone.
type endedError struct{ error }

func (e endedError) Unwrap() []error { return []error{ErrClosed, e.error} }

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// remoteError is an error of the engine's side.
type remoteError struct{ e Error }

func (r remoteError) Error() string {
	text := engine.Line(r.e.Message)
	kind := engine.Line(r.e.Kind)
	switch {
	case strings.TrimSpace(text) != "":
		return text
	case r.e.Kind == KindCancelled:
		return "the engine says that it was told to stop, which it was not, and gives no further reason"
	case kind == "" || r.e.Kind == KindFailed:
		return "the engine failed and gave no reason"
	case r.e.Kind == KindUnsupported:
		return errUnsupported.Error()
	}
	return fmt.Sprintf("the engine failed (%s) and gave no reason", kind)
}

func (r remoteError) Is(target error) bool {
	return target == engine.ErrInput && r.e.Kind == KindInput ||
		target == errors.ErrUnsupported && r.e.Kind == KindUnsupported
}

// Call makes one request: args (if not nil) go as JSON, the answer's args are
// read into result (if not nil), bodies are raw. When ctx is cancelled the
// engine is told to stop, and the error wraps ctx.Err(), and ErrUnresponsive
// if it does not.
func (c *Client) Call(ctx context.Context, op string, args, result any, body []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := Frame{Header: Header{Op: op}, Body: body}
	if args != nil {
		var err error
		if f.Header.Args, err = json.Marshal(args); err != nil {
			return nil, fmt.Errorf("encode %s request: %w", op, err)
		}
	}
	answer := make(chan Frame, 1)
	c.mu.Lock()
	c.last++
	f.Header.ID = c.last
	c.pending[f.Header.ID] = request{op, answer}
	c.mu.Unlock()

	// Written by the side, since an engine that hangs does not read.
	written := make(chan error, 1)
	go func() { written <- c.write(f) }()

	cancelled := ctx.Done()
	var timeout, unread <-chan time.Time
	var broken error // of writing
	for {
		select {
		case out := <-answer:
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("%s: %w", op, err)
			}
			return finish(out, result)
		case err := <-written:
			written = nil
			if err != nil {
				// An engine that takes no more input may have said why, which is read next.
				broken = fmt.Errorf("%s: %w: %w", op, ErrClosed, err)
				timer := time.NewTimer(lastRead)
				defer timer.Stop()
				unread = timer.C
			}
		case <-unread:
			c.forget(f.Header.ID)
			return nil, broken
		case <-c.done:
			select {
			case out := <-answer: // it came just before the end
				return finish(out, result)
			default:
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.pending, f.Header.ID)
			if broken != nil && !errors.Is(c.ended, ErrProtocol) {
				return nil, broken
			}
			return nil, fmt.Errorf("%s: %w", op, c.ended)
		case <-cancelled:
			cancelled = nil
			grace := c.Grace
			if grace == 0 {
				grace = 2 * time.Second
			}
			timer := time.NewTimer(grace)
			defer timer.Stop()
			timeout = timer.C
			c.mu.Lock()
			c.cancelled[f.Header.ID] = true
			c.mu.Unlock()
			go c.write(Frame{Header: Header{ID: f.Header.ID, Op: opCancel}})
		case <-timeout:
			c.forget(f.Header.ID)
			return nil, fmt.Errorf("%s: %w (%w)", op, ctx.Err(), ErrUnresponsive)
		}
	}
}

func finish(out Frame, result any) ([]byte, error) {
	if out.Header.Error != nil {
		e := *out.Header.Error
		if e.Index != nil && out.Header.Op == opTokenize {
			reason := engine.Line(e.Message)
			if strings.TrimSpace(reason) == "" {
				reason = "is refused without a reason"
			}
			return nil, &engine.TextError{Index: *e.Index, Reason: reason}
		}
		return nil, remoteError{e}
	}
	if result != nil {
		if err := json.Unmarshal(out.Header.Args, result); err != nil {
			return nil, fmt.Errorf("decode answer to %s: %w", out.Header.Op, err)
		}
	}
	return out.Body, nil
}

func (c *Client) write(f Frame) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return WriteFrame(c.w, f)
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	delete(c.pending, id)
	c.mu.Unlock()
}

// Hello asks who serves. It is the first request on a connection.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	var h Hello
	if _, err := c.Call(ctx, opHello, nil, &h, nil); err != nil {
		return h, err
	}
	if err := engine.CheckName(h.Name); err != nil {
		return h, fmt.Errorf("the engine's name in its hello: %w", err)
	}
	return h, nil
}

// Load makes the engine load what args say, in a form that is its own matter.
func (c *Client) Load(ctx context.Context, args any) error {
	_, err := c.Call(ctx, opLoad, args, nil, nil)
	return err
}

// Describe implements engine.Describer. Words with characters that a terminal
// takes for more than text are refused, in notes they are escaped.
func (c *Client) Describe(ctx context.Context) (engine.Description, error) {
	var d engine.Description
	if _, err := c.Call(ctx, opDescribe, nil, &d, nil); err != nil {
		return d, err
	}
	return d, d.Check()
}

// Score implements engine.Scorer.
func (c *Client) Score(ctx context.Context, tree *trie.Tree) (engine.Scores, error) {
	args, body := encodeTree(tree)
	var a scoreAnswer
	body, err := c.Call(ctx, opScore, args, &a, body)
	if err != nil {
		return engine.Scores{}, err
	}
	x, err := decodeFloats(body, len(tree.Wants))
	if err != nil {
		return engine.Scores{}, fmt.Errorf("decode answer to score: %w", err)
	}
	if most := mostComputed(tree); a.Computed < 0 || a.Computed > most {
		return engine.Scores{}, fmt.Errorf("the engine says that it computed %d tokens for a tree of %d, where 0 to %d are possible (computed, in its answer to score)", a.Computed, len(tree.Token), most)
	}
	return engine.Scores{LogProbs: x, Computed: a.Computed}, nil
}

// mostBegun is how often an engine may begin a tree again, with smaller batches
// each time that it runs out of memory.
const mostBegun = 16

// mostComputed is how many tokens an engine computes for a tree at most: the path
// to each node alone, filled up to the longest, mostBegun times.
func mostComputed(t *trie.Tree) int {
	deepest := 0
	depth := make([]int, len(t.Parent))
	for i, p := range t.Parent {
		depth[i] = 1
		if 0 <= p && int(p) < i {
			depth[i] += depth[p]
		}
		deepest = max(deepest, depth[i])
	}
	return mostBegun * len(t.Token) * deepest
}

// Tokenize implements engine.Tokenizer. Texts go over in frames of some MB.
func (c *Client) Tokenize(ctx context.Context, texts []string) ([][]int32, error) {
	ids := make([][]int32, 0, len(texts))
	for len(ids) < len(texts) {
		start := len(ids)
		end, size := start, 0
		for end < len(texts) && (end == start || size+len(texts[end]) <= frameTexts) {
			size += len(texts[end])
			end++
		}
		var a countArgs
		body, err := c.Call(ctx, opTokenize, countArgs{end - start}, &a, encodeStrings(texts[start:end]))
		var text *engine.TextError
		if errors.As(err, &text) {
			if text.Index < 0 || text.Index >= end-start {
				return nil, fmt.Errorf("the engine refuses text %d of the %d that it was given: it %s", text.Index, end-start, text.Reason)
			}
			text.Index += start
		}
		if err != nil {
			return nil, err
		}
		part, err := decodeIDs(body, a.Count)
		if err != nil {
			return nil, fmt.Errorf("decode answer to tokenize: %w", err)
		}
		if len(part) != end-start {
			return nil, fmt.Errorf("engine tokenized %d texts of %d", len(part), end-start)
		}
		ids = append(ids, part...)
	}
	return ids, nil
}

// Pieces implements engine.Detokenizer; the error is errors.ErrUnsupported
// where the engine cannot.
func (c *Client) Pieces(ctx context.Context) ([][]byte, error) {
	var a countArgs
	body, err := c.Call(ctx, opPieces, nil, &a, nil)
	if err != nil {
		return nil, err
	}
	pieces, err := decodeStrings[[]byte](body, a.Count)
	if err != nil {
		return nil, fmt.Errorf("decode answer to pieces: %w", err)
	}
	return pieces, nil
}

// Stats implements engine.Counter; the error is errors.ErrUnsupported where
// the engine does not count.
func (c *Client) Stats(ctx context.Context) (engine.Stats, error) {
	var s engine.Stats
	if _, err := c.Call(ctx, opStats, nil, &s, nil); err != nil {
		return s, err
	}
	if s.Computed < 0 || s.Library < -1 || s.Rows < 0 || s.Decode < 0 || s.Sum < 0 {
		return s, errors.New("the engine counts less than nothing (computed, library, in its answer to stats)")
	}
	return s, nil
}

// Close asks the engine to end, waits for its answer at most for Grace, and
// closes the stream to it.
func (c *Client) Close() error {
	grace := c.Grace
	if grace == 0 {
		grace = 2 * time.Second
	}
	ctx, stop := context.WithTimeout(context.Background(), grace)
	defer stop()
	go c.Call(ctx, opClose, nil, nil, nil)
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	return c.w.Close()
}
