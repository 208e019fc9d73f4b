package server

import (
	"io"
	"time"
)

// Kinds of servers.
const (
	VLLM        = "vllm"
	SGLang      = "sglang"
	LlamaServer = "llama-server"
)

// Kinds lists the servers that can be started.
func Kinds() []string { return []string{VLLM, SGLang, LlamaServer} }

// Options say what to start.
type Options struct {
	// Kind is VLLM, SGLang or LlamaServer.
	Kind string
	// Program is the server's program, for llama-server; "" finds it on PATH.
	Program string
	// Python is the interpreter of the environment that holds vLLM or SGLang;
	// "" takes the program vllm on PATH, or python3.
	Python string
	// Model is what is served: a Hugging Face folder (vLLM, SGLang), or a GGUF
	// file, of several the first (llama-server).
	Model string
	// Name is the name the model is served under; "" is "model".
	Name string
	// DType is the precision to compute in: "auto", "float32", "bfloat16",
	// "float16"; llama-server computes in the file's own and takes "auto" alone.
	DType string
	// Context is how many tokens a request may have; 0: 2050, which serves the
	// standard's window of 2048 and the token predicted after it, or one more
	// than what a Hugging Face folder says that the model was trained for.
	Context int
	// Exact asks for the arithmetic with the least rounding: 32 bits for
	// llama-server's cache, no fused attention.
	Exact bool
	// Threads that compute on a CPU; 0: the server's choice.
	Threads int
	// TrustRemoteCode lets code in the model's folder run.
	TrustRemoteCode bool
	// Args are further arguments of the server, after ours.
	Args []string
	// Env are variables added to this process's environment, "NAME=value".
	Env []string
	// Ready is how long to wait until the server answers. 0: twenty minutes.
	Ready time.Duration
	// Log is the file that takes the server's output; "" is a new one in the
	// system's folder for temporary files.
	Log string
	// Progress, if set, takes the server's output too.
	Progress io.Writer
}
