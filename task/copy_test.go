package task

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"olmes"
	"olmes/prompt"
)

// copyWheel writes a wheel with those files of the oracle that keep names, each
// as edit gives it back.
func copyWheel(t *testing.T, keep func(name string) bool, edit func(name string, data []byte) []byte) *WheelSource {
	t.Helper()
	original, err := zip.OpenReader(oracle(t))
	if err != nil {
		t.Fatal(err)
	}
	defer original.Close()
	path := filepath.Join(t.TempDir(), "copy.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	for _, entry := range original.File {
		if !keep(entry.Name) {
			continue
		}
		r, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		out, err := w.CreateHeader(&zip.FileHeader{Name: entry.Name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(entry.Name, ".gz") {
			data = compress(t, edit(entry.Name, expand(t, data)))
		} else {
			data = edit(entry.Name, data)
		}
		if _, err := out.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	src := NewUncheckedWheelSource(path)
	t.Cleanup(func() { src.Close() })
	return src
}

func expand(t *testing.T, data []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return data
}

func compress(t *testing.T, data []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// editLines passes each object of a file of JSON lines through edit.
func editLines(t *testing.T, data []byte, edit func(object map[string]any)) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(data) {
		var object map[string]any
		if err := json.Unmarshal(line, &object); err != nil {
			t.Fatal(err)
		}
		edit(object)
		line, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// TestBlankedRequests loads every split from a copy of the wheel in which all
// request fields are blank. Only the few-shot examples, which stand nowhere
// else, come from the original.
func TestBlankedRequests(t *testing.T) {
	original := wheel(t)
	blank := copyWheel(t, func(name string) bool {
		return strings.HasPrefix(name, rowsDir) && strings.HasSuffix(name, ".arrow") ||
			strings.HasPrefix(name, requestsDir) && strings.HasSuffix(name, "rc_5shot/requests.jsonl.gz") &&
				(strings.Contains(name, "/test_") || strings.Contains(name, "boolq/val_"))
	}, func(name string, data []byte) []byte {
		if !strings.HasSuffix(name, ".gz") {
			return data
		}
		return editLines(t, data, func(object map[string]any) {
			object["request"] = map[string]any{"context": "", "continuation": ""}
		})
	})
	for _, task := range Tasks() {
		for _, split := range task.Splits {
			want, err := task.Load(t.Context(), original, split.Name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := task.Load(t.Context(), Mix(blank, original), split.Name)
			if err != nil {
				t.Errorf("%s %s: %v", task.Name, split.Name, err)
				continue
			}
			if !reflect.DeepEqual(got.Instances, want.Instances) || !reflect.DeepEqual(got.Shots, want.Shots) {
				t.Errorf("%s %s: other instances than with requests", task.Name, split.Name)
			}
		}
	}
	// Without the original there are no examples, and that is an error.
	piqa, _ := Lookup("piqa")
	if _, err := piqa.Load(t.Context(), blank, ""); err == nil {
		t.Error("piqa loads without any source of few-shot examples")
	}
}

// TestEditedChoice edits one choice of one instance in a copy of the wheel and
// expects its requests, and no others, to change.
func TestEditedChoice(t *testing.T) {
	const position = 1234
	original := wheel(t)
	for _, c := range []struct {
		task, file, split string
		edit              func(t *testing.T, in olmes.Instance, data []byte) []byte
	}{
		{"arc_easy", requestsDir + "arc_easy/test_rc_5shot/requests.jsonl.gz", "test", func(t *testing.T, in olmes.Instance, data []byte) []byte {
			return editLines(t, data, func(object map[string]any) {
				if object["doc_id"] == float64(position) {
					object["doc"].(map[string]any)["choices"].([]any)[1] = in.Choices[1] + "x"
				}
			})
		}},
		{"piqa", rowsDir + "piqa/plain_text/validation/data-00000-of-00001.arrow", "validation", func(t *testing.T, in olmes.Instance, data []byte) []byte {
			old := []byte(in.Choices[1])
			if bytes.Count(data, old) != 1 {
				t.Fatalf("choice %q is not there once", old)
			}
			edited := append(bytes.Clone(old[:len(old)-1]), 'x')
			return bytes.Replace(data, old, edited, 1)
		}},
	} {
		t.Run(c.task, func(t *testing.T) {
			task, _ := Lookup(c.task)
			want, err := task.Load(t.Context(), original, c.split)
			if err != nil {
				t.Fatal(err)
			}
			edited := copyWheel(t, func(name string) bool { return name == c.file }, func(_ string, data []byte) []byte {
				return c.edit(t, want.Instances[position], data)
			})
			got, err := task.Load(t.Context(), Mix(edited, original), c.split)
			var e *DigestError
			if !errors.As(err, &e) || e.Row != position || e.Task != c.task || e.Split != c.split || e.File != c.file {
				t.Errorf("error %v does not name the edited row", err)
			}
			for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
				before, after := digests(t, task, want, f), digests(t, task, got, f)
				for key, digest := range before {
					changed := digest != after[key]
					// In CF an edit shows in the edited choice alone.
					if should := key.doc == position && (f == olmes.MCF || key.choice == 1); changed != should {
						t.Errorf("%s: request of doc %d, choice %d changed: %v, want %v", f, key.doc, key.choice, changed, should)
					}
				}
			}
		})
	}
}

// TestContradictoryLines edits an instance on one of its lines only, and leaves
// a line out.
func TestContradictoryLines(t *testing.T) {
	const file = requestsDir + "openbookqa/test_rc_5shot/requests.jsonl.gz"
	task, _ := Lookup("openbookqa")
	for want, edit := range map[string]func(object map[string]any){
		"its document is not that of the line before": func(object map[string]any) {
			if object["doc_id"] == 7.0 && object["idx"] == 2.0 {
				object["doc"].(map[string]any)["gold"] = 0
			}
		},
		"doc_id 500 after 6": func(object map[string]any) {
			if object["doc_id"] == 7.0 {
				object["doc_id"] = 500
			}
		},
		"does not have the template's form": func(object map[string]any) {
			if object["doc_id"] == 7.0 {
				object["doc"].(map[string]any)["query"] = "Goal: x\nAnswer:"
			}
		},
	} {
		edited := copyWheel(t, func(name string) bool { return name == file }, func(_ string, data []byte) []byte { return editLines(t, data, edit) })
		if _, err := task.Load(t.Context(), Mix(edited, wheel(t)), ""); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

type place struct{ doc, choice int }

func digests(t *testing.T, task Task, d Data, f olmes.Formulation) map[place]string {
	m := make(map[place]string)
	for _, in := range d.Instances {
		requests, err := prompt.Requests(task.Template, d.Shots, in, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			m[place{r.DocID, r.Choice}] = prompt.Digest(r)
		}
	}
	return m
}

// TestDamagedWheel checks the errors for a wheel with a changed byte, a cut one
// and none at all.
func TestDamagedWheel(t *testing.T) {
	data, err := os.ReadFile(oracle(t))
	if err != nil {
		t.Fatal(err)
	}
	task, _ := Lookup("csqa")
	dir := t.TempDir()
	changed, cut := filepath.Join(dir, "changed.whl"), filepath.Join(dir, "cut.whl")
	if err := os.WriteFile(cut, data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	data[len(data)/3] ^= 1
	if err := os.WriteFile(changed, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		changed:                        "SHA-256",
		cut:                            "SHA-256",
		filepath.Join(dir, "none.whl"): "no such file",
	} {
		if _, err := task.Load(t.Context(), NewWheelSource(path), ""); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
	if _, err := task.Load(t.Context(), NewUncheckedWheelSource(cut), ""); err == nil {
		t.Error("a cut wheel loads")
	}
	boolq, _ := Lookup("boolq")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := boolq.Load(ctx, wheel(t), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled load gives %v", err)
	}
	if _, err := boolq.Load(t.Context(), wheel(t), "test"); err == nil || !strings.Contains(err.Error(), "validation") {
		t.Errorf("split without public answers: error %v", err)
	}
}
