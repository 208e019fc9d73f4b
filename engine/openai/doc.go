// Package openai is an engine over HTTP: vLLM, SGLang, llama-server, and any
// server with OpenAI's completions interface that tells the log-probabilities
// of given tokens.
//
// Steps of use: Start with the server's address, then use the engine as any
// other. Start probes the server: whether it takes token ids as a prompt, adds
// tokens of its own, returns the log-probabilities of a prompt's tokens or of
// named tokens, raw or after temperature, how long a request may be, and
// whether the same request gives the same numbers twice. A server that cannot
// give exact log-probabilities is refused with the reason (UnfitError); what was
// found is in Description.Notes.
//
// A number is used only if the answer proves whose it is: by the index of the
// prompt, by the ids or texts of its tokens, by their count. A call that fails
// after all retries fails its tree; nothing is ever filled in.
package openai
