package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"olmes"
	"olmes/folder/foldertest"
	"olmes/outcome/outcometest"
	"olmes/report"
)

// What writes a folder leaves nothing of it on a full disk, says so, and does it
// where there is room.
func TestFolderFullDisk(t *testing.T) {
	records := t.TempDir()
	forms := map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: 0.6}, olmes.MCF: {Accuracy: 0.2}}
	for _, model := range []string{"a", "b"} {
		outcometest.Write(t, filepath.Join(records, model), outcometest.Spec{Model: model, Seed: 2, Tasks: []outcometest.Task{
			{Name: "boolq", N: 60, Forms: forms, Normalization: olmes.None}, {Name: "openbookqa", N: 60, Forms: forms, Normalization: olmes.PMI}}})
	}
	commands := map[string][]string{
		"export lm-eval":    {"export", filepath.Join(records, "a"), "--to", "lm-eval", "-o"},
		"export olmes":      {"export", filepath.Join(records, "a"), "--to", "olmes", "-o"},
		"figures":           {"study", "formulation", filepath.Join(records, "a"), filepath.Join(records, "b"), "--resamples", "10", "--figures"},
		"tasks lm-eval":     {"tasks", "export", "--limit", "50", "--to", "lm-eval"},
		"tasks lighteval":   {"tasks", "export", "--limit", "50", "--to", "lighteval"},
		"export, a subtree": {"export", filepath.Join(records, "a"), "--to", "lm-eval", "-o"},
	}
	for name, args := range commands {
		t.Run(name, func(t *testing.T) {
			disk, grow := foldertest.SmallDisk(t, "32k")
			out := filepath.Join(disk, "out")
			if strings.Contains(name, "subtree") {
				out = filepath.Join(out, "of", "it")
			}
			after := args
			args = append(slices.Clone(args), out)
			if after[0] == "tasks" {
				t.Setenv("OLMES_CACHE", needed(t))
				args = append(args, "openbookqa")
			}
			fill := filepath.Join(disk, "fill")
			if after[0] == "study" {
				if err := os.WriteFile(fill, make([]byte, 24<<10), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			code, _, stderr := said(args...)
			if code != exitFailed || !strings.Contains(stderr, "no space left") || strings.Contains(stderr, ".tmp-") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			os.Remove(fill)
			if held := foldertest.Names(t, disk); len(held) > 0 {
				t.Errorf("left: %q", held)
			}
			grow("64m")
			if code, _, stderr := said(args...); code != 0 {
				t.Errorf("again: exit code %d: %s", code, stderr)
			}
			if held := foldertest.Names(t, out); len(held) < 2 || strings.HasPrefix(held[0], ".") {
				t.Errorf("written: %q", held)
			}
		})
	}
}

// Figures are written all or none, beside what else the folder holds.
func TestFiguresFail(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "figures")
	bad := []report.StudyFigure{{Task: "boolq", SVG: []byte("<svg/>")}, {Task: "no/such", SVG: []byte("<svg/>")}}
	if err := saveFigures(dir, bad, nil); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "no")) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("left: %q", foldertest.Names(t, dir))
	}
	if err := saveFigures(dir, bad[:1], nil); err != nil {
		t.Error(err)
	}
	if err := saveFigures(dir, []report.StudyFigure{{Task: "piqa", SVG: []byte("<svg/>")}}, nil); err != nil {
		t.Error(err)
	}
	if held := foldertest.Names(t, dir); !slices.Equal(held, []string{"boolq.svg", "piqa.svg"}) {
		t.Errorf("written: %q", held)
	}
}
