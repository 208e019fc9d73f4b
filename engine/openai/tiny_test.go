//go:build unix

package openai_test

import (
	"strings"
	"testing"

	"olmes/engine/openai"
	"olmes/engine/tinymodels"
)

// The small models of the paper's architectures through vLLM, against plain
// transformers forwards in 32 bits.
func TestVLLMTinyModels(t *testing.T) {
	python := vllmPython(t)
	for _, m := range tinymodels.All(t) {
		t.Run(m.Name, func(t *testing.T) {
			s, err := startVLLM(t, python, m.Dir)
			if m.ModelType == "mpt" {
				// vLLM served this architecture up to its version 0.28.
				if err == nil || !strings.Contains(err.Error(), "MPTForCausalLM was supported in vLLM until v0.28.0") {
					t.Errorf("error %v, want vLLM's own reason", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			strategies := []string{openai.Step, openai.Echo}
			if m.Tokenizer == "sentencepiece" {
				// A step makes the model say a token, at random. Where that is one of the
				// ids that these tokenizers have no piece for, as models with random
				// weights often do, vLLM 0.32 dies of writing it.
				strategies = strategies[1:]
			}
			for _, strategy := range strategies {
				e := open(t, s.URL(), openai.Options{Strategy: strategy, Architecture: m.ModelType})
				worst := tinymodels.Compare(t, e, m, nil)
				t.Logf("%s, %s: at most %.2g nats from plain forwards", m.Name, strategy, worst)
				if worst > tinymodels.Bound {
					t.Errorf("%s: %.2g nats from plain forwards, bound %g", strategy, worst, tinymodels.Bound)
				}
			}
		})
	}
}
