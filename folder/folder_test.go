package folder

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree lists what is below a folder.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// put writes some files and then fails, where fail is not nil.
func put(fail error, names ...string) func(string) error {
	return func(temp string) error {
		for _, name := range names {
			path := filepath.Join(temp, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte("new"), 0o644); err != nil {
				return err
			}
		}
		return fail
	}
}

func TestWrite(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"new", "a/b/c", "there"} {
		if dir == "there" {
			if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := Write(filepath.Join(root, dir), put(nil, "x", "data/y")); err != nil {
			t.Fatal(dir, err)
		}
		if got := tree(t, filepath.Join(root, dir)); !slices.Equal(got, []string{"data", "data/y", "x"}) {
			t.Errorf("%s holds %q", dir, got)
		}
	}
	// What else is in a folder stays; a file of the same name is another then.
	there := filepath.Join(root, "there")
	if err := os.WriteFile(filepath.Join(there, "x"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(there, put(nil, "x", "z")); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, there); !slices.Equal(got, []string{"data", "data/y", "x", "z"}) {
		t.Errorf("it holds %q", got)
	}
	if data, _ := os.ReadFile(filepath.Join(there, "x")); string(data) != "new" {
		t.Errorf("x holds %q", data)
	}
	info, err := os.Stat(filepath.Join(root, "new"))
	if err != nil || info.Mode().Perm()&0o700 != 0o700 || info.Mode().Perm()&0o055 == 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A failure leaves nothing, and speaks of the folder that was asked for.
func TestWriteFails(t *testing.T) {
	root := t.TempDir()
	full := errors.New("the disk is full")
	there := filepath.Join(root, "there")
	if err := os.MkdirAll(there, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(there, "x"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"new", "a/b/c", "there"} {
		if err := Write(filepath.Join(root, dir), put(full, "x", "data/y")); !errors.Is(err, full) {
			t.Errorf("%s: error %v", dir, err)
		}
		err := Write(filepath.Join(root, dir), func(temp string) error {
			return os.WriteFile(filepath.Join(temp, "no", "such"), nil, 0o644)
		})
		if !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), tempPrefix) || !strings.Contains(err.Error(), filepath.Join(root, dir, "no", "such")) {
			t.Errorf("%s: error %v", dir, err)
		}
	}
	// A file cannot take the place of a folder that holds something.
	if err := os.MkdirAll(filepath.Join(there, "z", "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(there, put(nil, "w", "z")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := Write(filepath.Join(there, "x"), put(nil, "y")); err == nil {
		t.Error("a file is a folder")
	}
	if err := Write(filepath.Join(there, "x", "y"), put(nil, "y")); err == nil {
		t.Error("a file has a folder")
	}
	if got := tree(t, root); !slices.Equal(got, []string{"there", "there/x", "there/z", "there/z/in"}) {
		t.Errorf("left behind: %q", got)
	}
	if data, _ := os.ReadFile(filepath.Join(there, "x")); string(data) != "old" {
		t.Errorf("x holds %q", data)
	}
}

func TestEmpty(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, tempPrefix+"1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if ok, err := Empty(dir); !ok || err != nil {
		t.Error(ok, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if ok, err := Empty(dir); ok || err != nil {
		t.Error(ok, err)
	}
	if _, err := Empty(filepath.Join(dir, "x")); err == nil {
		t.Error("a file is empty")
	}
	if _, err := Empty(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
