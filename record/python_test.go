package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"olmes"
	"olmes/artifact"
)

// readers are the Python packages that read a record, and what they need:
// their newest versions that Python 3.11 to 3.14 have wheels of.
var readers = []string{"pandas==3.1.1", "pyarrow==26.0.1", "duckdb==2.0.1", "numpy==2.4.6", "python-dateutil==4.0.0", "tzdata==2026.6"}

// pythonWithReaders returns a command that runs a Python script with readers:
// that of $OLMES_PYTHON, or else python3 with the packages in a folder of the
// user's cache, fetched once (about 100 MB). With no network the test is
// skipped, except in CI.
func pythonWithReaders(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{"-c", script}, args...)
	if python := os.Getenv("OLMES_PYTHON"); python != "" {
		return exec.CommandContext(t.Context(), python, args...)
	}
	store, err := artifact.Open("")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := installReaders(t.Context(), store)
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("no Python with %s: %v", strings.Join(readers[:3], ", "), err)
		}
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONNOUSERSITE=1")
	return cmd
}

// installReaders returns the folder of the cache that holds readers for the
// python3 on this machine. It needs no venv, which Debian has apart from pip.
func installReaders(ctx context.Context, store *artifact.Store) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	kind, err := output(exec.CommandContext(ctx, "python3", "-c", "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())"))
	if err != nil {
		return "", fmt.Errorf("find python3: %w", err)
	}
	sum := sha256.Sum256([]byte(kind + strings.Join(readers, "\n")))
	return store.Ensure(ctx, filepath.Join("python", hex.EncodeToString(sum[:8])), func(ctx context.Context, tmp string) (string, error) {
		folder, work := filepath.Join(tmp, "packages"), filepath.Join(tmp, "work")
		if err := os.Mkdir(work, 0o755); err != nil {
			return "", err
		}
		cmd := exec.CommandContext(ctx, "python3", append([]string{"-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
			"--no-cache-dir", "--retries=1", "--no-deps", "--only-binary=:all:", "--target", folder}, readers...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+work)
		if _, err := output(cmd); err != nil {
			return "", fmt.Errorf("pip install %s: %w", strings.Join(readers, " "), err)
		}
		return folder, nil
	})
}

// output runs a command and returns what it prints; an error has what it says.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := artifact.RunGroup(cmd)
	if text := strings.TrimSpace(stderr.String()); err != nil && text != "" {
		err = errors.New(text)
	}
	return stdout.String(), err
}

// pandas, pyarrow and DuckDB read the file as it is.
func TestPythonReads(t *testing.T) {
	_, preds, _ := testRun()
	preds[0].Choices[0].Unconditional = ptr(-0.5)
	preds[1].Predictions = nil
	path := filepath.Join(t.TempDir(), "p.parquet")
	if err := os.WriteFile(path, encode(t, preds), 0o644); err != nil {
		t.Fatal(err)
	}
	const script = `
import json, sys, pandas, pyarrow.parquet, duckdb
path = sys.argv[1]
pa = pyarrow.parquet.read_table(path).to_pylist()
pd = pandas.read_parquet(path)
db = duckdb.sql(f"select task, formulation, doc_id, choices[1].logprob, len(choices), prediction_none = gold from '{path}'").fetchall()
rows = [[r["task"], r["formulation"], r["doc_id"], r["choices"][0]["logprob"], len(r["choices"]), None if r["prediction_none"] is None else r["prediction_none"] == r["gold"]] for r in pa]
assert [list(r) for r in db] == rows, (db, rows)
assert list(pd["choices"][0])[0]["token_logprobs"][0] == rows[0][3]
assert pa[0]["choices"][0]["unconditional"] == -0.5 and pa[0]["choices"][1]["unconditional"] is None and pa[1]["prediction_none"] is None
json.dump(rows, sys.stdout)`
	out, err := output(pythonWithReaders(t, script, path))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	for i, p := range preds {
		var right any
		if best, ok := p.Predictions[olmes.None]; ok {
			right = best == p.Gold
		}
		want := []any{p.Task, string(p.Formulation), float64(p.DocID), *p.Choices[0].LogProb, float64(4), right}
		if fmt.Sprint(rows[i]) != fmt.Sprint(want) || rows[i][3] != want[3] {
			t.Errorf("row %d: %v, want %v", i, rows[i], want)
		}
	}
}
