//go:build unix

package openai_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes/engine/openai"
	"olmes/engine/openai/server"
	"olmes/engine/openai/servertest"
	"olmes/engine/tinymodels"
)

// The small models of the paper's architectures through vLLM, against plain
// transformers forwards in 32 bits.
func TestVLLMTinyModels(t *testing.T) {
	if os.Getenv("OLMES_VLLM") == "" {
		t.Skip("set OLMES_VLLM=1 to test with vLLM; its environment takes 3 GB")
	}
	python := servertest.VLLM(t)
	for _, m := range tinymodels.All(t) {
		t.Run(m.Name, func(t *testing.T) {
			s, err := server.Start(t.Context(), server.Options{Kind: server.VLLM, Python: python, Model: m.Dir, DType: "float32",
				Args: servertest.VLLMArgs(), Env: servertest.VLLMEnv(), Log: filepath.Join(t.TempDir(), "log")})
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
			defer s.Close()
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
