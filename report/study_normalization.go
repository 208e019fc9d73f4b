package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"olmes"
	"olmes/study"
)

// NormalizationStudy prints the win percentages of the normalizations (paper,
// Table 3), every model's accuracies (Tables 9 to 12), the study without each
// model, and what prompt variants and unconditional probabilities do.
func NormalizationStudy(w io.Writer, s study.NormalizationStudy) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Normalizations of CF over %s%s: share of models that each is best for, in percent\n\n", plural(len(s.Models), "model"), variantTitle(s.Variant))
	wins := table{header: append(append([]string{"task", "models", "chosen"}, normHeaders()...), "over models", "over instances", "diff oracle", "over instances", "bias")}
	tied := table{header: append([]string{"task", "tied", "rule"}, normHeaders()...)}
	for _, t := range s.Tasks {
		chosen := t.Wins[slices.Index(t.Normalizations, t.Chosen)]
		row := append([]string{t.Task, fmt.Sprint(len(t.Models)), string(t.Chosen)}, shares(t, func(w study.Win) float64 { return w.Share })...)
		wins.add(append(row, interval(chosen.OverModels), interval(chosen.OverInstances), inPoints(t.DiffOracle.Value), interval(t.DiffOracle.OverInstances), optional(t.DiffOracle.Bias)))
		if t.Tied == 0 {
			continue
		}
		for _, r := range []struct {
			name string
			of   func(study.Win) float64
		}{
			{"ties split", func(w study.Win) float64 { return w.Split }},
			{"first in order", func(w study.Win) float64 { return w.Paper }},
			{"no tie counts", func(w study.Win) float64 { return w.Strict }},
		} {
			tied.add(append([]string{t.Task, fmt.Sprint(t.Tied), r.name}, shares(t, r.of)...))
		}
	}
	fmt.Fprintf(&b, "%sIntervals are of the chosen normalization's share and of diff oracle, the mean of best minus chosen in points; bias is\nhow much of it comes of taking the best of several noisy numbers.\nTies: %s.\n", wins.text(), s.TieRule)
	if len(tied.rows) > 0 {
		fmt.Fprintf(&b, "\nModels with ties, by other rules (first in order: none, token, character, pmi, as the paper's table looks like)\n\n%s", tied.text())
	}
	for _, t := range s.Tasks {
		b.WriteString("\n" + normalizationTask(t))
	}
	b.WriteString("* the standard's. Diff: best minus chosen, in points; share without: of the chosen one among the other models; loss: what this model\nwould lose by what wins there.\n")
	interactions(&b, s.Interactions)
	if s.Unconditional != nil {
		unconditional(&b, *s.Unconditional)
	}
	return write(w, &b, s.Notes)
}

func normHeaders() []string {
	var out []string
	for _, n := range olmes.Normalizations() {
		out = append(out, string(n))
	}
	return out
}

// shares lists a task's shares, a dash for what was not scored.
func shares(t study.NormalizationTask, of func(study.Win) float64) []string {
	var out []string
	for _, n := range olmes.Normalizations() {
		cell := "-"
		for _, w := range t.Wins {
			if w.Normalization == n {
				cell = inPoints(of(w))
			}
		}
		out = append(out, cell)
	}
	return out
}

func optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return inPoints(*v)
}

func normalizationTask(t study.NormalizationTask) string {
	out := table{header: []string{t.Task, "n", "best"}}
	out.header = append(append(out.header, normHeaders()...), "diff", "share without", "loss")
	for i, c := range t.Cells {
		row := []string{c.Model, fmt.Sprint(t.Instances), names(c.Best)}
		for _, n := range olmes.Normalizations() {
			cell := "-"
			if at := slices.Index(t.Normalizations, n); at >= 0 {
				cell = percentOf(c.CF[at])
				if n == t.Chosen {
					cell += "*"
				}
			}
			row = append(row, cell)
		}
		without, loss := "-", "-"
		if i < len(t.LeftOut) {
			l := t.LeftOut[i]
			without, loss = inPoints(l.Share), inPoints(l.Loss)
			if !slices.Equal(l.MostWins, t.MostWins) {
				without += " (" + names(l.MostWins) + " wins)"
			}
		}
		out.add(append(row, inPoints(c.Diff), without, loss))
	}
	return out.text()
}

func interactions(b *strings.Builder, list []study.Interaction) {
	if len(list) == 0 {
		return
	}
	t := table{header: []string{"model", "task", "variant", "norm", "chosen", "standard", "in variant", "change", "interval", "p (Holm)", "other best"}}
	for _, x := range list {
		t.add([]string{x.Model, x.Task, x.Variant, string(x.Normalization), string(x.Chosen), points(x.Standard), points(x.InVariant), gap(x.Change),
			pointsBetween(x.Change.Interval), pValue(x.P), yes(x.BestChanges)})
	}
	fmt.Fprintf(b, "\nWhat a normalization gains over the chosen one, in the standard's rendering and in a variant, in points\n\n%s", t.text())
}

func unconditional(b *strings.Builder, u study.UnconditionalStudy) {
	if len(u.Tasks) == 0 {
		return
	}
	t := table{header: []string{"model", "choices", "task", "scale", "far off", "turned", "all less likely"}}
	alarms := table{header: []string{"model", "doc_id", "task", "choice", "gold", "nats", "expected", "z", "others", "turned"}}
	for _, k := range u.Tasks {
		t.add([]string{k.Model, fmt.Sprint(k.Choices), k.Task, fmt.Sprintf("%.2f", k.Scale), fmt.Sprint(k.Count), fmt.Sprint(k.Turned), fmt.Sprintf("%d of %d", k.AllLess, k.Instances)})
		for i, a := range k.Alarms {
			if i == 3 {
				break
			}
			alarms.add([]string{k.Model, fmt.Sprint(a.DocID), a.Task, fmt.Sprint(a.Choice), yes(a.Gold), fmt.Sprintf("%.1f", a.Unconditional), fmt.Sprintf("%.1f", a.Expected),
				fmt.Sprintf("%+.1f", a.Z), fmt.Sprintf("%.1f", a.Others), yes(a.Turned)})
		}
	}
	fmt.Fprintf(b, "\nUnconditional probabilities, log P(answer | \"Answer:\"): far off are choices more than %.1f scales from what their length lets\nexpect; turned: instances that pmi answers otherwise than none by such a choice; all less likely: instances with every answer less\nlikely after the question than after \"Answer:\" alone\n\n%s", u.Threshold, t.text())
	if len(alarms.rows) > 0 {
		fmt.Fprintf(b, "\nThe furthest off, three a task (all in --json)\n\n%s", alarms.text())
	}
}
