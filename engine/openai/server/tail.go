package server

import (
	"bytes"
	"io"
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
	tailLines = 100
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

// last returns the lines that tell most: those of errors, or the last few.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var faults []string
	for _, line := range t.lines {
		lower := strings.ToLower(line)
		if strings.Contains(lower, "error") || strings.Contains(line, "GGML_ASSERT") || strings.Contains(lower, "out of memory") {
			faults = append(faults, line)
		}
	}
	if len(faults) > 0 {
		return faults[max(0, len(faults)-3):]
	}
	return t.lines[max(0, len(t.lines)-3):]
}

func joined(lines []string) string { return strings.Join(lines, " | ") }
