package foreign

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"olmes"
	"olmes/foreign/ai2"
	"olmes/foreign/lmeval"
	"olmes/foreign/results"
	"olmes/record"
)

// exports write records into folders.
var exports = map[string]func(string, *record.Record, results.Texts) (int, error){"lm-eval": lmeval.WriteRecord, "olmes": ai2.WriteRecord}

// names lists a folder, hidden names too.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// An export that fails on the way leaves nothing, and can be repeated.
func TestExportFails(t *testing.T) {
	rec := scored(t)
	stop := errors.New("no such text")
	for name, export := range exports {
		root := t.TempDir()
		there := filepath.Join(root, "there")
		if err := os.Mkdir(there, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{filepath.Join(root, "a", "b"), there} {
			n := 0
			_, err := export(dir, rec, func(p *olmes.Prediction) ([]olmes.Request, []olmes.Request, error) {
				if n++; n > 25 { // in the second file
					return nil, nil, stop
				}
				return make([]olmes.Request, len(p.Choices)), make([]olmes.Request, len(p.Choices)), nil
			})
			if !errors.Is(err, stop) || n < 25 {
				t.Errorf("%s: %v after %d", name, err, n)
			}
		}
		if left := append(names(t, root), names(t, there)...); !slices.Equal(left, []string{"there"}) {
			t.Errorf("%s leaves %q", name, left)
		}
		for _, dir := range []string{filepath.Join(root, "a", "b"), there} {
			if _, err := export(dir, rec, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			imports(t, dir)
		}
	}
}

// So does one on a full disk.
func TestExportFullDisk(t *testing.T) {
	rec := scored(t)
	for name, export := range exports {
		mount := t.TempDir()
		if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", mount).CombinedOutput(); err != nil {
			t.Skipf("a small file system cannot be mounted here: %v: %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("umount", mount).CombinedOutput(); err != nil {
				t.Errorf("umount: %v: %s", err, out)
			}
		})
		dir := filepath.Join(mount, "out")
		for _, dir := range []string{dir, mount} {
			if _, err := export(dir, rec, nil); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: error %v", name, err)
			}
			if left := names(t, mount); len(left) > 0 {
				t.Errorf("%s leaves %q", name, left)
			}
		}
		if out, err := exec.CommandContext(t.Context(), "mount", "-o", "remount,size=16m", mount).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if _, err := export(dir, rec, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		imports(t, dir)
	}
}
