package record

import (
	"bytes"
	"context"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"olmes"
)

// anyFloat draws any bits: NaNs, infinities, zeros of both signs, subnormals.
func anyFloat() *rapid.Generator[float64] {
	return rapid.Map(rapid.Uint64(), math.Float64frombits)
}

func anyString() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " ", "naïve ☃", "a\x00b", "\n", strings.Repeat("x", 300)}))
}

// maybe draws nil, or a slice that may be empty.
func maybe[T any](g *rapid.Generator[T]) *rapid.Generator[[]T] {
	return rapid.OneOf(rapid.Just([]T(nil)), rapid.SliceOfN(g, 0, 4))
}

func anyPrediction() *rapid.Generator[olmes.Prediction] {
	count := rapid.IntRange(0, math.MaxInt32)
	choice := rapid.Custom(func(t *rapid.T) olmes.Choice {
		return olmes.Choice{
			LogProb: rapid.Ptr(anyFloat(), true).Draw(t, "logprob"), Tokens: count.Draw(t, "tokens"), Chars: count.Draw(t, "chars"), Bytes: count.Draw(t, "bytes"),
			Unconditional: rapid.Ptr(anyFloat(), true).Draw(t, "unconditional"), TokenLogProbs: maybe(anyFloat()).Draw(t, "token_logprobs"),
			ContinuationIDs: maybe(rapid.Int32()).Draw(t, "ids"), UnconditionalLogProbs: maybe(anyFloat()).Draw(t, "unconditional_logprobs"),
			ContextTokens: count.Draw(t, "context_tokens"), Dropped: count.Draw(t, "dropped"),
			RequestSHA256: anyString().Draw(t, "request"), IDsSHA256: anyString().Draw(t, "ids_sha256"), Error: anyString().Draw(t, "error"),
		}
	})
	token := rapid.Custom(func(t *rapid.T) olmes.TokenScore {
		return olmes.TokenScore{ID: rapid.Int32().Draw(t, "id"), LogProb: anyFloat().Draw(t, "logprob")}
	})
	output := rapid.Custom(func(t *rapid.T) olmes.Output {
		return olmes.Output{Text: anyString().Draw(t, "text"), Tokens: maybe(token).Draw(t, "tokens"), Error: anyString().Draw(t, "error")}
	})
	message := rapid.Custom(func(t *rapid.T) olmes.Message {
		return olmes.Message{Role: anyString().Draw(t, "role"), Content: anyString().Draw(t, "content")}
	})
	prompt := rapid.Custom(func(t *rapid.T) olmes.Prompt {
		return olmes.Prompt{Text: anyString().Draw(t, "text"), Messages: maybe(message).Draw(t, "messages")}
	})
	return rapid.Custom(func(t *rapid.T) olmes.Prediction {
		return olmes.Prediction{
			Task: anyString().Draw(t, "task"), Formulation: olmes.Formulation(anyString().Draw(t, "formulation")), Variant: anyString().Draw(t, "variant"),
			Split: anyString().Draw(t, "split"), Kind: olmes.Kind(anyString().Draw(t, "kind")), DocID: rapid.IntMin(0).Draw(t, "doc_id"),
			NativeID: anyString().Draw(t, "native_id"), Gold: rapid.IntRange(-1, math.MaxInt32).Draw(t, "gold"), Chunk: anyString().Draw(t, "chunk"),
			Choices: maybe(choice).Draw(t, "choices"), Outputs: maybe(output).Draw(t, "outputs"), Prompt: rapid.Ptr(prompt, true).Draw(t, "prompt"),
			Predictions: rapid.MapOf(rapid.SampledFrom(olmes.Normalizations()), rapid.IntRange(0, math.MaxInt32)).Draw(t, "predictions"),
		}
	})
}

func encode(t interface{ Fatal(...any) }, preds []olmes.Prediction) []byte {
	var b bytes.Buffer
	if err := writePredictions(&b, preds); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(t interface{ Fatal(...any) }, data []byte) []olmes.Prediction {
	var out []olmes.Prediction
	err := readPredictions(context.Background(), bytes.NewReader(data), func(p olmes.Prediction) bool {
		out = append(out, p)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sameBits compares floats by their bits.
var sameBits = cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })

func TestPredictionsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		preds := rapid.SliceOfN(anyPrediction(), 0, 5).Draw(t, "predictions")
		data := encode(t, preds)
		if d := cmp.Diff(preds, decode(t, data), sameBits, cmp.Transformer("len", func(p []olmes.Prediction) []olmes.Prediction {
			return append([]olmes.Prediction{}, p...)
		})); d != "" {
			t.Fatal(d)
		}
		if !bytes.Equal(data, encode(t, preds)) {
			t.Fatal("two writes differ")
		}
	})
}

// Row groups begin at fixed rows, so that bytes and rows survive any count.
func TestPredictionsByRowCount(t *testing.T) {
	_, some, _ := testRun()
	for _, n := range []int{0, 1, 1025, groupRows, groupRows + 1} {
		preds := make([]olmes.Prediction, n)
		for i := range preds {
			preds[i] = some[i%len(some)]
			preds[i].DocID = i
		}
		data := encode(t, preds)
		if !bytes.Equal(data, encode(t, preds)) {
			t.Errorf("%d rows: two writes differ", n)
		}
		back := decode(t, data)
		if len(back) != n {
			t.Fatalf("%d rows: read %d", n, len(back))
		}
		for i := range back {
			if !reflect.DeepEqual(preds[i], back[i]) {
				t.Fatalf("%d rows: row %d: %s", n, i, cmp.Diff(preds[i], back[i]))
			}
		}
	}
}

func TestWritePredictionsRefuses(t *testing.T) {
	for name, p := range map[string]olmes.Prediction{
		"huge gold":             {Gold: math.MaxInt32 + 1},
		"huge count":            {Choices: []olmes.Choice{{Tokens: math.MaxInt32 + 1}}},
		"unknown normalization": {Predictions: map[olmes.Normalization]int{"other": 1}},
	} {
		if err := writePredictions(&bytes.Buffer{}, []olmes.Prediction{p}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReadPredictionsStops(t *testing.T) {
	_, preds, _ := testRun()
	n := 0
	err := readPredictions(context.Background(), bytes.NewReader(encode(t, preds)), func(olmes.Prediction) bool { n++; return n < 3 })
	if err != nil || n != 3 {
		t.Errorf("read %d rows, %v", n, err)
	}
}
