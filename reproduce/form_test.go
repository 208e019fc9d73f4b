package reproduce_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"olmes"
	"olmes/reproduce"
)

func nan() float64 { return math.NaN() }

// scaled puts a choice's log-probability, and its tokens', in a ratio.
func scaled(c *olmes.Choice, by float64) { move(c, *c.LogProb*(by-1)) }

// A rule that one task, or what one chunk holds, follows exactly is named, and
// neither run's chunk.
func TestExactInPart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	part := func(task string, f olmes.Formulation) bool { return task == "arc_easy" && f == olmes.MCF }
	for _, c := range []struct {
		name   string
		change func(task string, f olmes.Formulation, doc, choice int, c *olmes.Choice)
		noise  float64
		codes  []reproduce.Code
		runs   string
		text   string
	}{
		{"base 2 in one task", func(task string, f olmes.Formulation, _, _ int, c *olmes.Choice) {
			if part(task, f) {
				scaled(c, 1/math.Ln2)
			}
		}, 0.001, []reproduce.Code{reproduce.Scale}, "", "B holds logarithms to the base 2, only in arc_easy mcf"},
		{"base 2 in one task, no noise measured", func(task string, f olmes.Formulation, _, _ int, c *olmes.Choice) {
			if part(task, f) {
				scaled(c, 1/math.Ln2)
			}
		}, 0, []reproduce.Code{reproduce.Scale}, "", "only in arc_easy mcf"},
		{"base 2 in both formulations", func(task string, _ olmes.Formulation, _, _ int, c *olmes.Choice) {
			if task == "arc_easy" {
				scaled(c, math.Ln2)
			}
		}, 0.001, []reproduce.Code{reproduce.Scale}, "", "A holds logarithms to the base 2, only in arc_easy cf, arc_easy mcf"},
		{"a ratio besides rounding", func(task string, f olmes.Formulation, _, _ int, c *olmes.Choice) {
			if part(task, f) {
				scaled(c, 1.25)
			} else {
				move(c, 1e-4*random.NormFloat64())
			}
		}, 0, []reproduce.Code{reproduce.Scale, reproduce.Unexplained}, "", "B's are 1.25 times A's, only in arc_easy mcf"},
		{"two rules", func(task string, f olmes.Formulation, _, _ int, c *olmes.Choice) {
			if part(task, f) {
				scaled(c, 1.25)
			} else if f == olmes.MCF {
				move(c, -0.5)
			}
		}, 0.001, []reproduce.Code{reproduce.Scale, reproduce.Shift}, "", "B's are 1.25 times A's, only in arc_easy mcf"},
		{"sums that are not the tokens'", func(task string, f olmes.Formulation, _, _ int, c *olmes.Choice) {
			if part(task, f) {
				tokens := c.TokenLogProbs
				scaled(c, 1/math.Ln2)
				c.TokenLogProbs = tokens
			}
		}, 0.001, []reproduce.Code{reproduce.Scale}, "b", "B's own tokens do not add up"},
		{"no rule", func(task string, f olmes.Formulation, _, _ int, c *olmes.Choice) {
			if part(task, f) {
				move(c, random.NormFloat64())
			}
		}, 0.001, []reproduce.Code{reproduce.OneChunk}, "", " of A (of 4) and chunk "},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := spec(), spec()
			a.Noise, b.Noise = c.noise, c.noise
			each(&b, c.change)
			r := compare(t, a, b, reproduce.Options{})
			causes := stage(t, r, reproduce.LogProbs).Causes
			if len(causes) != len(c.codes) {
				t.Fatalf("%+v", causes)
			}
			for i, code := range c.codes {
				if causes[i].Code != code {
					t.Errorf("%+v", causes[i])
				}
			}
			if first := causes[0]; first.Run != c.runs || !strings.Contains(first.Text, c.text) {
				t.Errorf("%+v", first)
			}
			if n := causes[0].Where[0]; c.codes[0] == reproduce.Scale && n.Instances != n.Of {
				t.Errorf("%+v", n)
			}
		})
	}
}

// A run that does not say what it computed together blames not the other's chunk.
func TestOneChunkOfOneRun(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	moved := spec()
	each(&moved, func(task string, f olmes.Formulation, _, _ int, c *olmes.Choice) {
		if task == "arc_easy" && f == olmes.MCF {
			move(c, random.NormFloat64())
		}
	})
	b := load(t, "b", moved)
	for _, task := range b.Tasks {
		for _, form := range task.Forms {
			clear(form.Chunk)
		}
	}
	r := reproduce.Compare(load(t, "a", spec()), b, reproduce.Options{})
	if c := cause(t, r, reproduce.LogProbs, reproduce.OneChunk); c.Run != "" || !strings.Contains(c.Text, "only what chunk ") || !strings.Contains(c.Text, " of A (of 4) holds differs") {
		t.Errorf("%+v", c)
	}
}

// A rule of the requests after the short context alone is no other context.
func TestExactUnconditional(t *testing.T) {
	for name, in := range map[string]func(task string) bool{"all": func(string) bool { return true }, "one task": func(task string) bool { return task == "openbookqa" }} {
		a, b := spec(), spec()
		vary := func(by float64) func(task string, f olmes.Formulation, doc, choice int, c *olmes.Choice) {
			return func(task string, f olmes.Formulation, doc, choice int, c *olmes.Choice) {
				if f != olmes.CF {
					return
				}
				v := -3 - float64(doc%7) - float64(choice)/4
				if in(task) {
					v *= by
				}
				c.Unconditional, c.UnconditionalLogProbs = &v, []float64{v}
			}
		}
		each(&a, vary(1))
		each(&b, vary(1/math.Ln2))
		c := cause(t, compare(t, a, b, reproduce.Options{}), reproduce.LogProbs, reproduce.Scale)
		if !strings.HasPrefix(c.Text, "after the short context alone B holds logarithms to the base 2") {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
