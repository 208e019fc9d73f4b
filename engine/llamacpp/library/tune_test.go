package library

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

func TestInsertion(t *testing.T) {
	in := insertion{function: "void f(", does: "x +=", line: "#pragma p"}
	const code = "void g() {\n  for (;;) {\n    x += 1;\n  }\n}\nvoid f() {\n  for (int i;;) {\n    for (int j;;) {\n      x += 1;\n    }\n  }\n}\n"
	const want = "void g() {\n  for (;;) {\n    x += 1;\n  }\n}\nvoid f() {\n  for (int i;;) {\n#pragma p\n    for (int j;;) {\n      x += 1;\n    }\n  }\n}\n"
	got, err := in.apply([]byte(code))
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	for _, code := range []string{"", "void f() {}", "void f() { x += 1; }"} {
		if _, err := in.apply([]byte(code)); err == nil {
			t.Errorf("%q: no error", code)
		}
	}
}

func TestReplacement(t *testing.T) {
	r := replacement{function: "void f(", line: "x = 1;", text: "y = 2;\n"}
	got, err := r.apply([]byte("void g() {\n  x = 1;\n}\nvoid f() {\n  x = 1; // one\n  x = 1;\n}\n"))
	const want = "void g() {\n  x = 1;\n}\nvoid f() {\ny = 2;\n  x = 1;\n}\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	for _, code := range []string{"", "void f() {}", "void g() { x = 1; }"} {
		if _, err := r.apply([]byte(code)); err == nil {
			t.Errorf("%q: no error", code)
		}
	}
}

// TestHalf compiles the conversion and compares it, for every number of 16
// bits, with another one.
func TestHalf(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the conversion is for amd64")
	}
	if tool := missingTool(); tool != "" {
		if os.Getenv("CI") != "" {
			t.Fatal("no ", tool)
		}
		t.Skip("no ", tool)
	}
	dir := t.TempDir()
	const program = "#include <stdio.h>\nint main() { for (int i = 0; i < 65536; i++) { float f = GGML_CPU_FP16_TO_FP32(i); fwrite(&f, 4, 1, stdout); } }\n"
	source, compiled := filepath.Join(dir, "half.cpp"), filepath.Join(dir, "half")
	if err := os.WriteFile(source, []byte(half+program), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("c++", "-O3", "-o", compiled, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(compiled).Output()
	if err != nil || len(out) != 4*65536 {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	for i := range 65536 {
		got := math.Float32frombits(binary.LittleEndian.Uint32(out[4*i:]))
		want := float32(halfValue(i))
		if got != want && !(got != got && want != want) || got == 0 && math.Signbit(float64(got)) != (i>>15 == 1) {
			t.Fatalf("%#04x: %v, want %v", i, got, want)
		}
	}
}

// halfValue is IEEE 754's definition.
func halfValue(bits int) float64 {
	exponent, fraction := bits>>10&31, float64(bits&1023)
	x := math.Ldexp(1024+fraction, exponent-25)
	switch {
	case exponent == 0:
		x = math.Ldexp(fraction, -24)
	case exponent == 31 && fraction == 0:
		x = math.Inf(1)
	case exponent == 31:
		x = math.NaN()
	}
	if bits>>15 == 1 {
		return math.Copysign(x, -1)
	}
	return x
}
