package reproduce

import (
	"fmt"

	"olmes"
	"olmes/outcome"
)

// decisions asks whether both runs choose the same, under the normalization in
// force.
func (c *comparison) decisions() ([]Flip, Stage) {
	s := Stage{Name: Decisions, Unit: "decisions", Same: Unknown}
	var flips []Flip
	near, undecided := 0, 0
	for _, p := range c.pairs {
		if !p.comparable {
			continue
		}
		norm := p.a.Normalization
		if norm == "" || p.b.Normalization != norm {
			norm = p.b.Normalization
		}
		k := normalization(norm)
		if k < 0 {
			s.Unknown += len(p.both)
			continue
		}
		noise, measured := c.marginNoise(p.formulation, norm)
		for i, x := range p.both {
			a, b := p.a.Best[k][x.A], p.b.Best[k][x.B]
			if a < 0 || b < 0 || !p.ordered[i] {
				s.Unknown++
				undecided++
				continue
			}
			s.Compared++
			if a == b {
				continue
			}
			s.Different++
			f := c.flip(p, x, norm, int(a), int(b))
			f.Noise, f.NearTie = noise, Unknown
			if measured && f.MarginA != nil && f.MarginB != nil {
				f.NearTie = No
				if min(*f.MarginA, *f.MarginB) <= noise {
					f.NearTie = Yes
					near++
				}
			}
			flips = append(flips, f)
		}
		if undecided > 0 {
			c.doubt("%s: %d instances have no decision under %s in one of the runs", p.name(), undecided, norm)
			undecided = 0
		}
	}
	s.Same = outcomeOf(s.Different, s.Unknown, s.Compared)
	switch {
	case c.apart():
		s.Text = "no decisions to compare: " + noneShared
	case s.Compared == 0:
		s.Text = "no decisions to compare"
	case s.Different == 0:
		s.Text = fmt.Sprintf("the same choice in all %s", plural(s.Compared, "decision", "decisions"))
	default:
		s.Text = fmt.Sprintf("%d of %s flipped; %s", s.Different, plural(s.Compared, "decision", "decisions"), c.nearText(flips, near))
	}
	if s.Compared > 0 && s.Unknown > 0 {
		s.Text += fmt.Sprintf("; of %d instances they are not known", s.Unknown)
	}
	return flips, s
}

// nearText says how many flips are near-ties.
func (c *comparison) nearText(flips []Flip, near int) string {
	unknown, other := 0, 0
	for _, f := range flips {
		if f.NearTie == Unknown {
			unknown++
		}
		if f.Input == No {
			other++
		}
	}
	text := fmt.Sprintf("%d are near-ties by the measured noise", near)
	switch {
	case unknown == len(flips):
		text = "whether they are near-ties is not known, since neither run has measured its noise"
	case near == len(flips):
		text = "every one is a near-tie by the measured noise"
	}
	if other > 0 {
		text += fmt.Sprintf("; %d had other requests or ids", other)
	}
	return text
}

func normalization(n olmes.Normalization) int {
	for i, o := range olmes.Normalizations() {
		if o == n {
			return i
		}
	}
	return -1
}

// marginNoise is how far rounding may move the margin between two choices, both
// runs' measurements together.
func (c *comparison) marginNoise(f olmes.Formulation, n olmes.Normalization) (float64, bool) {
	if c.o.Noise > 0 {
		return c.o.Noise, true
	}
	sum, ok := 0.0, false
	for _, r := range []*outcome.Run{c.a, c.b} {
		if m, has := r.Record.Provenance.Noise.Margin(f, n); has {
			sum, ok = sum+m, true
		}
	}
	return sum, ok
}

// flip describes one decision that differs.
func (c *comparison) flip(p *pair, x outcome.Pair, norm olmes.Normalization, a, b int) Flip {
	f := Flip{Task: p.ta.Name, Variant: p.ta.Variant, Formulation: p.formulation, Normalization: norm, DocID: int(p.a.DocID[x.A]),
		A: a, B: b, Gold: int(p.a.Gold[x.A]), Turn: "unchanged", Input: Yes}
	f.MarginA, f.MarginB = margin(p.a, x.A, a, b, norm), margin(p.b, x.B, b, a, norm)
	switch gold := f.Gold; {
	case gold != int(p.b.Gold[x.B]):
		f.Turn = "gold"
	case gold == b:
		f.Turn = "right"
	case gold == a:
		f.Turn = "wrong"
	}
	ka, kb, n := p.choices(x)
	for k := range n {
		text, ids := p.sameText(ka+k, kb+k), p.sameIDs(ka+k, kb+k)
		switch {
		case text == No || ids == No || p.moved(ka+k, kb+k):
			f.Input = No
		case ids == Unknown && f.Input == Yes:
			f.Input = Unknown
		}
	}
	return f
}

// margin is how far a choice's value lies above another's, nil where the run has
// not both.
func margin(f *outcome.Form, i, choice, other int, n olmes.Normalization) *float64 {
	if most := int(f.Start[i+1] - f.Start[i]); choice >= most || other >= most {
		return nil
	}
	x, okX := f.Value(i, choice, n)
	y, okY := f.Value(i, other, n)
	if !okX || !okY {
		return nil
	}
	d := x - y
	return &d
}
