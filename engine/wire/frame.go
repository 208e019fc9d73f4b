// Package wire is the protocol to an engine in another process: framed,
// versioned, over any pair of byte streams. docs/engine-protocol.md describes
// it for those who write engines in other languages.
//
// Steps of use: the process with the engine calls Serve on its standard input
// and output; the other makes a Client on the two pipes, which is then an
// engine.Engine. Starting and killing processes is not wire's matter.
package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// errFrame starts the errors about damaged frames.
var errFrame = errors.New("damaged engine frame")

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
// error is io.EOF. Memory is taken as bytes arrive, not as a length claims.
func ReadFrame(r io.Reader) (Frame, error) {
	var f Frame
	var size [8]byte
	if _, err := io.ReadFull(r, size[:4]); err != nil {
		if err == io.ErrUnexpectedEOF {
			err = fmt.Errorf("%w: ends in the header's length", errFrame)
		}
		return f, err
	}
	head, err := readPart(r, uint64(binary.LittleEndian.Uint32(size[:])), MaxHeader, "header")
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(head, &f.Header); err != nil {
		return f, fmt.Errorf("%w: header is not JSON of the right form: %w", errFrame, err)
	}
	if f.Header.Version != Version {
		return f, fmt.Errorf("engine frame has protocol version %d, this program speaks %d: use engine and program of one version", f.Header.Version, Version)
	}
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return f, fmt.Errorf("%w: ends in the body's length", errFrame)
	}
	f.Body, err = readPart(r, binary.LittleEndian.Uint64(size[:]), MaxBody, "body")
	return f, err
}

func readPart(r io.Reader, n, most uint64, what string) ([]byte, error) {
	if n > most {
		return nil, fmt.Errorf("%w: %s of %d bytes, at most %d are allowed", errFrame, what, n, most)
	}
	var b bytes.Buffer
	b.Grow(int(min(n, 1<<16)))
	if got, err := io.CopyN(&b, r, int64(n)); err != nil {
		if err == io.EOF {
			return nil, fmt.Errorf("%w: %s ends after %d of %d bytes", errFrame, what, got, n)
		}
		return nil, err
	}
	return b.Bytes(), nil
}
