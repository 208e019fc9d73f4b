package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"olmes/engine"
	"olmes/engine/llamacpp"
	"olmes/engine/llamacpp/library"
	"olmes/model"
)

// Setup is the model and the engine of a run, everything decided.
type Setup struct {
	Model     model.Model
	Files     []string        // what the engine loads: the model's own files, or an expanded copy
	Weights   string          // as-is, or what the copy was expanded to: f16, bf16, f32
	Library   library.Library // of llama.cpp
	Plan      engine.Plan
	Threads   int               // 0: the engine decides
	GPULayers int               // -1: all
	Devices   []llamacpp.Device // that hold them
}

// precision names the type the weights are computed with.
func (s Setup) precision() string {
	if s.Weights != "as-is" {
		return s.Weights
	}
	return strings.ToLower(s.Model.WeightType)
}

// minWindow is the least context a model must have to be asked anything.
const minWindow = 16

// start resolves everything that c names, the model first (a mistake in its name
// is found before any data is fetched), and starts the engine. On success the
// run's engine is to be closed.
func start(ctx context.Context, c Config, env Env) (*Run, []chosen, error) {
	c, err := c.Resolved()
	if err != nil {
		return nil, nil, err
	}
	r := &Run{config: c, env: env, setup: Setup{Threads: c.Threads}}
	if r.planFile, err = readPlan(c); err != nil {
		return nil, nil, err
	}
	if r.setup.Model, err = r.resolveModel(ctx); err != nil {
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
	return startEngine
}

// open resolves library, devices, weights and plan and starts the engine.
func (r *Run) open(ctx context.Context) (err error) {
	m := r.setup.Model
	if r.setup.Library, err = openLibrary(ctx, r.config, r.env); err != nil {
		return err
	}
	if err := r.chooseDevices(ctx); err != nil {
		return err
	}
	if err := r.expand(ctx); err != nil {
		return err
	}
	if err := r.choosePlan(ctx, llamacpp.FreeMemory()); err != nil {
		return err
	}
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
	d := r.description
	phase.Done(fmt.Sprintf("%s %s, %s library, threads: %d", d.Engine, d.Variant, r.setup.Library.Variant, d.Threads))
	return nil
}

// readEngine asks the engine who it is and prepares the encoder.
func (r *Run) readEngine(ctx context.Context) error {
	d, err := r.engine.Describe(ctx)
	if err != nil {
		return fmt.Errorf("ask the engine who it is: %w", err)
	}
	if d.Architecture == "" {
		d.Architecture = r.setup.Model.Architecture
	}
	if d.Variant == "" {
		d.Variant = string(r.setup.Library.Variant)
	}
	if r.env.Start == nil {
		// llama.cpp makes up a BOS for files that name none.
		d.BOS = r.setup.Model.BOS
	}
	r.description = d
	window := llamacpp.Window
	if n := r.setup.Model.Context; n > 0 {
		window = min(window, n)
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

func (r *Run) resolveModel(ctx context.Context) (model.Model, error) {
	var m model.Model
	_, err := r.env.fetch(ctx, "model", func(ctx context.Context) (_ string, err error) {
		m, err = model.Resolve(ctx, r.env.Store, r.config.Model, model.Options{
			AcceptLicense: r.config.AcceptLicense,
			Notice:        r.env.reporter().Note,
			Hub:           r.env.hub(),
		})
		return "", err
	})
	return m, err
}

// openLibrary returns the library asked for, or the best one installed; on a
// fresh machine the prebuilt one for CPUs is installed.
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
	return lib, err
}

// most32 is how many parameters a quantized model may have for its copy to be
// of 32 bits.
const most32 = 1e9

// expand decides the precision of the weights and makes the expanded copy that
// it needs. Quantized weights are computed two to three times faster from a
// wider copy on CPUs, and without rounding the activations to 8 bits; from one
// of 32 bits nothing more is rounded, and it is as fast or faster than 16.
func (r *Run) expand(ctx context.Context) error {
	s := &r.setup
	s.Files, s.Weights = s.Model.Files, "as-is"
	want := r.config.Weights
	if want == "auto" {
		want = "as-is"
		switch n := s.Model.Parameters; {
		case !s.Model.Quantized || s.GPULayers != 0:
		case n <= most32 && fits(4*n):
			want = "f32"
		case fits(2 * n):
			want = "f16"
		}
	}
	if want == "as-is" || strings.EqualFold(want, s.Model.WeightType) {
		return nil
	}
	name := fmt.Sprintf("%s-%s-%s.gguf", s.Model.SHA256[:32], want, s.Library.Version)
	rel := filepath.Join("expanded", name)
	phase := r.env.reporter().Phase("expand weights to "+want, "", 0)
	path, err := r.env.Store.Ensure(ctx, rel, func(ctx context.Context, tmp string) (string, error) {
		out := filepath.Join(tmp, name)
		return out, llamacpp.Expand(ctx, llamacpp.Options{Library: s.Library.Dir, Threads: s.Threads}, s.Model.Files, out, want)
	})
	if err != nil {
		phase.Done("failed")
		return fmt.Errorf("expand the weights of %s to %s: %w", s.Model.Label(), want, err)
	}
	phase.Done(filepath.Base(path))
	s.Files, s.Weights = []string{path}, want
	return nil
}

// fits reports whether so many bytes of weights, with room for the cache and
// the output rows, fit into free memory; unknown memory counts as enough.
func fits(weights int64) bool {
	const room = 1 << 30
	free := llamacpp.FreeMemory()
	return free == 0 || weights+room < free
}

// startEngine starts the embedded llama.cpp in a child process.
func startEngine(ctx context.Context, s Setup) (engine.Engine, error) {
	for _, f := range s.Files {
		if _, err := os.Stat(f); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("model file %s is gone", f)
		}
	}
	return llamacpp.Start(ctx, llamacpp.Options{
		Library: s.Library.Dir, Model: s.Files, Plan: s.Plan, Threads: s.Threads,
		GPULayers: s.GPULayers, Devices: deviceNames(s.Devices), Log: io.Discard,
	})
}

// Prepared says what is now local.
type Prepared struct {
	Model   model.Model
	Library library.Library
	Tasks   int
}

// Prepare fetches, checks and expands everything that a run of c needs, so that
// the run itself opens no socket. The hub's branches are looked up again; a run
// takes them as they were last prepared.
func Prepare(ctx context.Context, c Config, env Env) (Prepared, error) {
	env.refresh = true
	r, all, err := start(ctx, c, env)
	if err != nil {
		return Prepared{}, err
	}
	if err := r.engine.Close(); err != nil {
		return Prepared{}, fmt.Errorf("stop the engine: %w", err)
	}
	return Prepared{Model: r.setup.Model, Library: r.setup.Library, Tasks: len(all)}, nil
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
