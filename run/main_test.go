package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"olmes/artifact"
	"olmes/engine/llamacpp"
)

// TestMain lets the test binary serve as the engine's child process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine-host" {
		if err := llamacpp.Host(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// testEnv opens the user's cache; what a test needs is fetched into it.
func testEnv(t *testing.T) Env {
	t.Helper()
	store, err := artifact.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return Env{Store: store, Runs: t.TempDir()}
}

// long skips, in short mode, a test that computes with real models.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("real models take a while")
	}
}

// fetched skips the test where err says that something cannot be fetched, and
// fails it where CI is set or err is of another kind.
func fetched(t *testing.T, err error) {
	t.Helper()
	var ae *artifact.Error
	if errors.As(err, &ae) && os.Getenv("CI") == "" && (ae.Kind == artifact.NoNetwork || ae.Kind == artifact.NoPip || ae.Kind == artifact.NoNpm) {
		t.Skipf("what the test needs cannot be fetched: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
