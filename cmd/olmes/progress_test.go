package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"olmes/run"
	"olmes/secret"
)

// clock is a time that only the test moves.
type clock struct{ now time.Time }

func (c *clock) wait(d time.Duration) { c.now = c.now.Add(d) }

// Plain progress: a line at most every ten seconds, the time left from what
// this phase has done, and nothing counted that has no unit.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	c := &clock{now: time.Unix(0, 0)}
	r := &lines{w: &out, hide: secret.NewRedactor([]string{"A_TOKEN=hushhush"}, "/home/someone"), now: func() time.Time { return c.now }}
	says := func(step string, act func(), want string) {
		t.Helper()
		out.Reset()
		act()
		if got := strings.TrimSuffix(out.String(), "\n"); got != want {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	after := func(d time.Duration, p run.Phase, done int64, state string) func() {
		return func() {
			c.wait(d)
			p.Update(done, state)
		}
	}
	p := r.Phase("fetch a", "bytes", 8e6)
	says("at once", after(0, p, 0, ""), "")
	says("too early", after(9*time.Second, p, 1e6, ""), "")
	says("bytes", after(time.Second, p, 2e6, ""), "fetch a: 2.0 MB of 8.0 MB (25%), 30s left")
	says("bytes done", func() { p.Done("8.0 MB") }, "fetch a: done, 8.0 MB (10s)")

	p = r.Phase("build b", "%", 100)
	says("first", after(0, p, 50, ""), "")
	says("percent, from the first it heard of", after(10*time.Second, p, 75, ""), "build b: 75%, 10s left")
	says("no outcome", func() { p.Done("") }, "build b: done (10s)")

	p = r.Phase("wait", "", 0)
	says("no count", after(20*time.Second, p, 0, "for /home/someone/x"), "wait: for ~/x")
	says("failed", func() { p.Done("failed") }, "wait: failed (20s)")

	p = r.Phase("score", "tokens", 1000)
	p.Update(400, "")
	says("resumed", after(10*time.Second, p, 500, "boolq cf"), "score: 500 tokens of 1000 tokens (50%), boolq cf, 50s left")
	says("nothing moved", after(10*time.Second, p, 400, ""), "score: 400 tokens of 1000 tokens (40%)")

	p = r.Phase("slow", "bytes", 1e12)
	p.Update(0, "")
	says("no estimate", after(10*time.Second, p, 1, ""), "slow: 0.0 MB of 1000000.0 MB (0%)")
	says("note", func() { r.Note("hushhush") }, "[redacted]")
}
