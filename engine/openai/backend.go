package openai

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// usage is what a call cost the server, as far as it tells.
type usage struct {
	prompt int // tokens of the prompts
	cached int // of these, taken from its cache; -1 unknown
}

// backend is one kind of interface that tells log-probabilities.
type backend interface {
	// name is the Description's engine: "vllm", "sglang", "llama-server",
	// "completions".
	name() string
	// strategies lists those the server's kind has, the preferred one first.
	strategies() []string
	// most is how many tokens a job of a strategy may name.
	most() int
	// joins tells whether one call can carry next beside the jobs of batch.
	joins(batch []*job, next *job) bool
	// ask makes one call. The answers are in the order of the jobs, each proved to
	// belong to its own.
	ask(ctx context.Context, jobs []*job) ([]answer, usage, error)
	// tokenize cuts one text; special asks for the tokens the model's tokenizer
	// adds by itself.
	tokenize(ctx context.Context, text string, special bool) ([]int32, error)
}

// finite checks numbers that were sent: log-probabilities are finite and not
// above 0, but for rounding. A floor is none.
func finite(x []*float64, floor float64) ([]float64, error) {
	out := make([]float64, len(x))
	for i, v := range x {
		switch {
		case v == nil:
			return nil, fmt.Errorf("number %d of %d is null", i, len(x))
		case math.IsNaN(*v) || math.IsInf(*v, 0):
			return nil, fmt.Errorf("number %d of %d is %g", i, len(x), *v)
		case *v > 1e-3:
			return nil, fmt.Errorf("number %d of %d is %g, which is no log-probability", i, len(x), *v)
		case *v <= floor:
			return nil, fmt.Errorf("number %d of %d is %g, the server's stand-in for what it does not tell", i, len(x), *v)
		}
		out[i] = min(*v, 0)
	}
	return out, nil
}

// count checks the number of parts of an answer.
func count(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("it has %d %s for %d", got, what, want)
	}
	return nil
}

// UnfitError says why a server cannot be used, or not for this request.
type UnfitError struct {
	Reason string
	Tip    string
}

func (e *UnfitError) Error() string { return "this server cannot be used: " + e.Reason }

// Hint says what else would do.
func (e *UnfitError) Hint() string { return e.Tip }

func unfit(tip, format string, args ...any) error {
	return &UnfitError{Reason: fmt.Sprintf(format, args...), Tip: tip}
}

const otherServers = "vLLM, SGLang and llama-server can be used (docs/servers.md), and --engine torch or llamacpp need no server"

var errClosed = errors.New("engine is closed")
