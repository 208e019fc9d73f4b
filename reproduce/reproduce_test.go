package reproduce_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"olmes"
	"olmes/outcome"
	"olmes/outcome/outcometest"
	"olmes/record"
	"olmes/reproduce"
)

// spec is two tasks in both formulations.
func spec() outcometest.Spec {
	forms := func() map[olmes.Formulation]outcometest.Form {
		return map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: 0.6}, olmes.MCF: {Accuracy: 0.4}}
	}
	return outcometest.Spec{Model: "m", Seed: 1, Noise: 0.001, Tasks: []outcometest.Task{
		{Name: "arc_easy", N: 40, Normalization: olmes.Character, Forms: forms()},
		{Name: "openbookqa", N: 30, Normalization: olmes.PMI, Forms: forms()},
	}}
}

// each changes the form of every task and formulation, and every choice.
func each(s *outcometest.Spec, change func(task string, f olmes.Formulation, doc, choice int, c *olmes.Choice)) {
	for i, t := range s.Tasks {
		for f, form := range t.Forms {
			before := form.Choice
			form.Choice = func(doc, choice int, c *olmes.Choice) {
				if before != nil {
					before(doc, choice, c)
				}
				change(t.Name, f, doc, choice, c)
			}
			s.Tasks[i].Forms[f] = form
		}
	}
}

// move changes a choice's log-probability.
func move(c *olmes.Choice, by float64) {
	v := *c.LogProb + by
	c.LogProb, c.TokenLogProbs = &v, []float64{v}
}

func load(t *testing.T, label string, s outcometest.Spec) *outcome.Run {
	t.Helper()
	r := outcometest.Write(t, filepath.Join(t.TempDir(), label), s)
	run, err := outcome.Load(t.Context(), outcome.Source{Label: label, Record: r}, outcome.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func compare(t *testing.T, a, b outcometest.Spec, o reproduce.Options) reproduce.Report {
	t.Helper()
	r := reproduce.Compare(load(t, "a", a), load(t, "b", b), o)
	if _, err := json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	t.Log(r.Verdict)
	return r
}

// cause returns the only cause of a report, and fails where there are others.
func cause(t *testing.T, r reproduce.Report, stage reproduce.StageName, code reproduce.Code) reproduce.Cause {
	t.Helper()
	var all []reproduce.Cause
	for _, s := range r.Stages {
		all = append(all, s.Causes...)
	}
	if len(all) != 1 || all[0].Stage != stage || all[0].Code != code {
		t.Fatalf("causes %+v, want one: %s at %s", all, code, stage)
	}
	if r.First == nil || r.First.Code != code || !strings.Contains(r.Verdict, string(code)) {
		t.Fatalf("first cause %+v, verdict %q", r.First, r.Verdict)
	}
	return all[0]
}

func stage(t *testing.T, r reproduce.Report, name reproduce.StageName) reproduce.Stage {
	t.Helper()
	i := slices.IndexFunc(r.Stages, func(s reproduce.Stage) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no stage %s", name)
	}
	return r.Stages[i]
}

func TestSame(t *testing.T) {
	r := compare(t, spec(), spec(), reproduce.Options{})
	if r.First != nil || r.Agree != reproduce.Yes || len(r.Flips) > 0 || len(r.Unknown) > 0 || !strings.HasPrefix(r.Verdict, "The runs are the same:") {
		t.Errorf("%+v", r)
	}
	for _, s := range r.Stages {
		if s.Same != reproduce.Yes || s.Different != 0 {
			t.Errorf("%+v", s)
		}
	}
	b := spec()
	each(&b, func(_ string, _ olmes.Formulation, doc, choice int, c *olmes.Choice) {
		move(c, 0.0005*float64(doc%3-1))
	})
	if r := compare(t, spec(), b, reproduce.Options{}); r.First != nil || !strings.HasPrefix(r.Verdict, "The runs are the same but for rounding:") {
		t.Errorf("%+v", r.First)
	}
}

func TestBOS(t *testing.T) {
	b := spec()
	each(&b, func(_ string, _ olmes.Formulation, _, _ int, c *olmes.Choice) {
		c.ContextTokens++
		c.IDsSHA256 = other(c.IDsSHA256)
		move(c, -0.3)
	})
	said := b
	said.Change = func(id *record.Identity) {
		one := int32(1)
		id.BOS = record.BOS{Policy: "always", Added: true, ID: &one}
	}
	r := compare(t, spec(), said, reproduce.Options{})
	if c := cause(t, r, reproduce.IDs, reproduce.BOS); !c.Certain || c.Run != "b" || c.Count != 140 || !strings.Contains(c.Text, "token 1 (--bos always)") || len(c.Examples) != 5 {
		t.Errorf("%+v", c)
	}
	if s := stage(t, r, reproduce.LogProbs); s.Same != reproduce.Unknown || s.Compared != 0 {
		t.Errorf("log-probabilities of other ids are compared: %+v", s)
	}
	// The other way round, and for a model that needs it.
	gemma := func(added bool) func(id *record.Identity) {
		return func(id *record.Identity) {
			one := int32(2)
			id.Model.Architecture = "gemma3"
			id.BOS = record.BOS{Policy: "auto", Added: added, Standard: true, ID: &one}
			if !added {
				id.BOS.Policy = "never"
			}
		}
	}
	with, without := b, spec()
	with.Change, without.Change = gemma(true), gemma(false)
	if c := cause(t, compare(t, with, without, reproduce.Options{}), reproduce.IDs, reproduce.BOS); c.Run != "b" || !strings.HasPrefix(c.Text, "B lacks the BOS token that the standard adds") {
		t.Errorf("%+v", c)
	}
	if c := cause(t, compare(t, said, spec(), reproduce.Options{}), reproduce.IDs, reproduce.BOS); c.Run != "a" || !c.Certain {
		t.Errorf("%+v", c)
	}
	// A record that says nothing of it, or the contrary: the ids show it.
	if c := cause(t, compare(t, spec(), b, reproduce.Options{}), reproduce.IDs, reproduce.BOS); c.Certain || !strings.Contains(c.Text, "as a BOS is") {
		t.Errorf("%+v", c)
	}
}

// Other tools' files may have numbers of ids and no digests of them.
func TestCounts(t *testing.T) {
	b := spec()
	each(&b, func(task string, _ olmes.Formulation, doc, _ int, c *olmes.Choice) {
		c.ContextTokens++
		c.IDsSHA256, c.ContinuationIDs = "", nil
	})
	b.Provenance.Evidence = record.ImportedInstances
	b.Provenance.Import = &record.Import{Tool: "other", Lacks: []string{"ids"}}
	b.Change = func(id *record.Identity) { id.BOS = record.BOS{} }
	r := compare(t, spec(), b, reproduce.Options{})
	if c := cause(t, r, reproduce.IDs, reproduce.BOS); c.Certain || c.Run != "" || !strings.Contains(c.Text, "B not known") {
		t.Errorf("%+v", c)
	}
	if !slices.Contains(r.Unknown, "b, imported from other: ids") {
		t.Errorf("%q", r.Unknown)
	}
}

// What an import's record has is not unknown, though the record says that it lacks
// it; and what is unknown is not the same.
func TestLacks(t *testing.T) {
	all := "token counts of continuations and contexts, so accuracies per token and truncation; ids; log-probabilities of single tokens"
	b := spec()
	b.Provenance.Evidence = record.ImportedInstances
	b.Provenance.Import = &record.Import{Tool: "lm-eval", Lacks: []string{all}}
	r := compare(t, spec(), b, reproduce.Options{})
	if !slices.Equal(r.Unknown, []string{"b, imported from lm-eval: log-probabilities of single tokens"}) || stage(t, r, reproduce.IDs).Same != reproduce.Yes {
		t.Errorf("%q", r.Unknown)
	}
	each(&b, func(task string, _ olmes.Formulation, doc, _ int, c *olmes.Choice) {
		if task == "arc_easy" && doc == 3 {
			c.IDsSHA256 = ""
		}
	})
	r = compare(t, spec(), b, reproduce.Options{})
	if !slices.Contains(r.Unknown, "b, imported from lm-eval: ids; log-probabilities of single tokens") || stage(t, r, reproduce.IDs).Same != reproduce.Unknown || strings.Contains(r.Verdict, "every instance, request, id") {
		t.Errorf("%q, %s", r.Unknown, r.Verdict)
	}
}

func other(digest string) string { return strings.Repeat("f", 8) + digest[8:] }

func TestTruncation(t *testing.T) {
	long := func(s *outcometest.Spec, cut func(choice int) int) {
		each(s, func(task string, _ olmes.Formulation, doc, choice int, c *olmes.Choice) {
			if task != "arc_easy" || doc >= 7 {
				return
			}
			c.Dropped = cut(choice)
			c.ContextTokens = 2100 - c.Dropped
			if c.Dropped != 52 {
				c.IDsSHA256 = other(c.IDsSHA256)
				move(c, 0.2)
			}
		})
	}
	a, b := spec(), spec()
	long(&a, func(int) int { return 52 })
	long(&b, func(int) int { return 53 })
	b.Change = func(id *record.Identity) { id.Truncation = record.SharedTruncation }
	if c := cause(t, compare(t, a, b, reproduce.Options{Instances: -1}), reproduce.IDs, reproduce.Truncation); c.Run != "b" || !c.Certain || c.Count != 14 || len(c.Examples) != 14 || c.Examples[0].Detail != "2048 + 1 ids in A, 2047 + 1 in B; 52 cut in A, 53 in B" {
		t.Errorf("%+v", c)
	}
	b.Change = func(id *record.Identity) { id.Window = 2047 }
	if c := cause(t, compare(t, a, b, reproduce.Options{}), reproduce.IDs, reproduce.Truncation); c.Run != "b" || !strings.Contains(c.Text, "A's window is 2048 tokens, B's 2047") {
		t.Errorf("%+v", c)
	}
	b.Change = nil
	if c := cause(t, compare(t, a, b, reproduce.Options{}), reproduce.IDs, reproduce.Truncation); c.Certain || c.Run != "" {
		t.Errorf("%+v", c)
	}
	// With a BOS besides, what is cut one token more for it is the BOS's matter.
	both := spec()
	each(&both, func(task string, _ olmes.Formulation, doc, choice int, c *olmes.Choice) {
		c.ContextTokens++
		c.IDsSHA256 = other(c.IDsSHA256)
		if task == "arc_easy" && doc < 7 {
			c.Dropped, c.ContextTokens = 53, 2048
		}
	})
	if c := cause(t, compare(t, a, both, reproduce.Options{}), reproduce.IDs, reproduce.BOS); c.Count != 140 {
		t.Errorf("%+v", c)
	}
}

func TestTokenization(t *testing.T) {
	b := spec()
	each(&b, func(_ string, _ olmes.Formulation, doc, choice int, c *olmes.Choice) {
		if doc%3 == 0 {
			c.IDsSHA256 = other(c.IDsSHA256)
			c.ContinuationIDs = []int32{99}
		}
	})
	if c := cause(t, compare(t, spec(), b, reproduce.Options{}), reproduce.IDs, reproduce.Tokenization); c.Certain || !strings.Contains(c.Text, "not known") {
		t.Errorf("%+v", c)
	}
	a := spec()
	a.Change = func(id *record.Identity) { id.Model.TokenizerSHA256 = strings.Repeat("1", 64) }
	b.Change = func(id *record.Identity) { id.Model.TokenizerSHA256 = strings.Repeat("2", 64) }
	if c := cause(t, compare(t, a, b, reproduce.Options{}), reproduce.IDs, reproduce.Tokenization); !c.Certain {
		t.Errorf("%+v", c)
	}
	b = spec()
	each(&b, func(_ string, _ olmes.Formulation, _, _ int, c *olmes.Choice) {
		c.ContextTokens--
	})
	cause(t, compare(t, spec(), b, reproduce.Options{}), reproduce.IDs, reproduce.Boundary)
}

// quantized moves every log-probability as fewer bits do.
func quantized(s *outcometest.Spec, sd float64) {
	r := rand.New(rand.NewPCG(1, 2))
	each(s, func(_ string, _ olmes.Formulation, _, _ int, c *olmes.Choice) { move(c, sd*r.NormFloat64()) })
}

func TestLogProbs(t *testing.T) {
	q8 := func(id *record.Identity) {
		id.Model.WeightTypes = map[string]int{"Q8_0": 211, "F32": 61}
		id.Model.Quantized, id.Model.SHA256 = true, strings.Repeat("8", 64)
		id.Precision = record.Precision{Published: "q8_0", Computed: "q8_0"}
	}
	for _, c := range []struct {
		name   string
		change func(s *outcometest.Spec)
		code   reproduce.Code
		run    string
		text   string
	}{
		{"Q8_0", func(s *outcometest.Spec) { quantized(s, 0.05); s.Change = q8 }, reproduce.QuantizedWeights, "b", "A's are F32, B's Q8_0 and F32"},
		{"bf16", func(s *outcometest.Spec) {
			quantized(s, 0.02)
			s.Change = func(id *record.Identity) { id.Precision.Computed = "bf16" }
		}, reproduce.Precision, "b", "A computes with weights in f32, B in bf16"},
		{"cache", func(s *outcometest.Spec) {
			quantized(s, 0.01)
			s.Change = func(id *record.Identity) { id.Plan = json.RawMessage(`{"batch": 512, "kv_type": "f16"}`) }
		}, reproduce.Arithmetic, "", ""},
		{"weights", func(s *outcometest.Spec) {
			quantized(s, 2)
			s.Change = func(id *record.Identity) { id.Model.SHA256 = strings.Repeat("a", 64) }
		}, reproduce.OtherWeights, "", "other files"},
		{"engine", func(s *outcometest.Spec) {
			quantized(s, 0.01)
			s.Change = func(id *record.Identity) { id.Engine.Name = "torch" }
		}, reproduce.Arithmetic, "", "llamacpp 1 cpu and torch 1 cpu; a token moves by 0.0"},
		{"rounding", func(s *outcometest.Spec) { quantized(s, 0.01) }, reproduce.Arithmetic, "", "the records name the same weights"},
		{"fault", func(s *outcometest.Spec) { quantized(s, 5) }, reproduce.Unexplained, "", "hardly go together"},
		{"unknown", func(s *outcometest.Spec) {
			quantized(s, 0.05)
			s.Change = func(id *record.Identity) {
				id.Precision, id.Model.SHA256, id.Engine = record.Precision{}, "", record.Engine{}
			}
		}, reproduce.Unexplained, "", "in which precision B computed is not known"},
		{"shift", func(s *outcometest.Spec) {
			each(s, func(_ string, _ olmes.Formulation, _, _ int, c *olmes.Choice) { move(c, -0.25) })
		}, reproduce.Shift, "", "-0.25 nats a request"},
		{"base 2", func(s *outcometest.Spec) {
			each(s, func(_ string, _ olmes.Formulation, _, _ int, c *olmes.Choice) { move(c, *c.LogProb*(1/math.Ln2-1)) })
		}, reproduce.Scale, "", "B holds logarithms to the base 2"},
		{"mean of characters", func(s *outcometest.Spec) {
			each(s, func(_ string, _ olmes.Formulation, _, _ int, c *olmes.Choice) { move(c, -*c.LogProb/2) })
		}, reproduce.Scale, "", "means over characters"},
		{"ratio", func(s *outcometest.Spec) {
			each(s, func(_ string, _ olmes.Formulation, _, _ int, c *olmes.Choice) { move(c, *c.LogProb*0.2) })
		}, reproduce.Scale, "", "B's are 1.2 times A's"},
		{"chunk", func(s *outcometest.Spec) {
			r := rand.New(rand.NewPCG(1, 2))
			each(s, func(task string, f olmes.Formulation, _, _ int, c *olmes.Choice) {
				if task == "arc_easy" && f == olmes.MCF {
					move(c, r.NormFloat64())
				}
			})
		}, reproduce.OneChunk, "", "of 4"},
		{"unconditional", func(s *outcometest.Spec) {
			each(s, func(_ string, f olmes.Formulation, _, k int, c *olmes.Choice) {
				if f == olmes.CF {
					v := *c.Unconditional - float64(k)
					c.Unconditional, c.UnconditionalLogProbs = &v, []float64{v}
				}
			})
		}, reproduce.Unconditional, "", "short context"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := spec()
			c.change(&b)
			got := cause(t, compare(t, spec(), b, reproduce.Options{}), reproduce.LogProbs, c.code)
			if got.Run != c.run || !strings.Contains(got.Text, c.text) || len(got.Examples) != 5 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Two machines computed B, and one of them wrongly.
func TestOneEnvironment(t *testing.T) {
	b := spec()
	quantized(&b, 0.5)
	a, odd := load(t, "a", spec()), load(t, "b", b)
	// The second environment holds openbookqa; what the first computed is A's.
	for i, task := range odd.Tasks {
		for f, form := range task.Forms {
			if task.Name == "openbookqa" {
				for k := range form.Env {
					form.Env[k] = 1
				}
				continue
			}
			odd.Tasks[i].Forms[f] = a.Tasks[i].Forms[f]
		}
	}
	odd.Record.Provenance.Environments = append(odd.Record.Provenance.Environments, record.Environment{OS: "other", CPU: "odd"})
	r := reproduce.Compare(a, odd, reproduce.Options{})
	if c := cause(t, r, reproduce.LogProbs, reproduce.OneEnvironment); c.Run != "b" || !strings.Contains(c.Text, "environment 1 of B") || !strings.Contains(c.Text, "other odd") {
		t.Errorf("%+v", c)
	}
}

func TestGold(t *testing.T) {
	b := load(t, "b", spec())
	for _, form := range b.Tasks[0].Forms {
		form.Gold[17] = (form.Gold[17] + 1) % 4
	}
	r := reproduce.Compare(load(t, "a", spec()), b, reproduce.Options{})
	c := cause(t, r, reproduce.Instances, reproduce.GoldLabel)
	if c.Count != 2 || c.Examples[0].DocID != 17 || c.Examples[0].Task != "arc_easy" || len(c.Where) != 2 {
		t.Errorf("%+v", c)
	}
	if len(r.Flips) != 0 {
		t.Errorf("flips %+v", r.Flips)
	}
}

func TestMissing(t *testing.T) {
	a, b := load(t, "a", spec()), load(t, "b", spec())
	for _, form := range b.Tasks[0].Forms {
		drop(form, 12)
	}
	c := cause(t, reproduce.Compare(a, b, reproduce.Options{}), reproduce.Instances, reproduce.RequestMissing)
	if c.Run != "b" || c.Count != 2 || c.Examples[0].DocID != 12 {
		t.Errorf("%+v", c)
	}
	if c := cause(t, reproduce.Compare(b, a, reproduce.Options{}), reproduce.Instances, reproduce.RequestMissing); c.Run != "a" {
		t.Errorf("%+v", c)
	}
	// A limited run took fewer; another sample has some that the other has not.
	limit := spec()
	limit.Tasks[1].N = 10
	limit.Change = func(id *record.Identity) { id.Tasks[1].Selection = "limit 10" }
	if c := cause(t, compare(t, spec(), limit, reproduce.Options{}), reproduce.Instances, reproduce.Subset); c.Run != "b" || !strings.Contains(c.Text, "10: limit 10, the first of the split in file order") {
		t.Errorf("%+v", c)
	}
	left, right := load(t, "a", spec()), load(t, "b", spec())
	for range 10 {
		for _, form := range left.Tasks[1].Forms {
			drop(form, 20)
		}
		for _, form := range right.Tasks[1].Forms {
			drop(form, 0)
		}
	}
	right.Tasks[1].Selection = "mine"
	if c := cause(t, reproduce.Compare(left, right, reproduce.Options{}), reproduce.Instances, reproduce.OtherSample); !strings.Contains(c.Text, "A 20, the first of the split in file order, B 20: mine") || c.Count != 40 || c.Where[0].Of != 30 {
		t.Errorf("%+v", c)
	}
	// One choice is not there, another has no log-probability.
	part := load(t, "b", spec())
	cf := part.Tasks[0].Forms[olmes.CF]
	cut(cf, 5, 2)
	r := reproduce.Compare(load(t, "a", spec()), part, reproduce.Options{})
	if c := cause(t, r, reproduce.Instances, reproduce.RequestMissing); c.Count != 1 || c.Examples[0].DocID != 5 || *c.Examples[0].Choice != 2 {
		t.Errorf("%+v", c)
	}
	failed := load(t, "b", spec())
	failed.Tasks[0].Forms[olmes.CF].Choice.LogProb[4*6+1] = math.NaN()
	r = reproduce.Compare(load(t, "a", spec()), failed, reproduce.Options{})
	if c := cause(t, r, reproduce.Instances, reproduce.RequestFailed); c.Examples[0].DocID != 6 || *c.Examples[0].Choice != 1 {
		t.Errorf("%+v", c)
	}
	// A whole task.
	one := spec()
	one.Tasks = one.Tasks[:1]
	if c := cause(t, compare(t, spec(), one, reproduce.Options{}), reproduce.Instances, reproduce.TaskMissing); c.Run != "b" || !strings.Contains(c.Text, "openbookqa cf, openbookqa mcf") {
		t.Errorf("%+v", c)
	}
	split := spec()
	split.Tasks[0].Split = "validation"
	split.Tasks = split.Tasks[:1]
	first := spec()
	first.Tasks = first.Tasks[:1]
	r = compare(t, first, split, reproduce.Options{})
	if r.First == nil || r.First.Code != reproduce.OtherSplit {
		t.Errorf("%+v", r.First)
	}
}

// drop takes an instance out of a form.
func drop(f *outcome.Form, i int) {
	for f.Start[i+1] > f.Start[i] {
		cut(f, i, 0)
	}
	f.DocID, f.Gold, f.Start = slices.Delete(f.DocID, i, i+1), slices.Delete(f.Gold, i, i+1), slices.Delete(f.Start, i, i+1)
	f.NativeID, f.Env, f.Chunk = slices.Delete(f.NativeID, i, i+1), slices.Delete(f.Env, i, i+1), slices.Delete(f.Chunk, i, i+1)
	for k := range f.Best {
		f.Best[k] = slices.Delete(f.Best[k], i, i+1)
	}
}

// cut takes a choice out of an instance.
func cut(f *outcome.Form, i, choice int) {
	k := int(f.Start[i]) + choice
	c := &f.Choice
	c.LogProb, c.Unconditional = slices.Delete(c.LogProb, k, k+1), slices.Delete(c.Unconditional, k, k+1)
	c.Tokens, c.Chars = slices.Delete(c.Tokens, k, k+1), slices.Delete(c.Chars, k, k+1)
	c.Context, c.Dropped = slices.Delete(c.Context, k, k+1), slices.Delete(c.Dropped, k, k+1)
	c.Request, c.IDs = slices.Delete(c.Request, k, k+1), slices.Delete(c.IDs, k, k+1)
	c.TokenID, c.TokenLogProb = slices.Delete(c.TokenID, k, k+1), slices.Delete(c.TokenLogProb, k, k+1)
	for j := i + 1; j < len(f.Start); j++ {
		f.Start[j]--
	}
}

// The oracle counts doc_ids in the sample, others in the split.
func TestNumbering(t *testing.T) {
	a, b := spec(), load(t, "b", spec())
	for _, form := range b.Tasks[1].Forms {
		for i := range form.DocID {
			form.DocID[i] += 3
			form.NativeID[i] = ""
		}
	}
	r := reproduce.Compare(load(t, "a", a), b, reproduce.Options{})
	if c := cause(t, r, reproduce.Instances, reproduce.Numbering); c.Count != 60 || c.Examples[0].Detail != "doc_id 3 in B" {
		t.Errorf("%+v", c)
	}
	if s := stage(t, r, reproduce.LogProbs); s.Same != reproduce.Yes || s.Compared != 560 {
		t.Errorf("%+v", s)
	}
}

// Records of another tool hold less; what they do not say is unknown.
func TestUnknown(t *testing.T) {
	b := spec()
	each(&b, func(_ string, _ olmes.Formulation, _, _ int, c *olmes.Choice) {
		c.RequestSHA256, c.IDsSHA256, c.ContextTokens, c.TokenLogProbs, c.ContinuationIDs = "", "", 0, nil, nil
	})
	b.Noise = 0
	b.Provenance.Evidence = record.ImportedInstances
	a := spec()
	a.Noise = 0
	r := compare(t, a, b, reproduce.Options{})
	for name, want := range map[reproduce.StageName]reproduce.Answer{reproduce.Instances: reproduce.Yes, reproduce.Requests: reproduce.Unknown, reproduce.IDs: reproduce.Unknown, reproduce.LogProbs: reproduce.Yes, reproduce.Decisions: reproduce.Yes} {
		if s := stage(t, r, name); s.Same != want {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if r.First != nil || len(r.Unknown) != 2 || strings.Contains(r.Verdict, "The runs are the same") {
		t.Errorf("unknown %q, verdict %q", r.Unknown, r.Verdict)
	}
	quantized(&b, 1.5)
	r = compare(t, a, b, reproduce.Options{})
	if len(r.Flips) == 0 || r.Flips[0].NearTie != reproduce.Unknown || r.Flips[0].Input != reproduce.Unknown {
		t.Errorf("%+v", r.Flips)
	}
	if !strings.Contains(strings.Join(r.Unknown, "\n"), "give a margin with --noise") {
		t.Errorf("%q", r.Unknown)
	}
	// Scores alone.
	r = reproduce.Compare(load(t, "a", spec()), &outcome.Run{Source: outcome.Source{Label: "b", Record: load(t, "b", spec()).Record}, Metrics: load(t, "c", spec()).Metrics}, reproduce.Options{})
	if len(r.Scores) != 4 || r.Scores[0].SE == nil || stage(t, r, reproduce.Instances).Same != reproduce.Unknown {
		t.Errorf("%+v", r)
	}
}

func TestFlips(t *testing.T) {
	b := spec()
	quantized(&b, 1.5)
	a := spec()
	a.Noise, b.Noise = 0.05, 0.05
	r := compare(t, a, b, reproduce.Options{})
	if len(r.Flips) < 3 || r.Agree == reproduce.Unknown {
		t.Fatalf("%d flips", len(r.Flips))
	}
	near := map[reproduce.Answer]int{}
	for _, f := range r.Flips {
		near[f.NearTie]++
		if *f.MarginA < 0 || *f.MarginB < 0 || f.A == f.B || f.Input != reproduce.Yes {
			t.Errorf("%+v", f)
		}
		if want := min(*f.MarginA, *f.MarginB) <= 0.1; want != (f.NearTie == reproduce.Yes) {
			t.Errorf("%+v", f)
		}
	}
	if near[reproduce.Yes] == 0 || near[reproduce.No] == 0 {
		t.Errorf("%v", near)
	}
	for _, s := range r.Scores {
		if math.Abs(s.B-s.A-s.Difference) > 1e-12 {
			t.Errorf("%+v", s)
		}
	}
	// Noise that the user gives decides.
	for _, f := range compare(t, a, b, reproduce.Options{Noise: 100}).Flips {
		if f.NearTie != reproduce.Yes {
			t.Errorf("%+v", f)
		}
	}
}
