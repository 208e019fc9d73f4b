package record

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEditedManifest edits the manifest of a good record: what no longer holds
// together is damage, for every reader.
func TestEditedManifest(t *testing.T) {
	for _, c := range []struct {
		name    string
		edit    func(m map[string]any)
		open    bool // Open finds the damage
		checkID bool // CheckID does
		verify  string
	}{
		{name: "no id", edit: func(m map[string]any) { delete(m, "id") }, open: true},
		{name: "short id", edit: func(m map[string]any) { m["id"] = "abc" }, open: true},
		{name: "identity edited", edit: func(m map[string]any) { m["identity"].(map[string]any)["bos"] = map[string]any{"policy": "never"} }, checkID: true, verify: "its identity's"},
		{name: "no provenance", edit: func(m map[string]any) { delete(m, "provenance") }, verify: "evidence"},
		{name: "unknown evidence", edit: func(m map[string]any) { m["provenance"].(map[string]any)["evidence"] = "hearsay" }, verify: "evidence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, preds, chunks := testRun()
			dir := filepath.Join(t.TempDir(), "run")
			seal(t, dir, id, preds, chunks)
			var m map[string]any
			if err := json.Unmarshal(read(t, dir, manifestName), &m); err != nil {
				t.Fatal(err)
			}
			c.edit(m)
			data := must[[]byte](t)(json.Marshal(m))
			if err := os.WriteFile(filepath.Join(dir, manifestName), data, 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := Open(dir)
			if c.open {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("Open says %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := r.CheckID(); errors.Is(err, ErrDamaged) != c.checkID {
				t.Errorf("CheckID says %v", err)
			}
			rep, err := r.Verify()
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, d := range rep.Damage {
				all = append(all, d.String())
			}
			if rep.Compliant() || !strings.Contains(strings.Join(all, "\n"), c.verify) {
				t.Errorf("Verify finds %q, want %q", all, c.verify)
			}
		})
	}
}
