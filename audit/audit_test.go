package audit

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// The paper's own arithmetic: what it states is recomputed from its cells, and
// what is known not to hold is reported.
func TestPaper(t *testing.T) {
	l := must[*Ledger](t)(Paper())
	if len(l.Claims) != 308 {
		t.Errorf("%d claims", len(l.Claims))
	}
	var broken []string
	for _, v := range l.Verify() {
		if !v.Holds {
			broken = append(broken, v.Check.Says)
		}
	}
	want := []string{
		"Mistral-7B-v0.1, OpenBookQA: MCF minus CF is 20 points or more",
		"socialiqa: shares of the four normalizations",
		"no model loses more than 2 points by the chosen normalization: Pythia-1B, BoolQ",
		"OLMo-1B, CommonsenseQA: pmi minus next best",
		"Falcon-7B, OpenBookQA: pmi minus next best",
		"Pythia-1B, OpenBookQA: pmi minus next best",
		"diff oracle, said to be at most this for most tasks: BoolQ",
		"diff oracle, said to be at most this for most tasks: BoolQ",
		"MMLU: macro and micro usually differ by less than 1 point: Llama-3-8B",
		"MMLU: macro and micro usually differ by less than 1 point: OLMo-7B-0424",
		"ARC-Challenge: upper end of CF over the weakest 8 models, said twice",
		"robustness: the score moves by typically less than 1 point: Pythia-1B, openbookqa",
		"CommonsenseQA: 1221 instances are below the threshold of 1500, so all are evaluated",
	}
	slices.Sort(broken)
	slices.Sort(want)
	if !slices.Equal(broken, want) {
		t.Errorf("broken:\n%s\nwant:\n%s", strings.Join(broken, "\n"), strings.Join(want, "\n"))
	}
}

const example = `ledger: 1
title: two boards
claims:
  - {by: A, model: small, task: arc_easy, formulation: cf, shots: 5, value: 60.0}
  - {by: B, model: small, task: arc_easy, formulation: mcf, shots: 25, value: 71.0}
  - {by: A, model: large, task: arc_easy, formulation: cf, shots: 5, value: 65.0}
  - {by: B, model: large, task: arc_easy, formulation: mcf, value: 69.5}
  - {by: A, model: third, task: arc_easy, formulation: cf, shots: 5, value: 80}
  - {by: A, model: third, task: arc_easy, value: 90, bound: about}
`

// Spread, flips, setups and the line of Figure 4 over claims of a known truth.
func TestMake(t *testing.T) {
	l := must[*Ledger](t)(Read(strings.NewReader(example)))
	own := []Own{
		{Model: "small", Label: "s", Task: "arc_easy", Score: 58}, {Model: "large", Label: "l", Task: "arc_easy", Score: 62},
		{Model: "third", Label: "t", Task: "arc_easy", Score: 74}, {Model: "fourth", Label: "f", Task: "arc_easy", Score: 1},
	}
	a := Make(l, own)
	if len(a.Tables) != 1 || !slices.Equal(a.Unmatched, []string{"f"}) {
		t.Fatalf("tables %d, unmatched %v", len(a.Tables), a.Unmatched)
	}
	tab := a.Tables[0]
	if got := []Setup{tab.References[0].Setup, tab.References[1].Setup}; got[0] != (Setup{"cf", "?", "5", "?", "?"}) || got[1] != (Setup{"mcf", "?", "25", "?", "?"}) {
		t.Errorf("setups %v", got)
	}
	small := tab.Models[0]
	if small.Spread == nil || math.Abs(*small.Spread-11) > 1e-12 || !slices.Equal(small.Differs, []string{"formulation", "shots"}) ||
		!slices.Equal(small.Unknown, []string{"normalization", "split", "examples"}) {
		t.Errorf("small: %+v", small)
	}
	if third := tab.Models[2]; third.Spread != nil {
		t.Errorf("one reference has a spread: %v", *third.Spread)
	}
	if want := (Flip{"small", "large", "B", "A"}); len(tab.Flips) != 1 || tab.Flips[0] != want {
		t.Errorf("flips %v, want %v", tab.Flips, want)
	}
	// Claimed minus own: 2 at 60, 13 at 71, 3 at 65, 7.5 at 69.5, 6 at 80.
	if len(a.Fits) != 1 || len(a.Fits[0].Points) != 5 {
		t.Fatalf("fits %+v", a.Fits)
	}
	// By hand: means 69.1 and 6.3, sums of products 62.6 and 222.2.
	if f := a.Fits[0].Line; math.Abs(f.Slope-62.6/222.2) > 1e-9 || f.R2 == nil {
		t.Errorf("line %+v", f)
	}
	if _, err := json.Marshal(a); err != nil {
		t.Error(err)
	}
}

// A line needs three different own scores: against one the slope is 1 by
// construction. Scores of a part of a group are of no line, and a run of another
// model is named.
func TestOwnScores(t *testing.T) {
	l := must[*Ledger](t)(Read(strings.NewReader(example)))
	own := func(model, run string, score float64, part string) Own {
		return Own{Model: model, RunModel: run, Label: "l-" + model, Task: "arc_easy", Score: score, Part: part, Setup: Setup{Formulation: "cf", Split: "test"}}
	}
	for _, c := range []struct {
		what string
		own  []Own
		line bool
		none []NoFit
	}{
		{"one run", []Own{own("small", "", 58, "")}, false, []NoFit{}},
		{"one score of two models", []Own{own("small", "", 58, ""), own("large", "", 58, "")}, false, []NoFit{{"arc_easy", 4, 1}}},
		{"two scores", []Own{own("small", "", 58, ""), own("large", "", 62, "")}, false, []NoFit{{"arc_easy", 4, 2}}},
		{"three scores", []Own{own("small", "", 58, ""), own("large", "", 62, ""), own("third", "", 74, "")}, true, []NoFit{}},
		{"three scores, one of a part", []Own{own("small", "", 58, ""), own("large", "", 62, ""), own("third", "", 74, "2 of 57")}, false, []NoFit{{"arc_easy", 4, 2}}},
	} {
		a := Make(l, c.own)
		if line := len(a.Fits) == 1; line != c.line || len(a.Fits) > 1 || !slices.Equal(a.NoFits, c.none) {
			t.Errorf("%s: %d lines, none for %v", c.what, len(a.Fits), a.NoFits)
		}
	}
	a := Make(l, []Own{own("small", "Small", 58, ""), own("large", "other", 62, ""), own("large", "other", 61, ""), own("fourth", "x", 1, "")})
	if want := []Renamed{{"l-large", "other", "large"}}; !slices.Equal(a.Renamed, want) || !slices.Equal(a.Unmatched, []string{"l-fourth"}) {
		t.Errorf("renamed %v, want %v; unmatched %v", a.Renamed, want, a.Unmatched)
	}
	if s := a.Tables[0].OwnSetup; s == nil || *s != (Setup{"cf", "?", "?", "test", "?"}) {
		t.Errorf("setup of own scores %v", s)
	}
	if text, err := json.Marshal(a); err != nil || strings.Contains(string(text), `"off_standard":null`) {
		t.Errorf("%s, %v", text, err)
	}
}

// The ledger that the documentation shows is one, and its check holds.
func TestDocumentedLedger(t *testing.T) {
	text := must[[]byte](t)(os.ReadFile("../docs/audit.md"))
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) == 0 {
		t.Fatal("docs/audit.md shows no ledger")
	}
	for _, b := range blocks {
		l, err := Read(bytes.NewReader(b[1]))
		if err != nil {
			t.Errorf("%v\n%s", err, b[1])
			continue
		}
		for _, v := range l.Verify() {
			if !v.Holds {
				t.Errorf("%s: stated %s, computed %v", v.Check.Says, v.Stated, v.Computed)
			}
		}
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"ledger: 2\n", "must begin with"},
		{"ledger: 1\nclaims:\n  - {model: a, task: b, valu: 3}\n", "valu"},
		{"ledger: 1\nclaims: " + strings.Repeat("[", 120_000) + "\n", "line 2: nested deeper"},
		{"ledger: 1\ntitle: " + strings.Repeat("x", 2_000_000) + "\n", "more than 1 MB"},
		{"ledger: 1\n---\nledger: 1\n", "second document"},
		{"ledger: 1\nclaims:\n  - {model: a, model: b, value: 3}\n", "line 3: mapping key \"model\" already"},
		{"ledger: 1.0\n", "where a whole number is wanted"},
		{"ledger: 1\nclaims:\n  - {model: a, task: b, value: x}\n", "no plain number"},
		{"ledger: 1\nclaims:\n  - {model: a, task: b, value: 1e2}\n", "no plain number"},
		{"ledger: 1\nclaims:\n  - {model: a, task: b, value: .nan}\n", "no plain number"},
		{"ledger: 1\nclaims:\n  - {model: a, task: b, value: 101}\n", "from 0 to 100"},
		{"ledger: 1\nclaims:\n  - {model: a, task: b, formulation: rc, value: 1}\n", "none of cf, mcf, best"},
		{"ledger: 1\nclaims:\n  - {id: a, value: 1}\n  - {id: a, value: 1}\n", "stands twice"},
		{"ledger: 1\nclaims:\n  - {id: a, value: 1}\nchecks:\n  - {says: s, value: a, sum: [b]}\n", `no claim has the id "b"`},
		{"ledger: 1\nclaims:\n  - {id: a, value: 1}\nchecks:\n  - {says: s, value: a, sum: [a], equal: a}\n", "2 relations"},
		{"ledger: 1\nclaims:\n  - {id: a, value: 1}\nchecks:\n  - {says: s, value: a, ratio: [a]}\n", "of two claims"},
	} {
		if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
	}
}

// Digits say how exact a number is.
func TestVerifyDigits(t *testing.T) {
	for _, c := range []struct {
		claims, relation string
		holds            bool
	}{
		{"a: 0.1, b: 66.7, c: 33.3", "sum: [a, b, c], value: 100", true},
		{"a: 10.04, b: 5.0", "difference: [a, b], value: 5.0", true},
		{"a: 10.2, b: 5.0", "difference: [a, b], value: 5.0", false},
		{"a: 10, b: 3", "ratio: [a, b], value: 3.3", true},
		{"a: 10, b: 3", "ratio: [a, b], value: 5", false},
		{"a: 7, b: 15", "share: [a, b], value: 46.7", true},
		{"a: 7, b: 15", "share: [a, b], value: 46.6", false},
		{"a: 93.7", "complement: a, value: 6.3", true},
		{"a: 93.7", "complement: a, value: 6.4", true},
		{"a: 93.7", "complement: a, value: 6.5", false},
		{"a: 1, b: 2", "mean: [a, b], value: 1.5", true},
		{"a: 1, b: 2", "mean: [a, b], value: 2.6", false},
	} {
		text := "ledger: 1\nclaims:\n"
		for _, claim := range strings.Split(c.claims, ", ") {
			id, value, _ := strings.Cut(claim, ": ")
			text += "  - {id: " + id + ", kind: other, value: " + value + "}\n"
		}
		relation, value, _ := strings.Cut(c.relation, ", value: ")
		text += "  - {id: v, kind: other, value: " + value + "}\nchecks:\n  - {says: s, value: v, " + relation + "}\n"
		l := must[*Ledger](t)(Read(strings.NewReader(text)))
		if got := l.Verify()[0]; got.Holds != c.holds {
			t.Errorf("%s; %s: holds %v (%+v)", c.claims, c.relation, got.Holds, got.Computed)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(example)
	f.Add("ledger: 1\nclaims: [{id: a, value: 0.5}]\nchecks: [{says: x, value: a, equal: a}]\ncontradictions: [{says: y}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		if _, err := json.Marshal(Make(l, nil)); err != nil {
			t.Errorf("cannot be written: %v", err)
		}
	})
}
