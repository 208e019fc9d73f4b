package audit

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"olmes/document"
)

// Ledger is a file of published claims.
type Ledger struct {
	Format int     `yaml:"ledger" json:"ledger"` // of the file: 1
	Title  string  `yaml:"title" json:"title"`
	Source string  `yaml:"source,omitempty" json:"source,omitempty"` // where all of it is from
	Claims []Claim `yaml:"claims" json:"claims"`
	// Checks are relations between claims that the source states or implies.
	Checks []Check `yaml:"checks,omitempty" json:"checks,omitempty"`
	// Contradictions of the source that no check can show, in words.
	Contradictions []Contradiction `yaml:"contradictions,omitempty" json:"contradictions,omitempty"`
}

// Claim is one published number.
type Claim struct {
	ID   string `yaml:"id,omitempty" json:"id,omitempty"` // for checks; unique
	At   string `yaml:"at,omitempty" json:"at,omitempty"` // place in the source: "Table 4"
	By   string `yaml:"by,omitempty" json:"by,omitempty"` // reference that publishes it, where that is not the ledger's source
	Kind Kind   `yaml:"kind,omitempty" json:"kind,omitempty"`
	// Model and Task are names; "average" is the mean of all tasks. Empty where
	// the number is of no single one.
	Model string `yaml:"model,omitempty" json:"model,omitempty"`
	Task  string `yaml:"task,omitempty" json:"task,omitempty"`
	Setup `yaml:",inline"`
	Value Number `yaml:"value" json:"value"`                     // as printed; scores are in percent
	Unit  string `yaml:"unit,omitempty" json:"unit,omitempty"`   // "percent" where empty
	Bound Bound  `yaml:"bound,omitempty" json:"bound,omitempty"` // the number is an end of a range, or said to be rough
	Note  string `yaml:"note,omitempty" json:"note,omitempty"`
}

// Setup is how a score was made. Unknown ("?") and empty are the same: it is not
// documented.
type Setup struct {
	Formulation   string `yaml:"formulation,omitempty" json:"formulation,omitempty"`     // "cf", "mcf", "best" (the better of the two)
	Normalization string `yaml:"normalization,omitempty" json:"normalization,omitempty"` // "none", "token", "character", "pmi"
	Shots         string `yaml:"shots,omitempty" json:"shots,omitempty"`                 // number of examples
	Split         string `yaml:"split,omitempty" json:"split,omitempty"`
	Examples      string `yaml:"examples,omitempty" json:"examples,omitempty"` // "curated", "sampled"
}

// Field is one part of a setup.
type Field struct{ Name, Value string }

// Fields lists the parts in their order.
func (s Setup) Fields() []Field {
	return []Field{{"formulation", s.Formulation}, {"normalization", s.Normalization}, {"shots", s.Shots}, {"split", s.Split}, {"examples", s.Examples}}
}

// known reports whether a part of a setup is documented.
func known(v string) bool { return v != "" && v != "?" }

// Kind says what a claim's number is.
type Kind string

// Score is an accuracy; only scores are compared with each other and with runs.
// The others are facts of a source that its checks use.
const (
	Score      Kind = "score"
	Difference Kind = "difference"
	WinShare   Kind = "win-share"
	Oracle     Kind = "diff-oracle"
	Error      Kind = "error"
	Count      Kind = "count"
	Other      Kind = "other"
)

// Bound says that a number is not the value itself.
type Bound string

// A claim is exact where it has none.
const (
	Low   Bound = "low"
	High  Bound = "high"
	About Bound = "about"
)

// Number is a value as printed: its last digit says how exact it is.
type Number struct {
	Value    float64
	Decimals int // digits printed after the point

	given bool // it was read
}

// Bounds of a number: any that is published lies far within, and what checks
// compute from such numbers is finite.
const (
	maxNumber   = 1e15
	maxDecimals = 15
)

// parseNumber reads a plain decimal number.
func parseNumber(text string) (Number, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) || strings.ContainsAny(text, "xXpPeE_") {
		return Number{}, fmt.Errorf("%.40q is no plain number", text)
	}
	_, fraction, _ := strings.Cut(text, ".")
	if math.Abs(v) > maxNumber || len(fraction) > maxDecimals {
		return Number{}, fmt.Errorf("%.40q is out of range: numbers are up to %.0f, with up to %d decimals", text, float64(maxNumber), maxDecimals)
	}
	return Number{v, len(fraction), true}, nil
}

// Half is half a unit of the last digit: the value printed stands for any
// between Value − Half and Value + Half.
func (n Number) Half() float64 { return 0.5 * math.Pow10(-n.Decimals) }

// String writes the number with its digits.
func (n Number) String() string { return strconv.FormatFloat(n.Value, 'f', n.Decimals, 64) }

// MarshalJSON writes the number with its digits.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalYAML reads the number and keeps its digits.
func (n *Number) UnmarshalYAML(data []byte) error {
	v, err := parseNumber(strings.TrimSpace(string(data)))
	if err != nil {
		return err
	}
	*n = v
	return nil
}

// MarshalYAML writes the number with its digits.
func (n Number) MarshalYAML() ([]byte, error) { return []byte(n.String()), nil }

// Read reads a ledger of up to 1 MB (document.MaxBytes). Errors name the line.
func Read(r io.Reader) (*Ledger, error) {
	var l Ledger
	if err := document.Read(r, &l); errors.Is(err, document.ErrEmpty) {
		return nil, errors.New("the ledger is empty")
	} else if err != nil {
		return nil, err
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	return &l, nil
}

//go:embed paper.yaml
var paper []byte

// Paper returns the ledger of the OLMES paper's numbers (arXiv 2406.08446).
func Paper() (*Ledger, error) { return Read(bytes.NewReader(paper)) }

// check returns the first fault of a ledger.
func (l *Ledger) check() error {
	if l.Format != 1 {
		return fmt.Errorf("ledger: %d is not 1: the file must begin with \"ledger: 1\"", l.Format)
	}
	values := map[string]Number{} // by id
	for i := range l.Claims {
		c := &l.Claims[i]
		if c.Kind == "" {
			c.Kind = Score
		}
		where := fmt.Sprintf("claim %d (%s)", i+1, c.name())
		_, twice := values[c.ID]
		switch {
		case !c.Value.given:
			return fmt.Errorf("%s: it has no value", where)
		case !slices.Contains([]Kind{Score, Difference, WinShare, Oracle, Error, Count, Other}, c.Kind):
			return fmt.Errorf("%s: kind %q is not known", where, c.Kind)
		case !slices.Contains([]Bound{"", Low, High, About}, c.Bound):
			return fmt.Errorf("%s: bound %q is none of low, high, about", where, c.Bound)
		case c.Kind == Score && c.Unit == "" && (c.Value.Value < 0 || c.Value.Value > 100):
			return fmt.Errorf("%s: a score of %s; scores are in percent, from 0 to 100", where, c.Value)
		case !slices.Contains([]string{"", "?", "cf", "mcf", "best"}, c.Formulation):
			return fmt.Errorf("%s: formulation %q is none of cf, mcf, best, ?", where, c.Formulation)
		case !slices.Contains([]string{"", "?", "none", "token", "character", "pmi"}, c.Normalization):
			return fmt.Errorf("%s: normalization %q is none of none, token, character, pmi, ?", where, c.Normalization)
		case c.ID != "" && twice:
			return fmt.Errorf("%s: the id %q stands twice", where, c.ID)
		}
		values[c.ID] = c.Value
	}
	for i, c := range l.Checks {
		if err := c.valid(values); err != nil {
			return fmt.Errorf("check %d (%s): %w", i+1, c.Says, err)
		}
	}
	return nil
}

// name tells a claim apart for people.
func (c *Claim) name() string {
	var parts []string
	for _, p := range []string{c.ID, c.By, c.At, c.Model, c.Task, c.Formulation, c.Normalization} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ", ")
}

// Reference says who publishes a claim.
func (c *Claim) Reference() string {
	if c.By != "" {
		return c.By
	}
	return c.At
}
