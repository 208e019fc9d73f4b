// Package wire is the protocol to an engine in another process: framed,
// versioned, over any pair of byte streams. docs/engine-protocol.md describes
// it for those who write engines in other languages.
//
// Steps of use: the process with the engine calls Serve on its standard input
// and output; the other makes a Client on the two pipes, which is then an
// engine.Engine. Starting and killing processes is not wire's matter.
package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Version of the protocol. A frame of any other is refused.
const Version = 1

// Largest parts of a frame, in bytes. A larger length is taken as damage.
const (
	MaxHeader = 1 << 20
	MaxBody   = 1 << 28
)

// Header is the JSON part of a frame.
type Header struct {
	Version int             `json:"v"`
	ID      uint64          `json:"id"` // of the request, from 1; an answer repeats it
	Op      string          `json:"op"` // an answer repeats it
	Args    json.RawMessage `json:"args,omitempty"`
	Error   *Error          `json:"error,omitempty"` // only in an answer
}

// Frame is one message: a request or an answer.
type Frame struct {
	Header Header
	Body   []byte
}

// Error is a failure as a frame carries it.
type Error struct {
	Kind    string `json:"kind"` // one of the Kind constants
	Message string `json:"message"`
	Index   *int   `json:"index,omitempty"` // of the text at fault, where tokenize fails on one
}

// Kinds of Error.
const (
	KindInput       = "input"       // the request is at fault (engine.ErrInput)
	KindCancelled   = "cancelled"   // by a cancel frame
	KindUnsupported = "unsupported" // the engine has no such operation
	KindFailed      = "failed"      // all else
)

// ErrProtocol marks the errors about the other side's not keeping to the protocol:
// damaged frames, and answers to what was not asked.
var ErrProtocol = errors.New("the engine protocol is broken")

// FrameError is an ErrProtocol about a frame that is none.
type FrameError struct {
	What  string // "header of 99999999 bytes, at most 1048576 are allowed"
	Wrote string // what stands there instead, where that is text
	Cut   bool   // the stream ends within the frame
}

func (e *FrameError) Error() string { return "damaged engine frame: " + e.What }

// Is reports whether target is ErrProtocol.
func (e *FrameError) Is(target error) bool { return target == ErrProtocol }

// WriteFrame writes a frame in one Write and sets its version.
func WriteFrame(w io.Writer, f Frame) error {
	f.Header.Version = Version
	head, err := json.Marshal(f.Header)
	if err != nil {
		return fmt.Errorf("encode engine frame: %w", err)
	}
	if len(head) > MaxHeader || len(f.Body) > MaxBody {
		return fmt.Errorf("engine frame %q is too large: header %d bytes, body %d", f.Header.Op, len(head), len(f.Body))
	}
	b := make([]byte, 0, 12+len(head)+len(f.Body))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = append(b, head...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(f.Body)))
	b = append(b, f.Body...)
	_, err = w.Write(b)
	return err
}

// ReadFrame reads one frame. At the end of the stream, before a frame, the
// error is io.EOF. A damaged frame is a FrameError, which shows how it begins; a
// bufio.Reader lets it show more than four bytes. Memory is taken as bytes arrive,
// not as a length claims.
func ReadFrame(r io.Reader) (Frame, error) {
	var f Frame
	var size [8]byte
	if n, err := io.ReadFull(r, size[:4]); err != nil {
		if err == io.ErrUnexpectedEOF {
			return f, damaged(size[:n], true, "it ends in the header's length")
		}
		return f, err
	}
	length := binary.LittleEndian.Uint32(size[:])
	if length > MaxHeader {
		return f, damaged(append(size[:4:4], waiting(r)...), false, "its header would have %d bytes, at most %d are allowed", length, MaxHeader)
	}
	head, err := readPart(r, uint64(length), MaxHeader, "header")
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(head, &f.Header); err != nil {
		return f, damaged(head, false, "its header is not JSON of the right form: %v", err)
	}
	if f.Header.Version != Version {
		return f, &FrameError{What: fmt.Sprintf("it has protocol version %d, this program speaks %d: use engine and program of one version", f.Header.Version, Version)}
	}
	if _, err := io.ReadFull(r, size[:]); err == io.EOF || err == io.ErrUnexpectedEOF {
		return f, &FrameError{What: "it ends in the body's length", Cut: true}
	} else if err != nil {
		return f, err
	}
	f.Body, err = readPart(r, binary.LittleEndian.Uint64(size[:]), MaxBody, "body")
	return f, err
}

func readPart(r io.Reader, n, most uint64, what string) ([]byte, error) {
	if n > most {
		return nil, &FrameError{What: fmt.Sprintf("its %s would have %d bytes, at most %d are allowed", what, n, most)}
	}
	var b bytes.Buffer
	b.Grow(int(min(n, 1<<16)))
	if got, err := io.CopyN(&b, r, int64(n)); err != nil {
		if err == io.EOF {
			return nil, &FrameError{What: fmt.Sprintf("its %s ends after %d of %d bytes", what, got, n), Cut: true}
		}
		return nil, err
	}
	return b.Bytes(), nil
}

// shown is how many bytes of what is no frame are shown.
const shown = 40

// waiting returns what has arrived already, without waiting for more.
func waiting(r io.Reader) []byte {
	b, ok := r.(*bufio.Reader)
	if !ok {
		return nil
	}
	next, _ := b.Peek(min(b.Buffered(), shown)) // it is there
	return next
}

// damaged makes the error about what begins with start.
func damaged(start []byte, cut bool, format string, args ...any) error {
	e := &FrameError{What: fmt.Sprintf(format, args...), Cut: cut}
	more := ""
	if len(start) > shown {
		start, more = start[:shown], "…"
		for i := 0; i < utf8.UTFMax && !utf8.Valid(start); i++ {
			start = start[:len(start)-1] // a character cut in two
		}
	}
	if text(start) {
		e.Wrote = string(start) + more
		e.What = fmt.Sprintf("the text %q%s stands where one was expected (%s)", start, more, e.What)
	} else if len(start) > 0 {
		e.What += fmt.Sprintf("; it begins with the bytes % x%s", start[:min(len(start), 16)], more)
	}
	return e
}

// text reports whether b is what a program prints for people.
func text(b []byte) bool {
	for _, r := range string(b) {
		if r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r) && r != '\x1b' {
			return false
		}
	}
	return len(b) > 0
}
