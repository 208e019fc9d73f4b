package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Client is an engine at the other end of two streams. Its methods may be
// called from several goroutines; the engine serves them in turn.
type Client struct {
	// Grace is how long a cancelled call waits for the engine to stop; 2 s if 0.
	Grace time.Duration

	w       io.WriteCloser
	writing sync.Mutex

	mu      sync.Mutex
	last    uint64
	pending map[uint64]chan Frame
	ended   error         // why the connection ended; set before done is closed
	done    chan struct{} // closed when the connection has ended
}

// NewClient speaks to the engine that reads w and writes r. The connection
// ends when r does.
func NewClient(r io.Reader, w io.WriteCloser) *Client {
	c := &Client{w: w, pending: map[uint64]chan Frame{}, done: make(chan struct{})}
	go c.read(r)
	return c
}

func (c *Client) read(r io.Reader) {
	for {
		f, err := ReadFrame(r)
		if err != nil {
			c.mu.Lock()
			c.ended = ErrClosed
			if err != io.EOF {
				c.ended = fmt.Errorf("%w: %w", ErrClosed, err)
			}
			c.mu.Unlock()
			close(c.done)
			return
		}
		c.mu.Lock()
		answer, ok := c.pending[f.Header.ID]
		delete(c.pending, f.Header.ID)
		c.mu.Unlock()
		if ok {
			answer <- f // has room
		}
	}
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// remoteError is an error of the engine's side.
type remoteError struct{ e Error }

func (r remoteError) Error() string { return r.e.Message }

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
	c.pending[f.Header.ID] = answer
	c.mu.Unlock()

	// Written by the side, since an engine that hangs does not read.
	written := make(chan error, 1)
	go func() { written <- c.write(f) }()

	cancelled := ctx.Done()
	var timeout <-chan time.Time
	for {
		select {
		case out := <-answer:
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("%s: %w", op, err)
			}
			return finish(out, result)
		case err := <-written:
			if err != nil {
				c.forget(f.Header.ID)
				return nil, fmt.Errorf("%s: %w: %w", op, ErrClosed, err)
			}
			written = nil
		case <-c.done:
			select {
			case out := <-answer: // it came just before the end
				return finish(out, result)
			default:
			}
			c.mu.Lock()
			defer c.mu.Unlock()
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
		if e.Index != nil {
			return nil, &engine.TextError{Index: *e.Index, Reason: e.Message}
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
	_, err := c.Call(ctx, opHello, nil, &h, nil)
	return h, err
}

// Load makes the engine load what args say, in a form that is its own matter.
func (c *Client) Load(ctx context.Context, args any) error {
	_, err := c.Call(ctx, opLoad, args, nil, nil)
	return err
}

// Describe implements engine.Describer.
func (c *Client) Describe(ctx context.Context) (engine.Description, error) {
	var d engine.Description
	_, err := c.Call(ctx, opDescribe, nil, &d, nil)
	return d, err
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
	return engine.Scores{LogProbs: x, Computed: a.Computed}, nil
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
	_, err := c.Call(ctx, opStats, nil, &s, nil)
	return s, err
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
