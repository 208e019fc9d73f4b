package torch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Python that lacks something is refused with what was found and one command.
func TestCheck(t *testing.T) {
	answer := func(json string) string {
		file := filepath.Join(t.TempDir(), "python3")
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+json+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	says := func(python, torch, transformers string) string {
		return answer(`echo '{"executable": "/p", "python": "` + python + `", "torch": "` + torch + `", "transformers": "` + transformers + `"}'`)
	}
	for _, c := range []struct{ name, python, reason, tip string }{
		{"none", filepath.Join(t.TempDir(), "python3"), "no such program", "--python"},
		{"old", says("3.8.1", "2.13.0", "5.24.0"), "Python 3.8.1", "--python"},
		{"nothing", says("3.11.7", "", ""), "it has no torch, it has no transformers", "-m pip install 'torch>="},
		{"no transformers", says("3.11.7", "2.13.0+cu130", ""), "it has no transformers", "-m pip install"},
		{"old torch", says("3.11.7", "1.13.1+cpu", "5.24.0"), "its torch is 1.13.1+cpu", "-m pip install"},
		{"old transformers", says("3.12.0", "2.13.0", "4.57.3"), "its transformers is 4.57.3", "'transformers>="},
		{"not Python", answer("echo hello"), "does not answer as Python does", "--python"},
		{"fails", answer("echo 'SyntaxError: bad' >&2; exit 1"), "SyntaxError: bad", "--python"},
	} {
		_, err := Check(t.Context(), c.python)
		var e *EnvironmentError
		if !errors.As(err, &e) || !strings.Contains(e.Error(), c.reason) || !strings.Contains(e.Hint(), c.tip) {
			t.Errorf("%s: error %v, want %q and the hint %q", c.name, err, c.reason, c.tip)
		}
	}
	v, err := Check(t.Context(), says("3.14.0", "2.13.0a0+git", "5.24.0.dev0"))
	if err != nil || v.Torch != "2.13.0a0+git" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"2.6", "2.6", false}, {"2.6.0", "2.6", false}, {"2.5.1+cu121", "2.6", true}, {"2.13.0", "2.6", false}, {"3.9", "3.10", true}, {"5.0.0rc1", "5.0", false}} {
		if got := older(c.a, c.b); got != c.want {
			t.Errorf("older(%q, %q) is %v", c.a, c.b, got)
		}
	}
}

func TestDefaultPlan(t *testing.T) {
	for _, s := range []Shape{{}, {Parameters: 135e6, Vocab: 49152}, {Parameters: 8e9, Vocab: 262144}, {Parameters: 8e9, Vocab: 262144, GPU: true}} {
		p := DefaultPlan(s)
		if err := CheckPlan(p); err != nil || p.ChunkTokens < 1 {
			t.Errorf("%+v: %+v, %v", s, p, err)
		}
		if bytes, most := 4*s.Vocab*p.Rows, 1<<32; bytes > most {
			t.Errorf("%+v: rows take %d bytes", s, bytes)
		}
	}
}
