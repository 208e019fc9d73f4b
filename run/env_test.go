package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"olmes/artifact"
)

// Steps of one fetch are phases of their own, each with its own unit and total.
func TestFetchPhases(t *testing.T) {
	log := &phaseLog{}
	env := Env{Store: &artifact.Store{}, Reporter: log}
	_, err := env.fetch(t.Context(), "engine", func(context.Context) (string, error) {
		for _, ev := range []artifact.Event{
			{Name: "fetch source", Total: 76e6}, {Name: "fetch source", Done: 76e6, Total: 76e6},
			{Name: "wait for another"},
			{Name: "fetch blas", Total: 8e6}, {Name: "fetch blas", Done: 8e6, Total: 8e6},
			{Name: "build", Done: 3, Total: 100, Unit: "%"}, {Name: "build", Done: 100, Total: 100, Unit: "%"},
		} {
			env.Store.Report(ev)
		}
		return "", nil
	})
	want := []string{
		"engine: fetch source, 76000000 bytes", "0", "76000000", "done 76.0 MB",
		"engine: wait for another, 0 ", "0", "done ",
		"engine: fetch blas, 8000000 bytes", "0", "8000000", "done 8.0 MB",
		"engine: build, 100 %", "3", "100", "done ",
	}
	if err != nil || !slices.Equal(log.lines, want) {
		t.Errorf("error %v, phases\n%q, want\n%q", err, log.lines, want)
	}

	log.lines = nil
	broken := errors.New("broken")
	_, err = env.fetch(t.Context(), "data", func(context.Context) (string, error) {
		env.Store.Report(artifact.Event{Name: "fetch x", Total: 1})
		return "", broken
	})
	if want := []string{"data: fetch x, 1 bytes", "0", "done failed"}; !errors.Is(err, broken) || !slices.Equal(log.lines, want) {
		t.Errorf("error %v, phases %q, want %q", err, log.lines, want)
	}
	if _, err := env.fetch(t.Context(), "data", func(context.Context) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("without an event: %v", err)
	}
}

// phaseLog is a Reporter that keeps all it hears.
type phaseLog struct{ lines []string }

func (l *phaseLog) Note(text string) { l.lines = append(l.lines, text) }

func (l *phaseLog) Phase(name, unit string, total int64) Phase {
	l.lines = append(l.lines, fmt.Sprintf("%s, %d %s", name, total, unit))
	return l
}

func (l *phaseLog) Update(done int64, state string) {
	l.lines = append(l.lines, fmt.Sprint(done, state))
}

func (l *phaseLog) Done(outcome string) { l.lines = append(l.lines, "done "+outcome) }
