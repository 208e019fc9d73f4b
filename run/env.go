package run

import (
	"context"
	"fmt"
	"io"

	"olmes/artifact"
	"olmes/engine"
)

// Version is the product's version, part of every run's identity.
const Version = "0.1.0"

// Standard is the version of the standard that is implemented.
const Standard = "OLMES v0.1"

// Env is what a run needs from its surroundings.
type Env struct {
	Store    *artifact.Store
	Reporter Reporter
	Runs     string   // folder that holds runs; finished ones are searched for chunks to reuse
	Command  []string // the command line as given

	// EngineLog takes the log lines of engines in other processes, each in one
	// Write; nil: nowhere. The embedded engine's are not among them.
	EngineLog io.Writer

	// Start starts an engine for the setup; nil starts the one that the settings
	// name. Tests put engines with known answers here.
	Start func(ctx context.Context, s Setup) (engine.Engine, error)

	refresh bool // the hub's revisions are looked up again
}

func (e Env) reporter() Reporter {
	if e.Reporter == nil {
		return Silent{}
	}
	return e.Reporter
}

// hub returns the hub client of the environment's variables.
func (e Env) hub() *artifact.Hub {
	h := artifact.NewHub(e.Store)
	h.Refresh = e.refresh
	return h
}

// fetch runs what fetches, checks or builds something for name, each of its
// steps shown as a phase of its own: they count different things.
func (e Env) fetch(ctx context.Context, name string, get func(context.Context) (string, error)) (string, error) {
	var phase Phase
	var last artifact.Event
	end := func(err error) {
		switch {
		case phase == nil:
		case err != nil:
			phase.Done("failed")
		case last.Unit == "" && last.Done > 0:
			phase.Done(fmt.Sprintf("%.1f MB", float64(last.Done)/1e6))
		default:
			phase.Done("")
		}
	}
	old := e.Store.Progress
	defer func() { e.Store.Progress = old }()
	e.Store.Progress = func(ev artifact.Event) {
		if phase == nil || ev.Name != last.Name || ev.Unit != last.Unit {
			end(nil)
			unit := ev.Unit
			if unit == "" && ev.Total > 0 {
				unit = "bytes"
			}
			phase = e.reporter().Phase(name+": "+ev.Name, unit, ev.Total)
		}
		last = ev
		phase.Update(ev.Done, "")
	}
	path, err := get(ctx)
	end(err)
	return path, err
}
