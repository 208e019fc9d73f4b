// Package torchtest gives tests a Python with PyTorch and transformers, and a
// real model as a Hugging Face folder. Both are made once, in the user's cache,
// from files pinned by digest.
//
// Steps of use: Python(t) for the program, SmolLM2(t) for the folder, Run to
// run a script. Without a network, and with -short, they skip the test; where
// the variable CI is set a missing network fails it.
package torchtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"olmes/artifact"
	"olmes/model"
)

// requirements pins wheels for Linux on x86-64 and Python 3.11 to 3.14. What
// is not needed to import torch on a processor (triton and the compilers'
// bindings) is left out: 4.6 GB instead of 5.7.
//
//go:embed requirements.txt
var requirements string

//go:embed folder.py
var folderScript string

// Python returns the path of a Python program that has torch, transformers,
// accelerate, peft, gguf, sentencepiece and what they need. Making it fetches
// 3 GB, once.
func Python(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("PyTorch takes a while")
	}
	python, err := install(t.Context(), open(t))
	unavailable(t, err)
	return python
}

// SmolLM2 returns a folder with the registered model smollm2-135m-instruct in
// Hugging Face's form, 32-bit safetensors. Its weights are compared with those
// of the GGUF file, bit for bit.
func SmolLM2(t testing.TB) string {
	t.Helper()
	python := Python(t)
	store := open(t)
	m, err := model.Resolve(t.Context(), store, "smollm2-135m-instruct", model.Options{})
	unavailable(t, err)
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(folderScript + requirements))
	dir, err := store.Ensure(t.Context(), filepath.Join("python", "smollm2-"+hex.EncodeToString(sum[:8])), func(ctx context.Context, tmp string) (string, error) {
		dir := filepath.Join(tmp, "folder")
		_, err := run(ctx, python, folderScript, filepath.Join(root, "scripts", "parity"), m.Files[0], dir)
		return dir, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Run runs a script and returns what it prints on standard output. A failure
// ends the test and shows the standard error.
func Run(t testing.TB, script string, args ...string) []byte {
	t.Helper()
	out, err := run(t.Context(), Python(t), script, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func run(ctx context.Context, python, script string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, python, append([]string{"-c", script}, args...)...)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "PYTHONNOUSERSITE=1")
	return output(cmd)
}

func open(t testing.TB) *artifact.Store {
	t.Helper()
	store, err := artifact.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func unavailable(t testing.TB, err error) {
	t.Helper()
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("needs a download: ", err)
	}
}

// install returns the Python of the environment in the cache. It needs no
// ensurepip, which Debian has apart from Python.
func install(ctx context.Context, store *artifact.Store) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	kind, err := output(exec.CommandContext(ctx, "python3", "-c", "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform(), sys.base_prefix)"))
	if err != nil {
		return "", fmt.Errorf("find python3: %w", err)
	}
	sum := sha256.Sum256(append(kind, requirements...))
	dir, err := store.Ensure(ctx, filepath.Join("python", "torch-"+hex.EncodeToString(sum[:8])), func(ctx context.Context, tmp string) (string, error) {
		dir, work, pins := filepath.Join(tmp, "venv"), filepath.Join(tmp, "work"), filepath.Join(tmp, "requirements.txt")
		if err := os.Mkdir(work, 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(pins, []byte(requirements), 0o644); err != nil {
			return "", err
		}
		if _, err := output(exec.CommandContext(ctx, "python3", "-m", "venv", "--without-pip", dir)); err != nil {
			return "", fmt.Errorf("make a Python environment: %w", err)
		}
		cmd := exec.CommandContext(ctx, "python3", "-m", "pip", "--python", filepath.Join(dir, "bin", "python"), "install",
			"--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--retries=1",
			"--require-hashes", "--no-deps", "--only-binary=:all:", "--requirement", pins)
		cmd.Env = append(os.Environ(), "TMPDIR="+work)
		if _, err := output(cmd); err != nil {
			return "", fmt.Errorf("pip install torch and transformers: %w", err)
		}
		return dir, nil
	})
	return filepath.Join(dir, "bin", "python"), err
}

// moduleRoot returns the folder of go.mod, above the test's working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if up := filepath.Dir(dir); up != dir {
			dir = up
			continue
		}
		err = errors.New("find the module's root: no go.mod above the working directory")
	}
	return "", err
}

// output runs a command and returns what it prints; an error has what it says.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := artifact.RunGroup(cmd)
	if text := strings.TrimSpace(stderr.String()); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text[max(0, len(text)-4000):])
	}
	return stdout.Bytes(), err
}
