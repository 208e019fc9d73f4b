package report

import (
	"strings"
	"testing"

	"olmes"
	"olmes/record"
	"olmes/score"
	"olmes/stat"
)

// lines reports which of the wanted lines a text lacks.
func lines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains("\n"+text, "\n"+w+"\n") {
			t.Errorf("no line %q in\n%s", w, text)
		}
	}
}

func TestScoresAndDetails(t *testing.T) {
	half, se := 0.5, 0.25
	estimate := func(a float64) score.Estimate { return score.Estimate{Accuracy: a, SE: &se, N: 5} }
	form := func(n olmes.Normalization, a float64) score.Formulation {
		return score.Formulation{Instances: 5, Normalization: n, Accuracy: map[olmes.Normalization]score.Estimate{n: estimate(a)}}
	}
	task := func(name string, cf, mcf float64, near bool) score.Task {
		return score.Task{Task: name, Instances: 5, Standard: olmes.Character, Chance: &half, Majority: &half,
			Formulations: map[olmes.Formulation]score.Formulation{olmes.CF: form(olmes.Character, cf), olmes.MCF: form(olmes.None, mcf)},
			Score: &score.Score{Formulation: olmes.MCF, Estimate: estimate(mcf), Interval: &stat.Interval{Low: 0.25, High: 0.75},
				Difference: &score.Difference{Value: mcf - cf, SE: &se, NearNoise: near}}}
	}
	one := form(olmes.Character, 0.75)
	m := score.Metrics{Tasks: []score.Task{task("arc_easy", 0, 1, false), task("piqa", 0.25, 0.5, true),
		{Task: "boolq", Instances: 5, Formulations: map[olmes.Formulation]score.Formulation{olmes.CF: one}}}}
	var scores, details strings.Builder
	if err := Scores(&scores, m, nil); err != nil {
		t.Fatal(err)
	}
	lines(t, scores.String(),
		"arc_easy   0.0  character  100.0  100.0†  25.0  5    50.0      50.0",
		"boolq     75.0  character      -       -  25.0  5       -         -",
		"All in percent; ± is one standard error. † the multiple-choice formulation gave the score.")
	if err := Details(&details, m); err != nil {
		t.Fatal(err)
	}
	lines(t, details.String(),
		"arc_easy  5  cf        -      -        0.0    -     0    0  +100.0 ± 25.0    25.0 to 75.0",
		"arc_easy  5  mcf   100.0      -          -    -     0    0",
		"piqa      5  cf        -      -       25.0    -     0    0   +25.0 ± 25.0≈   25.0 to 75.0",
		"boolq     5  cf        -      -       75.0    -     0    0")
}

func TestLayout(t *testing.T) {
	form := olmes.Form{Prefix: "Q: ", Cue: "\nA:"}
	tpl := olmes.Template{CF: form, MCF: form, LabelStart: "\n ", LabelEnd: ". ", Gap: " "}
	passage, blank, text := tpl, tpl, tpl
	passage.PassageEnd = "\n"
	blank.Blank = "___"
	text.CF, text.MCF = olmes.Form{}, olmes.Form{Cue: "\nA:"}
	for _, c := range []struct {
		tpl     olmes.Template
		cf, mcf string
	}{
		{tpl, `"Q: {question}\nA:", continuation " {choice}"`, `"Q: {question}\n A. {choice A}\n B. {choice B}…\nA:", continuation " {label}"`},
		{passage, `"{passage}\nQ: {question}\nA:"`, `"{passage}\nQ: {question}\n A.`},
		{blank, `"Q: {sentence up to its blank}{choice}", continuation " {rest of the sentence}"`, `"Q: {sentence with ___}\n A.`},
		{text, `"{text}", continuation " {choice}"`, `"{text}\n A.`},
	} {
		for f, want := range map[olmes.Formulation]string{olmes.CF: c.cf, olmes.MCF: c.mcf} {
			if got := layout(c.tpl, f); !strings.HasPrefix(got, want) {
				t.Errorf("%s is %s, want %s", f, got, want)
			}
		}
	}
}

// Where near-ties were counted, the table has them and the range of each score,
// and the line below it sums them up.
func TestNoiseShown(t *testing.T) {
	acc := func(n olmes.Normalization, a float64) score.Formulation {
		return score.Formulation{Instances: 10, Normalization: n, Accuracy: map[olmes.Normalization]score.Estimate{n: {Accuracy: a, N: 10}}}
	}
	m := score.Metrics{Tasks: []score.Task{
		{Task: "piqa", Instances: 10, Formulations: map[olmes.Formulation]score.Formulation{olmes.CF: acc(olmes.Character, 0.5), olmes.MCF: acc(olmes.None, 0.4)},
			Score: &score.Score{Formulation: olmes.CF, Estimate: score.Estimate{Accuracy: 0.5, N: 10}}},
		{Task: "boolq", Instances: 10, Formulations: map[olmes.Formulation]score.Formulation{olmes.CF: acc(olmes.None, 0.5)}},
	}}
	near := []score.NearTies{
		{Task: "piqa", Formulation: olmes.CF, Instances: 10, Near: 2, Correct: 5, ToRight: 1},
		{Task: "piqa", Formulation: olmes.MCF, Instances: 10, Near: 3, Correct: 4, ToRight: 3},
	}
	var table, line, old, list strings.Builder
	if err := Scores(&table, m, near); err != nil {
		t.Fatal(err)
	}
	lines(t, table.String(),
		"task     CF  norm        MCF  OLMES  ±   n  chance  majority  near-ties         range",
		"piqa   50.0  character  40.0  50.0   -  10       -         -      2 + 3  50.0 to 70.0",
		"boolq  50.0  none          -      -  -  10       -         -          -             -")
	noiseLine(&line, record.Provenance{Noise: &record.Noise{Largest: 0.00123, Mean: 0.0002, Requests: 24, Decisions: 6, Flipped: 1, Tokens: 700}}, near)
	lines(t, line.String(), "noise: largest 0.0012, mean 0.0002 nats over 24 requests computed apart, 1 of 6 decisions flipped; 700 tokens; near-ties: 5 of 20")
	noiseLine(&old, record.Provenance{}, nil)
	lines(t, old.String(), "noise: not measured, so near-ties are not counted; `olmes ties RUN --noise X` lists those within X")
	ties := []score.NearTie{{Task: "piqa", Formulation: olmes.CF, Normalization: olmes.Character, DocID: 7, Best: 1, Gold: 0, Margin: 0.00025, Noise: 0.001, Turn: score.ToRight}}
	if err := Ties(&list, ties, near); err != nil {
		t.Fatal(err)
	}
	lines(t, list.String(),
		"piqa    cf  character       7                1       0     0  0.00025  0.001                     right",
		"near-ties: 5 of 20; falling the other way, 4 would be right and 0 would be wrong")
}
