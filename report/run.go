package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"olmes"
	"olmes/record"
	"olmes/score"
)

// Run prints the outcome of a complete run: what was run, the table of scores,
// what the run cost, and every deviation from the standard, each in a line.
func Run(w io.Writer, rec *record.Record) error {
	m, err := rec.Metrics()
	if err != nil {
		return err
	}
	var b strings.Builder
	head(&b, rec)
	b.WriteString("\n")
	_, near, err := rec.NearTies(0)
	if err != nil {
		return err
	}
	if err := Scores(&b, m, near); err != nil {
		return err
	}
	b.WriteString("\n")
	cost(&b, rec.Identity, rec.Provenance)
	noiseLine(&b, rec.Provenance, near)
	Deviations(&b, record.Deviations(rec.Identity, &m))
	for _, n := range rec.Provenance.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func head(b *strings.Builder, rec *record.Record) {
	library := ""
	if envs := rec.Provenance.Environments; len(envs) > 0 {
		library = envs[len(envs)-1].Library
	}
	fmt.Fprintf(b, "run %s  %s\n%s\n%s\n", rec.ID[:12], rec.Dir, modelLine(rec.Identity), engineLine(rec.Identity, library))
}

func cost(b *strings.Builder, id record.Identity, p record.Provenance) {
	t := p.Tokens
	if t == (record.Tokens{}) && p.Import != nil {
		b.WriteString("tokens: not known\n")
		return
	}
	fmt.Fprintf(b, "tokens: %d naive, %d distinct, %d computed", t.Naive, t.Distinct, t.Computed)
	switch {
	case t.Computed < t.Distinct && served(id):
		b.WriteString(" (the others are taken from finished runs, or were in the server's cache)")
	case t.Computed < t.Distinct:
		b.WriteString(" (the others are taken from finished runs)")
	case t.Distinct > 0:
		fmt.Fprintf(b, " (%.2f%% of distinct)", 100*float64(t.Computed)/float64(t.Distinct))
	}
	if p.WallSeconds > 0 {
		fmt.Fprintf(b, "; %s", time.Duration(p.WallSeconds*float64(time.Second)).Round(time.Second))
	}
	if p.Resumed > 0 {
		fmt.Fprintf(b, " in the last of %d sessions", p.Resumed+1)
	}
	b.WriteString("\n")
}

// Deviations prints each deviation in one line, those that make the results
// off-standard first.
func Deviations(b *strings.Builder, all []record.Deviation) {
	for _, off := range []bool{true, false} {
		for _, d := range all {
			if d.OffStandard != off {
				continue
			}
			kind := "note"
			if off {
				kind = "off-standard"
			}
			fmt.Fprintf(b, "%s: %s\n", kind, d.Text)
		}
	}
}

// Details prints every normalization and both formulations of a run, a row per
// task and formulation. The row of the cf form also has the paired difference
// of the two formulations with its standard error, and the bootstrap interval of
// the better one; both are in percent.
func Details(w io.Writer, m score.Metrics) error {
	t := table{header: []string{"task", "n", "form", "none", "token", "character", "pmi", "ties", "cut", "MCF − CF", "95% of better"}}
	row := func(name string, n int, f olmes.Formulation, acc map[olmes.Normalization]score.Estimate, ties, cut int, s *score.Score) {
		cells := []string{name, fmt.Sprint(n), string(f)}
		for _, norm := range olmes.Normalizations() {
			cell := "-"
			if e, ok := acc[norm]; ok {
				cell = percent(&e.Accuracy)
			}
			cells = append(cells, cell)
		}
		cells = append(cells, fmt.Sprint(ties), fmt.Sprint(cut), "", "")
		if s != nil && f == olmes.CF {
			cells[len(cells)-2], cells[len(cells)-1] = difference(s.Difference), interval(s.Interval)
		}
		t.add(cells)
	}
	for _, g := range m.Groups {
		for _, form := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			gf, ok := g.Formulations[form]
			if !ok {
				continue
			}
			n := 0
			for _, e := range gf.Micro {
				n = e.N
			}
			row(olmes.Label(g.Group, g.Variant)+" macro", n, form, gf.Macro, gf.Ties.Instances, gf.Truncated.Requests, g.Score)
			row(olmes.Label(g.Group, g.Variant)+" micro", n, form, gf.Micro, gf.Ties.Instances, gf.Truncated.Requests, nil)
		}
	}
	for _, task := range m.Tasks {
		for _, form := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			if f, ok := task.Formulations[form]; ok {
				row(olmes.Label(task.Task, task.Variant), f.Instances, form, f.Accuracy, f.Ties.Instances, f.Truncated.Requests, task.Score)
			}
		}
	}
	_, err := io.WriteString(w, t.text()+"ties: instances with equal answers; cut: requests cut to fit the context; "+near+" the two forms are too close to tell which is better.\n")
	return err
}

// near marks a difference of the formulations that is within its noise.
const near = "≈"

// difference formats the paired difference of the formulations.
func difference(d *score.Difference) string {
	if d == nil {
		return "-"
	}
	mark := " "
	if d.NearNoise {
		mark = near
	}
	return fmt.Sprintf("%+.1f ± %s%s", 100*d.Value, percent(d.SE), mark)
}
