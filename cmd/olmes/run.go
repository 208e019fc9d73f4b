package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"olmes/document"
	"olmes/report"
	"olmes/run"
)

func (a *app) runCommand() *cobra.Command {
	var c run.Config
	var o run.Options
	var file string
	var asJSON, dryRun bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "evaluate a model and seal a record of it",
		Long: `Run evaluates a model on tasks of the standard and seals a record. Without flags it
evaluates the default model on all ten tasks in both formulations.

MODEL is a registered name (smollm2-135m-instruct, gemma-3-270m), the path of a
.gguf file (the first of split files), or hf:ORG/REPO[@REV][:FILE.gguf].

TASK is a task (arc_easy, mmlu_anatomy), mmlu, or a suite (olmes), with :cf or :mcf
for one formulation; AI2's spelling works too (arc_easy:rc::olmes, mmlu::olmes).

Ctrl-C stops a run after its current batch; the same command with --resume goes on.`,
		Example: `  olmes run --limit 20
  olmes run -m gemma-3-270m --accept-license gemma -t arc_easy,boolq
  olmes run -m ./model.gguf -t mmlu:mcf -o runs/mine`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				if err := readConfig(file, cmd, &c); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("max-noise") && !(o.MaxNoise > 0) || o.NoiseInstances < 0 {
				return &run.UsageError{Err: errors.New("--max-noise must be above 0, and --noise-instances not below; leave them out for no limit and for the default")}
			}
			env, err := a.env()
			if err != nil {
				return err
			}
			if dryRun {
				plan, err := run.DryRun(cmd.Context(), c, env)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(plan)
				}
				return report.Plan(a.stdout, plan.Identity, plan.Tasks, plan.Tokens, plan.Chunks, plan.Reused)
			}
			out, err := run.Do(cmd.Context(), c, o, env)
			if err != nil {
				return coded(err)
			}
			rec, err := a.openRecord(out.Dir)
			if err != nil {
				return err
			}
			if err := a.printRun(rec, asJSON); err != nil {
				return err
			}
			if out.Errors > 0 {
				return &exitError{exitIncomplete, fmt.Errorf("%d of %d instances have no score; see: olmes predictions %s", out.Errors, out.Instances, out.Dir)}
			}
			return nil
		},
	}
	a.modelFlags(cmd, &c)
	dataFlags(cmd, &c)
	f := cmd.Flags()
	tasksFlag(cmd, &c.Tasks, "olmes: all ten")
	f.StringVar(&c.Formulation, "formulation", "", "cf, mcf or both (default both)")
	variantFlag(cmd, &c.Variants)
	f.StringVar(&c.Truncation, "truncation", "", "standard (default: each request by itself), or shared: all choices of an instance are cut at one place (off-standard)")
	f.StringVar(&c.Normalizations, "normalizations", "", "standard (default), or all: pmi for every cf task too")
	f.StringVarP(&file, "file", "f", "", "read settings from a YAML `file`; flags go before it")
	f.StringVarP(&o.Dir, "output", "o", "", "folder of the record (default RUNS/ID)")
	f.BoolVar(&o.Resume, "resume", false, "go on with an interrupted run of the same settings")
	f.BoolVar(&o.NoReuse, "no-reuse", false, "score everything again, even what a finished run of the same model and plan holds")
	f.Float64Var(&o.MaxNoise, "max-noise", 0, "stop before scoring where another schedule moves a request's log-probability by more `nats` (default no limit)")
	f.IntVar(&o.NoiseInstances, "noise-instances", 0, "instances computed again to measure the noise (default about 2% of the tokens)")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be computed, and compute nothing (--plan auto still measures)")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// modelFlags adds the flags that choose the model and how it computes.
func (a *app) modelFlags(cmd *cobra.Command, c *run.Config) {
	f := cmd.Flags()
	f.StringVarP(&c.Model, "model", "m", "", "registered name, .gguf path, or hf:ORG/REPO[@REV][:FILE.gguf] (default smollm2-135m-instruct)")
	f.StringSliceVar(&c.AcceptLicense, "accept-license", nil, "accept a model's licence by `name`")
	f.StringVar(&c.BOS, "bos", "", "auto (default: by architecture), always, never, or tokenizer (the file's own flag)")
	f.StringVar(&c.Weights, "weights", "", "auto (default), as-is, f16, bf16 or f32: expand a quantized file to a cached copy")
	f.BoolVar(&c.Exact, "exact", false, "weights and KV cache in 32 bits, flash attention off")
	f.StringVar(&c.Variant, "engine-variant", "", "engine library: cpu, native, cuda, vulkan (default: the best installed)")
	f.IntVar(&c.Threads, "threads", 0, "threads of the engine (default all cores)")
	f.Var(optionalInt{&c.GPULayers}, "gpu-layers", "layers put on a GPU (default all with a GPU library that finds one, else 0)")
	f.StringSliceVar(&c.Devices, "device", nil, "GPUs by `name`, as olmes engine devices shows them (default all)")
	f.StringVar(&c.Plan, "plan", "", "default (by the model's shape), auto (measured), or a YAML or JSON file")
	f.IntVar(&c.Batch, "batch", 0, "tokens computed at once (default by the plan)")
	f.IntVar(&c.ChunkTokens, "chunk-tokens", 0, "new tokens a chunk takes at most (default by model size)")
	f.StringVar(&c.Engine, "engine", "", "llamacpp, torch, vllm, sglang, llama-server, exec:COMMAND, or a server's address (default by the model's form)")
	f.StringVar(&a.engineLog, "engine-log", "", "append the log of an engine in another process to a `file`")
	f.StringArrayVar(&c.EngineArgs, "engine-arg", nil, "further `argument` for a server that is started; may be given several times")
	f.StringVar(&c.Python, "python", "", "Python interpreter that has the engine's packages (default python3)")
	f.StringVar(&c.DType, "dtype", "", "type to compute in: auto (default: as published), float32, bfloat16, float16")
	f.StringSliceVar(&c.WorkerDevices, "devices", nil, "one worker for each of these devices (torch: 0,1,2,3 or cpu)")
	f.BoolVar(&c.TrustRemoteCode, "trust-remote-code", false, "run code out of the model's folder; from the hub only at a pinned revision")
	f.StringVar(&c.Adapter, "adapter", "", "`folder` of a PEFT adapter to apply (torch)")
	f.StringVar(&c.Packing, "packing", "", "tree, copy or plain (torch; default what a self-check finds exact)")
	f.StringVar(&c.Strategy, "strategy", "", "how to ask a server: auto (default), echo, step, native")
	f.IntVar(&c.Concurrency, "concurrency", 0, "calls to a server at the same time, at most (default by the client)")
	f.StringVar(&c.Tokenizer, "tokenizer", "", "`model` whose tokenizer to use where a server has none to offer")
}

// optionalInt is a flag for a number that has no value until it is given.
type optionalInt struct{ value **int }

func (o optionalInt) String() string {
	if o.value == nil || *o.value == nil {
		return ""
	}
	return strconv.Itoa(**o.value)
}

func (o optionalInt) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is no number", text)
	}
	*o.value = &n
	return nil
}

func (o optionalInt) Type() string { return "int" }

// readConfig reads a run file and lets the flags that were given win.
func readConfig(path string, cmd *cobra.Command, c *run.Config) error {
	// A flag's value lives in c: the flags given are read out, and set again
	// over what the file says.
	var restore []func() error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(pflag.SliceValue); ok {
			given := v.GetSlice()
			restore = append(restore, func() error { return v.Replace(given) })
			return
		}
		given := f.Value.String()
		restore = append(restore, func() error { return f.Value.Set(given) })
	})
	*c = run.Config{}
	if err := document.ReadFile(path, c); err != nil && !errors.Is(err, document.ErrEmpty) {
		return &exitError{exitUsage, fmt.Errorf("run file %s: %w", path, err)}
	}
	for _, set := range restore {
		if err := set(); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	return nil
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
