// Package foldertest helps tests of what is left in folders: after a failure, and
// on a full disk.
package foldertest

import (
	"os"
	"os/exec"
	"testing"
)

// SmallDisk mounts a file system of a size ("32k") until the test ends, and
// returns where, and how to make it larger. Where none can be mounted the test is
// skipped.
func SmallDisk(t *testing.T, size string) (dir string, grow func(size string)) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir, func(size string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "mount", "-o", "remount,size="+size, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// Names lists a folder, hidden names too.
func Names(t *testing.T, dir string) []string {
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
