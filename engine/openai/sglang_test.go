package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"olmes/engine"
	"olmes/engine/enginetest"
)

// fakeSGLang is the bigram model behind SGLang's own interface, made from that
// server's documentation.
type fakeSGLang struct {
	backward bool // answers in another order
	noNamed  bool // leaves the named tokens away
}

func (f *fakeSGLang) start(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]any{"data": []any{map[string]any{"id": "bigram", "owned_by": "sglang", "max_model_len": 4096}}})
	})
	mux.HandleFunc("GET /model_info", func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]any{"model_path": "/models/bigram", "model_type": "bigram"})
	})
	mux.HandleFunc("GET /server_info", func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]any{"version": "0.0-fake", "dtype": "float32"})
	})
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Prompt string `json:"prompt"`
		}
		json.NewDecoder(r.Body).Decode(&body)
		ids := bytesOf(body.Prompt)
		reply(w, map[string]any{"count": len(ids), "tokens": ids, "max_model_len": 4096})
	})
	mux.HandleFunc("POST /generate", f.generate)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func (f *fakeSGLang) generate(w http.ResponseWriter, r *http.Request) {
	var body struct {
		IDs    [][]int32 `json:"input_ids"`
		Starts []int     `json:"logprob_start_len"`
		Named  [][]int32 `json:"token_ids_logprob"`
		RIDs   []string  `json:"rid"`
		Return bool      `json:"return_logprob"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !body.Return {
		refuse(w, http.StatusBadRequest, fmt.Sprint("bad request: ", err))
		return
	}
	var out []any
	for i, ids := range body.IDs {
		if len(ids)+1 > 4096 {
			refuse(w, http.StatusBadRequest, "the input is longer than the model's context length")
			return
		}
		meta := map[string]any{"id": body.RIDs[i], "prompt_tokens": len(ids), "cached_tokens": 0, "completion_tokens": 1}
		if start := body.Starts[i]; start >= 0 {
			input := []any{[]any{nil, ids[start], nil}}
			for n := start + 1; n < len(ids); n++ {
				input = append(input, []any{logProb(ids[n-1], ids[n]), ids[n], nil})
			}
			meta["input_token_logprobs"] = input
		}
		if body.Named != nil && !f.noNamed {
			var named []any
			for _, id := range body.Named[i] {
				named = append(named, []any{logProb(ids[len(ids)-1], id), id, nil})
			}
			meta["output_token_ids_logprobs"] = []any{named}
		}
		out = append(out, map[string]any{"text": "", "meta_info": meta})
	}
	if f.backward {
		slices.Reverse(out)
	}
	reply(w, out)
}

func TestSGLang(t *testing.T) {
	for _, strategy := range []string{Auto, Native, Step, Echo} {
		t.Run(strategy, func(t *testing.T) {
			f := &fakeSGLang{backward: true}
			enginetest.Run(t, func(t *testing.T) engine.Engine {
				e, err := Start(t.Context(), Options{URL: f.start(t), Strategy: strategy, Vocab: enginetest.BigramEOS + 1, Concurrency: 4})
				if err != nil {
					t.Fatal(err)
				}
				return e
			})
		})
	}
	f := &fakeSGLang{noNamed: true}
	if _, err := Start(t.Context(), Options{URL: f.start(t)}); err == nil || !strings.Contains(err.Error(), "not told") {
		t.Errorf("named tokens are missing: error %v", err)
	}
}
