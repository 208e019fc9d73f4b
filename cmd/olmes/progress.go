package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"olmes/run"
	"olmes/secret"
)

// plainEvery is how often progress prints a line where there is no terminal.
const plainEvery = 10 * time.Second

// reporter returns what shows progress on w: bars on a terminal, plain lines
// elsewhere, nothing when quiet.
func (a *app) reporter() run.Reporter {
	if a.quiet {
		return run.Silent{}
	}
	hide := secret.Process()
	if f, ok := a.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &bars{w: f, hide: hide}
	}
	return &lines{w: a.stderr, hide: hide, now: time.Now}
}

// lines reports progress as plain lines.
type lines struct {
	w    io.Writer
	hide *secret.Redactor
	now  func() time.Time
}

func (l *lines) Note(text string) { fmt.Fprintln(l.w, l.hide.Redact(text)) }

func (l *lines) Phase(name, unit string, total int64) run.Phase {
	now := l.now()
	return &linesPhase{lines: l, name: name, unit: unit, total: total, start: now, last: now}
}

type linesPhase struct {
	*lines
	name, unit  string
	total       int64
	start, last time.Time
	first       int64
	started     bool
}

func (p *linesPhase) Update(done int64, state string) {
	now := p.now()
	if !p.started {
		p.first, p.started = done, true
	}
	if now.Sub(p.last) < plainEvery {
		return
	}
	p.last = now
	var parts []string
	if count := progress(done, p.total, p.unit); count != "" {
		parts = append(parts, count)
	}
	if state != "" {
		parts = append(parts, state)
	}
	if left, ok := remaining(now.Sub(p.start), done-p.first, p.total-done); ok {
		parts = append(parts, left.String()+" left")
	}
	fmt.Fprintln(p.w, p.hide.Redact(p.name+": "+strings.Join(parts, ", ")))
}

func (p *linesPhase) Done(outcome string) {
	fmt.Fprintln(p.w, doneLine(p.hide, p.name, outcome, p.now().Sub(p.start)))
}

// progress says how far a phase is, "" where it counts nothing.
func progress(done, total int64, unit string) string {
	switch {
	case unit == "":
		return ""
	case unit == "%" || total <= 0:
		return amount(done, unit)
	}
	return fmt.Sprintf("%s of %s (%d%%)", amount(done, unit), amount(total, unit), 100*done/total)
}

// remaining estimates the time for what is left from the time that what moved
// has taken; false where that is no estimate yet.
func remaining(spent time.Duration, moved, left int64) (time.Duration, bool) {
	if moved <= 0 || left <= 0 {
		return 0, false
	}
	seconds := spent.Seconds() * float64(left) / float64(moved)
	if seconds > 1000*3600 {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second), true
}

// doneLine is the last line of a phase.
func doneLine(hide *secret.Redactor, name, outcome string, took time.Duration) string {
	switch outcome {
	case "":
		outcome = "done"
	case "failed":
	default:
		outcome = "done, " + outcome
	}
	return hide.Redact(fmt.Sprintf("%s: %s (%s)", name, outcome, took.Round(100*time.Millisecond)))
}

// amount formats a count of units; bytes in MB.
func amount(n int64, unit string) string {
	switch unit {
	case "bytes":
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case "%":
		return fmt.Sprintf("%d%%", n)
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// bars reports progress as bars on a terminal, one phase at a time.
type bars struct {
	w    io.Writer
	hide *secret.Redactor
}

func (b *bars) Note(text string) { fmt.Fprintln(b.w, b.hide.Redact(text)) }

func (b *bars) Phase(name, unit string, total int64) run.Phase {
	p := &barPhase{bars: b, name: name, start: time.Now()}
	p.state.Store("")
	p.progress = mpb.New(mpb.WithOutput(b.w), mpb.WithWidth(40), mpb.WithRefreshRate(200*time.Millisecond))
	var after []decor.Decorator
	switch unit {
	case "":
	case "%":
		after = append(after, decor.Percentage(decor.WCSyncSpace))
	case "bytes":
		after = append(after, decor.CountersKiloByte("% .1f / % .1f", decor.WCSyncSpace))
	default:
		after = append(after, decor.CountersNoUnit("%d / %d "+unit, decor.WCSyncSpace))
	}
	after = append(after,
		decor.Any(func(decor.Statistics) string { return " " + p.state.Load().(string) }),
		decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WCSyncSpace), ""))
	p.bar = p.progress.AddBar(total,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(b.hide.Redact(name)+" ")),
		mpb.AppendDecorators(after...),
	)
	return p
}

type barPhase struct {
	*bars
	name     string
	start    time.Time
	progress *mpb.Progress
	bar      *mpb.Bar
	state    atomic.Value
}

func (p *barPhase) Update(done int64, state string) {
	p.state.Store(p.hide.Redact(state))
	p.bar.SetCurrent(done)
}

func (p *barPhase) Done(outcome string) {
	p.bar.Abort(true)
	p.progress.Wait()
	fmt.Fprintln(p.w, doneLine(p.hide, p.name, outcome, time.Since(p.start)))
}
