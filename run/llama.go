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
	"olmes/noise"
	"olmes/record"
)

// llama is the backend of the embedded llama.cpp.
type llama struct{ *Run }

// decide opens the library and chooses devices, weights and plan.
func (r llama) decide(ctx context.Context) (err error) {
	if r.setup.Library, err = openLibrary(ctx, r.config, r.env); err != nil {
		return err
	}
	if err := r.chooseDevices(ctx); err != nil {
		return err
	}
	if err := r.expand(ctx); err != nil {
		return err
	}
	return r.choosePlan(ctx, llamacpp.FreeMemory())
}

func (r llama) described(_ context.Context, d *engine.Description) error {
	if d.Variant == "" {
		d.Variant = string(r.setup.Library.Variant)
	}
	if r.env.Start == nil {
		// llama.cpp makes up a BOS for files that name none.
		d.BOS = r.setup.Model.BOS
	}
	return nil
}

func (r llama) loaded() string {
	d := r.description
	return fmt.Sprintf("%s %s, %s library, threads: %d", d.Engine, d.Variant, r.setup.Library.Variant, d.Threads)
}

func (r llama) precision() string {
	if r.setup.Weights != "as-is" {
		return r.setup.Weights
	}
	return strings.ToLower(r.setup.Model.WeightType)
}

func (r llama) arithmetic() noise.Arithmetic {
	s := r.setup
	return noise.Arithmetic{Weights: r.precision(), KVType: s.Plan.KVType, FlashAttention: s.Plan.FlashAttention,
		HalfGELU: llamacpp.RoundsGELU(s.Model.Architecture), GPU: s.GPULayers != 0}
}

func (r llama) identify(id *record.Identity) {
	id.Engine.GPULayers, id.Engine.Devices = r.setup.GPULayers, deviceTypes(r.setup.Devices)
}

func (r llama) surroundings(env *record.Environment) {
	lib := r.setup.Library
	env.Accelerator, env.Library, env.LibrarySource = accelerators(r.setup.Devices), string(lib.Variant), lib.Source
}

func (r llama) notes() []string {
	if r.setup.GPULayers != 0 || !llamacpp.RoundsGELU(r.setup.Model.Architecture) {
		return nil
	}
	return []string{"llama.cpp's CPU code computes this model's GELU through a table in half precision: with --exact too, log-probabilities differ from those in 32 bits (gemma-3-270m: by up to 0.017 nats)"}
}

// most32 is how many parameters a quantized model may have for its copy to be
// of 32 bits.
const most32 = 1e9

// expand decides the precision of the weights and makes the expanded copy that
// it needs. Quantized weights are computed two to three times faster from a
// wider copy on CPUs, and without rounding the activations to 8 bits; from one
// of 32 bits nothing more is rounded, and it is as fast or faster than 16.
func (r llama) expand(ctx context.Context) error {
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

// start starts the embedded llama.cpp in a child process.
func (r llama) start(ctx context.Context, s Setup) (engine.Engine, error) {
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
