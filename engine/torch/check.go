package torch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Oldest versions that the worker runs with.
const (
	MinPython       = "3.10"
	MinTorch        = "2.6"
	MinTransformers = "5.0"
)

// Versions are what a Python has.
type Versions struct {
	Executable   string `json:"executable"`   // absolute path of the program
	Python       string `json:"python"`       // "3.11.7"
	Torch        string `json:"torch"`        // "" if it is not installed
	Transformers string `json:"transformers"` // likewise
}

// EnvironmentError says that a Python cannot run the worker.
type EnvironmentError struct {
	Python string // program
	Reason string // what was found
	Tip    string // what to do
}

func (e *EnvironmentError) Error() string { return fmt.Sprintf("Python at %s: %s", e.Python, e.Reason) }

// Hint says what the user can do.
func (e *EnvironmentError) Hint() string { return e.Tip }

// script tells versions without importing torch, which would take seconds. The
// working directory is somebody's: nothing may be imported from there.
const script = `import sys
sys.path[:] = [p for p in sys.path if p]
import json
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
print(json.dumps({"executable": sys.executable, "python": "%d.%d.%d" % sys.version_info[:3], "torch": version("torch"), "transformers": version("transformers")}))`

// Check asks the Python program ("" is python3 on PATH) for its version and
// those of torch and transformers. One that is missing or too old is an
// *EnvironmentError with the pip command that helps.
func Check(ctx context.Context, python string) (Versions, error) {
	if python == "" {
		python = "python3"
	}
	program, err := exec.LookPath(python)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return Versions{}, &EnvironmentError{python, "there is no such program", fmt.Sprintf("install Python %s or newer, or name one with --python", MinPython)}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-c", script)
	cmd.WaitDelay = time.Second
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	var v Versions
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return v, fmt.Errorf("ask %s for its version: %w", program, ctx.Err())
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return v, &EnvironmentError{program, "it cannot be run: " + err.Error(), "name another with --python"}
		}
		return v, &EnvironmentError{program, "it does not run a script of Python 3: " + lastLine(stderr.String()), fmt.Sprintf("name a Python %s or newer with --python", MinPython)}
	}
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		return v, &EnvironmentError{program, "it does not answer as Python does", fmt.Sprintf("name a Python %s or newer with --python", MinPython)}
	}
	if v.Executable == "" {
		v.Executable = program
	}
	return v, v.check(program)
}

func (v Versions) check(program string) error {
	if older(v.Python, MinPython) {
		return &EnvironmentError{program, fmt.Sprintf("it is Python %s, the torch engine needs %s or newer", v.Python, MinPython), "name another with --python"}
	}
	var wrong []string
	for _, p := range []struct{ name, have, least string }{{"torch", v.Torch, MinTorch}, {"transformers", v.Transformers, MinTransformers}} {
		switch {
		case p.have == "":
			wrong = append(wrong, "it has no "+p.name)
		case older(p.have, p.least):
			wrong = append(wrong, fmt.Sprintf("its %s is %s, %s or newer is needed", p.name, p.have, p.least))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &EnvironmentError{program, strings.Join(wrong, ", "), fmt.Sprintf("run: %s -m pip install 'torch>=%s' 'transformers>=%s'", quote(program), MinTorch, MinTransformers)}
}

// quote makes a path one word for a shell.
func quote(path string) string {
	if strings.ContainsAny(path, " \t'\"\\$&;()") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// older tells whether version a is before b, by their leading numbers.
func older(a, b string) bool {
	x, y := numbers(a), numbers(b)
	for i := range max(len(x), len(y)) {
		var p, q int
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return p < q
		}
	}
	return false
}

func numbers(version string) []int {
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		digits := part
		if i := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
			digits = part[:i]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		out = append(out, n)
		if digits != part {
			break
		}
	}
	return out
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
