package reproduce

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"olmes"
	"olmes/outcome"
	"olmes/record"
	"olmes/stat"
)

// Rescoring says how scores are made out of a run's instances. The zero value is
// the standard's way.
type Rescoring struct {
	Normalization olmes.Normalization // for CF, of every task; "" for each task's own
	Formulation   olmes.Formulation   // the one that counts; "" for the better of both
	Micro         bool                // groups by instance and not by the plain mean over their tasks
	Subjects      []string            // of groups, by task name; nil for all
	Tasks         []string            // tasks and groups; nil for all
}

// Rescored is what a run's scores are under a Rescoring.
type Rescored struct {
	Label string        `json:"label"`
	ID    string        `json:"id"`
	Model string        `json:"model"`
	Rows  []RescoredRow `json:"rows"` // the standard's rendering first, then a variant after the other
	// Mean is the plain mean of the values of the rows in the standard's rendering,
	// null unless every one has a value: variants are in no average.
	Mean *float64 `json:"mean"`
	SE   *float64 `json:"se"`
	// Average says that Mean is the OLMES average: of all ten tasks, complete,
	// nothing off-standard.
	Average bool     `json:"average"`
	Off     []string `json:"off_standard"` // what of the rescoring is off-standard, in words, with its rows
	// Deviations are the run's own.
	Deviations []record.Deviation `json:"deviations"`
}

// RescoredRow is one task or group.
type RescoredRow struct {
	Name          string              `json:"name"`
	Variant       string              `json:"variant"`
	Tasks         int                 `json:"tasks"`         // 1, or those of the group that were taken
	Normalization olmes.Normalization `json:"normalization"` // for CF
	CF            *Part               `json:"cf"`            // null where it was not run, or the normalization not scored
	MCF           *Part               `json:"mcf"`
	// Formulation that gives the value; "" where there is none.
	Formulation olmes.Formulation `json:"formulation"`
	Value       *float64          `json:"value"` // accuracy, a fraction
	SE          *float64          `json:"se"`
	N           int               `json:"n"` // instances behind the value
	// Standard is the run's own score, null where it has none.
	Standard  *float64 `json:"standard"`
	Off       []string `json:"off_standard"` // of the value; empty where there is none
	Note      string   `json:"note"`
	GroupSize int      `json:"group_size"` // tasks of the whole group, 0 where the row is of one task
}

// Part reports whether some tasks of the row's group are not in it.
func (row RescoredRow) Part() bool { return row.GroupSize > row.Tasks }

// Part is the accuracy in one formulation.
type Part struct {
	Accuracy float64  `json:"accuracy"`
	SE       *float64 `json:"se"`
	N        int      `json:"n"`
}

// Rescore computes a run's scores anew from its instances' choices, read at depth
// outcome.Answers or deeper.
func Rescore(r *outcome.Run, how Rescoring) (Rescored, error) {
	out := Rescored{Label: r.Label, ID: r.Record.ID, Model: r.Record.Identity.Model.Name, Rows: []RescoredRow{}, Off: []string{}, Deviations: record.Deviations(r.Record.Identity, &r.Metrics)}
	if out.Deviations == nil {
		out.Deviations = []record.Deviation{}
	}
	if !r.Instances() {
		return out, fmt.Errorf("%s holds no instances (%s), so it cannot be scored anew", r.Label, r.Record.Provenance.Evidence)
	}
	type unit struct {
		name, variant string
		group         bool
		tasks         []*outcome.Task
	}
	var units []*unit
	for _, t := range r.Tasks {
		name, group := t.Name, false
		if t.Group != "" {
			name, group = t.Group, true
		}
		if how.Tasks != nil && !slices.Contains(how.Tasks, name) && !slices.Contains(how.Tasks, t.Name) {
			continue
		}
		if how.Tasks != nil && group && !slices.Contains(how.Tasks, name) {
			group, name = false, t.Name // a subject asked for by itself
		}
		if group && how.Subjects != nil && !slices.Contains(how.Subjects, t.Name) {
			continue
		}
		i := slices.IndexFunc(units, func(u *unit) bool { return u.group && u.name == name && u.variant == t.Variant })
		if !group || i < 0 {
			units = append(units, &unit{name: name, variant: t.Variant, group: group})
			i = len(units) - 1
		}
		units[i].tasks = append(units[i].tasks, t)
	}
	if len(units) == 0 {
		return out, fmt.Errorf("%s holds none of the tasks and subjects asked for", r.Label)
	}
	variants := []string{""}
	for _, u := range units {
		if !slices.Contains(variants, u.variant) {
			variants = append(variants, u.variant)
		}
	}
	slices.SortStableFunc(units, func(a, b *unit) int {
		return slices.Index(variants, a.variant) - slices.Index(variants, b.variant)
	})
	for _, u := range units {
		out.Rows = append(out.Rows, how.row(r, u.name, u.variant, u.group, u.tasks))
	}
	out.sum()
	return out, nil
}

// row scores a task, or the tasks of a group.
func (how Rescoring) row(r *outcome.Run, name, variant string, group bool, tasks []*outcome.Task) RescoredRow {
	row := RescoredRow{Name: name, Variant: variant, Tasks: len(tasks), Normalization: tasks[0].Normalization, Off: []string{}}
	if how.Normalization != "" {
		row.Normalization = how.Normalization
	}
	norm := row.Normalization
	if group {
		row.GroupSize = tasks[0].GroupSize
	}
	equal := how.Normalization == olmes.PMI && !scored(tasks, olmes.CF, olmes.PMI) && name == "winogrande"
	if equal {
		norm, row.Note = olmes.None, "pmi equals none here: all choices have one continuation"
	}
	row.CF = how.part(tasks, olmes.CF, norm)
	row.MCF = how.part(tasks, olmes.MCF, olmes.None)
	cf, mcf := row.CF, row.MCF
	if has(tasks, olmes.CF) && cf == nil {
		switch {
		case how.Formulation == olmes.MCF:
			row.Note = ""
		case scored(tasks, olmes.CF, row.Normalization):
			row.Note = fmt.Sprintf("%s was not scored for all instances", norm)
		default:
			row.Note = fmt.Sprintf("%s was not scored, so there is no score (olmes run --normalizations all scores it)", row.Normalization)
		}
	}
	switch {
	case how.Formulation == olmes.CF:
		mcf = nil
	case how.Formulation == olmes.MCF:
		cf = nil
	case cf == nil || mcf == nil:
		if row.Note == "" {
			row.Note = "one formulation alone gives no score; ask for it with --formulation"
		}
		cf, mcf = nil, nil
	}
	take := cf
	row.Formulation = olmes.CF
	if cf == nil || mcf != nil && mcf.Accuracy > cf.Accuracy {
		take, row.Formulation = mcf, olmes.MCF
	}
	if take == nil {
		row.Formulation = ""
	} else {
		v := take.Accuracy
		row.Value, row.SE, row.N = &v, take.SE, take.N
	}
	row.Standard = own(r, name, variant)
	if row.Value == nil {
		return row
	}
	if how.Normalization != "" && how.Normalization != tasks[0].Normalization && has(tasks, olmes.CF) && how.Formulation != olmes.MCF && !equal {
		row.Off = append(row.Off, fmt.Sprintf("%s for CF, the standard takes %s", how.Normalization, tasks[0].Normalization))
	}
	if how.Formulation != "" {
		row.Off = append(row.Off, strings.ToUpper(string(how.Formulation))+" alone, the standard takes the better of both")
	}
	if group && how.Micro {
		row.Off = append(row.Off, "the mean over all instances (micro), the standard takes the mean over tasks (macro)")
	}
	if group && how.Subjects != nil && len(tasks) < tasks[0].GroupSize {
		row.Off = append(row.Off, fmt.Sprintf("%d of %d subjects", len(tasks), tasks[0].GroupSize))
	}
	return row
}

func has(tasks []*outcome.Task, f olmes.Formulation) bool {
	return slices.ContainsFunc(tasks, func(t *outcome.Task) bool { return t.Forms[f] != nil })
}

// scored reports whether any instance has a choice under n.
func scored(tasks []*outcome.Task, f olmes.Formulation, n olmes.Normalization) bool {
	return slices.ContainsFunc(tasks, func(t *outcome.Task) bool {
		form := t.Forms[f]
		return form != nil && slices.ContainsFunc(form.Best[normalization(n)], func(b int16) bool { return b >= 0 })
	})
}

// part is the accuracy of tasks in one formulation, nil unless all have it for
// every instance.
func (how Rescoring) part(tasks []*outcome.Task, f olmes.Formulation, n olmes.Normalization) *Part {
	var means []float64
	var ses []*float64
	correct, total := 0, 0
	for _, t := range tasks {
		form := t.Forms[f]
		if form == nil {
			return nil
		}
		right := 0
		for i := range form.Len() {
			ok, known := form.Right(i, n)
			if !known {
				return nil
			}
			if ok {
				right++
			}
		}
		p, se, ok := stat.Proportion(right, form.Len())
		if !ok {
			return nil
		}
		means, ses = append(means, p), append(ses, se)
		correct, total = correct+right, total+form.Len()
	}
	if how.Micro {
		p, se, ok := stat.Proportion(correct, total)
		if !ok {
			return nil
		}
		return &Part{p, se, total}
	}
	mean, ok := stat.Mean(means)
	if !ok {
		return nil
	}
	return &Part{mean, stat.MeanError(ses), total}
}

// own is the run's own score of a task or group.
func own(r *outcome.Run, name, variant string) *float64 {
	for _, t := range r.Metrics.Tasks {
		if t.Task == name && t.Variant == variant && t.Score != nil {
			return &t.Score.Accuracy
		}
	}
	for _, g := range r.Metrics.Groups {
		if g.Group == name && g.Variant == variant && g.Score != nil {
			return &g.Score.Accuracy
		}
	}
	return nil
}

// sum fills the mean over the rows in the standard's rendering and what is
// off-standard.
func (out *Rescored) sum() {
	var rows []RescoredRow
	of := map[string][]string{} // rows by what of them is off-standard
	for _, row := range out.Rows {
		if row.Variant == "" {
			rows = append(rows, row)
		}
		for _, off := range row.Off {
			if of[off] == nil {
				out.Off = append(out.Off, off)
			}
			of[off] = append(of[off], olmes.Label(row.Name, row.Variant))
		}
	}
	for i, off := range out.Off {
		who := strings.Join(of[off], ", ")
		if len(of[off]) == len(out.Rows) && len(out.Rows) > 1 {
			who = "all tasks"
		}
		out.Off[i] = who + ": " + off
	}
	var values []float64
	var ses []*float64
	for _, row := range rows {
		if row.Value == nil {
			return
		}
		values, ses = append(values, *row.Value), append(ses, row.SE)
	}
	mean, ok := stat.Mean(values)
	if !ok {
		return
	}
	out.Mean, out.SE = &mean, stat.MeanError(ses)
	// That the run holds variants besides does not change the average.
	out.Average = len(rows) == standardTasks && !slices.ContainsFunc(rows, func(r RescoredRow) bool {
		return len(r.Off) > 0 || r.Part() || r.Standard == nil || math.Abs(*r.Standard-*r.Value) > 1e-12
	}) && !slices.ContainsFunc(out.Deviations, func(d record.Deviation) bool { return d.OffStandard && d.Code != "variant" })
}
