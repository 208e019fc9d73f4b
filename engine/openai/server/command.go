package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"olmes/engine"
)

// window is the most ids of a request by the standard, the predicted one
// included, and one more that some servers ask to be free.
const window = 2050

// MissingError says that a server's program is not on this machine.
type MissingError struct {
	Kind string
	Text string
	Tip  string
}

func (e *MissingError) Error() string { return "start " + e.Kind + ": " + e.Text }

// Hint says what to do.
func (e *MissingError) Hint() string { return e.Tip }

// command returns the command line and the variables that start o's server on
// port.
func command(o Options, port int) (argv, env []string, err error) {
	if o.Model == "" {
		return nil, nil, engine.InputError(errors.New("start a server: no model is named"))
	}
	switch o.Kind {
	case VLLM:
		return vllm(o, port)
	case SGLang:
		return sglang(o, port)
	case LlamaServer:
		return llamaServer(o, port)
	}
	return nil, nil, engine.InputError(fmt.Errorf("start a server: kind %q is none of %s", o.Kind, strings.Join(Kinds(), ", ")))
}

func vllm(o Options, port int) (argv, env []string, err error) {
	switch python, err := interpreter(o, "vllm"); {
	case err != nil:
		return nil, nil, err
	case python != "":
		argv = []string{python, "-m", "vllm.entrypoints.cli.main", "serve", o.Model}
	default:
		argv = []string{"vllm", "serve", o.Model}
	}
	argv = append(argv, "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--served-model-name", o.Name,
		"--dtype", o.DType, "--max-model-len", strconv.Itoa(o.Context),
		// What the record needs, and log-probabilities before any bias or mask.
		"--enable-prompt-tokens-details", "--enable-tokenizer-info-endpoint", "--logprobs-mode", "raw_logprobs", "--generation-config", "vllm",
		"--enable-prefix-caching", "--no-enable-log-requests")
	if o.TrustRemoteCode {
		argv = append(argv, "--trust-remote-code")
	}
	env = []string{"VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "VLLM_DO_NOT_TRACK=1", "HF_HUB_OFFLINE=1",
		// One more id than the model was trained for is asked for, and only
		// predicted.
		"VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"}
	if o.Threads > 0 {
		env = append(env, fmt.Sprintf("VLLM_CPU_OMP_THREADS_BIND=0-%d", o.Threads-1), fmt.Sprintf("OMP_NUM_THREADS=%d", o.Threads))
	}
	return append(argv, o.Args...), env, nil
}

func sglang(o Options, port int) (argv, env []string, err error) {
	python, err := interpreter(o, "sglang")
	if err != nil {
		return nil, nil, err
	}
	if python == "" {
		python = "python3"
	}
	argv = []string{python, "-m", "sglang.launch_server", "--model-path", o.Model, "--host", "127.0.0.1", "--port", strconv.Itoa(port),
		"--served-model-name", o.Name, "--dtype", o.DType, "--context-length", strconv.Itoa(o.Context), "--enable-metrics", "--enable-cache-report"}
	if o.TrustRemoteCode {
		argv = append(argv, "--trust-remote-code")
	}
	return append(argv, o.Args...), []string{"HF_HUB_OFFLINE=1", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"}, nil
}

func llamaServer(o Options, port int) (argv, env []string, err error) {
	program := o.Program
	if program == "" {
		program = "llama-server"
	}
	if program, err = exec.LookPath(program); err != nil {
		return nil, nil, &MissingError{o.Kind, "llama-server is not on PATH",
			"install llama.cpp, or name the program; the embedded engine (--engine llamacpp) needs neither"}
	}
	if o.DType != "auto" {
		return nil, nil, engine.InputError(fmt.Errorf("llama-server computes in the file's own precision, not in %s: leave --dtype away, or make a file of that type", o.DType))
	}
	argv = []string{program, "--model", o.Model, "--alias", o.Name, "--host", "127.0.0.1", "--port", strconv.Itoa(port),
		"--ctx-size", strconv.Itoa(o.Context), "--parallel", "1", "--no-webui", "--metrics", "--slots", "--props",
		// Shifting the context or keeping checkpoints of it would change numbers
		// or memory behind our back.
		"--no-context-shift", "--cache-ram", "0"}
	if o.Exact {
		argv = append(argv, "--flash-attn", "off", "--cache-type-k", "f32", "--cache-type-v", "f32")
	}
	if o.Threads > 0 {
		argv = append(argv, "--threads", strconv.Itoa(o.Threads), "--threads-batch", strconv.Itoa(o.Threads))
	}
	argv = append(argv, o.Args...)
	// The server reads flags from such variables too.
	return argv, []string{"LLAMA_OFFLINE=1", "GGML_NO_BACKTRACE=1", "OPENBLAS_NUM_THREADS=1"}, nil
}

// trained returns how many positions the model in a Hugging Face folder has, 0
// where it does not say. A server that is asked for one more may have none.
func trained(folder string) int {
	data, err := os.ReadFile(filepath.Join(folder, "config.json"))
	if err != nil {
		return 0
	}
	var c, text map[string]any
	if json.Unmarshal(data, &c) != nil {
		return 0
	}
	if raw, ok := c["text_config"].(map[string]any); ok {
		text = raw
	}
	for _, name := range []string{"max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx"} {
		for _, from := range []map[string]any{c, text} {
			if n, ok := from[name].(float64); ok && n > 0 {
				return int(n)
			}
		}
	}
	return 0
}

// interpreter returns the Python to start package name with, or "" where the
// program of that name on PATH serves.
func interpreter(o Options, name string) (string, error) {
	if o.Python == "" {
		if name == "vllm" {
			if _, err := exec.LookPath(name); err == nil {
				return "", nil
			}
		}
		o.Python = "python3"
	}
	python, err := exec.LookPath(o.Python)
	if err != nil {
		return "", &MissingError{o.Kind, fmt.Sprintf("no Python %q: %v", o.Python, err), "name the interpreter of an environment that holds " + name + " with --python"}
	}
	find := exec.Command(python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)", name)
	find.Dir = os.TempDir() // no module of the working directory
	if err := find.Run(); err != nil {
		return "", &MissingError{o.Kind, fmt.Sprintf("%s has no package %s", python, name),
			fmt.Sprintf("install it (%s -m pip install %s), or name another environment's interpreter with --python", python, name)}
	}
	return filepath.Abs(python)
}

// environ returns this process's environment with ours put in, and without what
// would change the server behind the record's back.
func environ(own, more []string) []string {
	all := slices.Concat(os.Environ(), own, more)
	return slices.DeleteFunc(all, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		// With a key of their own from there, the servers would refuse us.
		key := name == "LLAMA_API_KEY" || name == "VLLM_API_KEY"
		return key || strings.HasPrefix(name, "LLAMA_ARG_") || name == "GGML_BACKEND_PATH"
	})
}
