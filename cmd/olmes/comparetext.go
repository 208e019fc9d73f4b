package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"olmes"
	"olmes/compare"
	"olmes/stat"
)

// Up to so many runs a matrix and the scores of every task are printed; JSON has
// them all.
const matrixRuns = 12

// printComparison prints a comparison for people. Accuracies are in percent.
func printComparison(w io.Writer, r *compare.Report) error {
	var b strings.Builder
	if len(r.Pairs) == 1 {
		pairText(&b, r)
	} else {
		manyText(&b, r)
	}
	findingsText(&b, r)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// grid is a table whose first column stands to the left and the others to the right.
type grid [][]string

func (g grid) write(b *strings.Builder) {
	var width []int
	for _, row := range g {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range g {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func points(v float64) string { return fmt.Sprintf("%.1f", 100*v) }

func optional(v *float64, format func(float64) string) string {
	if v == nil {
		return "-"
	}
	return format(*v)
}

// signed formats a difference in points; what rounds to nothing has no sign.
func signed(v float64) string {
	if text := fmt.Sprintf("%+.1f", 100*v); text != "+0.0" && text != "-0.0" {
		return text
	}
	return "0.0"
}

func span(iv *stat.Interval) string {
	if iv == nil {
		return "-"
	}
	return signed(iv.Low) + " to " + signed(iv.High)
}

func probability(p float64) string {
	switch {
	case p < 0.0001:
		return "<0.0001"
	case p < 0.01:
		return fmt.Sprintf("%.4f", p)
	}
	return fmt.Sprintf("%.2f", p)
}

func scoreText(s compare.Score) string {
	switch s.Formulation {
	case "":
		return points(s.Accuracy) + " "
	case olmes.MCF:
		return points(s.Accuracy) + "†"
	}
	return points(s.Accuracy) + " "
}

// verdictText names who is better.
func verdictText(row compare.Row) string {
	switch row.Verdict {
	case "a":
		return "A"
	case "b":
		return "B"
	case "none":
		return "≈"
	}
	return "-"
}

// pairText prints two runs task by task.
func pairText(b *strings.Builder, r *compare.Report) {
	p := r.Pairs[0]
	for i, name := range []string{"A", "B"} {
		fmt.Fprintf(b, "%s  %s\n", name, modelText(r.Models[i]))
	}
	if len(p.Rows) == 0 {
		b.WriteString("\nNothing of the two can be set against each other.\n")
		return
	}
	b.WriteString("\n")
	level := fmt.Sprintf("%v%% interval", 100*r.Level)
	g := grid{{"task", "n", "A", "B", "B − A", level, "p", "p (Holm)", "detects", "better"}}
	rows := p.Rows
	if p.Average != nil && len(p.Average.Tasks) > 1 {
		rows = append(rows[:len(rows):len(rows)], *p.Average)
	}
	clustered, unpaired, exact, plain := false, false, false, false
	for _, row := range rows {
		c := row.Comparisons[0]
		mark := ""
		switch {
		case c.Method == compare.ByClustered && row.Task != "average":
			mark, clustered = "c", true
		case c.Method == compare.Unpaired:
			mark, unpaired = "u", true
		case c.Method == compare.Exact:
			mark, exact = "e", true
		}
		plain = plain || c.Clustered == nil && c.Pairs != nil
		name := olmes.Label(row.Task, row.Variant)
		if row.Olmes {
			name = "OLMES average"
		}
		n := fmt.Sprint(c.N)
		if row.Task == "average" {
			n = ""
		}
		g = append(g, []string{name, n, scoreText(c.A), scoreText(c.B), signed(c.Difference), span(c.Interval) + mark,
			optional(c.P, probability), optional(c.Holm, probability), optional(c.Detectable, points), verdictText(row)})
	}
	g.write(b)
	b.WriteString(`All in percent, over the instances that both runs have. † is the multiple-choice formulation. p: McNemar's exact
test, of means over tasks or subjects the normal test. detects: the smallest true difference that a sample like this
`)
	fmt.Fprintf(b, "finds in %v%% of cases. better: by p (Holm), of the average by p; ≈ cannot be told apart.\n", 100*r.Power)
	if clustered {
		b.WriteString("c: instances about one text are taken together.\n")
	}
	if plain {
		b.WriteString("Clusters: not known of all tasks (the rows they were read from are not recorded), so some errors take instances as independent.\n")
	}
	if exact {
		b.WriteString("e: all instances fell alike, so no error can be estimated; Clopper and Pearson's exact bound on the share that falls otherwise.\n")
	}
	if unpaired {
		b.WriteString("u: no instances are shared; the difference is of totals.\n")
	}
	sameText(b, p)
	nearText(b, p)
	warningText(b, rows)
}

func modelText(m compare.Model) string {
	text := fmt.Sprintf("%s  (%s", m.Label, m.ID[:12])
	if m.Tool != "" {
		text += ", imported from " + m.Tool
	}
	text += ")"
	if m.Average != nil {
		text += "  OLMES average " + points(m.Average.Accuracy)
	}
	if !m.Standard {
		var codes []string
		for _, d := range m.Deviations {
			if d.OffStandard {
				codes = append(codes, d.Code)
			}
		}
		text += "  off-standard: " + strings.Join(distinct(codes), ", ")
	}
	return text
}

func distinct(list []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// sameText prints rows whose scores come from different formulations in one and
// the same.
func sameText(b *strings.Builder, p compare.Pair) {
	g := grid{{"task", "CF: A", "B", "B − A", "interval", "MCF: A", "B", "B − A", "interval"}}
	rows := p.Rows
	crossed := false
	for _, row := range rows {
		if c := row.Comparisons[0]; c.View == compare.Better && c.A.Formulation != c.B.Formulation {
			crossed = true
			g = append(g, sameRow(row))
		}
	}
	if !crossed {
		return
	}
	if p.Average != nil && len(p.Average.Tasks) > 1 {
		g = append(g, sameRow(*p.Average))
	}
	b.WriteString("\nScores of different formulations are not on one scale; in the same one:\n")
	g.write(b)
}

func sameRow(row compare.Row) []string {
	out := []string{olmes.Label(row.Task, row.Variant)}
	for _, v := range []compare.View{compare.CF, compare.MCF} {
		found := false
		for _, c := range row.Comparisons {
			if c.View == v {
				found = true
				out = append(out, points(c.A.Accuracy), points(c.B.Accuracy), signed(c.Difference), span(c.Interval))
			}
		}
		if !found {
			out = append(out, "-", "-", "-", "-")
		}
	}
	return out
}

func nearText(b *strings.Builder, p compare.Pair) {
	if p.Average == nil || p.Average.Comparisons[0].Near == nil {
		return
	}
	n := p.Average.Comparisons[0].Near
	average := "average "
	if len(p.Average.Tasks) == 1 {
		average = ""
	}
	by := "the noise that both runs measured"
	if n.Stated {
		by = "a stated margin, as not both runs measured their noise"
	}
	fmt.Fprintf(b, "\nNear-ties, by %s: %d of A, %d of B; they may turn %d outcomes and leave the %sdifference between %s and %s.\n",
		by, n.A, n.B, n.Turns, average, signed(n.Low), signed(n.High))
}

func warningText(b *strings.Builder, rows []compare.Row) {
	for _, row := range rows {
		for _, w := range row.Warnings {
			fmt.Fprintf(b, "! %s: %s\n", olmes.Label(row.Task, row.Variant), w)
		}
	}
}

// manyText prints a rank table, and of few runs every pair's difference.
func manyText(b *strings.Builder, r *compare.Report) {
	if len(r.Ranking) > 0 {
		g := grid{{"", "run", "average", "±", "may be", "tasks by CF", "by MCF"}}
		for _, k := range r.Ranking {
			may := fmt.Sprint(k.Rank)
			if k.Last > k.Rank {
				may = fmt.Sprintf("%d to %d", k.Rank, k.Last)
			}
			g = append(g, []string{fmt.Sprint(k.Rank), k.Label, points(k.Average), optional(k.SE, points), may, fmt.Sprint(k.CF), fmt.Sprint(k.MCF)})
		}
		left(g, 1)
		g.write(b)
		fmt.Fprintf(b, `Average: plain mean over the tasks that all runs have (%s), in percent.
A run's rank is 1 and the number of runs that are better on average: by the paired normal test at %v, corrected over
all pairs by Holm's rule. Runs that cannot be told apart share a rank; "may be" ends at the number of runs that it is
not better than.
`, strings.Join(r.RankedBy, ", "), r.Alpha)
	}
	if len(r.Models) <= matrixRuns {
		matrixText(b, r)
		tasksText(b, r)
	}
	if r.PairsLeftOut {
		fmt.Fprintf(b, "Pairs of %d runs are not listed; compare fewer to see them.\n", len(r.Models))
	}
}

// left aligns a column by padding it, so that a grid leaves it alone.
func left(g grid, column int) {
	width := 0
	for _, row := range g {
		width = max(width, utf8.RuneCountInString(row[column]))
	}
	for _, row := range g {
		row[column] += strings.Repeat(" ", width-utf8.RuneCountInString(row[column]))
	}
}

// matrixText prints the average difference of every pair, row minus column.
func matrixText(b *strings.Builder, r *compare.Report) {
	at := map[[2]string]compare.Row{}
	for _, p := range r.Pairs {
		if p.Average != nil {
			at[[2]string{p.A, p.B}] = *p.Average
		}
	}
	if len(at) == 0 {
		b.WriteString("No two of the runs have anything that can be set against each other.\n")
		return
	}
	order := make([]string, 0, len(r.Models))
	for _, k := range r.Ranking {
		order = append(order, k.Label)
	}
	if len(order) == 0 {
		for _, m := range r.Models {
			order = append(order, m.Label)
		}
	}
	head := []string{"row − column"}
	for i := range order {
		head = append(head, fmt.Sprintf("(%d)", i+1))
	}
	g := grid{head}
	for i, a := range order {
		row := []string{fmt.Sprintf("(%d) %s", i+1, a)}
		for _, c := range order {
			cell := "-"
			if p, ok := at[[2]string{c, a}]; ok {
				cell = signed(p.Comparisons[0].Difference) + mark(p)
			} else if p, ok := at[[2]string{a, c}]; ok {
				cell = signed(-p.Comparisons[0].Difference) + mark(p)
			}
			if a == c {
				cell = ""
			}
			row = append(row, cell)
		}
		g = append(g, row)
	}
	b.WriteString("\nAverage over the tasks that both have, in points; ≈ within the noise of the draw (not corrected for the number of pairs):\n")
	g.write(b)
}

func mark(row compare.Row) string {
	if row.Verdict == "none" {
		return "≈"
	}
	return " "
}

// tasksText prints the runs' own scores.
func tasksText(b *strings.Builder, r *compare.Report) {
	head := []string{"task"}
	for _, m := range r.Models {
		head = append(head, m.Label)
	}
	g := grid{head}
	for _, t := range r.Tasks {
		row := []string{olmes.Label(t.Task, t.Variant)}
		for _, s := range t.Own {
			if s.Formulation == "" {
				row = append(row, "- ")
				continue
			}
			row = append(row, fmt.Sprintf("%s ± %s", scoreText(s), optional(s.SE, points)))
		}
		g = append(g, row)
	}
	b.WriteString("\nScores of each run, with standard errors; † is the multiple-choice formulation:\n")
	g.write(b)
}

func findingsText(b *strings.Builder, r *compare.Report) {
	if len(r.Findings) > 0 {
		b.WriteString("\nThe runs differ in what was asked:\n")
		for _, f := range r.Findings {
			sign := " "
			if f.Blocks {
				sign = "!"
			}
			fmt.Fprintf(b, "%s %s\n", sign, f.Text)
		}
	}
	if len(r.Refused) == 0 {
		return
	}
	if r.NothingToRank {
		b.WriteString("Not ranked: there is no task that all runs have a score of.\n")
		return
	}
	if r.Anyway {
		b.WriteString("Ranked all the same (--anyway): what is marked ! stands against it.\n")
		return
	}
	b.WriteString("Not ranked, because of what is marked !; --anyway ranks all the same.\n")
}
