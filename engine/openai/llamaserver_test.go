package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"olmes/engine"
	"olmes/engine/enginetest"
)

// fakeLlama is the bigram model behind llama-server's own interface.
type fakeLlama struct {
	biased bool  // tells what is left after the bias
	swaps  bool  // answers with another request's number
	parts  int32 // from this token on, tokens are parts of characters, whose numbers are kept back
	low    bool  // unlikely tokens are told as the lowest number
}

func (f *fakeLlama) start(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]any{"data": []any{map[string]any{"id": "bigram", "owned_by": "llamacpp", "meta": map[string]any{"n_vocab": enginetest.BigramEOS + 1}}}})
	})
	mux.HandleFunc("GET /props", func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]any{"total_slots": 1, "default_generation_settings": map[string]any{"n_ctx": 4096}, "build_info": "fake"})
	})
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Content string `json:"content"`
		}
		json.NewDecoder(r.Body).Decode(&body)
		reply(w, map[string]any{"tokens": bytesOf(body.Content)})
	})
	mux.HandleFunc("POST /completion", f.complete)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func (f *fakeLlama) complete(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Prompt []int32     `json:"prompt"`
		Top    int         `json:"n_probs"`
		Seed   uint32      `json:"seed"`
		Bias   [][]float64 `json:"logit_bias"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if len(body.Prompt)+1 >= 4096 {
		refuse(w, http.StatusBadRequest, "the request exceeds the available context size")
		return
	}
	last, forced := body.Prompt[len(body.Prompt)-1], int32(body.Bias[0][0])
	told := func(id int32) map[string]any {
		v := logProb(last, id)
		switch {
		case f.biased && id == forced:
			v = 0
		case f.low && v < -5:
			v = -math.MaxFloat64
		}
		return map[string]any{"id": id, "token": "?", "logprob": v}
	}
	first := told(forced)
	var top []any
	for _, id := range (&fake{}).likely(last, min(body.Top, enginetest.BigramEOS+1)) {
		top = append(top, told(id))
	}
	first["top_logprobs"] = top
	seed := body.Seed
	if f.swaps {
		seed++
	}
	out := map[string]any{"tokens_evaluated": len(body.Prompt), "tokens_predicted": 1, "truncated": false,
		"generation_settings": map[string]any{"seed": seed}, "timings": map[string]any{"cache_n": 0}}
	if f.parts == 0 || forced < f.parts {
		out["completion_probabilities"] = []any{first}
	}
	reply(w, out)
}

func TestLlamaServerInterface(t *testing.T) {
	start := func(t *testing.T, f *fakeLlama) (engine.Engine, error) {
		return Start(t.Context(), Options{URL: f.start(t), Architecture: "bigram", Concurrency: 4})
	}
	for name, f := range map[string]*fakeLlama{"as it is": {}, "parts of characters": {parts: 'h'}} {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) engine.Engine {
				e, err := start(t, f)
				if err != nil {
					t.Fatal(err)
				}
				return e
			})
		})
	}
	for name, tc := range map[string]struct {
		f    *fakeLlama
		want string
	}{
		"after the bias":    {&fakeLlama{biased: true}, "change with a bias"},
		"another request's": {&fakeLlama{swaps: true}, "answer to request"},
		"the lowest number": {&fakeLlama{low: true}, "stand-in"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := start(t, tc.f); err == nil || !strings.Contains(fmt.Sprint(err), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
