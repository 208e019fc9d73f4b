package study_test

import (
	"fmt"
	"strings"
	"testing"

	"olmes/outcome"
	"olmes/outcome/outcometest"
	"olmes/record"
	"olmes/stat"
	"olmes/study"
	"olmes/study/studytest"
)

func TestParseStep(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	for text, want := range map[string]study.Moment{
		"1000":                      {Step: v(1000)},
		" 10k ":                     {Step: v(10000)},
		"2.5M":                      {Step: v(2.5e6)},
		"400B":                      {TokensB: v(400)},
		"1.5T":                      {TokensB: v(1500)},
		"step1000-tokens4B":         {Step: v(1000), TokensB: v(4)},
		"OLMo-7B-step556000":        {Step: v(556000)},
		"olmo/step-5000_tokens_21B": {Step: v(5000), TokensB: v(21)},
		"checkpoint-500":            {Step: v(500)},
		"ckpt_12k":                  {Step: v(12000)},
		"global_step100":            {Step: v(100)},
		"pythia-1b-step143000":      {Step: v(143000)},
		"amber-100B-tokens":         {TokensB: v(100)},
		"tok300M":                   {TokensB: v(0.3)},
		"OLMo-7B":                   {},
		"llama-3-8b":                {},
		"footstep":                  {},
		"footstep12":                {},
		"":                          {},
		"-5":                        {},
	} {
		same(t, text, study.ParseStep(text), want)
	}
}

func TestParseSteps(t *testing.T) {
	got, err := study.ParseSteps("# made by hand\nlabel,step\n\na, 1000\nb with spaces\t10k\nc 400B\r\n")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "steps", got, map[string]string{"a": "1000", "b with spaces": "10k", "c": "400B"})
	for text, want := range map[string]string{
		"a":           "line 1",
		"a,1\na,2":    "line 2: a is there twice",
		"a,1\nb,x":    `line 2: "x" is no step`,
		"a,1\n,5":     "has no label",
		"a,1\nb,-5":   "is no step",
		"a,1\nb,step": "is no step",
	} {
		if _, err := study.ParseSteps(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// Models of another architecture or size are no checkpoints of one training; what is
// not known differs from nothing.
func TestOtherModels(t *testing.T) {
	type kind struct {
		architecture string
		parameters   int64
	}
	for _, c := range []struct {
		what  string
		kinds []kind
		want  string
	}{
		{"one", []kind{{"llama", 100}, {"llama", 100}, {"llama", 100}}, ""},
		{"not known", []kind{{"", 0}, {"llama", 100}, {"llama", 0}, {"", 100}}, ""},
		{"sizes", []kind{{"llama", 100}, {"llama", 200}, {"llama", 100}}, "1k, 3k: llama of 100 parameters; 2k: llama of 200 parameters"},
		{"architectures", []kind{{"llama", 0}, {"gemma3", 0}}, "1k: llama; 2k: gemma3"},
		{"the first not known", []kind{{"", 0}, {"llama", 100}, {"gemma3", 100}}, "2k: llama of 100 parameters; 3k: gemma3 of 100 parameters"},
	} {
		var runs []*outcome.Run
		for i, k := range c.kinds {
			runs = append(runs, write(t, fmt.Sprintf("%dk", i+1), outcometest.Spec{Model: "m", Seed: uint64(i), Tasks: []outcometest.Task{arcEasy(right(20), right(20))},
				Change: func(id *record.Identity) { id.Model.Architecture, id.Model.Parameters = k.architecture, k.parameters }}))
		}
		series, axis, err := study.Series(study.Group(runs), nil)
		if err != nil {
			t.Fatal(err)
		}
		s := study.Trainings(series, axis, "", 0, stat.Bootstrap{Resamples: 10, Seed: 1, Level: 0.95})
		got := ""
		for _, n := range s.Notes {
			if n.Code == study.NoteOtherModels {
				_, got, _ = strings.Cut(n.Text, ": ")
			}
		}
		if got != c.want {
			t.Errorf("%s: noted %q, want %q", c.what, got, c.want)
		}
	}
}

func FuzzParseSteps(f *testing.F) {
	f.Add("label,step\na,1000\nb,400B\n")
	f.Add("step1000-tokens4B 2")
	f.Fuzz(func(t *testing.T, text string) {
		study.ParseStep(text)
		steps, err := study.ParseSteps(text)
		if err != nil {
			return
		}
		for label, step := range steps {
			m := study.ParseStep(step)
			if label == "" || m.Step == nil && m.TokensB == nil {
				t.Errorf("%q: %q has step %q", text, label, step)
			}
		}
	})
}

func TestSeries(t *testing.T) {
	runs := studytest.Training{Checkpoints: 3, Instances: 4}.Runs()
	labelled := func(labels ...string) []study.Model {
		var out []*outcome.Run
		for i, l := range labels {
			r := *runs[i]
			r.Label = l
			out = append(out, &r)
		}
		return study.Group(out)
	}
	for what, c := range map[string]struct {
		labels string
		steps  map[string]string
		want   string
	}{
		"by label": {"300 100 200", nil, "steps: 100 200 300"},
		"by name":  {"a b c", nil, "steps: 1000 a 2000 b 3000 c"},
		"by file":  {"a b c", map[string]string{"a": "3", "b": "2", "c": "1"}, "steps: 1 c 2 b 3 a"},
		"tokens":   {"1T 400B 50B", nil, "tokens_B: 50B 400B 1T"},
		"mixed":    {"1T 400 50B", nil, "error: counted in"},
		"twice":    {"100 100B 100k", map[string]string{"100B": "100", "100k": "7"}, "error: both of steps 100"},
	} {
		series, axis, err := study.Series(labelled(strings.Fields(c.labels)...), c.steps)
		if err != nil {
			if want, ok := strings.CutPrefix(c.want, "error: "); !ok || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", what, err, c.want)
			}
			continue
		}
		got := string(axis) + ":"
		for _, k := range series {
			got += " " + k.Model.Label
		}
		want := c.want
		if what == "by name" {
			want = "steps: a b c"
		} else if what == "by file" {
			want = "steps: c b a"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
}
