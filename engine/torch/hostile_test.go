//go:build unix

package torch

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes/engine"
	"olmes/engine/torch/torchtest"
)

// hostile returns a copy of a small model with a Python file that makes the
// folder executed when it is run, and whose settings name that file.
func hostile(t *testing.T, modelType string, inConfig, inTokenizer bool) (folder, executed string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(tiny(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	executed = filepath.Join(t.TempDir(), "executed")
	code := "import os\nos.mkdir(" + strings.ReplaceAll(string(marshal(t, executed)), `\/`, "/") + ")\n"
	for _, name := range []string{"modeling_hostile.py", "sitecustomize.py", "usercustomize.py", "json.py", "torch.py", "olmes_torch.py", "conftest.py", "__init__.py"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change(t, filepath.Join(folder, "config.json"), func(m map[string]any) {
		m["model_type"] = modelType
		if inConfig {
			m["architectures"] = []string{"HostileForCausalLM"}
			m["auto_map"] = map[string]string{"AutoConfig": "modeling_hostile.HostileConfig", "AutoModelForCausalLM": "modeling_hostile.HostileForCausalLM"}
		}
	})
	change(t, filepath.Join(folder, "tokenizer_config.json"), func(m map[string]any) {
		if inTokenizer {
			m["tokenizer_class"] = "HostileTokenizer"
			m["auto_map"] = map[string]any{"AutoTokenizer": []any{"modeling_hostile.HostileTokenizer", "modeling_hostile.HostileTokenizer"}}
		}
		m["chat_template"] = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
	})
	return folder, executed
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func change(t *testing.T, file string, f func(map[string]any)) {
	t.Helper()
	data, err := os.ReadFile(file)
	m := map[string]any{}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	f(m)
	if err == nil {
		err = os.WriteFile(file, marshal(t, m), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// try loads a folder from within it, and closes the engine.
func try(t *testing.T, o Options) error {
	t.Helper()
	t.Chdir(o.Model)
	o.Python, o.Threads = torchtest.Python(t), 1
	if o.Device == "" {
		o.Device = "cpu"
	}
	o.Plan, o.Log = DefaultPlan(Shape{}), testLog{t}
	e, err := Start(t.Context(), o)
	if err == nil {
		e.Close()
	}
	return err
}

func absent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("code of the folder was run: %s exists (%v)", path, err)
	}
}

// Nothing in a model's folder is run: the code it names, pickles, and files that
// are named like Python's own.
func TestHostileFolder(t *testing.T) {
	t.Run("code for a known architecture", func(t *testing.T) {
		folder, executed := hostile(t, "llama", true, false)
		if err := try(t, Options{Model: folder}); err != nil {
			t.Errorf("transformers' own code would do: %v", err)
		}
		absent(t, executed)
	})
	t.Run("code for an unknown one", func(t *testing.T) {
		folder, executed := hostile(t, "hostile", true, false)
		if err := try(t, Options{Model: folder}); !errors.Is(err, engine.ErrInput) || !strings.Contains(err.Error(), "--trust-remote-code") {
			t.Errorf("error %v, want an ErrInput that tells of --trust-remote-code", err)
		}
		absent(t, executed)
		// The same folder, trusted: its code is run, which shows that it could be.
		try(t, Options{Model: folder, TrustRemoteCode: true})
		if _, err := os.Stat(executed); err != nil {
			t.Errorf("a trusted folder's code was not run: %v", err)
		}
	})
	t.Run("tokenizer", func(t *testing.T) {
		folder, executed := hostile(t, "llama", false, true)
		t.Log(try(t, Options{Model: folder}))
		absent(t, executed)
	})
	t.Run("pickle", func(t *testing.T) {
		folder := tiny(t, "llama hostile")
		if err := try(t, Options{Model: folder}); !errors.Is(err, engine.ErrInput) {
			t.Errorf("error %v, want an ErrInput", err)
		}
		absent(t, filepath.Join(folder, "executed"))
	})
	t.Run("pickle of an adapter", func(t *testing.T) {
		adapter := t.TempDir()
		if err := os.CopyFS(adapter, os.DirFS(filepath.Join(tiny(t, "llama lora"), "adapter"))); err != nil {
			t.Fatal(err)
		}
		weights, err := os.ReadFile(filepath.Join(tiny(t, "llama hostile"), "pytorch_model.bin"))
		if err != nil {
			t.Fatal(err)
		}
		os.Remove(filepath.Join(adapter, "adapter_model.safetensors"))
		if err := os.WriteFile(filepath.Join(adapter, "adapter_model.bin"), weights, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := try(t, Options{Model: tiny(t, "llama"), Adapter: adapter}); !errors.Is(err, engine.ErrInput) {
			t.Errorf("error %v, want an ErrInput", err)
		}
		absent(t, filepath.Join(tiny(t, "llama hostile"), "executed"))
	})
}

// quantized has the folder say that its weights are.
func quantized(method, setting string, value any) func(*testing.T, string, *Options) {
	return func(t *testing.T, folder string, _ *Options) {
		change(t, filepath.Join(folder, "config.json"), func(m map[string]any) {
			m["quantization_config"] = map[string]any{"quant_method": method, setting: value}
		})
	}
}

// A folder that lacks something is refused with what it lacks.
func TestBadFolder(t *testing.T) {
	copyOf := func(t *testing.T) string {
		folder := t.TempDir()
		if err := os.CopyFS(folder, os.DirFS(tiny(t, "llama"))); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	for _, c := range []struct {
		name, want string
		do         func(t *testing.T, folder string, o *Options)
	}{
		{"no configuration", "no config.json", func(t *testing.T, folder string, _ *Options) { os.Remove(filepath.Join(folder, "config.json")) }},
		{"no weights", "has no weights", func(t *testing.T, folder string, _ *Options) { os.Remove(filepath.Join(folder, "model.safetensors")) }},
		{"cut weights", "SafetensorError", func(t *testing.T, folder string, _ *Options) {
			os.Truncate(filepath.Join(folder, "model.safetensors"), 40000)
		}},
		{"a layer too few", "lacks", func(t *testing.T, folder string, _ *Options) {
			change(t, filepath.Join(folder, "config.json"), func(m map[string]any) { m["num_hidden_layers"] = 3; delete(m, "layer_types") })
		}},
		{"no tokenizer", "tokenizer", func(t *testing.T, folder string, _ *Options) {
			os.Remove(filepath.Join(folder, "tokenizer.json"))
			os.Remove(filepath.Join(folder, "tokenizer_config.json"))
		}},
		{"an adapter", "is an adapter", func(t *testing.T, folder string, _ *Options) {
			os.WriteFile(filepath.Join(folder, "adapter_config.json"), []byte("{}"), 0o644)
		}},
		{"a dtype", "float64", func(_ *testing.T, _ string, o *Options) { o.DType = "float64" }},
		{"a device", "cuda:7", func(_ *testing.T, _ string, o *Options) { o.Devices = []string{"7"} }},
		{"no GPU", "sees no CUDA devices here", func(_ *testing.T, _ string, o *Options) { o.Device = "cuda" }},
		{"no Apple GPU", "sees no MPS devices here", func(_ *testing.T, _ string, o *Options) { o.Device = "mps" }},
		{"no Intel GPU", "sees no XPU devices here and is built without support for them", func(_ *testing.T, _ string, o *Options) { o.Device = "xpu" }},
		{"a device that computes nothing", "'meta' is not one of auto, cpu, cuda", func(_ *testing.T, _ string, o *Options) { o.Device = "meta" }},
		{"a second processor", "'cpu:1' is not one of", func(_ *testing.T, _ string, o *Options) { o.Device = "cpu:1" }},
		{"GPTQ", "-m pip install optimum gptqmodel", quantized("gptq", "bits", 4)},
		{"AWQ", "package gptqmodel is needed for weights quantized as awq 4-bit", quantized("awq", "bits", 4)},
		{"bitsandbytes", "package bitsandbytes is needed for weights quantized as bitsandbytes 4-bit", quantized("bitsandbytes", "load_in_4bit", true)},
		{"a packing that is not exact", "not exact", func(t *testing.T, folder string, o *Options) {
			if err := os.CopyFS(filepath.Join(folder, "mpt"), os.DirFS(tiny(t, "mpt"))); err != nil {
				t.Fatal(err)
			}
			o.Model, o.Packing = filepath.Join(folder, "mpt"), "tree"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Model: copyOf(t)}
			c.do(t, o.Model, &o)
			if err := try(t, o); !errors.Is(err, engine.ErrInput) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want an ErrInput that says %q", err, c.want)
			}
		})
	}
}
