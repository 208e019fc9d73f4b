package modeltest

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"testing"

	"olmes/model"
	"olmes/model/gguf"
)

func TestWrite(t *testing.T) {
	yes := true
	tests := map[string]struct {
		o                Options
		arch, kind       string
		quantized, named bool
	}{
		"zero":   {Options{}, "llama", "gpt2", false, true},
		"merges": {Options{Merges: []string{"A n", "An s"}, NoBOS: true}, "llama", "gpt2", false, false},
		"spm":    {Options{Tokenizer: SentencePiece, Merges: []string{"▁A"}, AddBOS: &yes, Context: 512}, "llama", "llama", false, true},
		"f16":    {Options{Weights: F16}, "llama", "gpt2", false, true},
		"bf16":   {Options{Weights: BF16}, "llama", "gpt2", false, true},
		"q8":     {Options{Weights: Q8}, "llama", "gpt2", true, true},
		"gemma":  {Options{Architecture: "gemma"}, "gemma", "gpt2", false, true},
		"bigram": {Options{Bigram: func(_, _ int32) float64 { return -1 }}, "llama", "gpt2", false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := Write(path, tt.o); err != nil {
				t.Fatal(err)
			}
			f, err := model.Read([]string{path})
			if err != nil {
				t.Fatal(err)
			}
			if f.Architecture != tt.arch || f.Tokenizer != tt.kind || f.Quantized != tt.quantized || f.BOS >= 0 != tt.named {
				t.Errorf("got %+v", f)
			}
			if f.Vocab != len(tt.o.Tokens()) {
				t.Errorf("vocab %d, want %d", f.Vocab, len(tt.o.Tokens()))
			}
			if want := max(tt.o.Context, 0); want > 0 && f.Context != want || want == 0 && f.Context != 4096 {
				t.Errorf("context %d", f.Context)
			}
			if (f.AddBOS != nil) != (tt.o.AddBOS != nil) {
				t.Errorf("add_bos %v", f.AddBOS)
			}
		})
	}
}

func TestEncodeIsDeterministic(t *testing.T) {
	encode := func(o Options) []byte {
		data, err := Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if !bytes.Equal(encode(Options{Seed: 1}), encode(Options{Seed: 1})) {
		t.Error("two models of one seed differ")
	}
	if bytes.Equal(encode(Options{Seed: 1}), encode(Options{Seed: 2})) {
		t.Error("the seed changes nothing")
	}
}

// TestBigram reads the table back from the weights.
func TestBigram(t *testing.T) {
	o := Options{Bigram: func(prev, next int32) float64 { return -float64(prev) - float64(next)/1000 }}
	data, err := Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range h.Tensors {
		if tensor.Name != "output.weight" {
			continue
		}
		width := int(tensor.Dims[0])
		at := h.Data + tensor.Offset + int64(7*width+5)*4 // token 7 after token 5
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(data[at:]))) * math.Sqrt(float64(width))
		if want := o.Bigram(5, 7); math.Abs(got-want) > 1e-5 {
			t.Errorf("logit %v, want %v", got, want)
		}
		return
	}
	t.Error("no output matrix")
}

func TestHalf(t *testing.T) {
	for _, tt := range []struct {
		v    float32
		want uint16
	}{
		{0, 0}, {1, 0x3c00}, {-2, 0xc000}, {65504, 0x7bff}, {65536, 0x7c00}, {0.333251953125, 0x3555},
		{0.99999, 0x3c00}, {5.9604645e-08, 1}, {6.097555e-05, 0x3ff}, {float32(math.Inf(-1)), 0xfc00},
	} {
		if got := half(tt.v); got != tt.want {
			t.Errorf("half(%v) = %#x, want %#x", tt.v, got, tt.want)
		}
	}
}

func TestID(t *testing.T) {
	o := Options{Merges: []string{"A n", "An s"}}
	if o.Tokens()[o.ID("Ans")] != "Ans" || o.ID("nothing") != -1 || o.ID("Ġ") < 2 {
		t.Error("ids do not name tokens")
	}
}
