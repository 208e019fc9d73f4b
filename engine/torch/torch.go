// Package torch is the engine that runs Hugging Face checkpoints with PyTorch
// and transformers, in Python processes of their own: one, or one a device.
// Only Python with torch and transformers must be there; the worker itself is
// part of this program.
//
// Steps of use: Check the Python, Start with a plan (DefaultPlan), and Score; or,
// between the two, ask for the Memory that plans (Plans) take on the loaded
// model's device, and SetPlan the first that Fits.
//
// Nothing of a model's folder is run: weights are read from safetensors, or
// from pickles in a way that holds nothing but numbers, and code that a folder
// brings along is refused unless Options.TrustRemoteCode says otherwise.
//
// A tree's paths are packed into few forwards, with a mask that shows each
// token its own path and with explicit positions ("tree"). When it starts, the
// worker compares that with plain forwards on random tokens. A model for which
// it is not exact, since its attention counts tokens, or it keeps a state, is
// computed path after path on copies of its cache ("copy"), or each path from its
// first token ("plain"). Description.Packing and Notes tell which, and why.
package torch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"olmes/engine"
	"olmes/engine/child"
)

// Options say how to start the engine.
type Options struct {
	Python          string      // program; "" is python3 on PATH
	Model           string      // folder in Hugging Face's form
	Adapter         string      // folder of a PEFT adapter; "" for none
	Device          string      // "auto", "cpu", "cuda", "cuda:N", "mps", "xpu:N"; "" is auto
	Devices         []string    // one worker on each, as "cuda:0" or "0"; takes Device's place
	DType           string      // "auto" (the weights' own), "float32", "bfloat16", "float16"; "" is auto
	Plan            engine.Plan // Batch and Rows; see DefaultPlan
	Memory          int64       // bytes of the machine's memory that can be taken; 0: not known
	Threads         int         // of each worker; 0: torch's choice
	TrustRemoteCode bool        // runs Python code out of the model's folder
	Packing         string      // "tree", "copy", "plain"; "" is the first of them that is exact
	Log             io.Writer   // takes the workers' log lines, each in one Write; nil: nowhere
}

// loadArgs are the args of the worker's load operation.
type loadArgs struct {
	Model           string      `json:"model"`
	Adapter         string      `json:"adapter,omitempty"`
	Device          string      `json:"device"`
	DType           string      `json:"dtype"`
	Plan            engine.Plan `json:"plan"`
	Memory          int64       `json:"memory,omitempty"`
	Threads         int         `json:"threads,omitempty"`
	TrustRemoteCode bool        `json:"trust_remote_code,omitempty"`
	Packing         string      `json:"packing,omitempty"`
}

// Start starts the workers and loads the model into each. ctx may stop the
// loading, and does not bound the engine's life. A Python that lacks what is
// needed is an *EnvironmentError; a model that cannot be loaded, or for which
// Options.Packing is not exact, an engine.ErrInput.
func Start(ctx context.Context, o Options) (*Engine, error) {
	if err := CheckPlan(o.Plan); err != nil {
		return nil, engine.InputError(err)
	}
	versions, err := Check(ctx, o.Python)
	if err != nil {
		return nil, err
	}
	args := loadArgs{Device: o.Device, DType: o.DType, Plan: o.Plan, Threads: o.Threads, TrustRemoteCode: o.TrustRemoteCode, Packing: o.Packing}
	if args.Model, err = filepath.Abs(o.Model); err != nil {
		return nil, fmt.Errorf("find the model: %w", err)
	}
	if o.Adapter != "" {
		if args.Adapter, err = filepath.Abs(o.Adapter); err != nil {
			return nil, fmt.Errorf("find the adapter: %w", err)
		}
	}
	devices := o.Devices
	if len(devices) == 0 {
		devices = []string{o.Device}
	}
	args.Memory = o.Memory / int64(len(devices))
	dir, err := unpack()
	if err != nil {
		return nil, fmt.Errorf("write the torch worker: %w", err)
	}
	e := &Engine{dir: dir}
	e.free.L = &e.mu
	if err := e.start(ctx, o, versions.Executable, args, devices); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Engine) start(ctx context.Context, o Options, python string, args loadArgs, devices []string) error {
	errs := make([]error, len(devices))
	e.workers = make([]*worker, len(devices))
	var group sync.WaitGroup
	for i, device := range devices {
		group.Go(func() {
			args := args
			args.Device = deviceName(device)
			w, err := child.Start(ctx, child.Options{
				// Not -I: packages may be in the user's own folder, or on PYTHONPATH.
				Command: []string{python, filepath.Join(e.dir, "main.py")},
				Dir:     e.dir, // nobody else writes there
				Env:     environment(os.Environ(), o.Threads),
				Load:    args,
				Log:     o.Log,
				Hello:   time.Minute, // Python may have to be read from a slow disk
			})
			if err != nil {
				errs[i] = fmt.Errorf("start the torch worker%s: %w", on(device), err)
				return
			}
			e.workers[i] = &worker{Engine: w, load: args}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func on(device string) string {
	if device == "" {
		return ""
	}
	return " on " + device
}

// deviceName makes "cuda:1" of "1".
func deviceName(device string) string {
	if _, err := strconv.Atoi(device); err == nil {
		return "cuda:" + device
	}
	if device == "" {
		return "auto"
	}
	return device
}

// environment returns what a worker sees. It is told to reach no network, and
// its tokenizer to use no more threads than its model.
func environment(env []string, threads int) []string {
	out := make([]string, 0, len(env)+4)
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "PYTHONSTARTUP", "PYTHONINSPECT":
			continue // not needed
		}
		out = append(out, v)
	}
	out = append(out, "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "PYTHONUNBUFFERED=1")
	if threads > 0 {
		out = append(out, "OMP_NUM_THREADS="+strconv.Itoa(threads), "RAYON_NUM_THREADS="+strconv.Itoa(threads))
	}
	return out
}
