package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"olmes/engine"
)

// Server is what Serve serves.
type Server struct {
	Name   string        // of the program, for Hello
	Engine engine.Engine // nil where Load makes it

	// Load, if not nil, answers the load operation. It may be called once.
	Load func(ctx context.Context, args json.RawMessage) (engine.Engine, error)

	// Ops holds operations beyond the protocol's own, by name. What they
	// return is the answer's args. They may be called at the same time.
	Ops map[string]func(ctx context.Context, args json.RawMessage) (any, error)
}

// maxQueue is the number of requests that may wait or be in progress.
const maxQueue = 256

// Serve answers requests from r on w until r ends, a close request comes or ctx
// is cancelled; these give a nil error, and the engine is closed. Score requests
// and operations beyond the protocol's own are begun as they come, all others
// are answered one after the other. A request in progress is cancelled when r ends, so that an
// engine does not outlive the process it serves. Serve leaves a read on r
// behind when it returns before r ends.
func Serve(ctx context.Context, r io.Reader, w io.Writer, s Server) error {
	ctx, stop := context.WithCancel(ctx)
	var scores sync.WaitGroup
	defer func() {
		stop()
		scores.Wait()
		if s.Engine != nil {
			s.Engine.Close()
		}
	}()

	var mu sync.Mutex // guards w and cancels
	cancels := map[uint64]context.CancelFunc{}
	type job struct {
		ctx context.Context
		f   Frame
	}
	jobs := make(chan job, maxQueue)
	send := func(f Frame) error {
		mu.Lock()
		defer mu.Unlock()
		return WriteFrame(w, f)
	}
	answer := func(j job) error {
		f := s.do(j.ctx, j.f)
		mu.Lock()
		defer mu.Unlock()
		cancels[f.Header.ID]()
		delete(cancels, f.Header.ID)
		if err := WriteFrame(w, f); err != nil {
			return fmt.Errorf("answer engine request: %w", err)
		}
		return nil
	}
	unanswered := make(chan error, maxQueue) // of scores

	var readErr error // read after jobs is closed
	go func() {
		defer stop() // after jobs is closed, so that the loop below sees that first
		defer close(jobs)
		for {
			f, err := ReadFrame(r)
			if err != nil {
				if err != io.EOF {
					readErr = err
				}
				return
			}
			id := f.Header.ID
			mu.Lock()
			cancel, running := cancels[id]
			full := len(cancels) >= maxQueue
			mu.Unlock()
			switch {
			case f.Header.Op == opCancel:
				if running {
					cancel()
				}
				continue
			case running:
				send(failure(f, fmt.Errorf("request %d is in progress already", id)))
				continue
			case full:
				send(failure(f, fmt.Errorf("more than %d requests are waiting", maxQueue)))
				continue
			}
			jobCtx, cancel := context.WithCancel(ctx)
			mu.Lock()
			cancels[id] = cancel
			mu.Unlock()
			jobs <- job{jobCtx, f} // has room
		}
	}()

	for {
		var j job
		var ok bool
		select {
		case j, ok = <-jobs:
		case err := <-unanswered:
			return err
		case <-ctx.Done():
			// The reader has ended, or the caller wants the end.
			select {
			case j, ok = <-jobs:
			default:
				return nil
			}
		}
		if !ok {
			return readErr
		}
		if _, own := s.Ops[j.f.Header.Op]; own || j.f.Header.Op == opScore {
			scores.Go(func() {
				if err := answer(j); err != nil {
					unanswered <- err
				}
			})
			continue
		}
		if err := answer(j); err != nil {
			return err
		}
		if j.f.Header.Op == opClose {
			return nil
		}
	}
}

// do answers one request.
func (s *Server) do(ctx context.Context, f Frame) Frame {
	if err := ctx.Err(); err != nil {
		return failure(f, err)
	}
	args, body, err := s.run(ctx, f)
	if err != nil {
		return failure(f, err)
	}
	out := Frame{Header: Header{ID: f.Header.ID, Op: f.Header.Op}, Body: body}
	if args != nil {
		if out.Header.Args, err = json.Marshal(args); err != nil {
			return failure(f, fmt.Errorf("encode answer: %w", err))
		}
	}
	return out
}

var errUnsupported = errors.New("the engine does not support this operation")

func (s *Server) run(ctx context.Context, f Frame) (args any, body []byte, err error) {
	switch op := f.Header.Op; op {
	case opHello:
		ops := []string{opHello, opDescribe, opTokenize, opPieces, opScore, opStats, opCancel, opClose}
		if s.Load != nil {
			ops = append(ops, opLoad)
		}
		ops = slices.AppendSeq(ops, maps.Keys(s.Ops))
		slices.Sort(ops)
		return Hello{Name: s.Name, Ops: ops}, nil, nil
	case opClose:
		return nil, nil, nil
	case opLoad:
		if s.Load == nil {
			return nil, nil, errUnsupported
		}
		if s.Engine != nil {
			return nil, nil, errors.New("a model is loaded already")
		}
		s.Engine, err = s.Load(ctx, f.Header.Args)
		return nil, nil, err
	default:
		if do, ok := s.Ops[op]; ok {
			args, err = do(ctx, f.Header.Args)
			return args, nil, err
		}
	}
	if s.Engine == nil {
		return nil, nil, errors.New("no model is loaded")
	}
	switch f.Header.Op {
	case opDescribe:
		args, err = s.Engine.Describe(ctx)
		return args, nil, err
	case opScore:
		var a scoreArgs
		if err := json.Unmarshal(f.Header.Args, &a); err != nil {
			return nil, nil, fmt.Errorf("score request: %w", err)
		}
		tree, err := decodeTree(a, f.Body)
		if err != nil {
			return nil, nil, engine.InputError(err)
		}
		scores, err := s.Engine.Score(ctx, tree)
		return scoreAnswer{scores.Computed}, encodeFloats(scores.LogProbs), err
	case opTokenize:
		var a countArgs
		if err := json.Unmarshal(f.Header.Args, &a); err != nil {
			return nil, nil, fmt.Errorf("tokenize request: %w", err)
		}
		texts, err := decodeStrings[string](f.Body, a.Count)
		if err != nil {
			return nil, nil, engine.InputError(err)
		}
		ids, err := s.Engine.Tokenize(ctx, texts)
		return countArgs{len(ids)}, encodeIDs(ids), err
	case opPieces:
		d, ok := s.Engine.(engine.Detokenizer)
		if !ok {
			return nil, nil, errUnsupported
		}
		pieces, err := d.Pieces(ctx)
		return countArgs{len(pieces)}, encodeStrings(pieces), err
	case opStats:
		c, ok := s.Engine.(engine.Counter)
		if !ok {
			return nil, nil, errUnsupported
		}
		args, err = c.Stats(ctx)
		return args, nil, err
	}
	return nil, nil, errUnsupported
}

func failure(f Frame, err error) Frame {
	kind := KindFailed
	switch {
	case errors.Is(err, engine.ErrInput):
		kind = KindInput
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind = KindCancelled
	case errors.Is(err, errUnsupported):
		kind = KindUnsupported
	}
	e := &Error{Kind: kind, Message: err.Error()}
	var text *engine.TextError
	if errors.As(err, &text) {
		e.Message, e.Index = text.Reason, &text.Index
	}
	return Frame{Header: Header{ID: f.Header.ID, Op: f.Header.Op, Error: e}}
}
