package foreign

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"olmes"
	"olmes/folder/foldertest"
	"olmes/foreign/ai2"
	"olmes/foreign/lmeval"
	"olmes/foreign/results"
	"olmes/record"
)

// exports write records into folders.
var exports = map[string]func(string, *record.Record, results.Texts) (int, error){"lm-eval": lmeval.WriteRecord, "olmes": ai2.WriteRecord}

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
		if left := append(foldertest.Names(t, root), foldertest.Names(t, there)...); !slices.Equal(left, []string{"there"}) {
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
		mount, grow := foldertest.SmallDisk(t, "32k")
		dir := filepath.Join(mount, "out")
		for _, dir := range []string{dir, mount} {
			if _, err := export(dir, rec, nil); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: error %v", name, err)
			}
			if left := foldertest.Names(t, mount); len(left) > 0 {
				t.Errorf("%s leaves %q", name, left)
			}
		}
		grow("16m")
		if _, err := export(dir, rec, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		imports(t, dir)
	}
}
