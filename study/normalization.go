package study

import (
	"fmt"
	"math"
	"slices"

	"olmes"
	"olmes/stat"
)

// NormalizationStudy says which normalization serves CF best (paper, Tables 3 and
// 9 to 12), over any set of models.
type NormalizationStudy struct {
	Models  []string            `json:"models"`
	Variant string              `json:"variant"`
	TieRule string              `json:"tie_rule"`
	Tasks   []NormalizationTask `json:"tasks"`
	// Interactions says how prompt variants change what a normalization is worth.
	Interactions []Interaction `json:"interactions"`
	// Unconditional is null where nobody looked; see Unconditionals.
	Unconditional *UnconditionalStudy `json:"unconditional"`
	Notes         []Note              `json:"notes"`
}

// TieRule is how models count whose best accuracy two normalizations share.
const TieRule = "a tie counts for the task's chosen normalization where it is among the best, else for each of the best in equal parts"

// NormalizationTask is one task's part of the study.
type NormalizationTask struct {
	Task      string              `json:"task"`
	Models    []string            `json:"models"`    // that have the task in CF
	Instances int                 `json:"instances"` // that all of them have
	Chosen    olmes.Normalization `json:"chosen"`    // the standard's
	// Normalizations lists what was compared, in the order of the tables.
	Normalizations []olmes.Normalization `json:"normalizations"`
	Cells          []NormalizationCell   `json:"cells"` // one a model
	Wins           []Win                 `json:"wins"`  // one a normalization
	Tied           int                   `json:"tied"`  // models whose best accuracy several normalizations share
	// MostWins lists the normalizations with the largest share of wins.
	MostWins   []olmes.Normalization `json:"most_wins"`
	DiffOracle Oracle                `json:"diff_oracle"`
	LeftOut    []LeftOut             `json:"left_out"` // one a model, for two models or more
}

// NormalizationCell is what one model does on one task.
type NormalizationCell struct {
	Model string     `json:"model"`
	CF    []Estimate `json:"cf"` // accuracy, one a normalization
	// Best lists the normalizations of the highest accuracy.
	Best []olmes.Normalization `json:"best"`
	Diff float64               `json:"diff"` // accuracy of the best minus that of the chosen one
}

// Win is the share of models for which a normalization is best, by three rules.
type Win struct {
	Normalization olmes.Normalization `json:"normalization"`
	Share         float64             `json:"share"`          // by TieRule
	Split         float64             `json:"share_split"`    // every tie in equal parts
	Paper         float64             `json:"share_paper"`    // every tie for the first of none, token, character, pmi
	Strict        float64             `json:"share_strict"`   // models without a tie only
	OverModels    *stat.Interval      `json:"over_models"`    // of Share; other models like these
	OverInstances *stat.Interval      `json:"over_instances"` // of Share; other instances like these, for all models the same
}

// Oracle is the mean over models of the best normalization's accuracy minus the
// chosen one's.
type Oracle struct {
	Value         float64        `json:"value"`
	OverModels    *stat.Interval `json:"over_models"`
	OverInstances *stat.Interval `json:"over_instances"`
	// Bias is by how much drawing instances raises the value on average: the
	// best of several noisy numbers is biased upward, in this study too. Null
	// without draws.
	Bias *float64 `json:"bias"`
}

// LeftOut is the study without one model.
type LeftOut struct {
	Model      string                `json:"model"`
	Share      float64               `json:"share"` // of the chosen normalization among the others
	MostWins   []olmes.Normalization `json:"most_wins"`
	DiffOracle float64               `json:"diff_oracle"`
	// Loss is what the model would lose by the normalization that wins most
	// among the others: its own best accuracy minus the mean of its accuracies
	// under MostWins.
	Loss float64 `json:"loss"`
}

// Normalizations compares the normalizations of CF in a variant.
func Normalizations(models []Model, variant string, b stat.Bootstrap) NormalizationStudy {
	var n notes
	out := NormalizationStudy{Models: labels(models), Variant: variant, TieRule: TieRule, Tasks: []NormalizationTask{}}
	for _, name := range unitNames(models, variant) {
		if t, ok := normalizationTask(models, name, variant, b, &n); ok {
			out.Tasks = append(out.Tasks, t)
		}
	}
	out.Interactions = interactions(models, level(b), &n)
	switch {
	case len(models) == 1:
		n.add("one-model", "one model: shares of models say nothing, and there is no interval over models")
	case len(models) < 10:
		n.add("few-models", "%d models: an interval over models of so few is too narrow, since it cannot know of other kinds of models", len(models))
	}
	n.deviations(models)
	out.Notes = n.all()
	return out
}

func normalizationTask(models []Model, name, variant string, b stat.Bootstrap, n *notes) (NormalizationTask, bool) {
	var units []Unit
	t := NormalizationTask{Task: name, LeftOut: []LeftOut{}}
	for i := range models {
		u, ok := models[i].unit(name, variant)
		if !ok || !u.has(olmes.CF) {
			continue
		}
		if len(units) > 0 && !slices.Equal(u.names(), units[0].names()) {
			n.add("other-subjects", "%s: %s has other tasks of it than %s and is left out", name, models[i].Label, t.Models[0])
			continue
		}
		units, t.Models = append(units, u), append(t.Models, models[i].Label)
	}
	if len(units) == 0 {
		return t, false
	}
	samePrompts(name, t.Models, units, olmes.CF, n)
	t.Chosen = units[0].normalization(olmes.CF)
	var copies bool
	t.Normalizations, copies = scored(units)
	if !slices.Contains(t.Normalizations, t.Chosen) {
		n.add("chosen-missing", "%s: %s, the standard's normalization, was not scored for every model; the task is left out", name, t.Chosen)
		return t, false
	}
	if !slices.Contains(t.Normalizations, olmes.PMI) {
		n.add("no-pmi", "%s: pmi was not scored for every model (olmes run --normalizations all)", name)
	}
	var cols []column
	for _, u := range units {
		for _, norm := range t.Normalizations {
			if norm == olmes.PMI && copies {
				norm = olmes.None
			}
			cols = append(cols, u.column(olmes.CF, norm))
		}
	}
	p, ok := newPanel(cols)
	if !ok {
		n.add("no-shared-instances", "%s: the models share no instance", name)
		return t, false
	}
	if p.dropped > 0 {
		n.add("not-shared", "%s: left out: %s that not every model answered", name, plural(p.dropped, "instance"))
	}
	t.Instances = p.n()
	t.fill(p, b)
	return t, true
}

// scored lists the normalizations that are defined for every instance of every
// unit, or as good as. Where the choices of a task differ in the context alone
// (winogrande), pmi is none by construction and is not run; it is then listed,
// and copies is true.
func scored(units []Unit) (list []olmes.Normalization, copies bool) {
	for _, norm := range olmes.Normalizations() {
		known := true
		for _, u := range units {
			for _, t := range u.Tasks {
				if _, n := t.Forms[olmes.CF].Accuracy(norm); n == 0 {
					known = false
				}
			}
		}
		if norm == olmes.PMI && !known && units[0].Name == "winogrande" {
			copies, known = true, true
		}
		if known {
			list = append(list, norm)
		}
	}
	return list, copies
}

// fill computes all that follows from the accuracies. The panel's columns are
// models, and normalizations within them.
func (t *NormalizationTask) fill(p panel, b stat.Bootstrap) {
	chosen := slices.Index(t.Normalizations, t.Chosen)
	k := len(t.Normalizations)
	estimates := p.estimates()
	var table [][]float64
	for m, label := range t.Models {
		cell := NormalizationCell{Model: label, CF: estimates[m*k : (m+1)*k]}
		var row []float64
		for _, e := range cell.CF {
			row = append(row, e.Value)
		}
		for _, i := range best(row) {
			cell.Best = append(cell.Best, t.Normalizations[i])
		}
		cell.Diff = slices.Max(row) - row[chosen]
		if len(cell.Best) > 1 {
			t.Tied++
		}
		table, t.Cells = append(table, row), append(t.Cells, cell)
	}
	own, split, paper, strict := Shares(table, chosen, ByChosen), Shares(table, chosen, BySplit), Shares(table, chosen, ByOrder), Shares(table, chosen, ByStrict)
	t.DiffOracle.Value = DiffOracle(table, chosen)
	for i, norm := range t.Normalizations {
		t.Wins = append(t.Wins, Win{Normalization: norm, Share: own[i], Split: split[i], Paper: paper[i], Strict: strict[i]})
		if own[i] == slices.Max(own) {
			t.MostWins = append(t.MostWins, norm)
		}
	}
	t.intervals(p, b, table, chosen)
	t.leaveOut(table, chosen)
}

// intervals fills what drawing models and drawing instances gives.
func (t *NormalizationTask) intervals(p panel, b stat.Bootstrap, table [][]float64, chosen int) {
	k := len(t.Normalizations)
	statistics := func(table [][]float64, out []float64) {
		copy(out, Shares(table, chosen, ByChosen))
		out[k] = DiffOracle(table, chosen)
	}
	drawn := make([][]float64, len(table))
	overModels := b.Intervals([]int{len(table)}, k+1, func(index [][]int, out []float64) {
		for i, m := range index[0] {
			drawn[i] = table[m]
		}
		statistics(drawn, out)
	})
	overInstances := p.draws(b, k+1, func(means, out []float64) {
		for m := range drawn {
			drawn[m] = means[m*k : (m+1)*k]
		}
		statistics(drawn, out)
	})
	for i := range t.Wins {
		t.Wins[i].OverModels = overModels[i]
	}
	t.DiffOracle.OverModels = overModels[k]
	if overInstances == nil {
		return
	}
	for i := range t.Wins {
		t.Wins[i].OverInstances = stat.Percentiles(overInstances[i], level(b))
	}
	t.DiffOracle.OverInstances = stat.Percentiles(overInstances[k], level(b))
	mean, _ := stat.Mean(overInstances[k])
	bias := mean - t.DiffOracle.Value
	t.DiffOracle.Bias = &bias
}

func (t *NormalizationTask) leaveOut(table [][]float64, chosen int) {
	if len(table) < 2 {
		return
	}
	for m, label := range t.Models {
		others := slices.Delete(slices.Clone(table), m, m+1)
		shares := Shares(others, chosen, ByChosen)
		l := LeftOut{Model: label, Share: shares[chosen], DiffOracle: DiffOracle(others, chosen)}
		var accuracies []float64
		for i, s := range shares {
			if s == slices.Max(shares) {
				l.MostWins = append(l.MostWins, t.Normalizations[i])
				accuracies = append(accuracies, table[m][i])
			}
		}
		mean, _ := stat.Mean(accuracies)
		l.Loss = slices.Max(table[m]) - mean
		t.LeftOut = append(t.LeftOut, l)
	}
}

// Tie is a rule for models whose best accuracy several normalizations share.
type Tie int

const (
	ByChosen Tie = iota // TieRule, this project's
	BySplit             // every tie in equal parts
	ByOrder             // every tie for the first in order; what the paper's tables look like
	ByStrict            // a tie counts for none
)

// Shares returns the share of models that each normalization wins: table holds a
// row of accuracies for each model, chosen is the column of the task's
// normalization. Shares sum to 1, by ByStrict to the share of models without a
// tie. They are 0 for no model.
func Shares(table [][]float64, chosen int, rule Tie) []float64 {
	if len(table) == 0 {
		return nil
	}
	out := make([]float64, len(table[0]))
	for _, row := range table {
		ties := best(row)
		switch {
		case len(ties) == 1:
			out[ties[0]]++
		case rule == ByOrder:
			out[ties[0]]++
		case rule == ByChosen && slices.Contains(ties, chosen):
			out[chosen]++
		case rule == ByChosen || rule == BySplit:
			for _, i := range ties {
				out[i] += 1 / float64(len(ties))
			}
		}
	}
	for i := range out {
		out[i] /= float64(len(table))
	}
	return out
}

// DiffOracle returns the mean over models of the best accuracy minus that of the
// chosen column.
func DiffOracle(table [][]float64, chosen int) float64 {
	var sum float64
	for _, row := range table {
		sum += slices.Max(row) - row[chosen]
	}
	return sum / float64(len(table))
}

// equal is how far apart two accuracies may be that are equal: means of the same
// counts, added in another order.
const equal = 1e-12

// best returns the columns of the highest value.
func best(row []float64) []int {
	top := slices.Max(row)
	var out []int
	for i, v := range row {
		if math.Abs(v-top) < equal {
			out = append(out, i)
		}
	}
	return out
}

// samePrompts notes where models were not asked the same of a task.
func samePrompts(name string, models []string, units []Unit, f olmes.Formulation, n *notes) {
	for i, u := range units[1:] {
		for k, t := range u.Tasks {
			a, b := units[0].Tasks[k].Formulations[f], t.Formulations[f]
			if differ(a.PrefixSHA256, b.PrefixSHA256) || units[0].Tasks[k].DocIDsSHA256 == t.DocIDsSHA256 && differ(a.RequestsSHA256, b.RequestsSHA256) ||
				units[0].Tasks[k].Split != t.Split {
				n.add(NoteOtherPrompts, "%s %s: %s and %s were not asked the same (%s)", name, f, models[0], models[i+1], t.Name)
				break
			}
		}
	}
}

func differ(a, b string) bool { return a != "" && b != "" && a != b }

// String names the rule.
func (t Tie) String() string {
	if t < ByChosen || t > ByStrict {
		return fmt.Sprintf("Tie(%d)", int(t))
	}
	return [...]string{"chosen", "split", "order", "strict"}[t]
}
