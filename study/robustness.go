package study

import (
	"math"
	"slices"

	"olmes"
	"olmes/stat"
)

// RobustnessStudy says how far other wordings and examples move scores (paper,
// Table 5).
type RobustnessStudy struct {
	Variants []string        `json:"variants"` // compared with the standard's rendering
	Rows     []RobustnessRow `json:"rows"`     // one a model and task
	Notes    []Note          `json:"notes"`
}

// RobustnessRow is one model on one task, on the instances that all conditions
// have.
type RobustnessRow struct {
	Model     string      `json:"model"`
	Task      string      `json:"task"`
	Instances int         `json:"instances"`
	Original  Condition   `json:"original"` // its SE is the table's: sample standard deviation over √n
	Variants  []Condition `json:"variants"`
	// All averages over the original and the variants (the paper's caption: four
	// conditions), Others over the variants alone; Diff is |original − average|.
	All    RobustnessMean `json:"all"`
	Others RobustnessMean `json:"others"`
	Spread float64        `json:"spread"` // highest minus lowest score
	// SameForm is All for the original's formulation in every condition, where
	// some condition's better formulation is another one; else null.
	SameForm *RobustnessMean `json:"same_formulation"`
}

// Condition is a model's score on a task in one rendering.
type Condition struct {
	Variant     string            `json:"variant"`
	Formulation olmes.Formulation `json:"formulation"` // the better one here, CF where they are equal
	Score       Estimate          `json:"score"`
	CF          *Estimate         `json:"cf"` // null where not run in every condition
	MCF         *Estimate         `json:"mcf"`
	// Change is the score minus the original's, paired by instance; null for the
	// original. P is its exact McNemar p-value (by the normal distribution for a
	// group of tasks), adjusted by Holm for all of the study's.
	Change *Difference `json:"change"`
	P      *float64    `json:"p_holm"`
}

// RobustnessMean is an average over conditions.
type RobustnessMean struct {
	Average float64    `json:"average"`
	Diff    float64    `json:"diff"`   // |original − average|
	Signed  Difference `json:"signed"` // original − average, paired by instance
}

// Robustness compares the standard's rendering with variants; an empty list means
// the paper's var1, var2 and var3. Models and tasks without any of them are left
// out.
func Robustness(models []Model, variants []string, b stat.Bootstrap) RobustnessStudy {
	if len(variants) == 0 {
		variants = []string{"var1", "var2", "var3"}
	}
	var n notes
	out := RobustnessStudy{Variants: variants, Rows: []RobustnessRow{}}
	var ps []float64
	var at []*Condition
	for i := range models {
		m := &models[i]
		for _, u := range m.Units("") {
			row, tests, ok := robustnessRow(m, u, variants, level(b), &n)
			if !ok {
				continue
			}
			out.Rows = append(out.Rows, row)
			for k, p := range tests {
				if !math.IsNaN(p) {
					ps, at = append(ps, p), append(at, &row.Variants[k])
				}
			}
		}
	}
	for k, p := range stat.Holm(ps) {
		at[k].P = &p
	}
	if len(out.Rows) == 0 {
		n.add("no-variants", "no run holds both the standard's rendering and one of the variants (olmes run --variant)")
	}
	n.deviations(models)
	out.Notes = n.all()
	return out
}

// robustnessRow makes a row; tests holds the p-value of each variant, NaN where
// there is none.
func robustnessRow(m *Model, u Unit, variants []string, level float64, n *notes) (row RobustnessRow, tests []float64, ok bool) {
	units := []Unit{u}
	for _, name := range variants {
		v, ok := m.unit(u.Name, name)
		if !ok {
			continue
		}
		if !slices.Equal(v.names(), u.names()) {
			n.add("other-subjects", "%s: %s in %s is of other tasks and is left out", m.Label, u.Name, name)
			continue
		}
		units = append(units, v)
	}
	if len(units) == 1 {
		return row, nil, false
	}
	if missing := 1 + len(variants) - len(units); missing > 0 {
		n.add("missing-variants", "%s: %s has %d of the %d variants", m.Label, u.Name, len(units)-1, len(variants))
	}
	forms := []olmes.Formulation{}
	for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
		if !slices.ContainsFunc(units, func(v Unit) bool { return !v.has(f) }) {
			forms = append(forms, f)
		}
	}
	if len(forms) == 0 {
		return row, nil, false
	}
	if len(forms) == 1 {
		n.add("one-formulation", "%s: %s: only %s was run in every condition", m.Label, u.Name, forms[0])
	}
	var cols []column // conditions, and formulations within them
	for _, v := range units {
		for _, f := range forms {
			cols = append(cols, v.column(f, u.normalization(f)))
		}
	}
	p, ok := newPanel(cols)
	if !ok {
		return row, nil, false
	}
	if p.dropped > 0 {
		n.add("not-shared", "%s: %s: left out: %s that not every condition has", m.Label, u.Name, plural(p.dropped, "instance"))
	}
	row, tests = fillRobustness(p, units, forms, level)
	row.Model, row.Task, row.Instances = m.Label, u.Name, p.n()
	return row, tests, true
}

func fillRobustness(p panel, units []Unit, forms []olmes.Formulation, level float64) (row RobustnessRow, tests []float64) {
	k := len(forms)
	estimates := p.estimates()
	taken := make([]int, len(units)) // column that gives a condition's score
	var conditions []Condition
	for i, v := range units {
		c := Condition{Variant: v.Variant}
		taken[i] = i * k
		for j, f := range forms {
			e := estimates[i*k+j]
			if f == olmes.CF {
				c.CF = &e
			} else {
				c.MCF = &e
			}
			if e.Value-estimates[taken[i]].Value > equal {
				taken[i] = i*k + j
			}
		}
		c.Formulation, c.Score = forms[taken[i]-i*k], estimates[taken[i]]
		if i > 0 {
			pairs := p.pairs(taken[0], taken[i])
			d, _ := difference(pairs, level)
			c.Change = &d
			tests = append(tests, pairedTest(pairs, d))
		}
		conditions = append(conditions, c)
	}
	row.Original, row.Variants = conditions[0], conditions[1:]
	row.All, row.Others = p.average(taken, taken, level), p.average(taken[1:], taken, level)
	low, high := row.Original.Score.Value, row.Original.Score.Value
	differ := false
	same := make([]int, len(units))
	for i, c := range conditions {
		low, high = min(low, c.Score.Value), max(high, c.Score.Value)
		differ = differ || c.Formulation != row.Original.Formulation
		same[i] = i*k + taken[0]
	}
	row.Spread = high - low
	if differ {
		mean := p.average(same, same, level)
		row.SameForm = &mean
	}
	return row, tests
}

// pairedTest is the p-value of a paired difference: exact for one task, by the
// normal distribution for a group; NaN where there is none.
func pairedTest(pairs []stat.Pairs, d Difference) float64 {
	if len(pairs) == 1 {
		if t, ok := pairs[0].McNemar(); ok {
			return t.P
		}
	} else if p, ok := stat.NormalTest(d.Value, d.SE); ok {
		return p
	}
	return math.NaN()
}

// average is the mean of some columns, and how far the first of conditions is
// from it.
func (p panel) average(columns, conditions []int, level float64) RobustnessMean {
	// original − mean, times the number of columns, is a sum with whole weights.
	weights := []int{len(columns)}
	list := []int{conditions[0]}
	for _, c := range columns {
		list, weights = append(list, c), append(weights, -1)
	}
	value, se, _ := p.contrast(list, weights)
	k := float64(len(columns))
	if se != nil {
		scaled := *se / k
		se = &scaled
	}
	estimates := p.estimates()
	var m RobustnessMean
	for _, c := range columns {
		m.Average += estimates[c].Value / k
	}
	m.Signed = newDifference(value/k, se, level)
	m.Diff = math.Abs(m.Signed.Value)
	return m
}
