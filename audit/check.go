package audit

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Check is a relation that the numbers of a source should keep. Exactly one of
// the relations is given, by ids of claims.
type Check struct {
	Says       string   `yaml:"says" json:"says"`   // the relation in words
	Value      string   `yaml:"value" json:"value"` // the claim that should follow from the others
	Mean       []string `yaml:"mean,omitempty" json:"mean,omitempty"`
	Sum        []string `yaml:"sum,omitempty" json:"sum,omitempty"`
	Difference []string `yaml:"difference,omitempty" json:"difference,omitempty"` // first minus second
	Ratio      []string `yaml:"ratio,omitempty" json:"ratio,omitempty"`           // first by second, which is not 0
	Share      []string `yaml:"share,omitempty" json:"share,omitempty"`           // first as a percentage of second
	Complement string   `yaml:"complement,omitempty" json:"complement,omitempty"` // 100 minus it
	Equal      string   `yaml:"equal,omitempty" json:"equal,omitempty"`
}

// Verdict is the outcome of a check.
type Verdict struct {
	Check    Check  `json:"check"`
	Stated   Number `json:"stated"`
	Bound    Bound  `json:"bound,omitempty"` // of the number stated
	Computed Range  `json:"computed"`        // from the other numbers, as exact as they are printed
	Holds    bool   `json:"holds"`
}

// Range holds a value that is known as far as its digits go.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

func (n Number) span() Range { return Range{n.Value - n.Half(), n.Value + n.Half()} }

func (r Range) holds(v float64) bool { return r.Low <= v && v <= r.High }

// Contradiction is what a source says in two ways.
type Contradiction struct {
	At   string `yaml:"at,omitempty" json:"at,omitempty"`
	Says string `yaml:"says" json:"says"`
}

// relations lists the operands of each relation that is given.
func (c *Check) relations() [][]string {
	var out [][]string
	for _, list := range [][]string{c.Mean, c.Sum, c.Difference, c.Ratio, c.Share} {
		if len(list) > 0 {
			out = append(out, list)
		}
	}
	for _, one := range []string{c.Complement, c.Equal} {
		if one != "" {
			out = append(out, []string{one})
		}
	}
	return out
}

// valid returns what is wrong with a check on the claims that have ids. One that
// divides by what may be 0 has no outcome, and is wrong too.
func (c *Check) valid(value map[string]Number) error {
	given := c.relations()
	if len(given) != 1 {
		return fmt.Errorf("%d relations; give exactly one of mean, sum, difference, ratio, share, complement, equal", len(given))
	}
	for _, list := range [][]string{c.Difference, c.Ratio, c.Share} {
		if len(list) > 0 && len(list) != 2 {
			return errors.New("difference, ratio and share are of two claims")
		}
	}
	for _, id := range append(slices.Clone(given[0]), c.Value) {
		if _, ok := value[id]; id == "" || !ok {
			return fmt.Errorf("no claim has the id %q", id)
		}
	}
	for _, list := range [][]string{c.Ratio, c.Share} {
		if len(list) == 0 {
			continue
		}
		// A printed number may stand for 0 where it is 0 to its last digit.
		if by := value[list[1]]; by.span().holds(0) {
			return fmt.Errorf("undefined, since it divides by %s, which is %s", list[1], by)
		}
	}
	return nil
}

// slack is what binary fractions may miss of decimal ones.
const slack = 1e-9

// rough is how far, as a share of it, a number that is called rough may be off.
const rough = 0.05

// Verify computes every check of the ledger. A relation holds where numbers
// exist that round to the printed ones and keep it; where the value is a bound,
// what is computed must be on the right side of it.
func (l *Ledger) Verify() []Verdict {
	value := map[string]Number{}
	bound := map[string]Bound{}
	for _, c := range l.Claims {
		if c.ID != "" {
			value[c.ID], bound[c.ID] = c.Value, c.Bound
		}
	}
	out := make([]Verdict, 0, len(l.Checks))
	for _, c := range l.Checks {
		v := Verdict{Check: c, Stated: value[c.Value], Bound: bound[c.Value], Computed: c.compute(value)}
		stated := v.Stated.span()
		switch v.Bound {
		case Low:
			v.Holds = v.Computed.High >= v.Stated.Value-slack
		case High:
			v.Holds = v.Computed.Low <= v.Stated.Value+slack
		case About:
			off := rough * math.Abs(v.Stated.Value)
			stated.Low, stated.High = min(stated.Low, v.Stated.Value-off), max(stated.High, v.Stated.Value+off)
			fallthrough
		default:
			v.Holds = stated.High >= v.Computed.Low-slack && stated.Low <= v.Computed.High+slack
		}
		out = append(out, v)
	}
	return out
}

func (c *Check) compute(value map[string]Number) Range {
	two := func(list []string) (a, b Range) { return value[list[0]].span(), value[list[1]].span() }
	switch {
	case len(c.Mean) > 0, len(c.Sum) > 0:
		list := append(slices.Clone(c.Mean), c.Sum...)
		var r Range
		for _, id := range list {
			s := value[id].span()
			r.Low, r.High = r.Low+s.Low, r.High+s.High
		}
		if len(c.Mean) > 0 {
			n := float64(len(list))
			r.Low, r.High = r.Low/n, r.High/n
		}
		return r
	case len(c.Difference) > 0:
		a, b := two(c.Difference)
		return Range{a.Low - b.High, a.High - b.Low}
	case len(c.Ratio) > 0:
		return quotient(two(c.Ratio))
	case len(c.Share) > 0:
		// Counts are exact.
		a, b := value[c.Share[0]].Value, value[c.Share[1]].Value
		return Range{100 * a / b, 100 * a / b}
	case c.Complement != "":
		s := value[c.Complement].span()
		return Range{100 - s.High, 100 - s.Low}
	}
	return value[c.Equal].span()
}

// quotient is the range of a/b, of any signs, where b does not hold 0: over a
// box that a/b is defined on, its ends lie at corners.
func quotient(a, b Range) Range {
	corners := []float64{a.Low / b.Low, a.Low / b.High, a.High / b.Low, a.High / b.High}
	return Range{slices.Min(corners), slices.Max(corners)}
}
