package report

import (
	"strings"
	"testing"

	"olmes/study"
)

// A study says which mean of a group it shows, and counts one of a thing as one.
func TestStudyWording(t *testing.T) {
	one := int64(1)
	text := func(print func(b *strings.Builder) error) string {
		var b strings.Builder
		if err := print(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	sub := text(func(b *strings.Builder) error {
		return SubsampleStudy(b, study.SubsampleStudy{Draws: 1, Tasks: []study.SubsampleTask{
			{Task: "mmlu", Models: []string{"m"}, Instances: 200, Scores: []float64{0.5}, Micro: true},
			{Task: "piqa", Models: []string{"m"}, Instances: 1, Scores: []float64{0.5}}}})
	})
	for _, want := range []string{"over 1 draw without", "m 50.0; of 200 instances\nall of mmlu here is of its instances together (micro), and not", "of 1 instance\n"} {
		if !strings.Contains(sub, want) {
			t.Errorf("no %q in\n%s", want, sub)
		}
	}
	if strings.Contains(sub, "all of piqa") {
		t.Errorf("a task has one mean:\n%s", sub)
	}
	cost := text(func(b *strings.Builder) error {
		return CostStudy(b, study.CostStudy{Models: []study.CostModel{{Model: "m", Runs: []study.CostRun{{Label: "m", Computed: 1, CPU: "x", Cores: 1}}, Tasks: []study.CostTask{{Task: "piqa", Formulation: "cf", Cost: study.Cost{Requests: 1, Naive: &one}}}}}})
	})
	group := text(func(b *strings.Builder) error {
		return MMLUStudy(b, study.MMLUStudy{Group: "mmlu", Tasks: []string{"mmlu_anatomy"}})
	})
	training := text(func(b *strings.Builder) error {
		return TrainingStudy(b, study.TrainingStudy{Checkpoints: []study.Moments{{}}})
	})
	var s Sheet
	points := []study.CurvePoint{{Model: "a", Step: 1}, {Model: "b", Step: 2}}
	if err := s.AddTraining(study.TrainingStudy{Level: 0.95, Tasks: []study.TrainingTask{{Task: "piqa", Curve: points}}, Notes: []study.Note{{Code: study.NoteOtherModels, Text: "these are different models"}}}); err != nil || len(s.training) != 1 {
		t.Fatalf("%v, %d figures", err, len(s.training))
	}
	if c := s.training[0].Caption; !strings.HasSuffix(c, " Note: these are different models.") {
		t.Errorf("caption %q", c)
	}
	for want, in := range map[string]string{"1 token computed, on x, 1 core\n": cost, "mmlu over 1 task: ": group, "1 checkpoint, counted": training} {
		if !strings.Contains(in, want) {
			t.Errorf("no %q in\n%s", want, in)
		}
	}
}
