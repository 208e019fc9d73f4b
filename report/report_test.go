package report

import (
	"strings"
	"testing"

	"olmes"
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
	if err := Scores(&scores, m); err != nil {
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
