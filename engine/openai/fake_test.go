package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"olmes/engine"
	"olmes/engine/enginetest"
)

// fake is a server of the bigram model, whose log-probabilities are known, that
// shows what servers do wrong. Its interface is that of a plain completions
// server, or vLLM's.
type fake struct {
	vllm     bool
	key      string // needed in every request
	most     int    // tokens of prompt and answer together; 0: 4096
	serves   int    // of these really served; 0: most
	noIDs    bool   // takes texts alone
	noEcho   bool   // ignores echo
	noNamed  bool   // ignores logprob_token_ids
	adds     bool   // puts a BOS before every prompt
	drops    bool   // leaves the last token of the prompt away
	shift    bool   // tells each token's number at the place of the one before
	top      int    // tells the most likely tokens alone, so many at most
	after    bool   // tells what is left after temperature
	backward bool   // answers prompts in another order, with their indices
	mixed    bool   // answers prompts in another order, without saying so
	zero     bool   // takes max_tokens 0
	floor    float64
	wobble   float64 // adds so much to every second answer
	null     bool    // tells null for unlikely tokens
	padding  int32   // ids beyond the tokenizer's, of which it dies where it is to write one

	calls atomic.Int64
	died  atomic.Bool
}

// table holds the bigram's log-probabilities, by token and next token.
var table = sync.OnceValue(func() [][]float64 {
	model, t := enginetest.Bigram{}, make([][]float64, enginetest.BigramEOS+1)
	for prev := range t {
		for next := range t {
			t[prev] = append(t[prev], model.LogProb(int32(prev), int32(next)))
		}
	}
	return t
})

func logProb(prev, next int32) float64 { return table()[prev][next] }

func (f *fake) limit() int {
	if f.most == 0 {
		return 4096
	}
	return f.most
}

func (f *fake) start(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		m := map[string]any{"id": "bigram", "object": "model", "owned_by": "someone"}
		if f.vllm {
			m["owned_by"], m["max_model_len"] = "vllm", f.limit()
		}
		reply(w, map[string]any{"object": "list", "data": []any{m}})
	})
	if f.vllm {
		mux.HandleFunc("GET /version", func(w http.ResponseWriter, r *http.Request) { reply(w, map[string]any{"version": "0.0-fake"}) })
		mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				Prompt  string `json:"prompt"`
				Special bool   `json:"add_special_tokens"`
			}
			json.NewDecoder(r.Body).Decode(&body)
			ids := bytesOf(body.Prompt)
			if body.Special {
				ids = append([]int32{enginetest.BigramBOS}, ids...)
			}
			reply(w, map[string]any{"count": len(ids), "tokens": ids, "max_model_len": f.limit()})
		})
	}
	mux.HandleFunc("POST /v1/completions", f.complete)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.key != "" && r.Header.Get("Authorization") != "Bearer "+f.key {
			refuse(w, http.StatusUnauthorized, "no valid key, you sent "+r.Header.Get("Authorization"))
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": text}})
}

func bytesOf(s string) []int32 {
	ids := []int32{}
	for _, c := range []byte(s) {
		ids = append(ids, int32(c))
	}
	return ids
}

type fakeRequest struct {
	Prompt      json.RawMessage `json:"prompt"`
	Echo        bool            `json:"echo"`
	MaxTokens   *int            `json:"max_tokens"`
	Logprobs    *int            `json:"logprobs"`
	Temperature *float64        `json:"temperature"`
	Named       []int32         `json:"logprob_token_ids"`
	AsIDs       bool            `json:"return_tokens_as_token_ids"`
	ReturnIDs   bool            `json:"return_token_ids"`
	RequestID   string          `json:"request_id"`
}

// prompts reads the prompts in any of their four forms.
func (r *fakeRequest) prompts() (ids [][]int32, text bool) {
	var s string
	var list []string
	var one []int32
	switch {
	case json.Unmarshal(r.Prompt, &s) == nil:
		return [][]int32{bytesOf(s)}, true
	case json.Unmarshal(r.Prompt, &list) == nil:
		for _, s := range list {
			ids = append(ids, bytesOf(s))
		}
		return ids, true
	case json.Unmarshal(r.Prompt, &one) == nil:
		return [][]int32{one}, false
	}
	json.Unmarshal(r.Prompt, &ids)
	return ids, false
}

func (f *fake) complete(w http.ResponseWriter, r *http.Request) {
	n := f.calls.Add(1)
	var req fakeRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	prompts, text := req.prompts()
	if f.noIDs && !text {
		refuse(w, http.StatusBadRequest, "prompt: a string is needed")
		return
	}
	tokens := 16
	if req.MaxTokens != nil {
		tokens = *req.MaxTokens
	}
	if tokens == 0 && !f.zero {
		refuse(w, http.StatusBadRequest, "max_tokens must be at least 1")
		return
	}
	serves := f.limit()
	if f.serves > 0 {
		serves = f.serves
	}
	var choices []map[string]any
	sum := 0
	for i, ids := range prompts {
		if len(ids)+tokens > serves {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("this model takes %d tokens, you asked for %d", f.limit(), len(ids)+tokens))
			return
		}
		if last := slices.Max(append(req.Named, 0)); last > enginetest.BigramEOS && last <= enginetest.BigramEOS+f.padding {
			f.died.Store(true)
		}
		if f.died.Load() {
			refuse(w, http.StatusInternalServerError, "the engine has died")
			return
		}
		for _, id := range append(slices.Clone(ids), req.Named...) {
			if id < 0 || id > enginetest.BigramEOS+f.padding {
				refuse(w, http.StatusBadRequest, "a token is out of the vocabulary")
				return
			}
		}
		if f.adds {
			ids = append([]int32{enginetest.BigramBOS}, ids...)
		}
		if f.drops {
			ids = ids[:len(ids)-1]
		}
		sum += len(ids)
		c := map[string]any{"index": i, "text": "", "finish_reason": "length", "logprobs": f.logprobs(&req, ids, tokens, float64(n%2)*f.wobble)}
		if f.vllm && req.ReturnIDs {
			c["prompt_token_ids"] = ids
		}
		choices = append(choices, c)
	}
	if f.backward || f.mixed {
		slices.Reverse(choices)
	}
	if f.mixed {
		for i := range choices {
			choices[i]["index"] = i
		}
	}
	id := "cmpl-0"
	if f.vllm {
		id = "cmpl-" + req.RequestID
	}
	reply(w, map[string]any{"id": id, "choices": choices, "usage": map[string]any{"prompt_tokens": sum}})
}

// logprobs makes the numbers of one choice.
func (f *fake) logprobs(req *fakeRequest, ids []int32, generate int, more float64) any {
	if req.Logprobs == nil {
		return nil
	}
	name := func(id int32) string {
		switch {
		case f.vllm && req.AsIDs:
			return fmt.Sprintf("token_id:%d", id)
		case id == enginetest.BigramBOS:
			return "<s>"
		case id == enginetest.BigramEOS:
			return "</s>"
		case id >= 128:
			return fmt.Sprintf(`bytes:\x%02x`, id)
		}
		return string(rune(id))
	}
	tokens, values, tops := []string{}, []any{}, []any{}
	if req.Echo && !f.noEcho {
		for i, id := range ids {
			tokens = append(tokens, name(id))
			switch {
			case f.shift && i < len(ids)-1:
				values = append(values, f.number(req, ids[i], ids[i+1])+more)
			case i == 0 || f.shift:
				values = append(values, nil)
			default:
				values = append(values, f.told(req, ids[i-1], id, more))
			}
			tops = append(tops, nil)
		}
	}
	last := min(ids[len(ids)-1], enginetest.BigramEOS)
	for range generate {
		next := f.likely(last, 1)[0]
		tokens = append(tokens, name(next))
		values = append(values, f.number(req, last, next)+more)
		told := map[string]any{}
		switch {
		case f.vllm && !f.noNamed && len(req.Named) > 0:
			for _, id := range req.Named {
				told[name(id)] = f.told(req, last, id, more)
			}
			told[name(next)] = f.number(req, last, next) + more
		default:
			top := *req.Logprobs
			if f.top > 0 {
				top = min(top, f.top)
			}
			for _, id := range f.likely(last, top) {
				told[name(id)] = f.number(req, last, id) + more
			}
		}
		tops = append(tops, told)
		last = next
	}
	return map[string]any{"tokens": tokens, "token_logprobs": values, "top_logprobs": tops}
}

func (f *fake) told(req *fakeRequest, prev, next int32, more float64) any {
	v := f.number(req, prev, next) + more
	if f.null && v < -6 {
		return nil
	}
	return v
}

func (f *fake) number(req *fakeRequest, prev, next int32) float64 {
	v := logProb(prev, next)
	if f.after && req.Temperature != nil && *req.Temperature > 0 && *req.Temperature != 1 {
		sum := 0.0
		for id := range int32(enginetest.BigramEOS + 1) {
			sum += math.Exp(logProb(prev, id) / *req.Temperature)
		}
		v = v / *req.Temperature - math.Log(sum)
	}
	if f.floor < 0 {
		v = max(v, f.floor)
	}
	return v
}

// likely returns the n most likely tokens after prev.
func (f *fake) likely(prev int32, n int) []int32 {
	ids := make([]int32, enginetest.BigramEOS+1)
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		x, y := logProb(prev, a), logProb(prev, b)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return ids[:n]
}

// open starts an engine on a fake.
func (f *fake) open(t *testing.T, o Options) (engine.Engine, error) {
	t.Helper()
	o.URL = f.start(t)
	if o.Architecture == "" {
		o.Architecture = "bigram"
	}
	if !f.vllm && o.Tokenizer == nil {
		o.Tokenizer = &enginetest.Bigram{}
	}
	e, err := Start(context.Background(), o)
	if err == nil {
		t.Cleanup(func() { e.Close() })
	}
	return e, err
}

func notes(t *testing.T, e engine.Engine) string {
	t.Helper()
	d, err := e.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(d.Notes, "\n")
}
