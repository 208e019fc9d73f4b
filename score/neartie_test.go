package score

import (
	"slices"
	"testing"

	"olmes"
)

// choicesOf are four characters long each, with these log-probabilities.
func choicesOf(values ...float64) []olmes.Choice {
	var out []olmes.Choice
	for _, v := range values {
		out = append(out, olmes.Choice{LogProb: &v, Tokens: 1, Chars: 4})
	}
	return out
}

func TestFindNearTies(t *testing.T) {
	facts := []Facts{
		{Task: "easy", Split: "test", Standard: olmes.Character, Instances: 5, Formulations: []olmes.Formulation{olmes.CF, olmes.MCF}},
		{Task: "hard", Split: "test", Standard: olmes.PMI, Instances: 1, Formulations: []olmes.Formulation{olmes.CF}},
	}
	pred := func(f olmes.Formulation, doc, gold int, values ...float64) olmes.Prediction {
		return olmes.Prediction{Task: "easy", Split: "test", Formulation: f, Kind: olmes.KindScore, DocID: doc, Gold: gold, Choices: choicesOf(values...)}
	}
	same := pred(olmes.MCF, 1, 2, -1, -3, -1) // the first and the last are one request
	for i, d := range []string{"a", "b", "a"} {
		same.Choices[i].RequestSHA256 = d
	}
	failed := pred(olmes.CF, 4, 0, -1, -1)
	failed.Choices[1].LogProb, failed.Choices[1].Error = nil, "NaN"
	preds := []olmes.Prediction{
		pred(olmes.CF, 0, 0, -4, -4.3, -9),      // right, 0.075 a character ahead
		pred(olmes.CF, 1, 1, -4, -4.3, -9),      // wrong, may become right
		pred(olmes.CF, 2, 2, -4, -4.3, -9),      // wrong either way
		pred(olmes.CF, 3, 0, -4, -4.8, -9),      // 0.2 ahead
		failed,                                  // no decision
		pred(olmes.MCF, 0, 2, -1, -1.05, -1.09), // the gold one is third, and near enough
		same,                                    // no near-tie
		{Task: "hard", Split: "test", Formulation: olmes.CF, DocID: 0, Choices: choicesOf(-1, -1)}, // noise not known
	}
	list, counts, err := FindNearTies(facts, Seq(preds), func(f olmes.Formulation, n olmes.Normalization) (float64, bool) {
		return 0.1, n != olmes.PMI
	})
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		doc, best, second int
		turn              Turn
	}
	var got []row
	for _, n := range list {
		got = append(got, row{n.DocID, n.Best, n.Second, n.Turn})
	}
	if want := []row{{0, 0, 1, ToWrong}, {1, 0, 1, ToRight}, {2, 0, 1, NoTurn}, {0, 0, 1, ToRight}}; !slices.Equal(got, want) {
		t.Errorf("near-ties %v, want %v", got, want)
	}
	want := []NearTies{
		{Task: "easy", Formulation: olmes.CF, Normalization: olmes.Character, Noise: 0.1, Instances: 4, Near: 3, Correct: 2, ToRight: 1, ToWrong: 1},
		{Task: "easy", Formulation: olmes.MCF, Normalization: olmes.None, Noise: 0.1, Instances: 2, Near: 1, ToRight: 1},
	}
	if !slices.Equal(counts, want) {
		t.Errorf("counts %+v,\nwant   %+v", counts, want)
	}

	// CF may lie from 1/4 to 3/4, MCF from 0 to 1/2: the better of them from 1/4 to 3/4.
	m := Metrics{Tasks: []Task{
		{Task: "easy", Formulations: map[olmes.Formulation]Formulation{olmes.CF: {}, olmes.MCF: {}}},
		{Task: "hard", Formulations: map[olmes.Formulation]Formulation{olmes.CF: {}}},
	}}
	ranges := Ranges(m, counts)
	if got, ok := ranges["easy"]; !ok || got != (Range{0.25, 0.75}) || len(ranges) != 1 {
		t.Errorf("ranges %v", ranges)
	}
}

// A group's range is that of the plain mean of its tasks, formulation by formulation.
func TestGroupRange(t *testing.T) {
	forms := map[olmes.Formulation]Formulation{olmes.CF: {}}
	m := Metrics{
		Tasks:  []Task{{Task: "mmlu_a", Group: "mmlu", Formulations: forms}, {Task: "mmlu_b", Group: "mmlu", Formulations: forms}},
		Groups: []Group{{Group: "mmlu", Formulations: map[olmes.Formulation]GroupFormulation{olmes.CF: {}}}},
	}
	near := []NearTies{
		{Task: "mmlu_a", Group: "mmlu", Formulation: olmes.CF, Instances: 10, Correct: 5, ToRight: 1, ToWrong: 2},
		{Task: "mmlu_b", Group: "mmlu", Formulation: olmes.CF, Instances: 2, Correct: 1},
	}
	if got := Ranges(m, near)["mmlu"]; got != (Range{(0.3 + 0.5) / 2, (0.6 + 0.5) / 2}) {
		t.Errorf("range %v", got)
	}
	if got, ok := Ranges(m, near[:1])["mmlu"]; ok {
		t.Errorf("a group of which a task is not known has the range %v", got)
	}
}
