package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"olmes/engine"
	"olmes/model"
	"olmes/noise"
	"olmes/record"
	"olmes/secret"
	"olmes/spelling"
)

// Kinds of engine. Config.Engine names those without a colon as they stand here.
const (
	kindLlama       = "llamacpp"     // the embedded one
	kindTorch       = "torch"        // transformers in a worker process
	kindExec        = "exec"         // exec:COMMAND, anyone's engine over the public protocol
	kindServer      = "server"       // an address: a server that runs already
	kindVLLM        = "vllm"         // servers that are started for the run
	kindSGLang      = "sglang"       //
	kindLlamaServer = "llama-server" //
)

// named are the kinds that Config.Engine gives by their names.
var named = []string{kindLlama, kindTorch, kindVLLM, kindSGLang, kindLlamaServer}

// backend is one kind of engine as a run uses it: what it makes of the settings,
// and what it knows for the record. Its methods are called in the order they
// have here.
type backend interface {
	// decide chooses plan, precision and devices into the run's setup, before
	// anything is loaded; the plan may be made another one by described.
	decide(ctx context.Context) error
	// start starts the engine that a setup describes.
	start(ctx context.Context, s Setup) (engine.Engine, error)
	// described completes what the started engine says of itself, and the setup's
	// model with what only the engine knows of it.
	described(ctx context.Context, d *engine.Description) error
	// loaded says in a few words what computes.
	loaded() string
	// precision is the type that the weights are computed in, "" where it is not
	// known.
	precision() string
	// arithmetic is what the noise depends on.
	arithmetic() noise.Arithmetic
	// identify adds what determines results and only this kind of engine has.
	identify(id *record.Identity)
	// surroundings adds what only this kind of engine has.
	surroundings(env *record.Environment)
	// notes are sentences for the record.
	notes() []string
}

// kind returns the kind of engine that the settings name, "" where the model's
// own form decides.
func (c Config) kind() string {
	switch e := c.Engine; {
	case strings.HasPrefix(e, "exec:"):
		return kindExec
	case isAddress(e):
		return kindServer
	default:
		return e
	}
}

func isAddress(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// command is what exec: is followed by.
func (c Config) command() string { return strings.TrimPrefix(c.Engine, "exec:") }

// checkEngine refuses an engine that there is not.
func (c Config) checkEngine() error {
	kind := c.kind()
	switch {
	case kind == "", kind == kindServer, slices.Contains(named, kind):
		return nil
	case kind == kindExec:
		if _, err := words(c.command()); err != nil {
			return usage("engine %s: %w", c.Engine, err)
		}
		return nil
	}
	near := ""
	if at, distance := spelling.Nearest(kind, named); distance <= 2 {
		near = fmt.Sprintf("; did you mean %s?", named[at])
	}
	return usage("engine is %q; it can be %s, exec:COMMAND or the address of a server (http://…)%s", c.Engine, strings.Join(named, ", "), near)
}

// setting is one that not every kind of engine takes.
type setting struct {
	name  string // as the flag, without its dashes
	given func(c Config) bool
	kinds []string
}

// settings are those of Config that only some kinds of engine take. All others
// are for every kind.
var settings = []setting{
	{"accept-license", func(c Config) bool { return len(c.AcceptLicense) > 0 }, []string{kindLlama, kindTorch, kindVLLM, kindSGLang, kindLlamaServer}},
	{"weights", func(c Config) bool { return c.Weights != "auto" && !c.Exact }, []string{kindLlama}},
	{"exact", func(c Config) bool { return c.Exact }, []string{kindLlama, kindTorch, kindLlamaServer}},
	{"engine-variant", func(c Config) bool { return c.Variant != "" }, []string{kindLlama}},
	{"threads", func(c Config) bool { return c.Threads > 0 }, []string{kindLlama, kindTorch, kindExec, kindVLLM, kindLlamaServer}},
	{"gpu-layers", func(c Config) bool { return c.GPULayers != nil }, []string{kindLlama}},
	{"device", func(c Config) bool { return len(c.Devices) > 0 }, []string{kindLlama, kindTorch}},
	{"devices", func(c Config) bool { return len(c.WorkerDevices) > 0 }, []string{kindTorch}},
	{"plan", func(c Config) bool { return c.Plan != planDefault }, []string{kindLlama, kindTorch, kindExec}},
	{"plan auto", func(c Config) bool { return c.Plan == planAuto }, []string{kindLlama}},
	{"batch", func(c Config) bool { return c.Batch > 0 }, []string{kindLlama, kindTorch, kindExec}},
	{"python", func(c Config) bool { return c.Python != "" }, []string{kindTorch, kindServer, kindVLLM, kindSGLang}},
	{"dtype", func(c Config) bool { return c.DType != "" }, []string{kindTorch, kindExec, kindVLLM, kindSGLang}},
	{"trust-remote-code", func(c Config) bool { return c.TrustRemoteCode }, []string{kindTorch, kindVLLM, kindSGLang}},
	{"adapter", func(c Config) bool { return c.Adapter != "" }, []string{kindTorch}},
	{"packing", func(c Config) bool { return c.Packing != "" }, []string{kindTorch}},
	{"strategy", func(c Config) bool { return c.Strategy != "" }, []string{kindServer, kindVLLM, kindSGLang, kindLlamaServer}},
	{"concurrency", func(c Config) bool { return c.Concurrency > 0 }, []string{kindServer, kindVLLM, kindSGLang, kindLlamaServer}},
	{"tokenizer", func(c Config) bool { return c.Tokenizer != "" }, []string{kindServer}},
	{"engine-arg", func(c Config) bool { return len(c.EngineArgs) > 0 }, []string{kindVLLM, kindSGLang, kindLlamaServer}},
}

// checkSettings refuses settings that mean nothing to a kind of engine.
func (c Config) checkSettings(kind string) error {
	for _, s := range settings {
		if s.given(c) && !slices.Contains(s.kinds, kind) {
			return usage("--%s means nothing to the engine %s; it is for %s", s.name, kind, strings.Join(s.kinds, ", "))
		}
	}
	return nil
}

// find finds the model and makes the run's backend, that of the engine asked for
// or else of the model's own form.
func (r *Run) find(ctx context.Context) error {
	kind := r.config.kind()
	if kind == kindExec || kind == kindServer {
		// Such an engine has its model; the user's word is its name at most.
		r.setup.Model = model.Model{Name: r.config.Model, Source: kind}
		if r.setup.Model.Name == "" {
			r.setup.Model.Name = "the model of " + secret.Redact(r.config.Engine)
		}
	} else {
		m, err := r.resolveModel(ctx, kind)
		if err != nil {
			return err
		}
		r.setup.Model = m
		if kind == "" {
			kind = kindTorch
			if m.Format == model.GGUF {
				kind = kindLlama
			}
		}
	}
	if err := r.config.checkSettings(kind); err != nil {
		return err
	}
	r.setup.Engine = kind
	switch kind {
	case kindLlama:
		r.backend = llama{r}
	case kindExec:
		r.backend = &execBackend{Run: r}
	case kindTorch:
		r.backend = &torchBackend{Run: r}
	default:
		r.backend = &serverBackend{Run: r}
	}
	return nil
}

// precisionName is the record's name of a type of number: "f32" for "float32".
func precisionName(dtype string) string {
	name := strings.ToLower(strings.TrimPrefix(dtype, "torch."))
	for long, short := range map[string]string{"float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16", "float64": "f64", "double": "f64"} {
		if name == long {
			return short
		}
	}
	return name
}
