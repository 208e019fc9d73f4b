package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"olmes"
	"olmes/outcome"
	"olmes/outcome/outcometest"
	"olmes/record"
	"olmes/score"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// ten describes a record of all ten tasks, with mmlu as three subjects: cf and mcf
// are the accuracies to draw.
func ten(model string, seed uint64, cf, mcf float64) outcometest.Spec {
	forms := map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: cf}, olmes.MCF: {Accuracy: mcf}}
	norms := map[string]olmes.Normalization{"arc_challenge": olmes.PMI, "csqa": olmes.PMI, "openbookqa": olmes.PMI, "boolq": olmes.None, "winogrande": olmes.None}
	s := outcometest.Spec{Model: model, Seed: seed}
	for _, name := range score.SuiteTasks() {
		t := outcometest.Task{Name: name, N: 40, Forms: forms, Normalization: norms[name]}
		if t.Normalization == "" {
			t.Normalization = olmes.Character
		}
		if name == "boolq" || name == "winogrande" || name == "piqa" {
			t.Choices = 2
		}
		if name != "mmlu" {
			s.Tasks = append(s.Tasks, t)
			continue
		}
		for _, subject := range []string{"anatomy", "virology", "world_religions"} {
			t.Name, t.Group, t.GroupSize, t.N = "mmlu_"+subject, "mmlu", 3, 12
			s.Tasks = append(s.Tasks, t)
		}
	}
	return s
}

// compliant makes an identity that nothing deviates of.
func compliant(id *record.Identity) { id.Standard = "olmes-v0.1" }

func with(s outcometest.Spec, change func(*outcometest.Spec)) outcometest.Spec {
	if s.Change == nil {
		s.Change = compliant
	}
	change(&s)
	return s
}

// sources writes records and opens them, each under the label that its folder has.
func sources(t testing.TB, specs map[string]outcometest.Spec) []outcome.Source {
	t.Helper()
	dir := t.TempDir()
	var out []outcome.Source
	for _, label := range slices.Sorted(mapsKeys(specs)) {
		s := specs[label]
		if s.Change == nil {
			s.Change = compliant
		}
		r := outcometest.Write(t, filepath.Join(dir, fmt.Sprint(len(out))), s)
		out = append(out, outcome.Source{Label: label, Record: r})
	}
	return out
}

func mapsKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func sheet(t testing.TB, o Options, list []outcome.Source) *Sheet {
	t.Helper()
	o.Product = "test"
	b := NewBuilder(o)
	for _, s := range list {
		if err := b.Add(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return b.Sheet()
}

// odd are names that mean something in one format or the other.
const odd = `a_b%c&d#e{f}g~h^i\j|k<l>m"n'o` + "`p$q*r[s]t é模\u202eü\x1b[31m"

func sample(t testing.TB) []outcome.Source {
	return sources(t, map[string]outcometest.Spec{
		"strong": with(ten("strong", 1, 0.6, 0.9), func(s *outcometest.Spec) { s.Noise = 1.6 }),
		"weak":   with(ten("weak", 2, 0.5, 0.25), func(s *outcometest.Spec) { s.Noise = 1.3 }),
		odd: with(ten("odd", 3, 0.7, 0.6), func(s *outcometest.Spec) {
			s.Change = func(id *record.Identity) {
				compliant(id)
				id.Model.Quantized, id.Model.Name, id.BOS.Added = true, odd, true
			}
		}),
		"limited": with(ten("limited", 4, 0.6, 0.5), func(s *outcometest.Spec) {
			s.Tasks[0].N, s.Tasks[0].Incomplete = 20, true
		}),
		"other-split": with(ten("split", 5, 0.6, 0.5), func(s *outcometest.Spec) {
			s.Tasks[2].Split = "validation"
			s.Change = func(id *record.Identity) { compliant(id); id.Tasks[2].StandardSplit = "test" }
		}),
		"part": with(ten("part", 6, 0.6, 0.5), func(s *outcometest.Spec) {
			s.Tasks = s.Tasks[1:4]
			s.Tasks[1].Forms = map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: 0.4}}
		}),
		"old": with(ten("old", 7, 0.3, 0.2), func(s *outcometest.Spec) {
			s.Change = func(id *record.Identity) { id.Standard = "olmes-0.0" }
		}),
	})
}

// small is a sample whose every format is short.
func small(t testing.TB) []outcome.Source {
	few := func(s *outcometest.Spec) { s.Tasks = append(s.Tasks[2:4:4], s.Tasks[5:7]...) }
	return sources(t, map[string]outcometest.Spec{
		"a":   with(ten("a", 1, 0.6, 0.9), func(s *outcometest.Spec) { few(s); s.Noise = 1.6 }),
		odd:   with(ten("b", 3, 0.7, 0.6), func(s *outcometest.Spec) { few(s); s.Tasks[0].Incomplete = true }),
		"one": with(ten("c", 4, 0.7, 0.6), func(s *outcometest.Spec) { few(s); s.Tasks = s.Tasks[1:2]; delete(s.Tasks[0].Forms, olmes.MCF) }),
	})
}

// renders makes every format; those that hold every number are of the small sheet.
func renders(t testing.TB, s, small *Sheet) map[string][]byte {
	out := map[string][]byte{}
	for name, f := range map[string]func(io.Writer) error{
		"text":       func(w io.Writer) error { return s.Text(w, Show{Errors: true}) },
		"md":         func(w io.Writer) error { return s.Markdown(w, Show{Errors: true}) },
		"tex":        func(w io.Writer) error { return s.LaTeX(w, Show{Errors: true}, true) },
		"yaml":       small.ModelIndex,
		"card.md":    func(w io.Writer) error { return s.Card(w, Show{}) },
		"small.text": func(w io.Writer) error { return small.Text(w, Show{Details: true}) },
		"small.md":   func(w io.Writer) error { return small.Markdown(w, Show{Details: true}) },
		"small.tex":  func(w io.Writer) error { return small.LaTeX(w, Show{Details: true}, false) },
		"small.csv":  small.CSV,
		"small.json": small.JSON,
		"small.html": func(w io.Writer) error { return small.HTML(w, Show{Errors: true}) },
	} {
		var b bytes.Buffer
		if err := f(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = b.Bytes()
	}
	return out
}

// Every format of one sheet of odd records is as the golden, and the same twice.
// With -update the goldens are rewritten.
func TestGoldens(t *testing.T) {
	list := sample(t)
	s := sheet(t, Options{Instances: true}, list)
	s.Skipped = append(s.Skipped, Skipped{"broken", "damaged: its digest differs"})
	few := small(t)
	first := renders(t, s, sheet(t, Options{Instances: true}, few))
	slices.Reverse(list)
	slices.Reverse(few)
	again := sheet(t, Options{Instances: true}, list)
	again.Skipped = s.Skipped
	for name, other := range renders(t, again, sheet(t, Options{Instances: true}, few)) {
		if !bytes.Equal(first[name], other) {
			t.Errorf("%s: the order in which records were named changes it", name)
		}
	}
	for name, got := range first {
		path := filepath.Join("testdata", "report."+name)
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s (-update rewrites it): %s", path, d[:min(len(d), 3000)])
		}
	}
}

// The sheet says of each cell what its record's metrics say, orders by average, and
// puts models without all ten tasks last.
func TestSheet(t *testing.T) {
	list := sample(t)
	s := sheet(t, Options{}, list)
	var labels []string
	for _, r := range s.Rows {
		labels = append(labels, r.Label)
	}
	if got := strings.Join(labels[:2], " "); got != "strong "+plain(odd) || labels[len(labels)-1] != "part" {
		t.Errorf("order %q", labels)
	}
	for _, src := range list {
		m, err := src.Record.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		r := s.Rows[slices.IndexFunc(s.Rows, func(r *Row) bool { return r.Label == plain(src.Label) })]
		for _, task := range m.Tasks {
			if task.Group == "" && task.Score != nil && r.unit(task.Task).Score.Accuracy != task.Score.Accuracy {
				t.Errorf("%s %s: %v, want %v", src.Label, task.Task, r.unit(task.Task).Score.Accuracy, task.Score.Accuracy)
			}
		}
		for _, g := range m.Groups {
			if u := r.unit("mmlu"); u.Score.Accuracy != g.Score.Accuracy || len(u.Parts) != 3 || u.Instances != 36 || u.form(olmes.CF).Instances != 36 {
				t.Errorf("%s mmlu: %+v", src.Label, u)
			}
		}
		switch {
		case m.Suite == nil:
			if r.Average != nil || r.Scored != 2 {
				t.Errorf("%s: average %+v of %d", src.Label, r.Average, r.Scored)
			}
		case m.Suite.Average != nil:
			if !r.Average.OLMES || r.Average.Accuracy != m.Suite.Average.Accuracy || *r.Average.SE != *m.Suite.Average.SE || math.Abs(*r.Average.Chance-m.Suite.Chance) > 1e-15 {
				t.Errorf("%s: average %+v, want %+v", src.Label, r.Average, m.Suite)
			}
		default:
			if r.Average.OLMES || r.Average.Accuracy != m.Suite.SubsetMean.Accuracy {
				t.Errorf("%s: average %+v, want %+v", src.Label, r.Average, m.Suite)
			}
		}
	}
	by := func(label, task string) *Unit {
		return s.Rows[slices.Index(labels, label)].unit(task)
	}
	for _, c := range []struct{ label, task, apart string }{
		{"limited", "arc_challenge", "20 of 21 instances"}, {"other-split", "boolq", "split validation"}, {"old", "csqa", "standard olmes-0.0"}, {"strong", "csqa", ""}, {"part", "boolq", ""},
	} {
		if got := strings.Join(by(c.label, c.task).Apart, ", "); got != c.apart {
			t.Errorf("%s %s: apart for %q, want %q", c.label, c.task, got, c.apart)
		}
	}
	marks := func(code string) string {
		i := slices.IndexFunc(s.Footnotes, func(f Footnote) bool { return f.Code == code })
		if i < 0 {
			t.Fatalf("no footnote %s", code)
		}
		return s.Footnotes[i].Mark
	}
	oddRow := s.Rows[slices.Index(labels, plain(odd))]
	if !slices.Equal(oddRow.Marks, []string{marks("quantized"), marks("bos")}) || !oddRow.OffStandard {
		t.Errorf("marks of the odd one: %q", oddRow.Marks)
	}
	if got := by("limited", "arc_challenge").Marks; !slices.Equal(got, []string{marks("subset")}) {
		t.Errorf("marks of the limited one: %q", got)
	}
	if got := by("other-split", "boolq").Marks; !slices.Equal(got, []string{marks("split")}) {
		t.Errorf("marks of the other split: %q", got)
	}
	if got := by("part", "boolq").Marks; !slices.Equal(got, []string{marks("formulation")}) {
		t.Errorf("marks of one formulation: %q", got)
	}
}

// Records of one model and setting that have different tasks share a row, whose
// group and average are those of one record with all of them.
func TestMerge(t *testing.T) {
	whole := ten("m", 1, 0.6, 0.5)
	specs := map[string]outcometest.Spec{}
	for i, task := range whole.Tasks {
		s := whole
		s.Tasks = []outcometest.Task{task}
		specs[fmt.Sprintf("m@%012d", i)] = s
	}
	one := sheet(t, Options{}, sources(t, map[string]outcometest.Spec{"m": whole})).Rows[0]
	parts := sources(t, specs)
	s := sheet(t, Options{}, parts)
	if len(s.Rows) != 1 || s.Rows[0].Label != "m" || len(s.Rows[0].Runs) != len(whole.Tasks) {
		t.Fatalf("%d rows, the first %q of %d runs", len(s.Rows), s.Rows[0].Label, len(s.Rows[0].Runs))
	}
	got := s.Rows[0]
	if math.Abs(got.Average.Accuracy-one.Average.Accuracy) > 1e-12 || math.Abs(*got.Average.SE-*one.Average.SE) > 1e-12 || !got.Average.OLMES ||
		math.Abs(*got.Average.Chance-*one.Average.Chance) > 1e-12 || math.Abs(*got.Average.Majority-*one.Average.Majority) > 1e-12 {
		t.Errorf("average %+v, want %+v", got.Average, one.Average)
	}
	a, b := got.unit("mmlu"), one.unit("mmlu")
	b.Score.Low, b.Score.High = nil, nil // the bootstrap needs the instances
	a.Marks, b.Marks = nil, nil
	close := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) < 1e-12 })
	if d := cmp.Diff(b, a, close, cmp.AllowUnexported(Unit{})); d != "" {
		t.Errorf("the group, joined: %s", d)
	}
	if len(got.Deviations) != 0 {
		t.Errorf("deviations %v", got.Deviations)
	}
	if rows := sheet(t, Options{Apart: true}, parts).Rows; len(rows) != len(whole.Tasks) {
		t.Errorf("%d rows apart", len(rows))
	}
	// Other labels keep them apart, as do tasks that both have, and other settings.
	parts[0].Label, parts[1].Label = "x", "y"
	if rows := sheet(t, Options{}, parts).Rows; len(rows) != 3 {
		t.Errorf("%d rows of three labels", len(rows))
	}
	other := whole
	other.Change = func(id *record.Identity) { compliant(id); id.Model.Weights = "f16" }
	if rows := sheet(t, Options{}, sources(t, map[string]outcometest.Spec{"m@1": whole, "m@2": whole, "m@3": other})).Rows; len(rows) != 3 {
		t.Errorf("%d rows of three whole records", len(rows))
	}
}

// A group of which some subjects alone were run is a score of the standard's in no
// format: each says how much of it there is.
func TestPartialGroup(t *testing.T) {
	part := with(ten("m", 1, 0.6, 0.5), func(s *outcometest.Spec) {
		for i := range s.Tasks {
			if s.Tasks[i].Group != "" {
				s.Tasks[i].GroupSize = 57
			}
		}
	})
	s := sheet(t, Options{}, sources(t, map[string]outcometest.Spec{"m": part}))
	for name, write := range map[string]func(io.Writer) error{
		"text":     func(w io.Writer) error { return s.Text(w, Show{}) },
		"details":  func(w io.Writer) error { return s.Text(w, Show{Details: true}) },
		"markdown": func(w io.Writer) error { return s.Markdown(w, Show{}) },
		"latex":    func(w io.Writer) error { return s.LaTeX(w, Show{}, false) },
		"html":     func(w io.Writer) error { return s.HTML(w, Show{}) },
		"card":     func(w io.Writer) error { return s.Card(w, Show{}) },
		"index":    s.ModelIndex,
	} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{"text": {"mmlu: 3 of its 57 subjects"}, "details": {"mmlu (3 of 57)"}, "card": {"| MMLU (3 of 57 subjects) |", "mean of the ten, not the OLMES average"},
			"html": {"3 of 57 subjects: no OLMES score", "mmlu (3 of 57)"}, "index": {"MMLU (3 of 57 subjects)", "accuracy over 3 of 57 subjects, no OLMES score (CF", "mean of ten tasks, not the OLMES average"}}[name]
		for _, w := range append(want, "3 of ") {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: no %q in\n%s", name, w, b.String())
			}
		}
		if n := strings.Count(b.String(), "OLMES score (") - strings.Count(b.String(), "no OLMES score ("); name == "index" && n != 9 {
			t.Errorf("%d OLMES scores of nine tasks and a part of one:\n%s", n, b.String())
		}
	}
}

// Near-ties and calibration are there where instances were read, and only there.
func TestInstances(t *testing.T) {
	list := sources(t, map[string]outcometest.Spec{"m": with(ten("m", 1, 0.6, 0.5), func(s *outcometest.Spec) { s.Noise = 1.2 })})
	shallow, deep := sheet(t, Options{}, list).Rows[0], sheet(t, Options{Instances: true}, list).Rows[0]
	if shallow.Average.Range != nil || len(shallow.Calibrations) != 0 || shallow.unit("mmlu").NearTies != nil {
		t.Error("instances were read unasked")
	}
	_, near, err := list[0].Record.NearTies(0)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := list[0].Record.Metrics()
	ranges := score.Ranges(m, near)
	var low, high float64
	for _, name := range score.SuiteTasks() {
		u := deep.unit(name)
		sum := 0
		for _, n := range near {
			if n.Task == name || n.Group == name {
				sum += n.Near
			}
		}
		if u.NearTies == nil || *u.NearTies != sum || u.Range == nil || *u.Range != ranges[name] {
			t.Errorf("%s: near-ties %v, range %v; want %d, %v", name, u.NearTies, u.Range, sum, ranges[name])
		}
		low, high = low+u.Range.Low/10, high+u.Range.High/10
	}
	if r := deep.Average.Range; math.Abs(r.Low-low) > 1e-12 || math.Abs(r.High-high) > 1e-12 || r.Low >= r.High {
		t.Errorf("range of the average %v, want %v to %v", r, low, high)
	}
	if len(deep.Calibrations) != 2 {
		t.Fatalf("calibrations %+v", deep.Calibrations)
	}
	for _, c := range deep.Calibrations {
		n, correct := 0, 0.0
		for _, b := range c.Bins {
			n += b.Instances
			correct += b.Accuracy * float64(b.Instances)
			if b.Confidence < b.Low-1e-12 || b.Confidence > b.High+1e-12 {
				t.Errorf("confidence %v in the bin from %v to %v", b.Confidence, b.Low, b.High)
			}
		}
		if n != 9*40+36 || c.Instances != n || c.Error <= 0 {
			t.Errorf("%s: %d instances, error %v", c.Formulation, n, c.Error)
		}
	}
}

func TestCalibration(t *testing.T) {
	c := calibrator{}
	half, third := math.Log(0.5), math.Log(1.0/3)
	pred := func(gold int, values ...float64) *olmes.Prediction {
		p := &olmes.Prediction{Task: "t", Formulation: olmes.MCF, Gold: gold}
		for i := range values {
			p.Choices = append(p.Choices, olmes.Choice{LogProb: &values[i], Tokens: 1, Chars: 1, RequestSHA256: fmt.Sprint(i)})
		}
		return p
	}
	c.add(pred(0, half-1, half-1))    // confidence 0.5, right
	c.add(pred(0, half, half))        // confidence 0.5, right
	c.add(pred(0, third, -100, -100)) // confidence 1, right
	twice := pred(1, third, third-1, third)
	twice.Choices[2].RequestSHA256 = "0" // one request, counted once
	c.add(twice)
	failed := pred(0, half, half)
	failed.Choices[0].Error, failed.Choices[0].LogProb = "no", nil
	c.add(failed)
	got, ok := c.of(olmes.MCF, "")
	last := 1 / (1 + math.Exp(-1))
	want := Calibration{Formulation: olmes.MCF, Instances: 4, Error: (2*0.5 + 1*0 + last) / 4, Bins: []Bin{
		{Low: 0.4, High: 0.5, Instances: 2, Confidence: 0.5, Accuracy: 1}, {Low: 0.7, High: 0.8, Instances: 1, Confidence: last}, {Low: 0.9, High: 1, Instances: 1, Confidence: 1, Accuracy: 1}}}
	near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) < 1e-9 })
	if d := cmp.Diff(want, got, near, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".correct" || p.Last().String() == ".sum" }, cmp.Ignore()), cmp.AllowUnexported(Bin{})); d != "" || !ok {
		t.Errorf("calibration: %s", d)
	}
	if _, ok := c.of(olmes.CF, ""); ok {
		t.Error("a calibration of nothing")
	}
}

// CSV is read back by its own rules, its numbers are exactly the record's, and its
// scores are those of the metrics.
func TestCSV(t *testing.T) {
	s := sheet(t, Options{}, sample(t))
	var b bytes.Buffer
	if err := s.CSV(&b); err != nil {
		t.Fatal(err)
	}
	if bytes.Count(b.Bytes(), []byte("\r\n")) != bytes.Count(b.Bytes(), []byte("\n")) {
		t.Error("lines do not end in CR LF")
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := func(row []string, name string) string { return row[slices.Index(csvHead, name)] }
	scores := map[[2]string]float64{}
	for _, row := range rows[1:] {
		if at(row, "is_score") == "true" {
			v, err := strconv.ParseFloat(at(row, "accuracy"), 64)
			key := [2]string{at(row, "label"), at(row, "task")}
			if _, twice := scores[key]; err != nil || twice {
				t.Errorf("%v: %v, twice %v", key, err, twice)
			}
			scores[key] = v
		}
	}
	for _, r := range s.Rows {
		n := 0
		for _, u := range r.Units {
			if u.Score != nil && scores[[2]string{r.Label, u.Task}] != u.Score.Accuracy {
				t.Errorf("%s %s: %v, want %v", r.Label, u.Task, scores[[2]string{r.Label, u.Task}], u.Score.Accuracy)
			}
			n++
		}
		if r.Average != nil && scores[[2]string{r.Label, "average"}] != r.Average.Accuracy {
			t.Errorf("%s: average %v", r.Label, scores[[2]string{r.Label, "average"}])
		}
	}
}

// JSON has no null list, and reads back as it was.
func TestJSON(t *testing.T) {
	s := sheet(t, Options{Instances: true}, sample(t))
	var b bytes.Buffer
	if err := s.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	var back Sheet
	plainly, err := json.MarshalIndent(s, "", "  ")
	if err != nil || json.Unmarshal(b.Bytes(), &back) != nil || len(back.Rows) != len(s.Rows) {
		t.Fatal(err, len(back.Rows))
	}
	var first, second any
	if json.Unmarshal(plainly, &first) != nil || json.Unmarshal(b.Bytes(), &second) != nil || !cmp.Equal(first, second) {
		t.Errorf("row by row it is another object: %s", cmp.Diff(first, second))
	}
	lists := []string{"columns", "not_run", "rows", "footnotes", "skipped", "runs", "tasks", "deviations", "marks", "calibrations", "formulations", "not_comparable", "parts", "accuracies", "micro", "gold_labels", "predicted_labels", "notes", "labels", "command", "bins"}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if e == nil && slices.Contains(lists, k) {
					t.Errorf("%s.%s is null", path, k)
				}
				walk(path+"."+k, e)
			}
		case []any:
			for _, e := range v {
				walk(path+"[]", e)
			}
		}
	}
	walk("", v)
}

func TestDeviates(t *testing.T) {
	s := ten("m", 1, 0.5, 0.5)
	s.Tasks[0].Incomplete = true
	s.Tasks[1].Forms = map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: 0.5}}
	s.Tasks[5].GroupSize, s.Tasks[6].GroupSize, s.Tasks[7].GroupSize = 4, 4, 4
	s.Tasks[6].Forms = map[olmes.Formulation]outcometest.Form{olmes.MCF: {Accuracy: 0.5}, olmes.CF: {Accuracy: 0.5, Choice: func(doc, k int, c *olmes.Choice) { c.Dropped = doc % 2 }}}
	s.Change = func(id *record.Identity) {
		id.Tasks[2].StandardSplit = ""
		id.Tasks[3].StandardSplit = "other"
		id.Tasks[4].Normalization, id.Normalizations = "odd", []olmes.Normalization{olmes.None, olmes.Token, olmes.Character, olmes.PMI}
	}
	r := sources(t, map[string]outcometest.Spec{"m": s})[0].Record
	m, err := r.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range record.Deviations(r.Identity, &m) {
		if name, _, ok := deviates(d); ok {
			got[d.Code] = name
		}
		if titles[d.Code] == "" {
			t.Errorf("no title for %s", d.Code)
		}
	}
	want := map[string]string{"subset": "arc_challenge", "formulation": "arc_easy", "task": "boolq", "split": "csqa", "normalization": "hellaswag", "partial-group": "mmlu", "truncated": "mmlu_virology"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Imported accuracies are marked, and nothing is said of them that is not known.
func TestImported(t *testing.T) {
	s := ten("theirs", 1, 0.5, 0.4)
	s.Provenance.Evidence = record.ImportedInstances
	s.Provenance.Import = &record.Import{Tool: "their-tool", Version: "9"}
	s.Change = func(id *record.Identity) {
		id.Standard, id.BOS, id.Window, id.Engine, id.Precision = "", record.BOS{}, 0, record.Engine{}, record.Precision{}
		for i := range id.Tasks {
			id.Tasks[i].DocIDsSHA256, id.Tasks[i].StandardInstances, id.Tasks[i].Complete = "", 0, false
		}
	}
	list := sources(t, map[string]outcometest.Spec{"theirs": s, "ours": ten("ours", 2, 0.5, 0.4)})
	sheet := sheet(t, Options{}, list)
	var text, index, card bytes.Buffer
	for _, err := range []error{sheet.Text(&text, Show{}), sheet.ModelIndex(&index), sheet.Card(&card, Show{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	row := sheet.Rows[1]
	if row.Label != "theirs" || row.Runs[0].Evidence != record.ImportedInstances || row.Average.OLMES || len(row.unit("csqa").Apart) == 0 {
		t.Errorf("row %+v, csqa %+v", row, row.unit("csqa"))
	}
	for what, has := range map[string]bool{
		"predictions imported from another tool: the predictions are another tool's: their-tool 9": strings.Contains(text.String(), "another tool's: their-tool 9"),
		"imported in the index":        strings.Contains(index.String(), "off-standard: imported-instances"),
		"imported in the card":         strings.Contains(card.String(), "imported from their-tool 9"),
		"no BOS or window made up":     strings.Contains(card.String(), "BOS not known, window not known"),
		"no engine made up":            strings.Contains(card.String(), "engine not known"),
		"no version made up":           strings.Contains(card.String(), "version not known"),
		"examples are counted for one": strings.Count(index.String(), "num_few_shot") == 11,
	} {
		if !has {
			t.Errorf("missing: %s", what)
		}
	}
}

func TestLetters(t *testing.T) {
	for i, want := range map[int]string{0: "a", 25: "z", 26: "aa", 27: "ab", 51: "az", 52: "ba", 702: "aaa"} {
		if got := letters(i); got != want {
			t.Errorf("%d is %s, want %s", i, got, want)
		}
	}
}

func TestNatural(t *testing.T) {
	want := []string{"", "7", "a", "a1", "a01", "a2", "a10", "a10b", "a10c", "b", "step900-x", "step1000-x"}
	for i, a := range want {
		for j, b := range want {
			if got := natural(a, b); (got < 0) != (i < j) && a != "a1" && a != "a01" || (got == 0) != (i == j) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
}
