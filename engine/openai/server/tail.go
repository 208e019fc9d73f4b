package server

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// tail passes a child's output on and keeps the last lines.
type tail struct {
	mu    sync.Mutex
	w     io.Writer
	part  []byte
	lines []string
}

// tailLines is how many lines are kept, and tailBytes how much of each.
const (
	tailLines = 400 // several of Python's tracebacks
	tailBytes = 300
)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.w.Write(b) // a log that cannot be written must not stop the server
	t.part = append(t.part, b...)
	for {
		i := bytes.IndexByte(t.part, '\n')
		if i < 0 {
			break
		}
		if line := strings.TrimSpace(string(t.part[:i])); line != "" {
			t.lines = append(t.lines, line[:min(len(line), tailBytes)])
		}
		t.part = t.part[i+1:]
	}
	t.part = t.part[max(0, len(t.part)-4*tailBytes):] // a bar without line ends
	t.lines = t.lines[max(0, len(t.lines)-tailLines):]
	return len(b), nil
}

// exception is the line that ends one of Python's tracebacks, whatever a logger
// puts before it.
var exception = regexp.MustCompile(`(?:^|[\s\])])((?:\w+\.)*[A-Z]\w*(?:Error|Exception): \S.*)$`)

// last returns the lines that tell most, three at most: the exceptions, of which
// the first is most often the cause of the others, those that speak of errors, or
// the last ones.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var raised, faults []string
	for i, line := range t.lines {
		if m := exception.FindStringSubmatch(line); m != nil {
			if text := m[1] + refused(t.lines[i+1:], m[1]); !slices.Contains(raised, text) {
				raised = append(raised, text)
			}
		}
		lower := strings.ToLower(line)
		if strings.Contains(lower, "error") || strings.Contains(line, "GGML_ASSERT") || strings.Contains(lower, "out of memory") {
			faults = append(faults, line)
		}
	}
	switch {
	case len(raised) > 3:
		return append(raised[:2:2], raised[len(raised)-1])
	case len(raised) > 0:
		return raised
	case len(faults) > 0:
		return faults[max(0, len(faults)-3):]
	}
	return t.lines[max(0, len(t.lines)-3):]
}

// refused is what follows the exception of pydantic, which says what it refuses in
// the lines after it.
func refused(after []string, exception string) string {
	if !strings.Contains(exception, " validation error") {
		return ""
	}
	text := ":"
	for _, line := range after[:min(len(after), 3)] {
		line, _, ends := strings.Cut(line, " [type=")
		text += " " + line
		if ends {
			return text
		}
	}
	return ""
}

func joined(lines []string) string { return strings.Join(lines, " | ") }
