package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes/folder/foldertest"
)

// An import that finds no room says so in its own words, leaves nothing, and can be
// done again.
func TestImportFullDisk(t *testing.T) {
	mount, _ := foldertest.SmallDisk(t, "64k")
	table := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(table, []byte("task,formulation,split,doc_id,gold,choice,logprob\narc_easy,cf,test,0,0,0,-5\narc_easy,cf,test,0,0,1,-1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir, fill := filepath.Join(mount, "rec"), filepath.Join(mount, "fill")
	failed := 0
	for room := 0; room <= 32<<10; room += 4 << 10 {
		if err := os.WriteFile(fill, make([]byte, 64<<10-room), 0o644); err != nil && room > 0 {
			t.Fatal(err)
		}
		code, _, stderr := command("import", table, "-o", dir)
		if code == exitDone {
			break
		}
		failed++
		if code != exitFailed || !strings.Contains(stderr, "the disk is full: make room for "+dir+" and import again (no space left on device)") || strings.Contains(stderr, "resume") {
			t.Errorf("with %d bytes left: exit %d, %s", room, code, stderr)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("with %d bytes left something stays", room)
		}
		os.Remove(fill)
	}
	os.Remove(fill)
	code, _, stderr := command("import", table, "-o", dir)
	if code != exitDone || failed < 2 {
		t.Errorf("%d imports failed; with room: exit %d, %s", failed, code, stderr)
	}
}
