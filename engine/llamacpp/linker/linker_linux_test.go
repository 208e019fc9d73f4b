package linker

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFinds(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LD_LIBRARY_PATH", "")
	if Finds("libno-such-thing.so.9", dir) {
		t.Error("found what is not there")
	}
	if !Finds("libc.so.6") {
		t.Error("the C library is not found")
	}
	file := filepath.Join(dir, "libx.so.9")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if !Finds("libx.so.9", dir) {
		t.Error("the folder given is not looked at")
	}
	t.Setenv("LD_LIBRARY_PATH", "/no/folder:"+dir)
	if !Finds("libx.so.9") {
		t.Error("LD_LIBRARY_PATH is not looked at")
	}
	cache := "glibc-ld.so.cache1.1\x00libx.so.9\x00" + file + "\x00libgone.so\x00" + dir + "/libgone.so\x00"
	for name, want := range map[string]bool{"libx.so.9": true, "x.so.9": false, "libgone.so": false, "libother.so": false} {
		if got := inCache(cache, name); got != want {
			t.Errorf("%s in the cache: %v", name, got)
		}
	}
	if inCache("", "libx.so.9") || inCache(readFile(filepath.Join(dir, "absent")), "libx.so.9") {
		t.Error("found without a cache")
	}
	if got := readFile("/etc/passwd"); got == "" {
		t.Error("a file is not read")
	}
}
