// Package pythontest gives tests a python3 with numpy, pinned by digest and
// fetched once into the user's cache. Without a network it skips the test;
// where the variable CI is set a missing network fails it.
package pythontest

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"olmes/artifact"
)

//go:embed numpy.txt
var numpy string

// Numpy returns the folder to set as PYTHONPATH for the python3 on PATH.
func Numpy(t testing.TB) string {
	t.Helper()
	store, err := artifact.Open("")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := install(t.Context(), store)
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("needs python3 and a download: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func install(ctx context.Context, store *artifact.Store) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	kind, err := output(exec.CommandContext(ctx, "python3", "-c", "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())"))
	if err != nil {
		return "", fmt.Errorf("find python3: %w", err)
	}
	sum := sha256.Sum256(append(kind, numpy...))
	return store.Ensure(ctx, filepath.Join("python", "numpy-"+hex.EncodeToString(sum[:8])), func(ctx context.Context, tmp string) (string, error) {
		dir, work, pins := filepath.Join(tmp, "packages"), filepath.Join(tmp, "work"), filepath.Join(tmp, "requirements.txt")
		if err := os.Mkdir(work, 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(pins, []byte(numpy), 0o644); err != nil {
			return "", err
		}
		cmd := exec.CommandContext(ctx, "python3", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
			"--no-cache-dir", "--retries=1", "--require-hashes", "--no-deps", "--only-binary=:all:", "--target", dir, "--requirement", pins)
		cmd.Env = append(os.Environ(), "TMPDIR="+work)
		if _, err := output(cmd); err != nil {
			return "", fmt.Errorf("pip install numpy: %w", err)
		}
		return dir, nil
	})
}

// output runs a command and returns what it prints; an error has what it says.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := artifact.RunGroup(cmd)
	if text := strings.TrimSpace(stderr.String()); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return stdout.Bytes(), err
}
