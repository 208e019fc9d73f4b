package library

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// The pinned source is tuned before it is built. Attention takes as long as all
// matrix products once a thousand tokens are in the cache, and of that time
// two thirds went into three loops that compilers leave scalar: the maximum of
// a row, the mask's conversion from 16 bits by a table, and the keys'. The
// changes let them be vectorized and change no bit of any result (seen on
// predictions, byte for byte); a tenth to a fifth of all time is saved
// (docs/performance.md).

// insertion puts a line before the loop, within a function, that does
// something.
type insertion struct {
	file     string // below the source
	function string // where the search starts
	does     string // in the loop's body
	line     string
}

func insertions() []insertion {
	const attention = "void ggml_compute_forward_flash_attn_ext_tiled("
	return []insertion{
		{"ggml/src/ggml-cpu/vec.h", "void ggml_vec_max_f32(", "MAX(", "#pragma omp simd reduction(max:max)"},
		{"ggml/src/ggml-cpu/ops.cpp", attention, "= slope *", "#pragma omp simd reduction(&&:can_skip)"},
		{"ggml/src/ggml-cpu/ops.cpp", attention, "= GGML_CPU_FP16_TO_FP32(", "#pragma omp simd"},
	}
}

// half converts a number of 16 bits without the table. Its arithmetic is exact:
// a half's bits, shifted, are a float 2^112 times too small.
const half = `#if defined(__cplusplus) && defined(__x86_64__)
#include <stdint.h>
static inline float olmes_half(uint16_t h) {
    uint32_t bits = (uint32_t) (h & 0x7fff) << 13;
    float f;
    __builtin_memcpy(&f, &bits, sizeof f);
    f *= 0x1p112f;
    __builtin_memcpy(&bits, &f, sizeof f);
    bits |= (h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
    bits |= (uint32_t) (h & 0x8000) << 16;
    __builtin_memcpy(&f, &bits, sizeof f);
    return f;
}
#define GGML_CPU_FP16_TO_FP32(x) olmes_half(x)
#endif
`

// halfHeader is where half lies below the source; options has every C++ file
// include it.
const halfHeader = "olmes_half.h"

// tune changes the source below src.
func tune(src string) error {
	for _, in := range insertions() {
		name := filepath.Join(src, in.file)
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("tune llama.cpp: %w", err)
		}
		if data, err = in.apply(data); err != nil {
			return fmt.Errorf("tune llama.cpp: %s: %w", in.file, err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return fmt.Errorf("tune llama.cpp: %w", err)
		}
	}
	return os.WriteFile(filepath.Join(src, halfHeader), []byte(half), 0o644)
}

func (in insertion) apply(data []byte) ([]byte, error) {
	start := bytes.Index(data, []byte(in.function))
	if start < 0 {
		return nil, fmt.Errorf("it has no %q", in.function)
	}
	n := bytes.Index(data[start:], []byte(in.does))
	if n < 0 {
		return nil, fmt.Errorf("%q is not followed by %q", in.function, in.does)
	}
	loop := bytes.LastIndex(data[start:start+n], []byte("for ("))
	if loop < 0 {
		return nil, fmt.Errorf("%q is in no loop", in.does)
	}
	line := start + bytes.LastIndexByte(data[start:start+loop], '\n') + 1
	return bytes.Join([][]byte{data[:line], []byte(in.line + "\n"), data[line:]}, nil), nil
}
