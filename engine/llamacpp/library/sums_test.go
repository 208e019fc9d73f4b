package library

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// sumsProgram stands in for the file that sums is put into. It reads columns,
// rows, width, the matrices x and y, and writes for each row its sum, and its
// logits in the first, a middle and the last column.
const sumsProgram = `
int main() {
    int64_t n[3];
    if (fread(n, 8, 3, stdin) != 3) return 1;
    const int64_t columns = n[0], rows = n[1], width = n[2];
    std::vector<float> x(columns * width), y(rows * width);
    if (fread(x.data(), 4, x.size(), stdin) != x.size() || fread(y.data(), 4, y.size(), stdin) != y.size()) return 1;
    std::vector<int32_t> first, tokens;
    for (int64_t r = 0; r <= rows; r++) first.push_back(3 * r);
    for (int64_t r = 0; r < rows; r++) for (int64_t t : {(int64_t) 0, columns / 2, columns - 1}) tokens.push_back(t);
    std::vector<float> picked(tokens.size());
    std::vector<double> sum(rows);
    olmes_sink sink = {rows, first.data(), tokens.data(), picked.data(), sum.data(), 0};
    olmes_set_sink(&sink);
    ggml_tensor other = {{columns, rows, 1, 1}, "other"}, few = {{columns, rows - 1, 1, 1}, "result_output"}, out = {{columns, rows, 1, 1}, "result_output"};
    if (olmes_wants(&other) || olmes_wants(&few) || !olmes_wants(&out)) return 2;
    olmes_sum(1, columns, width, y.data(), x.data());
    olmes_set_sink(nullptr);
    if (olmes_wants(&out) || sink.filled != 1) return 3;
    fwrite(sum.data(), 8, rows, stdout);
    fwrite(picked.data(), 4, picked.size(), stdout);
}
`

const sumsHeader = `#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
struct ggml_tensor { int64_t ne[4]; char name[64]; };
enum { CblasRowMajor, CblasNoTrans, CblasTrans };
static void cblas_sgemm(int, int, int, int64_t rows, int64_t n, int64_t width, float, const float * y, int64_t, const float * x, int64_t, float, float * z, int64_t) {
    for (int64_t r = 0; r < rows; r++) for (int64_t c = 0; c < n; c++) {
        float sum = 0;
        for (int64_t i = 0; i < width; i++) sum += y[r * width + i] * x[c * width + i];
        z[r * n + c] = sum;
    }
}
`

// TestSums compiles the sums and compares them with others in 64 bits.
func TestSums(t *testing.T) {
	if tool := missingTool(); tool != "" {
		if os.Getenv("CI") != "" {
			t.Fatal("no ", tool)
		}
		t.Skip("no ", tool)
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "sums.cpp"), filepath.Join(dir, "sums")
	if err := os.WriteFile(source, []byte(sumsHeader+sums+sumsProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("c++", "-O3", "-fopenmp", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var worst float64
	for _, size := range [][3]int64{{5, 2, 1}, {2047, 3, 2}, {2048, 33, 2}, {2049, 1, 3}, {49152, 7, 2}, {262144, 3, 1}} {
		for _, scale := range []float64{0.01, 3, 40} {
			columns, rows, width := int(size[0]), int(size[1]), int(size[2])
			x, y := make([]float32, columns*width), make([]float32, rows*width)
			for i := range x {
				x[i] = float32(random.NormFloat64() * scale)
			}
			for i := range y {
				y[i] = float32(random.NormFloat64())
			}
			bad := rows - 1 // the last row of some is not finite
			if scale == 40 && rows > 1 {
				y[bad*width] = float32(math.Inf(1))
			} else {
				bad = -1
			}
			in, err := binary.Append(nil, binary.LittleEndian, size)
			if err != nil {
				t.Fatal(err)
			}
			in, _ = binary.Append(in, binary.LittleEndian, x)
			in, _ = binary.Append(in, binary.LittleEndian, y)
			cmd := exec.Command(program)
			cmd.Stdin = bytes.NewReader(in)
			out, err := cmd.Output()
			if err != nil || len(out) != rows*(8+3*4) {
				t.Fatalf("%v: %d bytes, %v", size, len(out), err)
			}
			for r := range rows {
				got := math.Float64frombits(binary.LittleEndian.Uint64(out[8*r:]))
				if r == bad {
					if !math.IsNaN(got) && !math.IsInf(got, 0) {
						t.Errorf("%v: a row with infinities sums to %v", size, got)
					}
					continue
				}
				logit := func(c int) float64 {
					var sum float32
					for i := range width {
						sum += y[r*width+i] * x[c*width+i]
					}
					return float64(sum)
				}
				top, sum := math.Inf(-1), 0.0
				for c := range columns {
					top = max(top, logit(c))
				}
				for c := range columns {
					sum += math.Exp(logit(c) - top)
				}
				worst = max(worst, math.Abs(got-(top+math.Log(sum))))
				for i, c := range []int{0, columns / 2, columns - 1} {
					at := 8*rows + 4*(3*r+i)
					if got := math.Float32frombits(binary.LittleEndian.Uint32(out[at:])); math.Abs(float64(got)-logit(c)) > 1e-4 {
						t.Errorf("%v: row %d column %d is %v, want %v", size, r, c, got, logit(c))
					}
				}
			}
		}
	}
	t.Logf("largest error %.2g", worst)
	if worst > 2e-6 {
		t.Errorf("a sum is off by %.2g", worst)
	}
}
