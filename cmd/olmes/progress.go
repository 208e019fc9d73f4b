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

	"olmes/record"
	"olmes/run"
)

// plainEvery is how often progress prints a line where there is no terminal.
const plainEvery = 10 * time.Second

// reporter returns what shows progress on w: bars on a terminal, plain lines
// elsewhere, nothing when quiet.
func (a *app) reporter() run.Reporter {
	if a.quiet {
		return run.Silent{}
	}
	if f, ok := a.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &bars{w: f}
	}
	return &lines{w: a.stderr}
}

// lines reports progress as plain lines.
type lines struct{ w io.Writer }

func (l *lines) Note(text string) { fmt.Fprintln(l.w, record.Redact(text)) }

func (l *lines) Phase(name, unit string, total int64) run.Phase {
	now := time.Now()
	return &linesPhase{w: l.w, name: name, unit: unit, total: total, start: now, last: now}
}

type linesPhase struct {
	w           io.Writer
	name, unit  string
	total       int64
	start, last time.Time
	first       int64
	started     bool
}

func (p *linesPhase) Update(done int64, state string) {
	now := time.Now()
	if !p.started {
		p.first, p.started = done, true
	}
	if now.Sub(p.last) < plainEvery {
		return
	}
	p.last = now
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", p.name, amount(done, p.unit))
	if p.total > 0 {
		fmt.Fprintf(&b, " of %s (%d%%)", amount(p.total, p.unit), 100*done/p.total)
	}
	if state != "" {
		fmt.Fprintf(&b, ", %s", state)
	}
	if moved := done - p.first; moved > 0 && p.total > done {
		left := time.Duration(float64(now.Sub(p.start)) * float64(p.total-done) / float64(moved))
		fmt.Fprintf(&b, ", %s left", left.Round(time.Second))
	}
	fmt.Fprintln(p.w, record.Redact(b.String()))
}

func (p *linesPhase) Done(outcome string) {
	fmt.Fprintln(p.w, doneLine(p.name, outcome, p.start))
}

// doneLine is the last line of a phase.
func doneLine(name, outcome string, start time.Time) string {
	if outcome != "failed" {
		outcome = "done, " + record.Redact(outcome)
	}
	return fmt.Sprintf("%s: %s (%s)", name, outcome, time.Since(start).Round(100*time.Millisecond))
}

// amount formats a count of units; bytes in MB.
func amount(n int64, unit string) string {
	if unit == "bytes" {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// bars reports progress as bars on a terminal, one phase at a time.
type bars struct{ w io.Writer }

func (b *bars) Note(text string) { fmt.Fprintln(b.w, record.Redact(text)) }

func (b *bars) Phase(name, unit string, total int64) run.Phase {
	p := &barPhase{w: b.w, name: name, start: time.Now()}
	p.state.Store("")
	p.progress = mpb.New(mpb.WithOutput(b.w), mpb.WithWidth(40), mpb.WithRefreshRate(200*time.Millisecond))
	count := decor.CountersNoUnit("%d / %d "+unit, decor.WCSyncSpace)
	if unit == "bytes" {
		count = decor.CountersKiloByte("% .1f / % .1f", decor.WCSyncSpace)
	}
	p.bar = p.progress.AddBar(total,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(count,
			decor.Any(func(decor.Statistics) string { return " " + p.state.Load().(string) }),
			decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WCSyncSpace), ""),
		),
	)
	return p
}

type barPhase struct {
	w        io.Writer
	name     string
	start    time.Time
	progress *mpb.Progress
	bar      *mpb.Bar
	state    atomic.Value
}

func (p *barPhase) Update(done int64, state string) {
	p.state.Store(record.Redact(state))
	p.bar.SetCurrent(done)
}

func (p *barPhase) Done(outcome string) {
	p.bar.Abort(true)
	p.progress.Wait()
	fmt.Fprintln(p.w, doneLine(p.name, outcome, p.start))
}
