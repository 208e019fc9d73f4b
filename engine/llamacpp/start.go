package llamacpp

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"olmes/engine"
	"olmes/engine/child"
)

// Options say how to start the engine.
type Options struct {
	Executable []string    // program and arguments that call Host; nil: this program with "engine-host"
	Library    string      // directory of llama.cpp's shared libraries
	Model      []string    // GGUF files, in order
	Plan       engine.Plan // see DefaultPlan and ExactPlan
	Threads    int         // that compute; 0: one a physical core
	Lanes      int         // trees computed at once, sharing Threads; 0: as many as threads and free memory allow
	GPULayers  int         // layers computed on a GPU; -1: all; 0: none
	Devices    []string    // GPUs that hold them, as Devices names them; nil: llama.cpp's choice
	Log        io.Writer   // takes the child's log lines, each in one Write; nil: nowhere
}

// resolved returns o with absolute paths.
func (o Options) resolved() (Options, error) {
	var err error
	if o.Library, err = filepath.Abs(o.Library); err != nil {
		return o, err
	}
	if info, err := os.Stat(o.Library); err != nil || !info.IsDir() {
		return o, engine.InputError(fmt.Errorf("engine library: no directory %s: install one with `olmes engine install`", o.Library))
	}
	o.Model, err = absolute(o.Model)
	return o, err
}

func absolute(files []string) ([]string, error) {
	out := make([]string, len(files))
	for i, file := range files {
		var err error
		if out[i], err = filepath.Abs(file); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Engine is llama.cpp in a child process. It implements engine.Engine,
// engine.Detokenizer and engine.Counter. When the child dies, the calls in
// progress fail with a child.ExitError, and the next one starts another child.
type Engine struct{ *child.Engine }

// Start starts the engine, which is an *Engine, and loads the model. ctx may
// stop the loading, and does not bound the engine's life.
func Start(ctx context.Context, o Options) (engine.Engine, error) {
	if err := checkPlan(o.Plan); err != nil {
		return nil, engine.InputError(err)
	}
	o, err := o.resolved()
	if err != nil {
		return nil, err
	}
	c, err := o.child()
	if err != nil {
		return nil, err
	}
	c.Load = loadArgs{Library: o.Library, Model: o.Model, Plan: o.Plan, Threads: o.Threads, Lanes: o.Lanes, GPULayers: o.GPULayers, Devices: o.Devices}
	e, err := child.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Engine{e}, nil
}

// child returns how the process is started that calls Host; o is resolved.
func (o Options) child() (child.Options, error) {
	c := child.Options{Command: o.Executable, Log: o.Log}
	if len(c.Command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return c, fmt.Errorf("find this program, to start the engine: %w", err)
		}
		c.Command = []string{self, "engine-host"}
	}
	// The prebuilt libraries look for others in the working directory too: that
	// must be one that nobody else writes to.
	c.Dir = o.Library
	// ggml would load one more file that the first names, and start a debugger,
	// if there is one, on a failed assertion without the second.
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GGML_BACKEND_PATH=") })
	// OpenBLAS would start a thread for each core at once; ggml tells it how many
	// it may use.
	c.Env = append(c.Env, "GGML_NO_BACKTRACE=1", "OPENBLAS_NUM_THREADS=1")
	return c, nil
}

// helper starts a process that calls Host and loads no model, for an operation
// that cannot be told to stop.
func (o Options) helper(ctx context.Context) (*child.Engine, error) {
	c, err := o.child()
	if err != nil {
		return nil, err
	}
	c.Grace = 1
	return child.Start(ctx, c)
}
