package report

import (
	"fmt"
	"io"
	"strings"

	"olmes/study"
)

// MMLUStudy prints a group's two means (paper, Table 8).
func MMLUStudy(w io.Writer, s study.MMLUStudy) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s over %s: mean over tasks (macro) and over instances (micro), in percent\n\n", s.Group, plural(len(s.Tasks), "task"))
	t := table{header: []string{"model", "tasks", "form", "norm", "n", "macro", "±", "± tasks", "micro", "±", "± clustered", "difference", "interval"}}
	for _, m := range s.Models {
		for _, f := range m.Forms {
			t.add([]string{m.Model, fmt.Sprint(m.Tasks), strings.ToUpper(string(f.Formulation)), string(f.Normalization), fmt.Sprint(f.Instances), percentOf(f.Macro), percent(f.Macro.SE), percent(f.MacroTasks),
				percentOf(f.Micro), percent(f.Micro.SE), percent(f.MicroClustered), gap(f.Difference), pointsBetween(f.Difference.Interval)})
		}
	}
	fmt.Fprintf(&b, "%s± one standard error: of instances; ± tasks: for other tasks like these; ± clustered: instances of a task are alike. %s near noise.\n", t.text(), near)
	return write(w, &b, s.Notes)
}

// RobustnessStudy prints how far variants move scores (paper, Table 5).
func RobustnessStudy(w io.Writer, s study.RobustnessStudy) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Scores in other renderings (%s), in percent\n", strings.Join(s.Variants, ", "))
	if len(s.Rows) == 0 {
		return write(w, &b, s.Notes)
	}
	b.WriteString("\n")
	t := table{header: append(append([]string{"model", "n", "task", "orig"}, s.Variants...), "avg all", "diff", "± ", "avg others", "diff", "±", "std err", "spread")}
	changes := table{header: []string{"model", "variant", "task", "change", "interval", "p (Holm)", "better"}}
	for _, r := range s.Rows {
		row := []string{r.Model, fmt.Sprint(r.Instances), r.Task, condition(r.Original)}
		for _, name := range s.Variants {
			cell := "-"
			for _, c := range r.Variants {
				if c.Variant == name {
					cell = condition(c)
				}
			}
			row = append(row, cell)
		}
		t.add(append(row, inPoints(r.All.Average), inPoints(r.All.Diff), percent(r.All.Signed.SE), inPoints(r.Others.Average), inPoints(r.Others.Diff), percent(r.Others.Signed.SE),
			percent(r.Original.Score.SE), inPoints(r.Spread)))
		for _, c := range r.Variants {
			changes.add([]string{r.Model, c.Variant, r.Task, gap(*c.Change), pointsBetween(c.Change.Interval), pValue(c.P), strings.ToUpper(string(c.Formulation))})
		}
	}
	fmt.Fprintf(&b, "%sAvg all: original and variants; avg others: variants alone; diff: |original − average|, ± its standard error, paired by instance;\nstd err: of the original score. † the multiple-choice formulation gave the score.\n\nEach variant minus the original, in points; %s near noise\n\n%s", t.text(), near, changes.text())
	return write(w, &b, s.Notes)
}

func condition(c study.Condition) string {
	mark := " "
	if c.Formulation == "mcf" {
		mark = dagger
	}
	return percentOf(c.Score) + mark
}

// LabelBiasStudy prints what models answer by label and position.
func LabelBiasStudy(w io.Writer, s study.LabelBiasStudy) error {
	var b strings.Builder
	b.WriteString("Labels in MCF: how often each is answered and right\n\n")
	t := table{header: []string{"model", "n", "task", "MCF", "majority", "answered", "right", "distance", "χ²", "p", "most", ""}}
	orders := table{header: []string{"model", "n", "task", "standard", "corrected", "inflation", "interval", "2 points", "5 points", "same choice", "by position"}}
	scores := table{header: []string{"model", "n", "task", "order", "MCF", "answered"}}
	for _, r := range s.Rows {
		statistic, p := "-", "-"
		if r.Test != nil {
			statistic, p = fmt.Sprintf("%.1f", r.Test.Statistic), pValue(&r.Test.P)
			if r.Test.Exact {
				p += " exact"
			}
		}
		flag := ""
		if r.Constant {
			flag = "constant"
		}
		t.add([]string{r.Model, fmt.Sprint(r.Instances), r.Task, noted(r.Accuracy, r.Guessing), percent(r.Majority), counts(r.Predicted), counts(r.Gold), inPoints(r.Distance), statistic, p,
			fmt.Sprintf("%c %s", 'A'+rune(r.Label), inPoints(r.Share)), flag})
		if r.Orders == nil {
			continue
		}
		for _, o := range r.Orders.Orders {
			name := o.Variant
			if name == "" {
				name = "standard"
			}
			scores.add([]string{r.Model, fmt.Sprint(o.Instances), r.Task, name, percentOf(o.Accuracy), counts(o.Predicted)})
		}
		if e := r.Orders; e.Instances > 0 {
			var by []string
			for _, at := range e.Positions {
				by = append(by, fmt.Sprintf("%.0f/%.0f", 100*at.Share, 100*at.Probability))
			}
			orders.add([]string{r.Model, fmt.Sprint(e.Instances), r.Task, percentOf(e.Standard), percentOf(e.Corrected), gap(e.Inflation), pointsBetween(e.Inflation.Interval),
				string(e.Over2), string(e.Over5), inPoints(e.Consistent), strings.Join(by, " ")})
		}
	}
	fmt.Fprintf(&b, "%sDistance: percent of answers that would have to be others for the histograms to be one; test: Stuart and Maxwell's;\nconstant: one label is %.0f%% of the answers or more; %s.\n", t.text(), 100*study.ConstantShare, guessLegend)
	if len(scores.rows) > 0 {
		fmt.Fprintf(&b, "\nIn other orders of the choices\n\n%s", scores.text())
	}
	if len(orders.rows) > 0 {
		fmt.Fprintf(&b, "\nEach choice at each position: corrected takes the choice of the highest mean log-probability; inflation: standard − corrected;\nsame choice: percent of instances answered alike in every rotation; by position: percent of answers / mean probability\n\n%s", orders.text())
	}
	return write(w, &b, s.Notes)
}

func counts(list []int) string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = fmt.Sprint(n)
	}
	return strings.Join(out, " ")
}
