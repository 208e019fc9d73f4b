package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"olmes/study"
)

// CostStudy prints what evaluations cost (paper, Appendix F).
func CostStudy(w io.Writer, s study.CostStudy) error {
	var b strings.Builder
	for i, m := range s.Models {
		if i > 0 {
			b.WriteString("\n")
		}
		t := table{header: []string{m.Model, "requests", "part", "naive", "distinct", "computed", "hours"}}
		row := func(name, part string, c study.Cost) {
			t.add([]string{name, fmt.Sprint(c.Requests), part, tokenCount(c.Naive), tokenCount(c.Distinct), tokenCount(c.Computed), hours(c.Hours)})
		}
		for _, k := range m.Tasks {
			name := k.Task
			if len(k.Variants) > 0 {
				name += " " + strings.Join(k.Variants, "+")
			}
			row(name, strings.ToUpper(string(k.Formulation)), k.Cost)
			if k.PMI != nil {
				row("", "pmi of it", *k.PMI)
			}
		}
		t.rule = len(t.rows)
		row("all", "CF", m.CF)
		row("", "pmi of it", m.PMI)
		row("", "MCF", m.MCF)
		row("", "both", m.All)
		b.WriteString(t.text())
		fmt.Fprintf(&b, "both over CF %s, over MCF %s; pmi of CF %s; naive tokens for a distinct one %s\n", times(m.BothOverCF), times(m.BothOverMCF), percent(m.PMIOverCF), times(m.Shared))
		for _, r := range m.Runs {
			where := r.CPU
			if r.Accelerator != "" {
				where = r.Accelerator
			}
			fmt.Fprintf(&b, "run %s %s: %.2f hours, %s computed%s%s\n", short(r.ID), r.Label, r.Hours, plural(int(r.Computed), "token"), rate(r.Rate), machine(where, r.Cores, r.Accelerator != ""))
		}
	}
	b.WriteString("Hours: the runs' wall-clock time, by computed tokens. Requests include unconditional ones.\n")
	return write(w, &b, s.Notes)
}

func short(id string) string { return id[:min(len(id), 12)] }

func rate(v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(", %.0f a second", *v)
}

func machine(where string, cores int, accelerator bool) string {
	switch {
	case where == "":
		return ""
	case accelerator || cores == 0:
		return ", on " + where
	}
	return fmt.Sprintf(", on %s, %s", where, plural(cores, "core"))
}

func tokenCount(v *int64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

func hours(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

func times(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

// shownSizes are the sizes of samples that the table shows; all are in --json.
var shownSizes = []int{10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}

// SubsampleStudy prints what fewer instances cost in precision.
func SubsampleStudy(w io.Writer, s study.SubsampleStudy) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Scores of k instances%s, over %s without replacement; in points\n", variantTitle(s.Variant), plural(s.Draws, "draw"))
	for _, t := range s.Tasks {
		out := table{header: []string{t.Task, "k", "std err", "off by", "bias", "other form %", "tau", "same best %", "flipped %"}}
		for _, k := range t.Sizes {
			if !slices.Contains(shownSizes, k.K) && k.K != t.Instances {
				continue
			}
			out.add([]string{"", fmt.Sprint(k.K), inPoints(k.SE), inPoints(k.Off), points(k.Bias), inPoints(k.OtherFormulation), times(k.Tau), percent(k.SameBest), percent(k.Flipped)})
		}
		b.WriteString("\n" + out.text())
		for i, m := range t.Models {
			fmt.Fprintf(&b, "%s %s; ", m, percent(&t.Scores[i]))
		}
		fmt.Fprintf(&b, "of %s\n", plural(t.Instances, "instance"))
		if t.Micro {
			fmt.Fprintf(&b, "all of %s here is of its instances together (micro), and not the mean over its tasks (macro), which is the standard's score\n", t.Task)
		}
		if k := t.Standard; k != nil {
			fmt.Fprintf(&b, "the standard takes %d of %d: standard error %.2f instead of %.2f, %.1f times; off the whole split's score by %.2f\n", k.Sample, k.Split, 100*k.SE, 100*k.SplitSE, k.Ratio, 100*k.Off)
		}
	}
	b.WriteString("\nStd err: against ever more instances like these; off by: root mean square distance from the score of all instances here; bias: of the\nbetter of both formulations; other form: draws that choose the other formulation; tau, same best, flipped: ranks of the models.\n")
	return write(w, &b, s.Notes)
}
