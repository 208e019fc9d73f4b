package reproduce_test

import (
	"strings"
	"testing"

	"olmes"
	"olmes/outcome/outcometest"
	"olmes/record"
	"olmes/reproduce"
)

// Other models are told first, whatever parts the runs besides; one model in
// another file is not another.
func TestModels(t *testing.T) {
	smol := record.Model{Name: "smollm2", SHA256: strings.Repeat("1", 64), Architecture: "llama", Parameters: 134515008, Vocab: 49152, WeightTypes: map[string]int{"F16": 272}}
	gemma := record.Model{Name: "gemma", SHA256: strings.Repeat("2", 64), Architecture: "gemma3", Parameters: 268098176, Vocab: 262144, WeightTypes: map[string]int{"F16": 236}}
	with := func(m record.Model, change func(m *record.Model)) record.Model {
		m.SHA256 = strings.Repeat("3", 64)
		change(&m)
		return m
	}
	folder := func(m *record.Model) { m.Format = "safetensors" }
	x, turned := spec(), spec()
	each(&turned, func(_ string, _ olmes.Formulation, _, _ int, c *olmes.Choice) { // another tokenizer's ids
		c.IDsSHA256, c.ContinuationIDs = other(c.IDsSHA256), []int32{99}
	})
	a, b := load(t, "a", x), load(t, "b", turned)
	for _, c := range []struct {
		name string
		a, b record.Model
		text string // "" where they are not known to be different models
	}{
		{"two models", smol, gemma, "different models (smollm2 and gemma): architecture llama in A, gemma3 in B; 134515008 parameters in A, 268098176 in B; 49152 tokens in A's vocabulary, 262144 in B's"},
		{"two sizes", smol, with(smol, func(m *record.Model) { m.Parameters = 361821120 }), "134515008 parameters in A, 361821120 in B"},
		{"tokens added", smol, with(smol, func(m *record.Model) { m.Vocab += 2 }), "49154"},
		{"another architecture", smol, with(smol, func(m *record.Model) { m.Architecture, m.Parameters = "qwen2", m.Parameters+1152 }), "architecture llama in A, qwen2 in B"},
		{"two models in two formats", smol, with(gemma, folder), "different models"},
		{"two sizes in two formats", smol, with(smol, func(m *record.Model) { m.Format, m.Parameters = "safetensors", 361821120 }), "361821120"},
		{"a model and an import of another", smol, record.Model{Name: "big", Parameters: 1711376384}, "1711376384"},
		{"the same file", smol, smol, ""},
		{"Q8_0", smol, with(smol, func(m *record.Model) { m.Quantized, m.WeightTypes = true, map[string]int{"Q8_0": 211, "F32": 61} }), ""},
		{"a folder", smol, with(smol, folder), ""},
		{"a folder with another name of the architecture", smol, with(smol, func(m *record.Model) { m.Format, m.Architecture = "safetensors", "mistral" }), ""},
		{"a folder that names the text model", gemma, with(gemma, func(m *record.Model) { m.Format, m.Architecture = "safetensors", "gemma3_text" }), ""},
		{"a vocabulary that is padded", smol, with(smol, func(m *record.Model) { m.Format, m.Vocab = "safetensors", 49280 }), ""},
		{"an output matrix of its own", gemma, with(gemma, func(m *record.Model) { m.Parameters += 262144 * 640 }), ""},
		{"rotary frequencies", smol, with(smol, func(m *record.Model) { m.Parameters += 32 }), ""},
		{"masks that are stored", smol, with(smol, func(m *record.Model) { m.Format, m.Parameters = "pickle", m.Parameters*11/10+1 }), ""},
		{"packed weights", smol, with(smol, func(m *record.Model) { m.Format, m.Quantization, m.Parameters = "safetensors", "gptq", 40000000 }), ""},
		{"an import of unknown precision", smol, record.Model{Name: "other", Parameters: 40000000}, ""},
		{"nothing known", smol, record.Model{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, turned := range []bool{false, true} {
				a.Record.Identity.Model, b.Record.Identity.Model = c.a, c.b
				if turned {
					a.Record.Identity.Model, b.Record.Identity.Model = c.b, c.a
				}
				r := reproduce.Compare(a, b, reproduce.Options{})
				if c.text == "" {
					if doubt := strings.Contains(strings.Join(r.Unknown, "\n"), "the weights are other files"); doubt != (c.a.SHA256 != c.b.SHA256 && c.b.SHA256 != "") {
						t.Errorf("unknown %q", r.Unknown)
					}
					if r.Models != nil || r.First == nil || r.First.Code != reproduce.Tokenization || strings.Contains(r.Verdict, "different models") {
						t.Errorf("%+v", r.First)
					}
					continue
				}
				m := r.Models
				if m == nil || r.First != m || m.Code != reproduce.OtherModel || !m.Certain || !turned && !strings.Contains(m.Text, c.text) {
					t.Fatalf("%+v, first %+v", m, r.First)
				}
				if !strings.HasPrefix(r.Verdict, "The runs are of different models.") || !strings.Contains(r.Verdict, "first cause: model") || !strings.Contains(r.Verdict, "further ones: tokenization") {
					t.Error(r.Verdict)
				}
			}
		})
	}
}

// Of different models fed the same ids, the values are not taken for those of
// other bits or arithmetic.
func TestModelsOfOneTokenizer(t *testing.T) {
	b := spec()
	quantized(&b, 2)
	b.Change = func(id *record.Identity) {
		id.Model.Parameters, id.Model.SHA256, id.Engine.Name = 5000, strings.Repeat("a", 64), "torch"
	}
	r := compare(t, spec(), b, reproduce.Options{})
	if c := stage(t, r, reproduce.LogProbs).Causes; len(c) != 1 || c[0].Code != reproduce.OtherWeights || r.First.Code != reproduce.OtherModel {
		t.Errorf("%+v", c)
	}
	// The very same numbers under another model's name are not called the same.
	same := spec()
	same.Change = func(id *record.Identity) { id.Model.Vocab, id.Model.SHA256 = 7, strings.Repeat("a", 64) }
	if r := compare(t, spec(), same, reproduce.Options{}); strings.Contains(r.Verdict, "are the same:") || r.First == nil {
		t.Error(r.Verdict)
	}
}

// What a stage counts are instances, each once.
func TestInstanceCounts(t *testing.T) {
	one, other := spec(), spec()
	one.Tasks, other.Tasks = one.Tasks[:1], other.Tasks[1:]
	for _, c := range []struct {
		name                        string
		a, b                        outcometest.Spec
		compared, different, shared int
		text                        string
	}{
		{"nothing shared", one, other, 140, 140, 0, "the runs share no instance: 80 in A alone, 60 in B alone"},
		{"a task less", spec(), one, 140, 60, 80, "60 of 140 instances differ: 60 in A alone"},
	} {
		r := compare(t, c.a, c.b, reproduce.Options{})
		s := stage(t, r, reproduce.Instances)
		if s.Compared != c.compared || s.Different != c.different || s.Text != c.text || r.Shared != c.shared {
			t.Errorf("%s: %+v", c.name, s)
		}
		if c.shared > 0 {
			if k := s.Causes[0]; k.Count != 60 || len(k.Where) != 2 || k.Where[0].Instances != 30 || !strings.HasSuffix(k.Text, "60 instances") {
				t.Errorf("%+v", k)
			}
			continue
		}
		for _, s := range r.Stages[1:] {
			if !strings.Contains(s.Text, "the runs share no instance") || s.Same != reproduce.Unknown {
				t.Errorf("%+v", s)
			}
		}
		if !strings.HasPrefix(r.Verdict, "There are no scores to compare: the runs share no instance") {
			t.Error(r.Verdict)
		}
	}
	// An instance with two troubles is one.
	b := load(t, "b", spec())
	for f, form := range b.Tasks[0].Forms {
		form.Gold[17] = (form.Gold[17] + 1) % 4
		if f == olmes.CF {
			form.Choice.LogProb[4*17] = nan()
		}
		drop(form, 3)
	}
	s := stage(t, reproduce.Compare(load(t, "a", spec()), b, reproduce.Options{Instances: 1}), reproduce.Instances)
	if s.Compared != 140 || s.Different != 4 || s.Text != "4 of 140 instances differ: 2 in A alone, 1 with requests that one run alone has scored, 2 with another right answer" {
		t.Errorf("%+v", s)
	}
	// Where no right answer is told, it is not the same.
	for _, form := range b.Tasks[1].Forms {
		for i := range form.Gold {
			form.Gold[i] = -1
		}
	}
	b.Tasks = b.Tasks[1:]
	s = stage(t, reproduce.Compare(load(t, "a", other), b, reproduce.Options{}), reproduce.Instances)
	if s.Same != reproduce.Unknown || s.Unknown != 60 || !strings.Contains(s.Text, "nothing differs in 60 instances; of 60 the right answers are not known") {
		t.Errorf("%+v", s)
	}
	// Instances that a doc_id alone names are said to be so, and not the same where
	// the doc_ids may count in different splits.
	for _, split := range []string{"test", ""} {
		a, b := load(t, "a", spec()), load(t, "b", spec())
		for _, task := range b.Tasks {
			task.Split = split
			for _, form := range task.Forms {
				clear(form.NativeID)
				clear(form.Choice.Request)
			}
		}
		s = stage(t, reproduce.Compare(a, b, reproduce.Options{}), reproduce.Instances)
		if (s.Same == reproduce.Yes) != (split != "") || !strings.HasSuffix(s.Text, "140 go together by their doc_ids alone") {
			t.Errorf("split %q: %+v", split, s)
		}
	}
}

// Which formulation is better is not held against a run that has fewer tasks of
// the group, or fewer formulations.
func TestCrossed(t *testing.T) {
	subject := func(name string, cf, mcf float64) outcometest.Task {
		return outcometest.Task{Name: name, Group: "mmlu", GroupSize: 57, N: 40, Normalization: olmes.Character,
			Forms: map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: cf}, olmes.MCF: {Accuracy: mcf}}}
	}
	one, two, three := subject("mmlu_anatomy", 0.9, 0.1), subject("mmlu_virology", 0, 1), subject("mmlu_astronomy", 0, 1)
	whole := outcometest.Spec{Model: "m", Seed: 1, Tasks: []outcometest.Task{one, two, three}}
	part := outcometest.Spec{Model: "m", Seed: 1, Tasks: []outcometest.Task{one}}
	mcf := spec()
	delete(mcf.Tasks[0].Forms, olmes.CF)
	for name, c := range map[string][2]outcometest.Spec{"fewer subjects": {whole, part}, "more subjects": {part, whole}, "a formulation less": {spec(), mcf}} {
		r := compare(t, c[0], c[1], reproduce.Options{})
		if len(r.Scores) < 2 && name != "a formulation less" || len(r.Scores) == 0 {
			t.Errorf("%s: %+v", name, r.Scores)
		}
		for _, s := range r.Scores {
			if s.FormulationA != s.FormulationB || s.Difference != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if name != "a formulation less" && !strings.Contains(strings.Join(r.Unknown, "\n"), "so these scores are not compared") {
			t.Errorf("%s: unknown %q", name, r.Unknown)
		}
	}
}
