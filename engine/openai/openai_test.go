package openai

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/engine/openai/faultproxy"
	"olmes/trie"
)

// The suite that every engine passes, through each strategy.
func TestConformance(t *testing.T) {
	for name, tc := range map[string]struct {
		fake     *fake
		strategy string
	}{
		"vllm step": {&fake{vllm: true, zero: true}, Step},
		"vllm echo": {&fake{vllm: true, zero: true}, Echo},
		"vllm auto": {&fake{vllm: true, zero: true}, Auto},
		"by ids":    {&fake{zero: true}, Auto},
		"by text":   {&fake{noIDs: true}, Auto},
	} {
		t.Run(name, func(t *testing.T) {
			f := tc.fake
			enginetest.Run(t, func(t *testing.T) engine.Engine {
				e, err := f.open(t, Options{Strategy: tc.strategy})
				if err != nil {
					t.Fatal(err)
				}
				return e
			})
		})
	}
}

// tree is two questions with four choices each, of letters.
func tree(t *testing.T) *trie.Tree {
	t.Helper()
	var groups [][]trie.Sequence
	for _, q := range []string{"question one is this, a", "question two is that, b"} {
		var choices []trie.Sequence
		for _, c := range []string{"bc", "c", "xyz", "bd"} {
			choices = append(choices, trie.Sequence{IDs: bytesOf(q + c), Start: len(q)})
		}
		groups = append(groups, choices)
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return &chunks[0].Tree
}

// exact checks that every number is the model's own.
func exact(t *testing.T, e engine.Engine, tree *trie.Tree) {
	t.Helper()
	got, err := e.Score(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range tree.Wants {
		if want := logProb(tree.Token[w.Node], w.Token); math.Abs(got.LogProbs[i]-want) > 1e-9 {
			t.Errorf("want %d: %g, the model's is %g", i, got.LogProbs[i], want)
		}
	}
}

// What servers do wrong is either handled, with the exact numbers, or refused
// with the reason.
func TestServersThatDeviate(t *testing.T) {
	for name, tc := range map[string]struct {
		fake    *fake
		options Options
		refused string // in the error; "": handled
		noted   string // in the notes
	}{
		"ignores echo":                  {fake: &fake{noEcho: true, zero: true}, noted: "most likely tokens alone"},
		"ignores echo, nothing named":   {fake: &fake{vllm: true, noEcho: true, noNamed: true}, refused: "ignores echo"},
		"ignores echo, names tokens":    {fake: &fake{vllm: true, noEcho: true}, noted: "does not tell a prompt's own tokens"},
		"adds BOS":                      {fake: &fake{adds: true, zero: true}, refused: "sent"},
		"adds BOS, named":               {fake: &fake{vllm: true, adds: true}, refused: "sent"},
		"drops the last token":          {fake: &fake{drops: true, zero: true}, refused: "sent"},
		"drops the last token, named":   {fake: &fake{vllm: true, drops: true}, refused: "sent"},
		"tells at the wrong place":      {fake: &fake{shift: true, zero: true}, noted: "nothing before it"},
		"needs a generated token":       {fake: &fake{}, noted: "token ids"},
		"takes text alone":              {fake: &fake{noIDs: true}, noted: "as text"},
		"after temperature":             {fake: &fake{vllm: true, zero: true, after: true}, noted: "after temperature"},
		"another order":                 {fake: &fake{vllm: true, zero: true, backward: true}},
		"another order without index":   {fake: &fake{zero: true, mixed: true}, noted: "each call has one"},
		"another order, named":          {fake: &fake{vllm: true, zero: true, mixed: true}, noted: "each call has one"},
		"numbers that wobble":           {fake: &fake{vllm: true, zero: true, wobble: -0.2}, refused: "same request"},
		"unlikely tokens are null":      {fake: &fake{vllm: true, zero: true, null: true}, refused: "null"},
		"unlikely tokens have a floor":  {fake: &fake{zero: true, floor: -9999}},
		"no ids, no tokenizer's pieces": {fake: &fake{noIDs: true}, options: Options{Tokenizer: withoutPieces{}}, refused: "string is needed"},
		"another tokenizer":             {fake: &fake{vllm: true, zero: true}, options: Options{Tokenizer: upper{}}, refused: "differ"},
		"another model's name":          {fake: &fake{vllm: true, zero: true}, options: Options{Model: "trigram"}, refused: "no model"},
		"strategy it does not serve":    {fake: &fake{zero: true}, options: Options{Strategy: Step}, refused: "does not serve the strategy"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := tc.fake.open(t, tc.options)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Fatalf("error %v, want one with %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := notes(t, e); !strings.Contains(n, tc.noted) {
				t.Errorf("notes %q lack %q", n, tc.noted)
			}
			if d, _ := e.Describe(t.Context()); strings.Contains(strings.Join(d.Notes, ""), "most likely tokens alone") {
				return // see TestTopAlone
			}
			exact(t, e, tree(t))
		})
	}
}

type withoutPieces struct{}

func (withoutPieces) Tokenize(ctx ctx, texts []string) ([][]int32, error) {
	return (&enginetest.Bigram{}).Tokenize(ctx, texts)
}

type upper struct{}

func (upper) Tokenize(ctx ctx, texts []string) ([][]int32, error) {
	var up []string
	for _, s := range texts {
		up = append(up, strings.ToUpper(s))
	}
	return (&enginetest.Bigram{}).Tokenize(ctx, up)
}

// A server that tells the most likely tokens alone gives what is among them, and
// an error for everything else.
func TestTopAlone(t *testing.T) {
	f := fake{noEcho: true, top: 5}
	e, err := f.open(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var likely []trie.Want
	node := int32(1)
	for _, id := range f.likely('b', 5) {
		if id < 128 && (&completions{pieces: pieces(t)}).ambiguous(id) == "" {
			likely = append(likely, trie.Want{Node: node, Token: id})
		}
	}
	if len(likely) < 2 {
		t.Fatalf("only %d tokens to test with", len(likely))
	}
	sortWants(likely)
	labels := &trie.Tree{Token: []int32{'a', 'b'}, Parent: []int32{-1, 0}, Wants: likely}
	exact(t, e, labels)
	labels.Wants = []trie.Want{{Node: 1, Token: f.likely('b', 200)[199]}}
	var rank *RankError
	if _, err := e.Score(t.Context(), labels); !errors.As(err, &rank) {
		t.Errorf("an unlikely token: error %v, want a RankError", err)
	}
}

// The longest request is found, whatever the server claims.
func TestLength(t *testing.T) {
	for name, tc := range map[string]struct {
		fake *fake
		want int // tokens before the predicted one
	}{
		"as claimed":     {&fake{vllm: true, zero: true, most: 2048}, 2047},
		"one less":       {&fake{vllm: true, zero: true, most: 2048, serves: 2047}, 2046},
		"two less":       {&fake{vllm: true, zero: true, most: 300, serves: 298}, 297},
		"just enough":    {&fake{vllm: true, zero: true, most: 2050}, 2049},
		"more than ever": {&fake{vllm: true, zero: true, most: 4096}, 4093},
		"not claimed":    {&fake{zero: true, most: 2048}, 2047},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := tc.fake.open(t, Options{})
			if err != nil {
				t.Fatal(err)
			}
			d, _ := e.Describe(t.Context())
			if d.ContextTrain != tc.want {
				t.Errorf("the longest request has %d tokens, want %d\n%s", d.ContextTrain, tc.want, strings.Join(d.Notes, "\n"))
			}
			ids := make([]int32, tc.want+1)
			parent := make([]int32, tc.want+1)
			for i := range ids {
				ids[i], parent[i] = 'a'+int32(i%20), int32(i)-1
			}
			fits := &trie.Tree{Token: ids[:tc.want], Parent: parent[:tc.want], Wants: []trie.Want{{Node: int32(tc.want - 1), Token: 'x'}}}
			exact(t, e, fits)
			if _, err := e.Score(t.Context(), &trie.Tree{Token: ids, Parent: parent}); !errors.Is(err, engine.ErrInput) {
				t.Errorf("a longer one: error %v, want an ErrInput", err)
			}
		})
	}
}

// Faults cost time and never change a number.
func TestFaults(t *testing.T) {
	for _, fault := range []faultproxy.Fault{faultproxy.Slow, faultproxy.Busy, faultproxy.Broken, faultproxy.Cut, faultproxy.Half, faultproxy.Short,
		faultproxy.Swapped, faultproxy.NaN, faultproxy.Null, faultproxy.Reorder, faultproxy.Empty} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			f := fake{vllm: true, zero: true}
			proxy := faultproxy.New(f.start(t), 1, nil)
			proxy.Path, proxy.Delay = "/completions", 20*time.Millisecond
			s := httptest.NewServer(proxy)
			defer s.Close()
			e, err := Start(t.Context(), Options{URL: s.URL, Architecture: "bigram", Concurrency: 4})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			proxy.Shares = map[faultproxy.Fault]float64{fault: 0.3}
			for range 10 {
				exact(t, e, tree(t))
			}
			if counts, calls := proxy.Counts(); counts[fault] == 0 {
				t.Errorf("no fault in %d calls", calls)
			}
		})
	}
}

// A server that asks for patience gets it.
func TestRefusedForSeconds(t *testing.T) {
	t.Parallel()
	f := fake{vllm: true, zero: true}
	proxy := faultproxy.New(f.start(t), 1, nil)
	s := httptest.NewServer(proxy)
	defer s.Close()
	e, err := Start(t.Context(), Options{URL: s.URL, Architecture: "bigram"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const pause = 10 * time.Second
	proxy.RefuseFor(pause)
	started := time.Now()
	exact(t, e, tree(t))
	if took := time.Since(started); took < pause {
		t.Errorf("it took %v", took)
	}
	if counts, _ := proxy.Counts(); counts[faultproxy.Busy] > 60 {
		t.Errorf("the server was asked %d times meanwhile", counts[faultproxy.Busy])
	}
}

// A server that only fails ends the work soon, with its reason.
func TestGivesUp(t *testing.T) {
	f := fake{vllm: true, zero: true}
	proxy := faultproxy.New(f.start(t), 1, nil)
	s := httptest.NewServer(proxy)
	defer s.Close()
	e, err := Start(t.Context(), Options{URL: s.URL, Architecture: "bigram", MaxFailures: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range MinCalls {
		exact(t, e, tree(t))
	}
	proxy.Shares = map[faultproxy.Fault]float64{faultproxy.Broken: 1}
	started := time.Now()
	_, err = e.Score(t.Context(), tree(t))
	var many *FailuresError
	if !errors.As(err, &many) || !strings.Contains(err.Error(), "broken on purpose") {
		t.Errorf("error %v, want a FailuresError", err)
	}
	if took := time.Since(started); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// Where nothing listens the error comes soon.
func TestNobodyListens(t *testing.T) {
	s := httptest.NewServer(nil)
	url := s.URL
	s.Close()
	started := time.Now()
	_, err := Start(t.Context(), Options{URL: url})
	if err == nil || !strings.Contains(err.Error(), "is the server running") || time.Since(started) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(started), err)
	}
}

// The key is sent, and stands in no error and no log.
func TestKey(t *testing.T) {
	const key = "sk-very-secret-0123456789"
	f := fake{vllm: true, zero: true, key: key}
	e, err := f.open(t, Options{APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	exact(t, e, tree(t))
	var log bytes.Buffer
	const wrong = "my-own-wrong-password-1"
	_, err = f.open(t, Options{APIKey: wrong, Log: &log})
	var status *StatusError
	if !errors.As(err, &status) || status.Status != 401 || status.Hint() == "" {
		t.Fatalf("error %v, want status 401 with a hint", err)
	}
	if text := err.Error() + log.String(); strings.Contains(text, wrong) {
		t.Errorf("the key stands in %q", text)
	}
}

// A model may have more ids than its tokenizer has tokens: how many is found without
// asking for any of them, of which a server may die.
func TestPadding(t *testing.T) {
	for _, padding := range []int32{0, 7, 3000} {
		f := fake{vllm: true, zero: true, padding: padding}
		e, err := f.open(t, Options{})
		if err != nil {
			t.Fatalf("padding %d: %v", padding, err)
		}
		exact(t, e, tree(t))
		if d, err := e.Describe(t.Context()); err != nil || d.Vocab != int(enginetest.BigramEOS+1+padding) {
			t.Errorf("padding %d: a vocabulary of %d (%v), want %d", padding, d.Vocab, err, enginetest.BigramEOS+1+padding)
		}
	}
}

// A server's words are shown as text, whatever a terminal would take them for.
func TestStatusText(t *testing.T) {
	c := newClient(Options{URL: "http://127.0.0.1:1"})
	for _, body := range []string{"no \x1b[31mmodel", `{"error": {"message": "no \u001b[31mmodel"}}`, `{"message": "no \u001b[31mmodel"}`} {
		err := statusError(c, "/v1/models", &http.Response{StatusCode: 404}, []byte(body))
		if !strings.Contains(err.Error(), `no \x1b[31mmodel`) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: error %q", body, err)
		}
	}
}

// Cost: labels take one request an instance, texts the cheaper strategy.
func TestCost(t *testing.T) {
	long := strings.Repeat("some few-shot text, ", 40)
	var labels, texts [][]trie.Sequence
	for _, q := range []string{"one", "two", "three"} {
		var l, c []trie.Sequence
		for _, x := range []string{"A", "B", "C", "D"} {
			l = append(l, trie.Sequence{IDs: bytesOf(long + q + x), Start: len(long + q)})
			c = append(c, trie.Sequence{IDs: bytesOf(long + q + x + strings.Repeat("and so on ", 60)), Start: len(long + q)})
		}
		labels, texts = append(labels, l), append(texts, c)
	}
	e := &Engine{b: &completions{vllm: true}, strategy: Auto, block: 16, echoMost: 4096}
	for _, tc := range []struct {
		name   string
		groups [][]trie.Sequence
		echo   bool
	}{{"labels", labels, false}, {"long texts", texts, true}} {
		chunks, err := trie.Cut(tc.groups, trie.Limits{Tokens: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		jobs := e.jobs(&chunks[0].Tree)
		if echo := len(jobs[0].tokens) == 0; echo != tc.echo {
			t.Errorf("%s: echo is %v, want %v", tc.name, echo, tc.echo)
		}
	}
}
