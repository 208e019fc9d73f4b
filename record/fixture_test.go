package record

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"olmes"
	"olmes/score"
)

// makeFixtures writes the fixtures of a new format. Those of old formats are
// never written again: they show that old records stay readable.
var makeFixtures = flag.String("make-fixtures", "", "folder to write records of the current format into")

// fixtureRun is the test run with every kind of value in it.
func fixtureRun() (Identity, []olmes.Prediction, []ChunkScores) {
	id, preds, chunks := testRun()
	id.Tasks = append(id.Tasks, Task{Name: "sums", Split: "test", StandardSplit: "test", Instances: 1, StandardInstances: 1, Complete: true,
		Formulations: map[olmes.Formulation]Requests{"generate": {Requests: 1}}})
	preds[0].Choices[2].Unconditional, preds[0].Choices[2].UnconditionalLogProbs = ptr(-0.625), []float64{-0.625}
	preds[1].Choices[0].Dropped = 3
	preds[2].Choices[1] = olmes.Choice{Tokens: 1, Chars: 2, Bytes: 2, RequestSHA256: preds[2].Choices[1].RequestSHA256, Error: "the engine gave NaN"}
	score.Predict(&preds[2], id.Normalizations)
	preds = append(preds, olmes.Prediction{Task: "sums", Split: "test", Kind: olmes.KindGenerate, Gold: -1, Chunk: chunks[0].Chunk,
		Prompt:  &olmes.Prompt{Messages: []olmes.Message{{Role: "user", Content: "2+2?"}}},
		Outputs: []olmes.Output{{Text: "4", Tokens: []olmes.TokenScore{{ID: 7, LogProb: -0.25}}}}, Predictions: map[olmes.Normalization]int{}})
	return id, preds, chunks
}

func TestMakeFixtures(t *testing.T) {
	if *makeFixtures == "" {
		t.Skip("only with -make-fixtures")
	}
	id, preds, chunks := fixtureRun()
	seal(t, filepath.Join(*makeFixtures, "sealed"), id, preds, chunks)
	dir := filepath.Join(*makeFixtures, "incomplete")
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	chunks[0].LogProbs[0] = math.NaN()
	for _, c := range chunks[:3] {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	data := read(t, dir, journalName)
	write(t, dir, journalName, data[:len(data)-30]) // torn
}

// Records of format 1 stay readable as they are.
func TestFormat1(t *testing.T) {
	_, preds, chunks := fixtureRun()
	r := must[*Record](t)(Open("testdata/format1/sealed"))
	if r.Format != 1 || !r.Complete() || short(r.ID) != "e218198be4cd" {
		t.Errorf("format %d, complete %v, id %s", r.Format, r.Complete(), short(r.ID))
	}
	var got []olmes.Prediction
	for p, err := range r.Predictions() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p)
	}
	if d := cmp.Diff(preds, got); d != "" {
		t.Errorf("predictions (-want +got):\n%s", d)
	}
	rep := must[*Report](t)(r.Verify())
	codes := []string{}
	for _, d := range rep.Deviations {
		codes = append(codes, d.Code)
	}
	if want := []string{"formulation", "formulation", "failed", "truncated"}; rep.Damaged() || !slices.Equal(codes, want) {
		t.Errorf("damage %v, deviations %v, want %v", rep.Damage, codes, want)
	}

	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS("testdata/format1/incomplete")); err != nil {
		t.Fatal(err)
	}
	r = must[*Record](t)(Open(dir))
	if r.Complete() || r.Finished() != 2 {
		t.Errorf("complete %v, finished %d", r.Complete(), r.Finished())
	}
	w, done, err := Resume(dir, r.Identity)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if len(done) != 2 || !math.IsNaN(done[chunks[0].Chunk].LogProbs[0]) || cmp.Diff(chunks[1], done[chunks[1].Chunk]) != "" {
		t.Errorf("chunks %v", done)
	}
}
