//go:build unix

package llamacpp

import (
	"fmt"
	"os"
	"testing"

	"olmes/artifact"
	"olmes/engine/llamacpp/library"
)

// BenchmarkLimit measures what `olmes bench` calls the engine's limit, on one
// thread, at the depths of bench/llama-bench.sh, whose numbers it is compared
// with: OLMES_BENCH_MODEL is a GGUF file. One operation is a batch of 512 tokens
// with one output row.
func BenchmarkLimit(b *testing.B) {
	file := os.Getenv("OLMES_BENCH_MODEL")
	if file == "" {
		b.Skip("OLMES_BENCH_MODEL names no GGUF file")
	}
	store, err := artifact.Open(os.Getenv("OLMES_CACHE"))
	if err != nil {
		b.Fatal(err)
	}
	lib, err := library.Best(b.Context(), store)
	if err != nil {
		b.Fatal(err)
	}
	e, err := Start(b.Context(), Options{Library: lib.Dir, Model: []string{file}, Plan: DefaultPlan(Shape{Parameters: 135e6, Context: 2048}), Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for _, depth := range []int{0, 512, 1024, 1536} {
		b.Run(fmt.Sprint("depth=", depth), func(b *testing.B) {
			q := LimitRequest{Tokens: 512, Rows: 1, Depth: depth}
			if _, err := e.(*Engine).Limit(b.Context(), q); err != nil { // fills the cache
				b.Fatal(err)
			}
			var spent float64
			n := 0
			for b.Loop() {
				seconds, err := e.(*Engine).Limit(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				spent += seconds
				n += q.Tokens
			}
			b.ReportMetric(float64(n)/spent, "tokens/s")
		})
	}
}
