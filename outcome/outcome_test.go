package outcome_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"olmes"
	"olmes/outcome"
	"olmes/outcome/outcometest"
	"olmes/record"
)

func spec(model string) outcometest.Spec {
	forms := map[olmes.Formulation]outcometest.Form{
		olmes.CF: {Accuracy: 0.6}, olmes.MCF: {Answer: func(doc, gold int) int { return doc % 4 }},
	}
	return outcometest.Spec{Model: model, Seed: 3, Tasks: []outcometest.Task{
		{Name: "arc_easy", N: 50, Normalization: olmes.Character, Forms: forms},
		{Name: "mmlu_a", Group: "mmlu", GroupSize: 2, DocIDs: []int{3, 4, 9}, Normalization: olmes.Character, Forms: forms},
	}}
}

func load(t *testing.T, r *record.Record, d outcome.Depth) *outcome.Run {
	t.Helper()
	run, err := outcome.Load(t.Context(), outcome.Source{Label: "a", Record: r}, d)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// What was written is what is read, at either depth, and accuracies are those
// of the record's own metrics.
func TestLoad(t *testing.T) {
	r := outcometest.Write(t, filepath.Join(t.TempDir(), "a"), spec("a"))
	answers, values := load(t, r, outcome.Answers), load(t, r, outcome.Values)
	if load(t, r, outcome.Metrics).Instances() || !answers.Instances() {
		t.Error("instances are there at the wrong depth")
	}
	for _, m := range answers.Metrics.Tasks {
		for f, want := range m.Formulations {
			a, v := answers.Task(m.Task, "").Forms[f], values.Task(m.Task, "").Forms[f]
			if !slices.Equal(a.DocID, v.DocID) || !slices.Equal(a.Gold, v.Gold) || !slices.EqualFunc(a.Best[:], v.Best[:], slices.Equal) {
				t.Errorf("%s %s: the depths differ", m.Task, f)
			}
			if a.Normalization != want.Normalization {
				t.Errorf("%s %s: normalization %s, want %s", m.Task, f, a.Normalization, want.Normalization)
			}
			for n, e := range want.Accuracy {
				if got, known := a.Accuracy(n); got != e.Accuracy || known != e.N {
					t.Errorf("%s %s %s: accuracy %v of %d, want %v of %d", m.Task, f, n, got, known, e.Accuracy, e.N)
				}
			}
			for i := range v.DocID {
				best, at := -1.0, -1
				for c := range int(v.Start[i+1] - v.Start[i]) {
					x, ok := v.Value(i, c, olmes.None)
					if !ok {
						t.Fatalf("%s %s %d: no value", m.Task, f, v.DocID[i])
					}
					if at < 0 || x > best {
						best, at = x, c
					}
				}
				if at != int(v.Best[0][i]) {
					t.Errorf("%s %s %d: best %d, recorded %d", m.Task, f, v.DocID[i], at, v.Best[0][i])
				}
			}
			if _, ok := v.Value(0, 0, olmes.PMI); ok != (f == olmes.CF) {
				t.Errorf("%s %s: pmi is there: %v", m.Task, f, ok)
			}
		}
	}
	tokens := load(t, r, outcome.Tokens)
	for _, task := range tokens.Tasks {
		for _, f := range task.Forms {
			if len(f.Chunk) != f.Len() || f.Chunk[0] == "" || len(f.Choice.TokenID) != len(f.Choice.LogProb) {
				t.Fatalf("%s: %d chunks of %d instances, tokens of %d choices of %d", task.Name, len(f.Chunk), f.Len(), len(f.Choice.TokenID), len(f.Choice.LogProb))
			}
			for k, logProb := range f.Choice.LogProb {
				if got := f.Choice.TokenLogProb[k]; len(got) != 1 || got[0] != logProb || len(f.Choice.TokenID[k]) != 1 {
					t.Errorf("%s: choice %d: tokens %v %v, want one of %v", task.Name, k, f.Choice.TokenID[k], got, logProb)
				}
			}
		}
	}
	if f := values.Task("mmlu_a", "").Forms[olmes.CF]; f.Chunk != nil || f.Choice.TokenID != nil {
		t.Error("tokens are there at the wrong depth")
	}
	if f := values.Task("mmlu_a", "").Forms[olmes.CF]; !slices.Equal(f.DocID, []int32{3, 4, 9}) || f.Len() != 3 {
		t.Errorf("doc_ids %v", f.DocID)
	}
	if f, ok := answers.Better("arc_easy", ""); !ok || f != olmes.CF {
		t.Errorf("better: %s, %v", f, ok)
	}
}

func TestJoin(t *testing.T) {
	a, b := &outcome.Form{DocID: []int32{1, 2, 5, 7}}, &outcome.Form{DocID: []int32{2, 3, 7}}
	both, onlyA, onlyB := outcome.Join(a, b)
	if !slices.Equal(both, []outcome.Pair{{1, 0}, {3, 2}}) || onlyA != 2 || onlyB != 1 {
		t.Errorf("got %v, %d, %d", both, onlyA, onlyB)
	}
}

func TestSources(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"runs/b1", "runs/b2", "one"} {
		s := spec("model-" + filepath.Base(name))
		if strings.HasPrefix(name, "runs/b") {
			s = spec("b")
			s.Seed = uint64(name[len(name)-1])
			s.Change = func(id *record.Identity) { id.Model.SHA256 = strings.Repeat("0", 63) + name[len(name)-1:] }
		}
		outcometest.Write(t, name, s)
	}
	os.MkdirAll("runs/broken", 0o755)
	os.WriteFile("runs/broken/manifest.json", []byte("{"), 0o644)
	os.MkdirAll("runs/empty", 0o755)
	b1, err := record.Open("runs/b1")
	if err != nil {
		t.Fatal(err)
	}
	b2, _ := record.Open("runs/b2")
	id := func(r *record.Record) string { return r.ID[:record.ShortID] }
	for _, c := range []struct {
		names    string
		labels   string
		problems string
		err      string
	}{
		{"one", "model-one", "", ""},
		{"x=one one", "x", "", ""},
		{"b=runs", "b/1 b/2", "runs/broken", ""},
		{"one x=one", "x", "", ""},
		{"A=one B=one", "A B", "", ""},
		{"A=one A=one", "A", "", ""},
		{"one one A=one one B=runs/../one A=one", "A B", "", ""},
		{"x=runs/b1 new=runs/b?", "x new/1 new/2", "", ""},
		{"a/b=one", "", "", `the label "a/b" of "a/b=one" has a "/"; a label cannot have any of / \ * ? [`},
		{"a*=one", "", "", `the label "a*"`},
		{"a[=one", "", "", `the label "a["`},
		{`a\b=one`, "", "", `the label "a\\b"`},
		{"=one", "", "", `the label of "=one" is empty`},
		{"a=", "", "", `"a=" names no run after its label`},
		{"a=nothing", "", "", `"nothing" is neither`},
		{"a/b=nothing", "", "", `no such run: "a/b=nothing"; if "a/b" is meant as a label`},
		{"runs", fmt.Sprintf("b@%s b@%s", id(b1), id(b2)), "runs/broken", ""},
		{"new=runs/b? one", "new/1 new/2 model-one", "", ""},
		{id(b1), "b", "", ""},
		{"nothing", "", "", "nothing"},
		{"runs/z*", "", "", "nothing matches"},
		{"runs/empty", "", "", "no record found in runs/empty"},
		{"runs/broken/manifest.json", "", "", "is a file"},
	} {
		found, problems, err := outcome.Sources(strings.Fields(c.names))
		if got := strings.Join(outcome.Labels(found), " "); got != c.labels {
			t.Errorf("%s: labels %q, want %q", c.names, got, c.labels)
		}
		var paths []string
		for _, p := range problems {
			paths = append(paths, filepath.ToSlash(p.Path))
			if !errors.Is(p, record.ErrDamaged) {
				t.Errorf("%s: problem %v", c.names, p)
			}
		}
		if got := strings.Join(paths, " "); got != c.problems {
			t.Errorf("%s: problems %q, want %q", c.names, got, c.problems)
		}
		if c.err == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", c.names, err, c.err)
		}
	}
}
