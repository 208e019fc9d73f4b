package record

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"olmes"
	"olmes/score"
)

func verify(t *testing.T, dir string) *Report {
	t.Helper()
	r := must[*Record](t)(Open(dir))
	return must[*Report](t)(r.Verify())
}

func TestVerifyYes(t *testing.T) {
	id, preds, chunks := testRun()
	dir := filepath.Join(t.TempDir(), "run")
	seal(t, dir, id, preds, chunks)
	rep := verify(t, dir)
	if !rep.Compliant() || rep.Predictions != len(preds) {
		t.Errorf("report %+v", rep)
	}
}

func TestVerifyIncomplete(t *testing.T) {
	id, _, chunks := testRun()
	dir := filepath.Join(t.TempDir(), "run")
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	for _, c := range chunks {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if rep := verify(t, dir); rep.Complete || rep.Damaged() || rep.Compliant() {
		t.Errorf("report %+v", rep)
	}
	data := read(t, dir, journalName)
	data[len(data)/2] ^= 1
	if err := os.WriteFile(filepath.Join(dir, journalName), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, dir); !rep.Damaged() {
		t.Error("a damaged journal was not found")
	}
	if _, _, err := Resume(dir, id); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "line") {
		t.Errorf("resume from a damaged journal: %v", err)
	}
}

// Every changed byte of the results is found.
func TestVerifyFindsChangedBytes(t *testing.T) {
	id, preds, chunks := testRun()
	dir := filepath.Join(t.TempDir(), "run")
	seal(t, dir, id, preds, chunks)
	for _, name := range []string{predictionsName, metricsName} {
		whole := read(t, dir, name)
		for _, at := range []int{0, len(whole) / 3, len(whole) / 2, len(whole) - 1} {
			broken := slices.Clone(whole)
			broken[at] ^= 4
			write(t, dir, name, broken)
			if rep := verify(t, dir); !rep.Damaged() || rep.Damage[0].Where != name {
				t.Errorf("%s, byte %d: %v", name, at, rep.Damage)
			}
		}
		write(t, dir, name, whole[:len(whole)-1])
		if rep := verify(t, dir); !rep.Damaged() {
			t.Errorf("%s cut short: no damage found", name)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if rep := verify(t, dir); !rep.Damaged() {
			t.Errorf("%s removed: no damage found", name)
		}
		write(t, dir, name, whole)
	}
	if rep := verify(t, dir); rep.Damaged() {
		t.Errorf("restored: %v", rep.Damage)
	}
}

func write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// forge seals a record whose parts were changed behind the writer's back, with
// all digests right.
func forge(t *testing.T, id Identity, preds []olmes.Prediction, metrics score.Metrics) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	prov := testProvenance()
	prov.Evidence = Scored
	if err := w.publish(preds, metrics, prov); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return dir
}

func TestVerifyFindsForgery(t *testing.T) {
	id, preds, _ := testRun()
	metrics := must[score.Metrics](t)(score.Summarize(id.Facts(), score.Seq(preds)))
	if rep := verify(t, forge(t, id, preds, metrics)); rep.Damaged() {
		t.Fatalf("unchanged: %v", rep.Damage)
	}
	edit := func(change func(p *olmes.Prediction)) []olmes.Prediction {
		out := slices.Clone(preds)
		out[4].Choices = slices.Clone(out[4].Choices)
		out[4].Predictions = maps.Clone(out[4].Predictions)
		change(&out[4])
		return out
	}
	better := metrics
	better.Tasks = slices.Clone(metrics.Tasks)
	better.Tasks[0].Score = ptr(*metrics.Tasks[0].Score)
	better.Tasks[0].Score.Accuracy += 1e-12
	otherID := id
	otherID.Tasks = slices.Clone(id.Tasks)
	otherID.Tasks[1].DocIDsSHA256 = digest(nil)
	for name, dir := range map[string]string{
		"a metric's last digits": forge(t, id, preds, better),
		"a prediction":           forge(t, id, edit(func(p *olmes.Prediction) { p.Predictions[olmes.Character] ^= 1 }), metrics),
		"a prediction gone":      forge(t, id, edit(func(p *olmes.Prediction) { delete(p.Predictions, olmes.None) }), metrics),
		"a log-probability":      forge(t, id, edit(func(p *olmes.Prediction) { p.Choices[0].LogProb = ptr(-9.0) }), metrics),
		"an error beside it":     forge(t, id, edit(func(p *olmes.Prediction) { p.Choices[0].Error = "x" }), metrics),
		"an id":                  forge(t, id, edit(func(p *olmes.Prediction) { p.Choices[0].ContinuationIDs = []int32{1, 2} }), metrics),
		"a request":              forge(t, id, edit(func(p *olmes.Prediction) { p.Choices[0].RequestSHA256 = digest(nil) }), metrics),
		"gold":                   forge(t, id, edit(func(p *olmes.Prediction) { p.Gold = 3 - p.Gold }), metrics),
		"a doc_id":               forge(t, id, edit(func(p *olmes.Prediction) { p.DocID = 9 }), metrics),
		"a row doubled":          forge(t, id, append(slices.Clone(preds), preds[0]), metrics),
		"a row gone":             forge(t, id, preds[1:], metrics),
		"evaluated ids":          forge(t, otherID, preds, metrics),
	} {
		rep := verify(t, dir)
		if !rep.Damaged() || rep.Compliant() {
			t.Errorf("%s: no damage found", name)
		}
	}
}

func TestVerifyFindsChangedManifest(t *testing.T) {
	id, preds, chunks := testRun()
	dir := filepath.Join(t.TempDir(), "run")
	seal(t, dir, id, preds, chunks)
	whole := string(read(t, dir, manifestName))
	r := must[*Record](t)(Open(dir))
	for name, change := range map[string][2]string{
		"identity":         {`"name": "toy"`, `"name": "bigger"`},
		"id":               {`"id": "` + id.ID()[:4], `"id": "0000`},
		"overall digest":   {`"sha256": "` + r.Results.SHA256[:8], `"sha256": "00000000`},
		"a file's digest":  {`"sha256": "` + r.Results.Files[0].SHA256[:8], `"sha256": "00000000`},
		"rows":             {`"rows": 18`, `"rows": 19`},
		"a file elsewhere": {`"name": "metrics.json"`, `"name": "../metrics.json"`},
		"a chunk's name":   {`"` + chunks[0].Chunk[:8], `"00000000`},
	} {
		changed := strings.Replace(whole, change[0], change[1], 1)
		if changed == whole {
			t.Fatalf("%s: nothing to change", name)
		}
		write(t, dir, manifestName, []byte(changed))
		if rep := verify(t, dir); !rep.Damaged() {
			t.Errorf("%s: no damage found", name)
		}
	}
}

// The deviations: each kind is found, off-standard or a footnote.
func TestDeviations(t *testing.T) {
	id, preds, _ := testRun()
	if got := Deviations(id, nil); got != nil {
		t.Fatalf("a run by the standard deviates: %v", got)
	}
	task := func(change func(*Task)) func(*Identity) {
		return func(id *Identity) { change(&id.Tasks[0]) }
	}
	for _, c := range []struct {
		code, text string
		off        bool
		change     func(*Identity)
	}{
		{"variant", "spaces", true, func(id *Identity) { id.Variant = "spaces" }},
		{"quantized", "expanded to f16", true, func(id *Identity) { id.Model.Quantized, id.Model.Weights = true, "f16" }},
		{"quantized", "gptq 4-bit, computed", true, func(id *Identity) { id.Model.Quantized, id.Model.Quantization = true, "gptq 4-bit" }},
		{"adapter", "the adapter lora", true, func(id *Identity) { id.Model.Adapter = "lora" }},
		{"precision-unknown", "not known", true, func(id *Identity) { id.Precision.Published = "" }},
		{"precision", "bf16", true, func(id *Identity) { id.Precision.Computed = "bf16" }},
		{"precision", "f16, while", true, func(id *Identity) { id.Precision = Precision{Published: "bf16", Computed: "f16"} }},
		{"bos", "--bos always", true, func(id *Identity) { id.BOS = BOS{Policy: "always", Added: true} }},
		{"bos", "no BOS", true, func(id *Identity) { id.BOS = BOS{Policy: "never", Standard: true} }},
		{"bos-unknown", "", true, func(id *Identity) { id.BOS.Policy = "" }},
		{"window", "less than", true, func(id *Identity) { id.Window = 512 }},
		{"window-unknown", "", true, func(id *Identity) { id.Window = 0 }},
		{"truncation", "--truncation shared", true, func(id *Identity) { id.Truncation = SharedTruncation }},
		{"split", "validation instead of the standard's test", true, task(func(t *Task) { t.Split = "validation" })},
		{"split", "validation, limit 5 instead of the standard's test", true, task(func(t *Task) { t.Split, t.Selection = "validation", "limit 5" })},
		{"subset", "2 of the standard's 3", true, task(func(t *Task) { t.Instances, t.Complete = 2, false })},
		{"instances", "other instances", true, task(func(t *Task) { t.Complete = false })},
		{"task", "not a task", true, task(func(t *Task) { t.StandardSplit = "" })},
		{"formulation", "not evaluated as MCF", true, task(func(t *Task) { delete(t.Formulations, olmes.MCF) })},
		{"normalization", "character", true, func(id *Identity) { id.Normalizations = []olmes.Normalization{olmes.None} }},
		{"partial-group", "1 of its 2", false, func(id *Identity) { id.Tasks = id.Tasks[:2] }},
	} {
		changed, _, _ := testRun()
		c.change(&changed)
		got := Deviations(changed, nil)
		if len(got) == 0 || got[0].Code != c.code || got[0].OffStandard != c.off || !strings.Contains(got[0].Text, c.text) || strings.Contains(got[0].Text, "\n") {
			t.Errorf("%s: %+v", c.code, got)
		}
	}
	for _, fine := range []Precision{{"bf16", "f32", true}, {"f16", "f16", false}, {"BF16", "bf16", false}} {
		id.Precision = fine
		if got := Deviations(id, nil); got != nil {
			t.Errorf("%+v: %v", fine, got)
		}
	}
	cut := slices.Clone(preds)
	cut[0].Choices = slices.Clone(cut[0].Choices)
	cut[0].Choices[1].Dropped = 12
	m := must[score.Metrics](t)(score.Summarize(id.Facts(), score.Seq(cut)))
	if got := Deviations(id, &m); len(got) != 1 || got[0].Code != "truncated" || got[0].OffStandard {
		t.Errorf("truncated: %+v", got)
	}
	m = must[score.Metrics](t)(score.Summarize(id.Facts(), score.Seq(preds[1:])))
	if got := Deviations(id, &m); len(got) != 1 || got[0].Code != "failed" || !got[0].OffStandard {
		t.Errorf("missing: %+v", got)
	}
}

// What the format must hold beside the ten tasks' scores: a generated answer, a
// chat prompt, a rolling perplexity, an imported aggregate.
func TestFormatHoldsOtherKinds(t *testing.T) {
	id := Identity{Standard: "other", Product: "0.1.0", Model: Model{Name: "toy"}, Tasks: []Task{
		{Name: "sums", Split: "test", Instances: 1, Formulations: map[olmes.Formulation]Requests{"generate": {Requests: 1}}},
		{Name: "text", Split: "test", Instances: 1, Formulations: map[olmes.Formulation]Requests{"rolling": {Requests: 1}}},
	}}
	preds := []olmes.Prediction{
		{Task: "sums", Split: "test", Kind: olmes.KindGenerate, Gold: -1, Predictions: map[olmes.Normalization]int{},
			Prompt:  &olmes.Prompt{Messages: []olmes.Message{{Role: "system", Content: "Add."}, {Role: "user", Content: "2+2?"}}},
			Outputs: []olmes.Output{{Text: "4", Tokens: []olmes.TokenScore{{ID: 7, LogProb: -0.25}}}, {Error: "stopped"}}},
		{Task: "text", Split: "test", Kind: olmes.KindRolling, Gold: -1, Predictions: map[olmes.Normalization]int{},
			Prompt:  &olmes.Prompt{Text: "a text of its own"},
			Outputs: []olmes.Output{{Tokens: []olmes.TokenScore{{ID: 1, LogProb: -1.5}, {ID: 2, LogProb: -2.5}}}}},
	}
	dir := filepath.Join(t.TempDir(), "run")
	w := must[*Writer](t)(Create(dir, id, Provenance{}))
	finish(t, w, id, preds, nil)
	r := must[*Record](t)(Open(dir))
	var got []olmes.Prediction
	for p, err := range r.Predictions() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p)
	}
	want, _ := json.Marshal(preds)
	if have, _ := json.Marshal(got); string(have) != string(want) {
		t.Errorf("got  %s\nwant %s", have, want)
	}
	if rep := verify(t, dir); rep.Damaged() {
		t.Errorf("damage: %v", rep.Damage)
	}

	aggregate := score.Metrics{Tasks: []score.Task{{Task: "arc_easy", Split: "test",
		Formulations: map[olmes.Formulation]score.Formulation{olmes.CF: {Accuracy: map[olmes.Normalization]score.Estimate{olmes.Character: {Accuracy: 0.634}}}},
		Values:       map[string]score.Measure{"bits_per_byte": {Value: 0.91, SE: ptr(0.01)}}}}}
	dir = filepath.Join(t.TempDir(), "paper")
	w = must[*Writer](t)(Create(dir, Identity{Standard: "olmes-0.1", Model: Model{Name: "pythia-1b"}, Tasks: []Task{{Name: "arc_easy", Split: "test"}}},
		Provenance{Evidence: ImportedAggregates, Import: &Import{Tool: "a paper"}}))
	if err := w.Seal(nil, aggregate, Provenance{Import: &Import{Tool: "a paper"}}); err != nil {
		t.Fatal(err)
	}
	r = must[*Record](t)(Open(dir))
	if r.HasPredictions() || r.Provenance.Evidence != ImportedAggregates || r.Provenance.Import.Tool != "a paper" {
		t.Errorf("aggregate %+v", r)
	}
	m := must[score.Metrics](t)(r.Metrics())
	a, _ := json.Marshal(aggregate)
	if b, _ := json.Marshal(m); string(a) != string(b) {
		t.Errorf("metrics %s, want %s", b, a)
	}
	if strings.Contains(string(read(t, dir, metricsName)), `"n": 0`) {
		t.Error("what is absent was written as 0")
	}
	for range r.Predictions() {
		t.Error("an aggregate has a prediction")
	}
	rep := verify(t, dir)
	if rep.Damaged() || rep.Compliant() {
		t.Errorf("report %+v", rep)
	}
}
