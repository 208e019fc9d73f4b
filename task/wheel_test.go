package task

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"olmes/artifact"
)

// wheelPath fetches the oracle once for all tests of the package.
var wheelPath = sync.OnceValues(func() (string, error) {
	store, err := artifact.Open("")
	if err != nil {
		return "", err
	}
	return artifact.OracleWheel(context.Background(), store)
})

// oracle returns the path of the oracle wheel. Without a network the test is
// skipped, except in CI.
func oracle(t testing.TB) string {
	t.Helper()
	path, err := wheelPath()
	if err == nil {
		return path
	}
	if e := new(artifact.Error); os.Getenv("CI") == "" && errors.As(err, &e) {
		t.Skipf("the oracle wheel is not here: %v", err)
	}
	t.Fatal(err)
	return ""
}

// wheel returns a source that reads the oracle.
func wheel(t testing.TB) *WheelSource {
	src := NewWheelSource(oracle(t))
	t.Cleanup(func() { src.Close() })
	return src
}
