package torchtest

import (
	"strings"
	"testing"
)

func TestPython(t *testing.T) {
	const script = `
import sys, torch, transformers, accelerate, peft, sentencepiece
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
print(torch.__version__.partition("+")[0], transformers.__version__, tokenizer.encode(" the cat", add_special_tokens=False))`
	if got, want := strings.TrimSpace(string(Run(t, script, SmolLM2(t)))), "2.13.0 5.24.0 [260, 2644]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
