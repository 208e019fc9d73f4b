package study

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Checkpoint is a model at one moment of its training.
type Checkpoint struct {
	Step  float64
	Model Model
}

// Axis says what a series of checkpoints is counted in.
type Axis string

// What checkpoints are counted in.
const (
	Steps   Axis = "steps"
	TokensB Axis = "tokens_B" // billions of tokens
)

// Series puts checkpoints in order. A checkpoint's step or token count is what
// steps says for its label; else what its label says; else what the model's name
// says (ParseStep). All must be counted in one of the two, steps where they have
// both. Two checkpoints of one step are an error, as is one that says nothing.
func Series(models []Model, steps map[string]string) ([]Checkpoint, Axis, error) {
	found := make([]Moment, len(models))
	for i, m := range models {
		label := base(m.Label)
		text, given := steps[m.Label]
		if !given {
			text, given = steps[label]
		}
		if given {
			found[i] = ParseStep(text)
		} else if found[i] = ParseStep(label); !found[i].known() && len(m.Runs) > 0 {
			found[i] = ParseStep(m.Runs[0].Record.Identity.Model.Name)
		}
		if !found[i].known() {
			return nil, "", fmt.Errorf("%s: no step or token count in its label or model name; name it STEP=RUN, or give --steps FILE", m.Label)
		}
	}
	axis := Steps
	if slices.ContainsFunc(found, func(m Moment) bool { return m.Step == nil }) {
		axis = TokensB
	}
	var out []Checkpoint
	for i, m := range models {
		at := found[i].Step
		if axis == TokensB {
			at = found[i].TokensB
		}
		if at == nil {
			return nil, "", fmt.Errorf("%s is counted in steps and others in tokens; name all by one of the two, or give --steps FILE", m.Label)
		}
		out = append(out, Checkpoint{*at, m})
	}
	slices.SortStableFunc(out, func(a, b Checkpoint) int { return cmp.Compare(a.Step, b.Step) })
	for i := 1; i < len(out); i++ {
		if out[i].Step == out[i-1].Step {
			return nil, "", fmt.Errorf("%s and %s are both of %s %v; leave one out, or give --steps FILE", out[i-1].Model.Label, out[i].Model.Label, axis, out[i].Step)
		}
	}
	return out, axis, nil
}

// kind is what all checkpoints of one training have in common; "" and 0 are not known.
type kind struct {
	architecture string
	parameters   int64
}

// differs reports whether two kinds cannot be of one training.
func (k kind) differs(o kind) bool {
	return k.architecture != "" && o.architecture != "" && k.architecture != o.architecture || k.parameters > 0 && o.parameters > 0 && k.parameters != o.parameters
}

func (k kind) String() string {
	switch {
	case k.parameters == 0:
		return k.architecture
	case k.architecture == "":
		return fmt.Sprintf("of %d parameters", k.parameters)
	}
	return fmt.Sprintf("%s of %d parameters", k.architecture, k.parameters)
}

// otherModels notes that a series holds models of several architectures or parameter
// counts, which no training turns into each other.
func otherModels(series []Checkpoint, n *notes) {
	var kinds []kind
	other := false
	of := map[kind][]string{}
	for _, c := range series {
		for _, r := range c.Model.Runs {
			m := r.Record.Identity.Model
			k := kind{m.Architecture, m.Parameters}
			if k == (kind{}) {
				continue
			}
			other = other || slices.ContainsFunc(kinds, k.differs)
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
			if !slices.Contains(of[k], c.Model.Label) {
				of[k] = append(of[k], c.Model.Label)
			}
		}
	}
	if !other {
		return
	}
	var texts []string
	for _, k := range kinds {
		who := strings.Join(of[k], ", ")
		if len(of[k]) > 3 {
			who = fmt.Sprintf("%s and %d more", strings.Join(of[k][:2], ", "), len(of[k])-2)
		}
		texts = append(texts, fmt.Sprintf("%s: %s", who, k))
	}
	n.add(NoteOtherModels, "these are different models and no checkpoints of one training, so its events mean nothing: %s", strings.Join(texts, "; "))
}

// Moment says how far a training has come; nil is not known.
type Moment struct {
	Step    *float64
	TokensB *float64 // billions
}

func (m Moment) known() bool { return m.Step != nil || m.TokensB != nil }

var (
	plainNumber  = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([kKmMbBtT]?)$`)
	stepNumber   = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:global[-_]?step|step|iter|iteration|checkpoint|ckpt)s?[-_ ]?([0-9]+(?:\.[0-9]+)?)([km]?)(?:[^a-z0-9.]|$)`)
	tokensBefore = regexp.MustCompile(`(?i)(?:^|[^0-9a-z.])([0-9]+(?:\.[0-9]+)?)([kmbt])[-_ ]?tok(?:en)?s?(?:[^a-z]|$)`)
	tokensAfter  = regexp.MustCompile(`(?i)tok(?:en)?s?[-_ ]?([0-9]+(?:\.[0-9]+)?)([kmbt])(?:[^a-z0-9]|$)`)
)

// ParseStep finds a step or a token count in a text: a number alone ("1000",
// "10k": steps; "400B", "1.5T": tokens), or one within a name
// ("step1000-tokens4B", "checkpoint-500", "100B-tokens").
func ParseStep(text string) Moment {
	var m Moment
	text = strings.TrimSpace(text)
	if p := plainNumber.FindStringSubmatch(text); p != nil {
		switch strings.ToLower(p[2]) {
		case "b", "t":
			m.TokensB = scaled(p[1], p[2], 1e9)
		default:
			m.Step = scaled(p[1], p[2], 1)
		}
		return m
	}
	if p := stepNumber.FindStringSubmatch(text); p != nil {
		m.Step = scaled(p[1], p[2], 1)
	}
	for _, re := range []*regexp.Regexp{tokensBefore, tokensAfter} {
		if p := re.FindStringSubmatch(text); p != nil && m.TokensB == nil {
			m.TokensB = scaled(p[1], p[2], 1e9)
		}
	}
	return m
}

// scaled is a number with a suffix, in units; nil where it is too large.
func scaled(number, suffix string, unit float64) *float64 {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return nil
	}
	factor := map[string]float64{"": 1, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}[strings.ToLower(suffix)]
	v = v * factor / unit
	return &v
}

// ParseSteps reads a table of labels and steps: one a line, label and step apart
// by a comma, a tab or spaces (the last one counts); empty lines and those that
// begin with # mean nothing. A first line whose step is the word "step" or
// "tokens" is a header.
func ParseSteps(text string) (map[string]string, error) {
	out := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexAny(line, ",\t ")
		if at < 0 {
			return nil, fmt.Errorf("line %d: %q has no step; write LABEL,STEP", i+1, line)
		}
		label, step := strings.TrimRight(line[:at], ",\t "), line[at+1:]
		if len(out) == 0 && (strings.EqualFold(step, "step") || strings.EqualFold(step, "tokens")) {
			continue
		}
		if label == "" {
			return nil, fmt.Errorf("line %d: %q has no label; write LABEL,STEP", i+1, line)
		}
		if !ParseStep(step).known() {
			return nil, fmt.Errorf("line %d: %q is no step or token count; write 1000, 10k or 400B", i+1, step)
		}
		if _, ok := out[label]; ok {
			return nil, fmt.Errorf("line %d: %s is there twice", i+1, label)
		}
		out[label] = step
	}
	return out, nil
}
