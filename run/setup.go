package run

import (
	"context"
	"errors"
	"fmt"

	"olmes/engine"
	"olmes/engine/llamacpp"
	"olmes/engine/llamacpp/library"
	"olmes/model"
	"olmes/record"
)

// Setup is the model and the engine of a run, everything decided.
type Setup struct {
	Engine  string // kind of engine
	Model   model.Model
	Weights string // as-is, or what a copy was expanded to: f16, bf16, f32; "" where the engine's weights are its own matter
	Plan    engine.Plan
	Threads int // 0: the engine decides

	// Of llama.cpp alone.
	Files     []string // what is loaded: the model's own files, or an expanded copy
	Library   library.Library
	GPULayers int               // -1: all
	Devices   []llamacpp.Device // that hold them
}

// minWindow is the least context a model must have to be asked anything.
const minWindow = 16

// start resolves everything that c names, the model first (a mistake in its name
// is found before any data is fetched), and starts the engine. On success the
// run's engine is to be closed.
func start(ctx context.Context, c Config, o Options, env Env) (*Run, []chosen, error) {
	c, err := c.Resolved()
	if err != nil {
		return nil, nil, err
	}
	r := &Run{config: c, options: o, env: env, setup: Setup{Threads: c.Threads}}
	if r.planFile, err = readPlan(c); err != nil {
		return nil, nil, err
	}
	if err := r.find(ctx); err != nil {
		return nil, nil, err
	}
	all, err := choose(ctx, c, env)
	if err != nil {
		return nil, nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, nil, err
	}
	return r, all, nil
}

// launch returns what starts the engine.
func (r *Run) launch() func(context.Context, Setup) (engine.Engine, error) {
	if r.env.Start != nil {
		return r.env.Start
	}
	return r.backend.start
}

// open has the backend decide plan, precision and devices, and starts the engine.
func (r *Run) open(ctx context.Context) (err error) {
	if err := r.backend.decide(ctx); err != nil {
		return err
	}
	m := r.setup.Model
	phase := r.env.reporter().Phase("load "+m.Name, "", 0)
	if r.engine, err = r.launch()(ctx, r.setup); err != nil {
		phase.Done("failed")
		return fmt.Errorf("load %s: %w", m.Label(), err)
	}
	if err := r.readEngine(ctx); err != nil {
		r.engine.Close()
		phase.Done("failed")
		return err
	}
	phase.Done(r.backend.loaded())
	return nil
}

// readEngine asks the engine who it is and prepares the encoder.
func (r *Run) readEngine(ctx context.Context) error {
	d, err := r.engine.Describe(ctx)
	if err != nil {
		return fmt.Errorf("ask the engine who it is: %w", err)
	}
	if err := d.Check(); err != nil {
		return err
	}
	if d.Architecture == "" {
		d.Architecture = r.setup.Model.Architecture
	}
	if err := r.backend.described(ctx, &d); err != nil {
		return err
	}
	r.description = d
	window := record.StandardWindow
	if n := r.setup.Model.Context; n > 0 {
		window = min(window, n)
	}
	if n := d.ContextTrain; n > 0 && r.setup.Engine != kindLlama {
		window = min(window, n) // what the engine serves, where that is less
	}
	if window < minWindow {
		return fmt.Errorf("%s was trained for a context of %d tokens, too small for any request; use another model", r.setup.Model.Label(), window)
	}
	id, err := bos(r.config.BOS, d)
	if err != nil {
		return err
	}
	r.encoder = &Encoder{Tokenizer: r.engine, BOS: id, Window: window, Shared: r.config.Truncation == "shared"}
	if p, ok := r.engine.(engine.Detokenizer); ok {
		r.encoder.Pieces, err = p.Pieces(ctx)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("read the vocabulary: %w", err)
		}
	}
	return nil
}

// resolveModel finds the model that the settings name, in a form that a kind of
// engine can load, "" in any, and puts the adapter on top.
func (r *Run) resolveModel(ctx context.Context, kind string) (model.Model, error) {
	c, o := r.config, model.Options{TrustRemoteCode: r.config.TrustRemoteCode}
	switch kind {
	case kindLlama, kindLlamaServer:
		o.Format = model.GGUF
	case kindTorch, kindVLLM, kindSGLang:
		o.Format = model.Safetensors
	}
	m, err := r.resolve(ctx, c.Model, o)
	if err != nil || c.Adapter == "" {
		return m, err
	}
	o.Hub = r.env.hub()
	a, err := model.ResolveAdapter(ctx, r.env.Store, c.Adapter, o)
	if err != nil {
		return m, fmt.Errorf("find the adapter: %w", err)
	}
	return m.WithAdapter(a), nil
}

// resolve finds a model by its name.
func (r *Run) resolve(ctx context.Context, name string, o model.Options) (model.Model, error) {
	var m model.Model
	o.AcceptLicense, o.Notice, o.Hub = r.config.AcceptLicense, r.env.reporter().Note, r.env.hub()
	_, err := r.env.fetch(ctx, "model", func(ctx context.Context) (_ string, err error) {
		m, err = model.Resolve(ctx, r.env.Store, name, o)
		return "", err
	})
	return m, err
}

// openLibrary returns the library asked for, or the best one installed; on a
// fresh machine the prebuilt one for CPUs is installed. Where a native one is
// passed over until it is built again, it says so.
func openLibrary(ctx context.Context, c Config, env Env) (library.Library, error) {
	var lib library.Library
	_, err := env.fetch(ctx, "engine", func(ctx context.Context) (_ string, err error) {
		if c.Variant != "" {
			lib, err = library.Open(env.Store, library.Variant(c.Variant))
		} else {
			lib, err = library.Best(ctx, env.Store)
		}
		return "", err
	})
	if lib.Stale != nil {
		env.reporter().Note(fmt.Sprintf("the engine's native library is not used: %s; %s", lib.Stale.Problem, lib.Stale.Tip))
	}
	return lib, err
}

// Prepared says what is now local.
type Prepared struct {
	Model  model.Model
	Engine string // in a few words, as "native v0.5.0"
	Tasks  int
}

// Prepare fetches, checks and expands everything that a run of c needs, so that
// the run itself opens no socket. The hub's branches are looked up again; a run
// takes them as they were last prepared.
func Prepare(ctx context.Context, c Config, env Env) (Prepared, error) {
	env.refresh = true
	r, all, err := start(ctx, c, Options{}, env)
	if err != nil {
		return Prepared{}, err
	}
	if err := r.engine.Close(); err != nil {
		return Prepared{}, fmt.Errorf("stop the engine: %w", err)
	}
	name := r.description.Engine
	if lib := r.setup.Library; lib.Variant != "" {
		name = fmt.Sprintf("%s %s", lib.Variant, lib.Version)
	}
	return Prepared{Model: r.setup.Model, Engine: name, Tasks: len(all)}, nil
}

// InstallEngine installs a variant of the engine's libraries.
func InstallEngine(ctx context.Context, v library.Variant, env Env) (library.Library, error) {
	var lib library.Library
	_, err := env.fetch(ctx, "engine", func(ctx context.Context) (_ string, err error) {
		lib, err = library.Install(ctx, env.Store, v)
		return "", err
	})
	return lib, err
}
