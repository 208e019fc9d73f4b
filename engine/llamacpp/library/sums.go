package library

// sums is put into the BLAS backend. A thread that has set a sink gets, for each
// output row of its next batches, the natural logarithm of the sum of e^x over
// the vocabulary and the logits of the tokens it names, instead of all logits.
//
// The vocabulary is gone through in blocks that stay in the processor's cache.
// Within 256 numbers sums are in 32 bits, beyond in 64: they are within 2e-6 of
// the true ones (TestSums). Neither the
// number of threads nor what other rows there are changes how a row is summed.
//
// olmes_set_sink is the only new name that is visible.
const sums = `#include <cmath>
#include <limits>

extern "C" {
struct olmes_sink {
    int64_t         rows;   // output rows of the batch
    const int32_t * first;  // rows + 1: where each row's tokens start in tokens
    const int32_t * tokens; // in ascending order within a row
    float         * picked; // their logits
    double        * sum;    // rows: ln of the sum of e^x
    int32_t         filled; // set to 1 when picked and sum have been
};
#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
void olmes_set_sink(struct olmes_sink * sink);
}

static thread_local olmes_sink * olmes_current = nullptr;

void olmes_set_sink(struct olmes_sink * sink) { olmes_current = sink; }

// Only the last product, and only where nothing is done to it afterwards: its
// name then is the output's own.
static bool olmes_wants(const struct ggml_tensor * dst) {
    return olmes_current && dst->ne[1] == olmes_current->rows && dst->ne[2] == 1 && dst->ne[3] == 1 &&
        strcmp(dst->name, "result_output") == 0;
}

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define OLMES_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define OLMES_CLONES
#endif

// e^x for x <= 0, with a relative error of 2e-7; 1.6e-38 below -87.
static inline __attribute__((always_inline)) float olmes_exp(float x) {
    x = x < -87.0f ? -87.0f : x;
    const float t = x * 1.44269504088896341f + 12582912.0f; // rounds to a whole number, in the low bits
    const float k = t - 12582912.0f;
    const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits;
    __builtin_memcpy(&bits, &t, sizeof bits);
    bits = (bits - 0x4b400000u + 127u) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

// Largest of n numbers; NaN where one is.
OLMES_CLONES static float olmes_top(const float * z, int n) {
    float top = -std::numeric_limits<float>::infinity();
    int bad = 0;
    #pragma omp simd reduction(max:top) reduction(|:bad)
    for (int i = 0; i < n; i++) {
        top = z[i] > top ? z[i] : top;
        bad |= !(z[i] == z[i]);
    }
    return bad ? std::numeric_limits<float>::quiet_NaN() : top;
}

OLMES_CLONES static double olmes_part(const float * z, int n, float top) {
    double sum = 0;
    for (int start = 0; start < n; start += 256) {
        const int end = start + 256 < n ? start + 256 : n;
        float part = 0;
        #pragma omp simd reduction(+:part)
        for (int i = start; i < end; i++) {
            part += olmes_exp(z[i] - top);
        }
        sum += part;
    }
    return sum;
}

static void olmes_sum(int threads, int64_t columns, int64_t width, const float * y, const float * x) {
    olmes_sink & s = *olmes_current;
    const int64_t rows = s.rows, block = 2048;
    std::vector<float> z(rows * std::min(block, columns)), top(rows, -std::numeric_limits<float>::infinity());
    std::vector<double> sum(rows, 0.0);
    std::vector<int32_t> next(s.first, s.first + rows);
    for (int64_t start = 0; start < columns; start += block) {
        const int64_t n = std::min(block, columns - start);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, n, width, 1.0f, y, width, x + start * width, width, 0.0f, z.data(), n);
#ifdef GGML_USE_OPENMP
        #pragma omp parallel for num_threads(threads) if (threads > 1)
#endif
        for (int64_t r = 0; r < rows; r++) {
            const float * row = z.data() + r * n;
            const float most = olmes_top(row, (int) n);
            if (!(most <= top[r])) { // NaN too
                sum[r] *= std::exp((double) top[r] - most);
                top[r] = most;
            }
            if (top[r] > -std::numeric_limits<float>::infinity()) {
                sum[r] += olmes_part(row, (int) n, top[r]);
            }
            for (; next[r] < s.first[r + 1] && s.tokens[next[r]] < start + n; next[r]++) {
                s.picked[next[r]] = row[s.tokens[next[r]] - start];
            }
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        s.sum[r] = top[r] + std::log(sum[r]);
    }
    s.filled = 1;
    (void) threads;
}

`
