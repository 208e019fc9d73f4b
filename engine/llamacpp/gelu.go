package llamacpp

import "slices"

// geluArchitectures are those whose feed-forward layers llama.cpp computes with
// GELU (LLM_FFN_GELU in src/models of the pinned version); decoders only.
var geluArchitectures = []string{
	"bloom", "codeshell", "falcon", "gemma", "gemma2", "gemma3", "gemma4", "gpt2", "gptneox", "mpt", "phi2", "starcoder", "starcoder2",
}

// RoundsGELU reports whether llama.cpp's CPU code computes this architecture's
// GELU through a table in half precision, whatever the precision of the weights.
// Log-probabilities of gemma-3-270m then differ from transformers' in 32 bits by
// up to 0.017 nats (run's parity test).
func RoundsGELU(architecture string) bool { return slices.Contains(geluArchitectures, architecture) }
