package llamacpp

import (
	"slices"
	"testing"
)

func TestRoundsGELU(t *testing.T) {
	if !RoundsGELU("gemma3") || RoundsGELU("llama") || RoundsGELU("") {
		t.Error("gemma3 is computed with GELU, llama is not")
	}
	if !slices.IsSorted(geluArchitectures) {
		t.Error("the list is not sorted")
	}
}
