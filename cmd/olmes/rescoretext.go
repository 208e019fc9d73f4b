package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"olmes"
	"olmes/reproduce"
)

// standardRows returns the rows in the standard's rendering.
func standardRows(r reproduce.Rescored) []reproduce.RescoredRow {
	return slices.DeleteFunc(slices.Clone(r.Rows), func(row reproduce.RescoredRow) bool { return row.Variant != "" })
}

// rowLabel names a row, with how much of its group it is.
func rowLabel(row reproduce.RescoredRow) string {
	name := olmes.Label(row.Name, row.Variant)
	switch {
	case row.Part():
		return fmt.Sprintf("%s (%d of %d)", name, row.Tasks, row.GroupSize)
	case row.GroupSize > 0:
		return fmt.Sprintf("%s (%d)", name, row.Tasks)
	}
	return name
}

// printRescored prints scores by a Rescoring, a table a run.
func printRescored(w io.Writer, runs []reproduce.Rescored) error {
	b := bufio.NewWriter(w)
	for i, r := range runs {
		if i > 0 {
			fmt.Fprintln(b)
		}
		printRun(b, r)
	}
	fmt.Fprintln(b, "All in percent; ± is one standard error; † the multiple-choice formulation gave the score; standard: the run's own score.")
	return b.Flush()
}

func printRun(b io.Writer, r reproduce.Rescored) {
	fmt.Fprintf(b, "%s  run %.12s of %s\n", r.Label, r.ID, r.Model)
	width := 16
	for _, row := range r.Rows {
		width = max(width, utf8.RuneCountInString(rowLabel(row)))
	}
	line := func(name, cf, norm, mcf, score, se, n, standard string) {
		text := fmt.Sprintf("%-*s %7s  %-10s %7s %8s %6s %7s %9s", width, name, cf, norm, mcf, score, se, n, standard)
		fmt.Fprintln(b, strings.TrimRight(text, " "))
	}
	line("task", "CF", "norm", "MCF", "score", "±", "n", "standard")
	rows := standardRows(r)
	for _, row := range rows {
		printRow(b, row, line)
	}
	if len(rows) > 1 {
		name, mark := fmt.Sprintf("mean of %d", len(rows)), ""
		if r.Average {
			name = "average"
		}
		if r.Mean != nil && slices.ContainsFunc(rows, func(row reproduce.RescoredRow) bool { return len(row.Off) > 0 }) {
			mark = " *"
		}
		line(name, "", "", "", marked(r.Mean, mark), percentOf(r.SE), "", "")
	}
	if len(r.Rows) > len(rows) {
		fmt.Fprintln(b, "variants, not the standard's rendering and in no average:")
		for _, row := range r.Rows {
			if row.Variant != "" {
				printRow(b, row, line)
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

func printRow(b io.Writer, row reproduce.RescoredRow, line func(name, cf, norm, mcf, score, se, n, standard string)) {
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
	line(rowLabel(row), partPercent(row.CF), norm, partPercent(row.MCF), marked(row.Value, mark), percentOf(row.SE), n, percentOf(row.Standard))
	if row.Note != "" {
		fmt.Fprintf(b, "  %s: %s\n", rowLabel(row), row.Note)
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
