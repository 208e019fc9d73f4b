package run

import (
	"context"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"olmes"
	"olmes/engine"
	"olmes/engine/enginetest"
	"olmes/record"
	"olmes/score"
	"olmes/trie"
)

// recordOf opens a run's record, which must be whole.
func recordOf(t *testing.T, dir string) (*record.Record, map[olmes.Key]olmes.Prediction) {
	t.Helper()
	rec, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := rec.Verify()
	if err != nil {
		t.Fatal(err)
	}
	if rep.Damaged() {
		t.Fatalf("damage: %v", rep.Damage)
	}
	byKey := map[olmes.Key]olmes.Prediction{}
	for _, p := range predictions(t, dir) {
		byKey[p.Key()] = p
	}
	return rec, byKey
}

// variantRun is bigramRun with variants, on tasks of two, four and five choices.
func variantRun(t *testing.T, e *enginetest.Bigram, variants ...string) (Config, Env) {
	c, env := bigramRun(t, e)
	c.Tasks, c.Limit, c.Variants = []string{"arc_easy", "openbookqa", "winogrande"}, 4, variants
	return c, env
}

// TestRunVariants runs several variants at once: each has its own predictions,
// metrics and digests, choices map back, and the standard's own are those of a run
// without variants, byte for byte.
func TestRunVariants(t *testing.T) {
	b := &enginetest.Bigram{}
	c, env := variantRun(t, b, "standard", "var1", "var2", "cyclic", "reversed", "labels-numbers", "zero-shot", "no-description")
	notes := &notesReporter{}
	env.Reporter = notes
	out, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	rec, preds := recordOf(t, out.Dir)
	plain := c
	plain.Variants = nil
	alone, err := Do(t.Context(), plain, Options{NoReuse: true}, env)
	if err != nil {
		t.Fatal(err)
	}
	standard, own := recordOf(t, alone.Dir)

	// The standard's own part.
	n := 0
	for key, p := range own {
		if d := cmp.Diff(p, preds[key]); d != "" {
			t.Errorf("%v (-alone +beside variants):\n%s", key, d)
		}
		n++
	}
	if n != 24 {
		t.Errorf("%d predictions of the standard", n)
	}
	for _, want := range standard.Identity.Tasks {
		at := slices.IndexFunc(rec.Identity.Tasks, func(got record.Task) bool { return got.Name == want.Name && got.Variant == "" })
		if d := cmp.Diff(want, rec.Identity.Tasks[at]); d != "" {
			t.Errorf("%s in the identity (-alone +beside variants):\n%s", want.Name, d)
		}
	}
	if standard.Identity.ReuseKey() != rec.Identity.ReuseKey() {
		t.Error("a run of variants does not share chunks with the standard's")
	}

	// What is where.
	counts := map[string]int{}
	for key := range preds {
		counts[olmes.Label(key.Task, key.Variant)]++
	}
	want := map[string]int{}
	for _, name := range []string{"", "var1", "reversed", "cyclic1", "labels-numbers", "zero-shot"} {
		for _, task := range []string{"arc_easy", "openbookqa", "winogrande"} {
			want[olmes.Label(task, name)] = 8
		}
	}
	for _, name := range []string{"var2", "cyclic2", "cyclic3"} {
		for _, task := range []string{"arc_easy", "openbookqa"} {
			want[olmes.Label(task, name)] = 8
		}
	}
	if d := cmp.Diff(want, counts); d != "" {
		t.Errorf("predictions (-want +got):\n%s", d)
	}
	for _, text := range []string{"variant var2 is left out for winogrande: all rows", "variant no-description is left out for arc_easy, openbookqa, winogrande"} {
		if !slices.ContainsFunc(notes.said, func(s string) bool { return strings.HasPrefix(s, text) }) ||
			!slices.ContainsFunc(rec.Provenance.Notes, func(s string) bool { return strings.HasPrefix(s, text) }) {
			t.Errorf("%q is not said in %q and %q", text, notes.said, rec.Provenance.Notes)
		}
	}

	// Orders map back to the dataset's.
	for key, p := range preds {
		base := key
		base.Variant = ""
		standard := preds[base]
		order := rec.Identity.Order(key.Variant)
		if order == (olmes.Order{}) {
			if p.Order != nil || p.Gold != standard.Gold {
				t.Errorf("%v: order %v, gold %d", key, p.Order, p.Gold)
			}
			continue
		}
		if positions := order.Positions(len(p.Choices)); !slices.Equal(p.Order, positions) || positions[p.Gold] != standard.Gold {
			t.Errorf("%v: order %v, want %v; gold %d, the dataset's %d", key, p.Order, positions, p.Gold, standard.Gold)
		}
		if key.Formulation != olmes.CF {
			continue
		}
		for i, from := range p.Order {
			if a, b := p.Choices[i], standard.Choices[from]; *a.LogProb != *b.LogProb || a.RequestSHA256 != b.RequestSHA256 || !equal(a.Unconditional, b.Unconditional) {
				t.Errorf("%v: choice %d is not the standard's %d", key, i, from)
			}
		}
	}

	// Metrics, a variant by itself; the standard's average is of the standard's own.
	m, err := rec.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	apart, err := standard.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range apart.Tasks {
		if !slices.ContainsFunc(m.Tasks, func(o score.Task) bool { return cmp.Equal(o, task) }) {
			t.Errorf("the metrics of %s changed beside variants", task.Task)
		}
	}
	if len(m.Tasks) != len(want) {
		t.Errorf("%d metrics, %d tasks and variants", len(m.Tasks), len(want))
	}
	deviations := record.Deviations(rec.Identity, &m)
	if len(deviations) == 0 || deviations[0].Code != "variant" || !deviations[0].OffStandard || !strings.Contains(deviations[0].Text, "var1, var2, ") {
		t.Errorf("deviations %+v", deviations)
	}
	if len(deviations) != 4 { // a subset of each task is said once
		t.Errorf("%d deviations: %+v", len(deviations), deviations)
	}

	// Unchanged cloze requests cost nothing.
	for _, tokens := range rec.Provenance.TaskTokens {
		free := tokens.Formulation == "cf" && (slices.Contains(tokens.Variants, "labels-numbers") || slices.Contains(tokens.Variants, "cyclic1") ||
			slices.Contains(tokens.Variants, "var1") && tokens.Task == "winogrande") // which has no cue
		if free != (tokens.Distinct == 0) || free && tokens.Computed != 0 {
			t.Errorf("%+v", tokens)
		}
	}
	if got := rec.Provenance.Tokens; got.Computed < got.Distinct || got.Distinct > got.Naive {
		t.Errorf("tokens %+v", got)
	}
}

func equal(a, b *float64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// notesReporter keeps what it is told.
type notesReporter struct {
	Silent
	said []string
}

func (r *notesReporter) Note(text string) { r.said = append(r.said, text) }

// TestVariantsByHand compares the log-probabilities of every variant with the sums
// that the bigram model gives for its requests.
func TestVariantsByHand(t *testing.T) {
	b := &enginetest.Bigram{}
	c, env := variantRun(t, b, "var3", "cyclic", "shots-1", "random-examples", "labels-rare", "no-leading-space")
	out, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	_, preds := recordOf(t, out.Dir)
	checked := 0
	for r, err := range Requests(t.Context(), c, env, true) {
		if err != nil {
			t.Fatal(err)
		}
		p, ok := preds[r.Key]
		if !ok {
			t.Fatalf("no prediction of %v", r.Key)
		}
		got := p.Choices[r.Choice].LogProb
		if r.Unconditional {
			if got = p.Choices[r.Choice].Unconditional; got == nil && r.Task != "openbookqa" {
				continue // pmi is not scored for it
			}
		} else {
			checked++
		}
		if want := bigramSum(b, r); got == nil || math.Abs(*got-want) > 1e-9 {
			t.Errorf("%v choice %d, unconditional %v: %v, by hand %v", r.Key, r.Choice, r.Unconditional, got, want)
		}
		if r.Gold != p.Gold {
			t.Errorf("%v: gold %d, rendered %d", r.Key, p.Gold, r.Gold)
		}
	}
	sum := 0
	for _, p := range preds {
		sum += len(p.Choices)
	}
	if checked != sum || checked < 500 {
		t.Errorf("%d of %d choices checked", checked, sum)
	}
}

// TestVariantsReuse: a run of variants takes the standard's chunks from a finished
// run and the other way round, and a variant that changes no cloze request takes
// them as well.
func TestVariantsReuse(t *testing.T) {
	var scored atomic.Int32
	b := &enginetest.Bigram{Before: func(context.Context, *trie.Tree) error { scored.Add(1); return nil }}
	c, env := variantRun(t, b, "standard")
	c.Tasks = []string{"arc_easy:cf", "winogrande:cf"}
	first, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	plain := c
	plain.Variants = nil
	again, err := Do(t.Context(), plain, Options{}, env)
	if err != nil || again.ID != first.ID {
		t.Fatalf("the variant standard is run %s, no variant %s, %v", first.ID, again.ID, err)
	}
	scored.Store(0)
	other := c
	other.Variants = []string{"labels-numbers", "reversed", "cyclic1"}
	out, err := Do(t.Context(), other, Options{}, env)
	if err != nil {
		t.Fatal(err)
	}
	if n := scored.Load(); n != 0 {
		t.Errorf("%d trees were scored for requests that a finished run holds", n)
	}
	_, own := recordOf(t, first.Dir)
	_, preds := recordOf(t, out.Dir)
	for key, p := range preds {
		base := key
		base.Variant = ""
		for i := range p.Choices {
			from := i
			if p.Order != nil {
				from = p.Order[i]
			}
			if *p.Choices[i].LogProb != *own[base].Choices[from].LogProb {
				t.Errorf("%v choice %d has not the log-probability of the finished run", key, i)
			}
		}
	}
}

// TestVariantsScoredOnce: what variants have in common is scored once.
func TestVariantsScoredOnce(t *testing.T) {
	var mu sync.Mutex
	scored := map[string]int{}
	c, env := variantRun(t, &enginetest.Bigram{Parallel: 2, Before: func(_ context.Context, tree *trie.Tree) error {
		mu.Lock()
		defer mu.Unlock()
		scored[tree.ID()]++
		return nil
	}}, "standard", "labels-numbers", "cyclic", "var2")
	out, err := Do(t.Context(), c, Options{NoiseInstances: 1}, env)
	fetched(t, err)
	rec, _ := recordOf(t, out.Dir)
	if len(rec.Provenance.Chunks) == 0 {
		t.Error("no chunks")
	}
	repeated := 0
	for id := range rec.Provenance.Chunks {
		if n := scored[id]; n != 1 {
			t.Logf("chunk %.12s was scored %d times", id, n)
			repeated++
		}
	}
	// What the self-check repeats of an instance may be a chunk: all the
	// requests that it makes without a context.
	if most := 4; repeated > most {
		t.Errorf("%d of %d chunks were not scored once", repeated, len(rec.Provenance.Chunks))
	}
}

// TestVariantsUnsteady has an engine that never gives a number twice, as servers do:
// a chunk that variants have in common is not scored by two workers of the
// self-check at the same time.
func TestVariantsUnsteady(t *testing.T) {
	var calls atomic.Int64
	c, env := variantRun(t, &enginetest.Bigram{Parallel: 4,
		Before: func(context.Context, *trie.Tree) error { time.Sleep(10 * time.Millisecond); return nil },
		Change: func(_, _ int32, v float64) float64 { return v - 1e-10*float64(calls.Add(1)%1000) },
	}, "standard", "var2", "random-examples", "zero-shot")
	c.Tasks = []string{"openbookqa:cf"} // whose unconditional requests are the same in all
	out, err := Do(t.Context(), c, Options{NoiseInstances: 16}, env)
	fetched(t, err)
	recordOf(t, out.Dir)
}

// TestVariantsResume cancels a run of variants and resumes it; with several workers
// the results are the same.
func TestVariantsResume(t *testing.T) {
	b := &enginetest.Bigram{}
	c, env := variantRun(t, b, "standard", "cyclic", "labels-numbers", "var2")
	c.Tasks = []string{"openbookqa"}
	want, err := Do(t.Context(), c, Options{}, env)
	fetched(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int32
	env.Start = startBigram(&enginetest.Bigram{Parallel: 3, Before: func(context.Context, *trie.Tree) error {
		if calls.Add(1) == 9 {
			cancel()
			return ctx.Err()
		}
		return nil
	}})
	o := Options{Dir: filepath.Join(t.TempDir(), "r"), NoReuse: true}
	if _, err = Do(ctx, c, o, env); err == nil {
		t.Fatal("it was not cancelled")
	}
	env.Start = startBigram(&enginetest.Bigram{Parallel: 3})
	o.Resume = true
	if _, err := Do(t.Context(), c, o, env); err != nil {
		t.Fatal(err)
	}
	sameResults(t, want.Dir, o.Dir)
	recordOf(t, o.Dir)
}

// TestVariantsDiffer: every variant gives the run another identity, and none of
// them the template or the examples of another.
func TestVariantsDiffer(t *testing.T) {
	c, env := variantRun(t, &enginetest.Bigram{}, "standard", "var1", "var2", "var3", "cyclic1", "reversed", "shots-3", "random-examples", "random-examples-7", "labels-rare")
	c.Tasks, c.Limit = []string{"openbookqa:mcf"}, 1
	plan, err := DryRun(t.Context(), c, env)
	fetched(t, err)
	seen := map[string]string{}
	for _, task := range plan.Identity.Tasks {
		digest := task.Formulations[olmes.MCF].RequestsSHA256
		if seen[digest] != "" {
			t.Errorf("%s and %s have the same requests", seen[digest], task.Variant)
		}
		seen[digest] = task.Variant
		if (task.TemplateSHA256 == "") != (task.Variant == "") {
			t.Errorf("%q has the template %q", task.Variant, task.TemplateSHA256)
		}
	}
	if len(seen) != 10 || len(plan.Identity.Variants) != 9 {
		t.Errorf("%d renderings, %d variants", len(seen), len(plan.Identity.Variants))
	}
	if got := slices.Sorted(maps.Values(seen)); got[0] != "" {
		t.Errorf("renderings %q", got)
	}
	ids := map[string]bool{plan.ID: true}
	for _, v := range []string{"var1", "var2", "cyclic1", "random-examples-7"} {
		c.Variants = []string{v}
		plan, err := DryRun(t.Context(), c, env)
		if err != nil {
			t.Fatal(err)
		}
		ids[plan.ID] = true
	}
	if len(ids) != 5 {
		t.Errorf("%d ids of 5 runs", len(ids))
	}
}

// TestVariantsRefused: what cannot be rendered is said before any work.
func TestVariantsRefused(t *testing.T) {
	c, env := variantRun(t, &enginetest.Bigram{})
	env.Start = func(context.Context, Setup) (engine.Engine, error) {
		t.Error("an engine was started")
		return &enginetest.Bigram{}, nil
	}
	for _, bad := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Variants = []string{"var9"} }, `no variant "var9"; did you mean "var`},
		{func(c *Config) { c.Variants, c.Tasks = []string{"var2"}, []string{"csqa"} }, "none of the tasks has such a variant: variant var2 is left out for csqa: all rows"},
		{func(c *Config) {
			c.Variants, c.Tasks, c.Split = []string{"var2"}, []string{"openbookqa"}, "validation"
			c.All, c.Limit = true, 0
		}, "as an example, which this run evaluates"},
		{func(c *Config) {
			c.Variants, c.Tasks = []string{"random-examples"}, []string{"boolq"}
			c.All, c.Limit = true, 0
		}, "of split validation as an example"},
		{func(c *Config) { c.Variant = "var1" }, "give it as --variant var1"},
	} {
		one := c
		bad.change(&one)
		_, err := Do(t.Context(), one, Options{}, env)
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, want %q", err, bad.want)
		}
	}
}
