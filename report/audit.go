package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"olmes/audit"
)

// Audit prints what a ledger's claims say of each other and of runs: a table for
// each task that more than one reference or a run speaks of, the lines of
// claimed minus own scores, and the relations that the source does not keep.
func Audit(w io.Writer, a audit.Audit) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", a.Title)
	if a.Source != "" {
		fmt.Fprintf(&b, " (%s)", a.Source)
	}
	b.WriteString("\n")
	left := 0
	for _, t := range a.Tables {
		if !worth(t) {
			left++
			continue
		}
		b.WriteString("\n" + auditTable(t))
	}
	if left > 0 {
		verb := "are"
		if left == 1 {
			verb = "is"
		}
		fmt.Fprintf(&b, "\n%s with one reference and no run %s left out.\n", plural(left, "task"), verb)
	}
	b.WriteString(auditRuns(a))
	for _, f := range a.Fits {
		b.WriteString("\n" + auditFit(f))
	}
	for _, f := range a.NoFits {
		fmt.Fprintf(&b, "\n%s: no line by %s with %s; it takes %d points with %d different own scores, and different claims\n",
			f.Task, plural(f.Points, "point"), plural(f.Own, "own score"), audit.LinePoints, audit.LinePoints)
	}
	held := 0
	var broken []audit.Verdict
	for _, v := range a.Verdicts {
		if v.Holds {
			held++
		} else {
			broken = append(broken, v)
		}
	}
	if len(a.Verdicts) > 0 {
		fmt.Fprintf(&b, "\nThe source's own arithmetic: %d of %d relations hold.\n", held, len(a.Verdicts))
		for _, v := range broken {
			fmt.Fprintf(&b, "  %s: stated %s%s, the other numbers give %s\n", v.Check.Says, boundWord(v.Bound), v.Stated, span(v.Computed))
		}
	}
	if len(a.Contradictions) > 0 {
		b.WriteString("\nThe source contradicts itself:\n")
		for _, c := range a.Contradictions {
			fmt.Fprintf(&b, "  %s: %s\n", c.At, c.Says)
		}
	}
	if len(a.Unmatched) > 0 {
		fmt.Fprintf(&b, "\nNo claim speaks of %s; name a run as the ledger names its model: MODEL=RUN\n", strings.Join(a.Unmatched, ", "))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write audit: %w", err)
	}
	return nil
}

// auditRuns says of the runs what their scores in the tables do not: whose they are,
// and what is off-standard of those shown.
func auditRuns(a audit.Audit) string {
	var lines []string
	own := false
	for _, r := range a.Renamed {
		lines = add(lines, fmt.Sprintf("The run %s is of the model %s, which the ledger calls otherwise: it is held against the claims of %s.", plain(r.Label), plain(r.RunModel), r.Model))
	}
	for _, t := range a.Tables {
		for _, m := range t.Models {
			for _, o := range m.Own {
				own = true
				for _, off := range o.Off {
					lines = add(lines, fmt.Sprintf("* off-standard, %s: %s", plain(o.Label), plain(off)))
				}
			}
		}
	}
	for _, n := range a.Notes {
		lines = add(lines, "note: "+plain(n))
	}
	text := ""
	if own {
		text = "\nOwn: score ± one standard error, formulation, instances (n).\n"
	}
	if len(lines) > 0 {
		text += "\n" + strings.Join(lines, "\n") + "\n"
	}
	return text
}

// ownText is an own score in a table.
func ownText(o audit.Own) string {
	text := fmt.Sprintf("%.1f", o.Score)
	if !o.Standard {
		text += "*"
	}
	if o.SE > 0 {
		text += fmt.Sprintf(" ± %.1f", o.SE)
	}
	text += " " + strings.ToUpper(o.Setup.Formulation)
	if o.N > 0 {
		text += fmt.Sprintf(" n %d", o.N)
	}
	if o.Part != "" {
		text += ", " + o.Part + " subjects"
	}
	return text
}

// worth reports whether a table compares anything.
func worth(t audit.Table) bool {
	for _, m := range t.Models {
		if m.Spread != nil || len(m.Own) > 0 {
			return true
		}
	}
	return false
}

func auditTable(t audit.Table) string {
	out := table{header: []string{t.Task}}
	own := false
	for _, m := range t.Models {
		own = own || len(m.Own) > 0
	}
	for _, r := range t.References {
		out.header = append(out.header, r.Name)
	}
	if own {
		out.header = append(out.header, "own")
	}
	out.header = append(out.header, "spread", "differ in")
	for _, m := range t.Models {
		row := []string{m.Model}
		for _, cells := range m.Cells {
			var texts []string
			for _, c := range cells {
				if text := claimText(c); !slices.Contains(texts, text) {
					texts = append(texts, text)
				}
			}
			row = append(row, strings.Join(texts, ", "))
		}
		if own {
			var texts []string
			for _, o := range m.Own {
				texts = append(texts, ownText(o))
			}
			row = append(row, strings.Join(texts, "; "))
		}
		spread := ""
		if m.Spread != nil {
			spread = fmt.Sprintf("%.1f", *m.Spread)
		}
		out.add(append(row, spread, strings.Join(m.Differs, ", ")))
	}
	out.rule = len(out.rows)
	for i, f := range (audit.Setup{}).Fields() {
		row := []string{f.Name}
		for _, r := range t.References {
			row = append(row, r.Setup.Fields()[i].Value)
		}
		if t.OwnSetup != nil {
			row = append(row, cmp.Or(t.OwnSetup.Fields()[i].Value, "?"))
		}
		for len(row) < len(out.header) {
			row = append(row, "")
		}
		out.add(row)
	}
	text := out.text()
	for _, f := range t.Flips {
		text += fmt.Sprintf("  rank flip: %s is ahead of %s by %s, behind by %s\n", f.A, f.B, f.One, f.Other)
	}
	return text
}

func claimText(c audit.Cell) string {
	text := boundWord(c.Bound) + c.Value.String()
	if c.Setup.Formulation != "" && c.Setup.Formulation != "?" {
		text += " " + strings.ToUpper(c.Setup.Formulation)
	}
	if n := c.Setup.Normalization; n != "" && n != "?" {
		text += " " + n
	}
	return text
}

func boundWord(b audit.Bound) string {
	switch b {
	case audit.Low:
		return "≥ "
	case audit.High:
		return "≤ "
	case audit.About:
		return "~"
	}
	return ""
}

func span(r audit.Range) string {
	low, high := fmt.Sprintf("%.2f", r.Low), fmt.Sprintf("%.2f", r.High)
	if low == high {
		return low
	}
	return low + " to " + high
}

func auditFit(f audit.Fit) string {
	name := f.Task
	if name == "" {
		name = "all tasks"
	}
	text := fmt.Sprintf("%s: claimed minus own over claimed, %s: slope %.3f", name, plural(len(f.Points), "point"), f.Line.Slope)
	if i := f.Line.SlopeInterval; i != nil {
		text += fmt.Sprintf(" (95%% %.3f to %.3f)", i.Low, i.High)
	}
	if f.Line.R2 != nil {
		text += fmt.Sprintf(", R² %.2f", *f.Line.R2)
	}
	text += "\n"
	for _, p := range f.Points {
		mark := ""
		if p.Outlier {
			mark = "  outlier"
		}
		text += fmt.Sprintf("  %s, %s by %s against %s: claimed %.1f, %+.1f%s\n", p.Task, p.Model, p.Reference, p.Label, p.Claimed, p.Above, mark)
	}
	return text
}
