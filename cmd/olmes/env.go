package main

import (
	"fmt"
	"os"

	"olmes/run"
)

// env is what a run gets of its surroundings. The engine's log, if one is
// wanted, stays open until the program ends.
func (a *app) env() (run.Env, error) {
	store, err := a.store()
	if err != nil {
		return run.Env{}, err
	}
	env := run.Env{Store: store, Reporter: a.reporter(), Runs: a.runs, Command: os.Args}
	if a.engineLog != "" {
		f, err := os.OpenFile(a.engineLog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
		if err != nil {
			return run.Env{}, &run.UsageError{Err: fmt.Errorf("open the engine's log: %w", err)}
		}
		env.EngineLog = f
	}
	return env, nil
}
