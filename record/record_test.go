package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"olmes"
	"olmes/score"
)

func ptr[T any](v T) *T { return &v }

// testRun is a small run with synthetic numbers: a task and two subjects of a
// group of two, three instances each, both formulations.
func testRun() (Identity, []olmes.Prediction, []ChunkScores) {
	id := Identity{
		Standard: "olmes-0.1", Product: "0.1.0",
		Formulations:   []olmes.Formulation{olmes.CF, olmes.MCF},
		Normalizations: olmes.Normalizations(),
		Model: Model{Name: "toy", SHA256: digest([]byte("model")), Architecture: "llama", Parameters: 1000,
			WeightTypes: map[string]int{"F32": 3}, Weights: "as-is", Context: 2048, Vocab: 300, FirstIDs: []int32{1, 2, 3}},
		BOS: BOS{Policy: "auto"}, Window: 2048, Truncation: "left", Tokenization: "joint",
		Plan:      json.RawMessage(`{"cells": 4096, "batch": 512}`),
		Precision: Precision{Published: "f32", Computed: "f32", Exact: true},
		Engine:    Engine{Name: "llamacpp", Version: "1", Variant: "cpu", LibrarySHA256: digest([]byte("library"))},
	}
	var preds []olmes.Prediction
	var chunks []ChunkScores
	for _, name := range []string{"piqa", "mmlu_a", "mmlu_b"} {
		t := Task{Name: name, Split: "test", StandardSplit: "test", Selection: "all", Instances: 3, StandardInstances: 3,
			Complete: true, Normalization: olmes.Character, DocIDsSHA256: DigestDocIDs([]int{0, 1, 2}),
			Formulations: map[olmes.Formulation]Requests{}}
		if name != "piqa" {
			t.Group, t.GroupSize = "mmlu", 2
		}
		for k, f := range id.Formulations {
			c := ChunkScores{Chunk: digest([]byte(name + string(f))), Computed: 10}
			byDoc := map[int][]string{}
			for doc := range 3 {
				p := olmes.Prediction{Task: name, Formulation: f, Split: "test", Kind: olmes.KindScore, DocID: doc,
					NativeID: fmt.Sprint("n", doc), Gold: doc % 2, Chunk: c.Chunk}
				for choice := range 4 {
					lp := -1 - math.Mod(math.Sqrt(float64(7*doc+3*choice+k+len(name))), 1)
					c.LogProbs = append(c.LogProbs, lp)
					d := digest([]byte(fmt.Sprint(name, doc, f) + "\x00" + fmt.Sprint(" ", choice)))
					byDoc[doc] = append(byDoc[doc], d)
					p.Choices = append(p.Choices, olmes.Choice{LogProb: &lp, Tokens: 1, Chars: 2, Bytes: 2, TokenLogProbs: []float64{lp},
						ContinuationIDs: []int32{int32(choice)}, ContextTokens: 5, RequestSHA256: d, IDsSHA256: digest([]byte(d))})
				}
				score.Predict(&p, id.Normalizations)
				preds = append(preds, p)
			}
			chunks = append(chunks, c)
			t.Formulations[f] = Requests{RequestsSHA256: DigestRequests(byDoc), Requests: 12}
		}
		id.Tasks = append(id.Tasks, t)
	}
	return id, preds, chunks
}

func testProvenance() Provenance {
	return Provenance{Created: time.Unix(1700000000, 0).UTC(), Command: []string{"olmes", "run"},
		Environments: []Environment{{OS: "linux/amd64", CPU: "toy", Cores: 2, Threads: 2}}}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// seal writes a whole record into dir.
func seal(t *testing.T, dir string, id Identity, preds []olmes.Prediction, chunks []ChunkScores) {
	t.Helper()
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	finish(t, w, id, preds, chunks)
}

// finish appends the chunks and seals.
func finish(t *testing.T, w *Writer, id Identity, preds []olmes.Prediction, chunks []ChunkScores) {
	t.Helper()
	for _, c := range chunks {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	m := must[score.Metrics](t)(score.Summarize(id.Facts(), score.Seq(preds)))
	if err := w.Seal(preds, m, Provenance{}); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		out = append(out, e.Name())
	}
	return out
}

var sealedNames = []string{"manifest.json", "metrics.json", "predictions.parquet"}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	return must[[]byte](t)(os.ReadFile(filepath.Join(dir, name)))
}

func TestLife(t *testing.T) {
	id, preds, chunks := testRun()
	dir := filepath.Join(t.TempDir(), "runs", "a")
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	for _, c := range chunks[:2] {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	r := must[*Record](t)(Open(dir))
	if r.Complete() || r.ID != id.ID() || r.Finished() != 2 {
		t.Errorf("incomplete record: complete %v, id %s, finished %d", r.Complete(), r.ID, r.Finished())
	}
	for _, err := range r.Predictions() {
		if !errors.Is(err, ErrIncomplete) {
			t.Errorf("predictions of an incomplete run: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w, done, err := Resume(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(done) != 2 || cmp.Diff(done[chunks[0].Chunk], chunks[0]) != "" {
		t.Errorf("resumed %v", done)
	}
	other := must[int](t)(w.Environment(Environment{OS: "linux/arm64"}))
	chunks[3].Env = other
	finish(t, w, id, preds, chunks[2:])
	if got := names(t, dir); !slices.Equal(got, sealedNames) {
		t.Errorf("files %v", got)
	}
	r = must[*Record](t)(Open(dir))
	var got []olmes.Prediction
	for p, err := range r.Predictions() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p)
	}
	for i := range preds {
		if preds[i].Chunk == chunks[3].Chunk {
			preds[i].Env = 1
		}
	}
	if d := cmp.Diff(preds, got); d != "" {
		t.Errorf("predictions (-want +got):\n%s", d)
	}
	if r.Provenance.Resumed != 1 || len(r.Provenance.Environments) != 2 || r.Provenance.Created.IsZero() || r.Provenance.Evidence != Scored {
		t.Errorf("provenance %+v", r.Provenance)
	}
	byChunk := must[map[string][]olmes.Prediction](t)(r.Scores([]string{chunks[0].Chunk}))
	if len(byChunk) != 1 || len(byChunk[chunks[0].Chunk]) != 3 {
		t.Errorf("chunk scores %v", byChunk)
	}

	// A broken and an unbroken run agree in identity and results.
	whole := filepath.Join(t.TempDir(), "b")
	chunks[3].Env = 0
	seal(t, whole, id, preds, chunks)
	q := must[*Record](t)(Open(whole))
	if d := cmp.Diff(r.Results, q.Results); d != "" || r.ID != q.ID {
		t.Errorf("resumed and unbroken runs differ:\n%s", d)
	}
}

func TestFolderErrors(t *testing.T) {
	id, preds, chunks := testRun()
	root := t.TempDir()
	dir := filepath.Join(root, "run")
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	if _, _, err := Resume(dir, id); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("resume of a run in progress: %v", err)
	}
	if _, err := Create(dir, id, Provenance{}); !errors.Is(err, ErrExists) || errors.Is(err, ErrSealed) {
		t.Errorf("create over the same run: %v", err)
	}
	other := id
	other.Window = 512
	_, err := Create(dir, other, Provenance{})
	if !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), "window: 2048, here 512") {
		t.Errorf("create over another run: %v", err)
	}
	if _, _, err := Resume(dir, other); !errors.Is(err, ErrOther) {
		t.Errorf("resume of another run: %v", err)
	}
	finish(t, w, id, preds, chunks)
	if _, err := Create(dir, id, Provenance{}); !errors.Is(err, ErrExists) || !errors.Is(err, ErrSealed) {
		t.Errorf("create over a complete run: %v", err)
	}
	if _, _, err := Resume(dir, id); !errors.Is(err, ErrSealed) {
		t.Errorf("resume of a complete run: %v", err)
	}
	if err := w.Append(chunks[0]); err == nil {
		t.Error("append after seal")
	}

	foreign := filepath.Join(root, "foreign")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(foreign, id, Provenance{}); !errors.Is(err, ErrNotRecord) {
		t.Errorf("create in a foreign folder: %v", err)
	}
	if got := names(t, foreign); !slices.Equal(got, []string{"thesis.tex"}) {
		t.Errorf("foreign folder now holds %v", got)
	}
	if _, err := Open(foreign); !errors.Is(err, ErrNotRecord) {
		t.Errorf("open a foreign folder: %v", err)
	}
	if _, err := Open(filepath.Join(root, "absent")); !errors.Is(err, ErrNotRecord) {
		t.Errorf("open nothing: %v", err)
	}
	newer := strings.Replace(string(read(t, dir, "manifest.json")), `"format": 1`, `"format": 2`, 1)
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(newer), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"open":   second(Open(dir)),
		"create": second(Create(dir, id, Provenance{})),
	} {
		if !errors.Is(err, ErrNewer) {
			t.Errorf("%s of a newer format: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestUnwritable(t *testing.T) {
	unprivileged(t)
	root := t.TempDir()
	if err := os.Chmod(root, 0o555); err != nil {
		t.Fatal(err)
	}
	id, _, _ := testRun()
	if _, err := Create(filepath.Join(root, "run"), id, Provenance{}); err == nil || !strings.Contains(err.Error(), "choose another folder") {
		t.Errorf("error %v", err)
	}
}

func TestAppend(t *testing.T) {
	id, _, chunks := testRun()
	w := must[*Writer](t)(Create(filepath.Join(t.TempDir(), "run"), id, testProvenance()))
	defer w.Close()
	c := chunks[0]
	c.LogProbs = []float64{math.NaN(), math.Inf(-1), math.Copysign(0, -1), 5e-324}
	if err := w.Append(c); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(c); err != nil {
		t.Errorf("the same chunk again: %v", err)
	}
	w.Close()
	w, done, err := Resume(w.dir, id)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, v := range done[c.Chunk].LogProbs {
		if math.Float64bits(v) != math.Float64bits(c.LogProbs[i]) {
			t.Errorf("value %d: %v, want %v", i, v, c.LogProbs[i])
		}
	}
	c.LogProbs = []float64{-1}
	if err := w.Append(c); err == nil {
		t.Error("a chunk with two results was accepted")
	}
	c.Chunk, c.Env = "x", 7
	if err := w.Append(c); err == nil {
		t.Error("an environment that is not there was accepted")
	}
}

func TestSealRefuses(t *testing.T) {
	id, preds, chunks := testRun()
	w := must[*Writer](t)(Create(filepath.Join(t.TempDir(), "run"), id, testProvenance()))
	defer w.Close()
	for _, c := range chunks {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	lost := slices.Clone(preds)
	lost[3].Chunk = "lost"
	stranger := slices.Clone(preds)
	stranger[0].Task = "other"
	for name, ps := range map[string][]olmes.Prediction{
		"missing": preds[1:], "twice": append(slices.Clone(preds), preds[0]), "chunk": lost, "task": stranger,
	} {
		if err := w.Seal(ps, score.Metrics{}, Provenance{}); err == nil {
			t.Errorf("%s: sealed", name)
		}
		if got := names(t, w.dir); !slices.Equal(got, []string{"journal.jsonl", "lock", "manifest.json"}) {
			t.Errorf("%s: files %v", name, got)
		}
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	a, preds, chunks := testRun()
	b := a
	b.Product = "0.1.1"
	seal(t, filepath.Join(root, "one"), a, preds, chunks)
	seal(t, filepath.Join(root, "two"), b, preds, chunks)
	one := filepath.Join(root, "one")
	for _, ref := range []string{one, "one", a.ID(), short(a.ID()), strings.ToUpper(a.ID()[:8])} {
		if got, err := Find(ref, root); err != nil || got != one {
			t.Errorf("Find(%q) = %q, %v", ref, got, err)
		}
	}
	for _, ref := range []string{"", "nothing", "ffffffffffff0", filepath.Join(root, "three")} {
		if _, err := Find(ref, root); !errors.Is(err, ErrNotFound) {
			t.Errorf("Find(%q): %v", ref, err)
		}
	}
	seal(t, filepath.Join(root, "copy"), a, preds, chunks)
	if _, err := Find(short(a.ID()), root); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "copy") {
		t.Errorf("ambiguous: %v", err)
	}
	same := must[[]*Record](t)(Reusable(root, a))
	if len(same) != 2 {
		t.Errorf("%d reusable records, want 2", len(same))
	}
	fewer := a
	fewer.Tasks = fewer.Tasks[:1]
	fewer.Formulations = nil
	if fewer.ReuseKey() != a.ReuseKey() || fewer.ID() == a.ID() || b.ReuseKey() == a.ReuseKey() {
		t.Error("the reuse key must be the same for other tasks, and another for another program")
	}
}
