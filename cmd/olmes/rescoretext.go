package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"olmes"
	"olmes/outcome"
	"olmes/record"
	"olmes/reproduce"
	"olmes/score"
)

// rescoredRun is a run's scores by a rescoring. Mean, its error and Average are of
// the rows in the standard's rendering alone: variants are in no average.
type rescoredRun struct {
	reproduce.Rescored
	Rows []rescoredRow `json:"rows"` // the standard's rendering first, then a variant after the other
}

// rescoredRow is one task or group.
type rescoredRow struct {
	reproduce.RescoredRow
	GroupSize int `json:"group_size"` // tasks of the whole group, 0 where the row is of one task
}

// rescored scores the standard's rendering of a run and each variant by itself.
func rescored(r *outcome.Run, how reproduce.Rescoring) (rescoredRun, error) {
	out := rescoredRun{Rows: []rescoredRow{}}
	if !r.Instances() {
		_, err := reproduce.Rescore(r, how) // says why
		return out, err
	}
	variants := []string{""}
	for _, t := range r.Tasks {
		if !slices.Contains(variants, t.Variant) {
			variants = append(variants, t.Variant)
		}
	}
	of := map[string][]string{} // rows by what of them is off-standard
	for _, v := range variants {
		part := *r
		part.Tasks = slices.DeleteFunc(slices.Clone(r.Tasks), func(t *outcome.Task) bool { return t.Variant != v || !takes(how, t) })
		if len(part.Tasks) == 0 {
			continue
		}
		one, err := reproduce.Rescore(&part, how)
		if err != nil {
			return out, err
		}
		if v != "" {
			one.Mean, one.SE, one.Average = nil, nil, false
		}
		if len(out.Rows) == 0 {
			out.Rescored = one
			out.Off = []string{}
		}
		for _, row := range one.Rows {
			row := rescoredRow{RescoredRow: row}
			if t := groupOf(r, row); t != nil {
				row.GroupSize = t.GroupSize
			}
			row.settle(&part, how)
			out.Rows = append(out.Rows, row)
			for _, off := range row.Off {
				if !slices.Contains(out.Off, off) {
					out.Off = append(out.Off, off)
				}
				of[off] = append(of[off], olmes.Label(row.Name, row.Variant))
			}
		}
	}
	out.Average = out.average()
	for i, off := range out.Off {
		who := strings.Join(of[off], ", ")
		if len(of[off]) == len(out.Rows) && len(out.Rows) > 1 {
			who = "all tasks"
		}
		out.Off[i] = who + ": " + off
	}
	return out, nil
}

// takes reports whether anything of a task is asked for.
func takes(how reproduce.Rescoring, t *outcome.Task) bool {
	switch {
	case how.Tasks != nil && slices.Contains(how.Tasks, t.Name):
		return true
	case t.Group == "":
		return how.Tasks == nil
	}
	return (how.Tasks == nil || slices.Contains(how.Tasks, t.Group)) && (how.Subjects == nil || slices.Contains(how.Subjects, t.Name))
}

// groupOf returns a task of the group that a row is of, nil where it is of one task.
func groupOf(r *outcome.Run, row rescoredRow) *outcome.Task {
	for _, t := range r.Tasks {
		if t.Group == row.Name {
			return t
		}
	}
	return nil
}

// settle says of a row what is so: without a score nothing of it is off-standard,
// and a normalization that played no part is none either.
func (row *rescoredRow) settle(r *outcome.Run, how reproduce.Rescoring) {
	mcfAlone := how.Formulation == olmes.MCF
	equal := row.Normalization == olmes.PMI && row.CF != nil && row.Note != "" // pmi is none here, as the note says
	row.Off = slices.DeleteFunc(row.Off, func(off string) bool {
		return row.Value == nil || (mcfAlone || equal) && strings.HasPrefix(off, string(how.Normalization)+" for CF, ")
	})
	if row.CF != nil || !slices.ContainsFunc(r.Tasks, func(t *outcome.Task) bool { return row.holds(t) && t.Forms[olmes.CF] != nil }) {
		return
	}
	if mcfAlone {
		row.Note = ""
	} else if !slices.ContainsFunc(r.Tasks, func(t *outcome.Task) bool { return row.holds(t) && scoredBy(t.Forms[olmes.CF], row.Normalization) }) {
		row.Note = fmt.Sprintf("%s was not scored, so there is no score (olmes run --normalizations all scores it)", row.Normalization)
	}
}

func (row *rescoredRow) holds(t *outcome.Task) bool {
	return t.Variant == row.Variant && (t.Name == row.Name || t.Group == row.Name)
}

// scoredBy reports whether any instance has a choice under a normalization.
func scoredBy(f *outcome.Form, n olmes.Normalization) bool {
	return f != nil && slices.ContainsFunc(f.Best[slices.Index(olmes.Normalizations(), n)], func(b int16) bool { return b >= 0 })
}

// standard returns the rows in the standard's rendering.
func (r rescoredRun) standard() []rescoredRow {
	return slices.DeleteFunc(slices.Clone(r.Rows), func(row rescoredRow) bool { return row.Variant != "" })
}

// average reports whether the mean is the OLMES average. That the run holds variants
// besides does not change it.
func (r rescoredRun) average() bool {
	rows := r.standard()
	return r.Mean != nil && len(rows) == len(score.SuiteTasks()) && !slices.ContainsFunc(rows, func(row rescoredRow) bool {
		return len(row.Off) > 0 || row.part() || row.Standard == nil || row.Value == nil || math.Abs(*row.Standard-*row.Value) > 1e-12
	}) && !slices.ContainsFunc(r.Deviations, func(d record.Deviation) bool { return d.OffStandard && d.Code != "variant" })
}

// part reports whether some tasks of the row's group are not in it.
func (row rescoredRow) part() bool { return row.GroupSize > row.Tasks }

// label names a row, with how much of its group it is.
func (row rescoredRow) label() string {
	name := olmes.Label(row.Name, row.Variant)
	switch {
	case row.part():
		return fmt.Sprintf("%s (%d of %d)", name, row.Tasks, row.GroupSize)
	case row.GroupSize > 0:
		return fmt.Sprintf("%s (%d)", name, row.Tasks)
	}
	return name
}

// printRescored prints scores by a Rescoring, a table a run.
func printRescored(w io.Writer, runs []rescoredRun) error {
	b := bufio.NewWriter(w)
	for i, r := range runs {
		if i > 0 {
			fmt.Fprintln(b)
		}
		r.print(b)
	}
	fmt.Fprintln(b, "All in percent; ± is one standard error; † the multiple-choice formulation gave the score; standard: the run's own score.")
	return b.Flush()
}

func (r rescoredRun) print(b io.Writer) {
	fmt.Fprintf(b, "%s  run %.12s of %s\n", r.Label, r.ID, r.Model)
	width := 16
	for _, row := range r.Rows {
		width = max(width, utf8.RuneCountInString(row.label()))
	}
	line := func(name, cf, norm, mcf, score, se, n, standard string) {
		text := fmt.Sprintf("%-*s %7s  %-10s %7s %8s %6s %7s %9s", width, name, cf, norm, mcf, score, se, n, standard)
		fmt.Fprintln(b, strings.TrimRight(text, " "))
	}
	line("task", "CF", "norm", "MCF", "score", "±", "n", "standard")
	rows := r.standard()
	for _, row := range rows {
		row.print(b, line)
	}
	if len(rows) > 1 {
		name, mark := fmt.Sprintf("mean of %d", len(rows)), ""
		if r.Average {
			name = "average"
		}
		if r.Mean != nil && slices.ContainsFunc(rows, func(row rescoredRow) bool { return len(row.Off) > 0 }) {
			mark = " *"
		}
		line(name, "", "", "", marked(r.Mean, mark), percentOf(r.SE), "", "")
	}
	if len(r.Rows) > len(rows) {
		fmt.Fprintln(b, "variants, not the standard's rendering and in no average:")
		for _, row := range r.Rows {
			if row.Variant != "" {
				row.print(b, line)
			}
		}
	}
	for _, off := range r.Off {
		fmt.Fprintf(b, "* off-standard: %s\n", off)
	}
	for _, d := range r.Deviations {
		kind := "note"
		if d.OffStandard {
			kind = "off-standard"
		}
		fmt.Fprintf(b, "%s, the run itself: %s\n", kind, d.Text)
	}
}

func (row rescoredRow) print(b io.Writer, line func(name, cf, norm, mcf, score, se, n, standard string)) {
	mark := ""
	if row.Formulation == olmes.MCF {
		mark = "†"
	}
	if len(row.Off) > 0 {
		mark = fmt.Sprintf("%-1s*", mark)
	}
	norm, n := string(row.Normalization), ""
	if row.CF == nil {
		norm = ""
	}
	if row.N > 0 {
		n = fmt.Sprint(row.N)
	}
	line(row.label(), partPercent(row.CF), norm, partPercent(row.MCF), marked(row.Value, mark), percentOf(row.SE), n, percentOf(row.Standard))
	if row.Note != "" {
		fmt.Fprintf(b, "  %s: %s\n", row.label(), row.Note)
	}
}

// marked is a score with room for two marks, so that digits stand below each other.
func marked(v *float64, mark string) string { return fmt.Sprintf("%s%-2s", percentOf(v), mark) }

func partPercent(p *reproduce.Part) string {
	if p == nil {
		return "-"
	}
	return percentOf(&p.Accuracy)
}

func percentOf(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100**v)
}
