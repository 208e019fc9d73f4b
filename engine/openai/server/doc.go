// Package server starts vLLM, SGLang or llama.cpp's llama-server as a child
// process, waits until it answers, and stops it with all processes it has
// started itself.
//
// Steps of use: Start with the kind of server and the model's folder or file,
// give the address to package openai, Close. The server listens on the loopback
// address alone, on a port that was free. It ends with this process, however
// that ends: it stands in a process group of its own, which Close kills and
// which a watchdog (a shell that waits for this process) kills when this
// process is gone.
//
// The package stops there: what a server can measure is package openai's
// matter.
package server
