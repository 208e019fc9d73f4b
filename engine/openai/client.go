package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"olmes/engine"
	"olmes/secret"
)

// StatusError is an answer of the server that is none.
type StatusError struct {
	Path   string // "/v1/completions"
	Status int    // of HTTP
	Text   string // the server's own words, shortened and without secrets
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("server answers %s with status %d: %s", e.Path, e.Status, e.Text)
}

// Hint says what may help.
func (e *StatusError) Hint() string {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "the API key is read from the environment: is it set, and this server's?"
	case http.StatusNotFound:
		return "is the address right, and the model's name (-m) one the server knows?"
	case http.StatusTooManyRequests:
		return "the server limits requests: fewer at once (--concurrency), or go on later with --resume"
	}
	return ""
}

// AnswerError says that an answer is damaged or not the one asked for: half of
// it, another request's, a number that is null or not finite.
type AnswerError struct {
	Path   string
	Reason string
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("server's answer to %s is not usable: %s", e.Path, e.Reason)
}

// FailuresError says that so many calls failed that further ones are refused.
type FailuresError struct {
	Failed, Calls int64
	Last          error // of the failures
}

func (e *FailuresError) Error() string {
	return fmt.Sprintf("%d of %d calls to the server failed, the last one: %v", e.Failed, e.Calls, e.Last)
}

func (e *FailuresError) Unwrap() error { return e.Last }

// Hint says what the user can do.
func (e *FailuresError) Hint() string {
	return "what was scored is kept: when the server is well again, go on with --resume"
}

// answerLimit is the most bytes of one answer that are read.
const answerLimit = 512 << 20

// client makes calls: it waits for its turn, tries again, and counts.
type client struct {
	o     Options
	root  string // address without the API's path
	api   string // address of the API, ending in /v1
	limit *limiter

	calls   atomic.Int64 // attempts, without those the server put off
	failed  atomic.Int64 // of these
	retried atomic.Int64
	nonce   atomic.Uint32

	// Of the probe, which runs alone.
	probing     bool    // few tries
	temperature float64 // asked for
}

// probeRetries is how often a call of the probe is tried again: what is asked
// for may not be there.
const probeRetries = 2

func newClient(o Options) *client {
	c := &client{o: o, root: strings.TrimRight(o.URL, "/"), limit: newLimiter(o.Concurrency), temperature: 1}
	c.api = c.root
	if strings.HasSuffix(c.root, "/v1") {
		c.root = strings.TrimSuffix(c.root, "/v1")
	} else {
		c.api += "/v1"
	}
	c.nonce.Store(uint32(time.Now().UnixNano()))
	return c
}

// once makes one attempt: out is decoded from the answer and checked.
func (c *client) once(ctx context.Context, method, address string, body []byte, out any, check func() error) error {
	path := address[len(c.root):]
	ctx, stop := context.WithTimeoutCause(ctx, c.o.Timeout, errTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/plain")
	if c.o.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.APIKey)
	}
	resp, err := c.o.Client.Do(req)
	if err != nil {
		return c.lost(ctx, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return c.lost(ctx, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return statusError(c, path, resp, data)
	}
	if text, ok := out.(*string); ok {
		*text = string(data)
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return &AnswerError{path, "it is no complete JSON: " + err.Error()}
	}
	if check != nil {
		var rank *RankError
		switch err := check(); {
		case errors.As(err, &rank): // asking again would not help
			return rank
		case err != nil:
			return &AnswerError{path, err.Error()}
		}
	}
	return nil
}

var errTimeout = errors.New("no answer in time")

// lostError says that no answer came.
type lostError struct {
	text string
	err  error
}

func (e lostError) Error() string { return e.text }
func (e lostError) Unwrap() error { return e.err }

func (c *client) lost(ctx context.Context, path string, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errTimeout) {
		err = fmt.Errorf("%w (%v)", cause, c.o.Timeout)
	} else if cause != nil {
		return cause
	}
	return lostError{c.redact(fmt.Sprintf("call %s: %v", path, err)), err}
}

// redact cuts the API key and other secrets out of a text.
func (c *client) redact(text string) string {
	if c.o.APIKey != "" {
		text = strings.ReplaceAll(text, c.o.APIKey, secret.Mask)
	}
	return secret.Redact(text)
}

// waitError is a StatusError with the time the server asks to wait.
type waitError struct {
	*StatusError
	after time.Duration
}

func (e waitError) Unwrap() error { return e.StatusError }

func statusError(c *client, path string, resp *http.Response, data []byte) error {
	text := strings.Join(strings.Fields(string(data)), " ")
	var known struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(data, &known) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		switch {
		case json.Unmarshal(known.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		case known.Message != "":
			text = known.Message
		}
	}
	e := &StatusError{Path: path, Status: resp.StatusCode, Text: c.redact(engine.Line(text[:min(len(text), 500)]))}
	after := time.Duration(0)
	if v := resp.Header.Get("Retry-After"); v != "" {
		if seconds, err := strconv.Atoi(v); err == nil {
			after = time.Duration(seconds) * time.Second
		} else if at, err := http.ParseTime(v); err == nil {
			after = time.Until(at)
		}
	}
	return waitError{e, min(max(after, 0), 5*time.Minute)}
}

// transient tells whether a call may succeed when tried again, and whether the
// server asked for patience.
func transient(err error) (again, busy bool, after time.Duration) {
	var status waitError
	var answer *AnswerError
	var lost lostError
	switch {
	case errors.As(err, &status):
		switch s := status.Status; {
		case s == http.StatusTooManyRequests, s == http.StatusServiceUnavailable:
			return true, true, status.after
		case s == http.StatusRequestTimeout, s == http.StatusTooEarly, s >= 500 && s != http.StatusNotImplemented:
			return true, false, status.after
		}
		return false, false, 0
	case errors.As(err, &answer), errors.As(err, &lost):
		return true, false, 0
	}
	return false, false, 0
}

// call makes a call, again and again if need be, and decodes its answer into
// out, which make gives anew for each attempt: it returns the body, where the
// answer goes, and what checks it.
func (c *client) call(ctx context.Context, address string, make func() (body, out any, check func() error)) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.Multiplier, wait.MaxInterval = 250*time.Millisecond, 2, 15*time.Second
	failures, refusals := 0, 0
	attempt := func() (struct{}, error) {
		if err := c.refuse(nil); err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		body, out, check := make()
		var data []byte
		method := http.MethodGet
		if body != nil {
			var err error
			if data, err = json.Marshal(body); err != nil {
				return struct{}{}, backoff.Permanent(err)
			}
			method = http.MethodPost
		}
		done, err := c.limit.enter(ctx)
		if err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		err = c.once(ctx, method, address, data, out, check)
		again, busy, after := transient(err)
		done(err == nil || !again, after)
		if !busy {
			c.calls.Add(1)
		}
		if err == nil || !again || ctx.Err() != nil {
			return struct{}{}, permanent(err)
		}
		if busy {
			refusals++
		} else {
			failures++
			c.failed.Add(1)
			if err := c.refuse(err); err != nil {
				return struct{}{}, backoff.Permanent(err)
			}
		}
		if failures > c.retries() || refusals > busyTries*c.retries() {
			return struct{}{}, backoff.Permanent(err)
		}
		c.retried.Add(1)
		c.logf("%v; trying again", err)
		if c.o.Child != nil {
			// A server of ours that has ended is started again.
			if err := c.o.Child.Ensure(ctx); err != nil {
				return struct{}{}, backoff.Permanent(err)
			}
		}
		return struct{}{}, err
	}
	// How long the server asks to be left alone is the limiter's matter.
	_, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0))
	var many *FailuresError
	var status waitError
	switch {
	case errors.As(err, &many):
		return many
	case errors.As(err, &status):
		return status.StatusError
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// busyTries is how many times more often a call is tried that the server puts
// off than one that fails.
const busyTries = 3

// retries is how often a failed call is tried again.
func (c *client) retries() int {
	if c.probing {
		return min(c.o.Retries, probeRetries)
	}
	return c.o.Retries
}

func permanent(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}

// refuse returns an error once too many calls have failed.
func (c *client) refuse(last error) error {
	calls, failed := c.calls.Load(), c.failed.Load()
	if !c.probing && calls >= MinCalls && float64(failed) > c.o.MaxFailures*float64(calls) {
		if last == nil {
			last = errors.New("see above")
		}
		return &FailuresError{Failed: failed, Calls: calls, Last: last}
	}
	return nil
}

// get asks for a small thing that the server may not have.
func (c *client) get(ctx context.Context, address string, out any) error {
	return c.call(ctx, address, func() (any, any, func() error) { return nil, out, nil })
}

func (c *client) logf(format string, args ...any) {
	if c.o.Log != nil {
		fmt.Fprintf(c.o.Log, "%s\n", c.redact(fmt.Sprintf(format, args...)))
	}
}

// absent tells whether the server does not have what was asked for.
func absent(err error) bool {
	var status *StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusForbidden, http.StatusBadRequest, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// unreachable tells whether nothing listens at the address.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
