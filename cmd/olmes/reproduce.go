package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"olmes"
	"olmes/foreign"
	"olmes/outcome"
	"olmes/record"
	"olmes/reproduce"
	"olmes/run"
)

func (a *app) reproduceCommand() *cobra.Command {
	var o reproduce.Options
	var source, which string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reproduce A B | --which FILE",
		Short: "say why two runs of one model differ",
		Long: `Reproduce compares two runs of the same model, of different teams, machines or tools:
the same instances and right answers, the same requests, the same ids, the same
log-probabilities, the same decisions, the same scores? It names the first cause why
they part and the instances concerned, and says whether every flipped decision is a
near-tie and whether the scores agree within the error of their paired difference.
What a record does not say is said to be unknown.

A and B are folders, ids or unique prefixes of one; "label=RUN" calls a run label. Where
the dataset is in the cache, prompts are rendered again to tell how they differ from the
standard's; nothing is fetched. Differences beyond the noise that the runs have measured
count; --noise X takes X instead, in nats for a request and in the unit of the
normalization for the margin between two choices.

It exits with 0 where the scores agree, 4 where they do not or it cannot be told, and 64
where the runs share nothing that could be compared.

--which FILE names instead the implementation that another tool's results or requests come
from, by the marks that it left (docs/import.md).`,
		Example: `  olmes reproduce runs/mine runs/theirs
  olmes reproduce f16=462c0c188d8e q8=edfe638510bb --json
  olmes reproduce --which samples_arc_easy.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if which != "" {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if which != "" {
				return a.which(which, asJSON)
			}
			if cmd.Flags().Changed("noise") && !(o.Noise > 0 && !math.IsInf(o.Noise, 0)) {
				return &run.UsageError{Err: fmt.Errorf("--noise is %v; give a margin above 0", o.Noise)}
			}
			sources, problems, err := outcome.Sources(args, a.runs)
			switch {
			case err != nil:
				return sourceError(err)
			case len(problems) > 0:
				return coded(problems[0])
			case len(sources) != 2:
				return &run.UsageError{Err: fmt.Errorf("%s name %d different runs; give two", strings.Join(args, " and "), len(sources))}
			}
			runs, err := loadAll(cmd.Context(), sources, outcome.Tokens)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("instances") && o.Instances == 0 {
				o.Instances = -1
			}
			references, err := a.references(cmd.Context(), source, runs[0].Record.Identity, runs[1].Record.Identity)
			if err != nil {
				return err
			}
			defer references.close()
			o.Reference = references.get
			r := reproduce.Compare(runs[0], runs[1], o)
			if references.err != nil {
				return references.err
			}
			if asJSON {
				err = a.printJSON(r)
			} else {
				err = printReproduction(a.stdout, r)
			}
			switch {
			case err != nil || r.Agree == reproduce.Yes:
			case r.Shared == 0 && len(r.Scores) == 0:
				err = &run.UsageError{Err: fmt.Errorf("%s and %s share no instance, and so nothing that can be compared; give two runs of the same tasks", r.A.Label, r.B.Label)}
			default:
				err = &exitError{code: exitOffStandard}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	f.IntVar(&o.Instances, "instances", 5, "instances that a cause lists at most; 0 for all")
	f.Float64Var(&o.Noise, "noise", 0, "take this margin instead of the measured noise")
	f.StringVar(&which, "which", "", "name the implementation that a `FILE` of another tool comes from")
	sourceFlag(cmd, &source)
	return cmd
}

// which names the implementation that a file comes from.
func (a *app) which(path string, asJSON bool) error {
	found, err := foreign.Which(path)
	if err != nil {
		return err
	}
	if asJSON {
		found.Candidates, found.Findings = notNil(found.Candidates), notNil(found.Findings)
		for i := range found.Findings {
			found.Findings[i].Fits = notNil(found.Findings[i].Fits)
		}
		return a.printJSON(found)
	}
	b := bufio.NewWriter(a.stdout)
	fmt.Fprintf(b, "%s: %s, written by %s\n", found.File, found.Kind, orUnknown(found.Writer))
	for _, f := range found.Findings {
		at := ""
		if f.Task != "" {
			at = f.Task
		}
		if f.Line > 0 {
			at += fmt.Sprintf(" line %d", f.Line)
		}
		fits := "tells the writer only"
		if len(f.Fits) > 0 {
			fits = "fits " + strings.Join(f.Fits, ", ")
		}
		fmt.Fprintf(b, "  %s%s: %s; %s\n", f.Mark, parenthesis(at), f.Evidence, fits)
	}
	switch {
	case found.Implementation != "":
		fmt.Fprintf(b, "The tasks are implemented as in %s.\n", found.Implementation)
	case len(found.Candidates) > 0:
		fmt.Fprintf(b, "Which implementation it is cannot be told; it may be %s.\n", strings.Join(found.Candidates, ", "))
	default:
		fmt.Fprintln(b, "The marks contradict each other: no implementation known here has them all.")
	}
	return b.Flush()
}

func parenthesis(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return ""
	}
	return " (" + s + ")"
}

// loadAll reads the instances of runs.
func loadAll(ctx context.Context, sources []outcome.Source, d outcome.Depth) ([]*outcome.Run, error) {
	var out []*outcome.Run
	for _, s := range sources {
		r, err := outcome.Load(ctx, s, d)
		if err != nil {
			return nil, coded(err)
		}
		out = append(out, r)
	}
	return out, nil
}

// printReproduction prints a comparison for people.
func printReproduction(w io.Writer, r reproduce.Report) error {
	b := bufio.NewWriter(w)
	for _, s := range []struct {
		name string
		side reproduce.Side
	}{{"A", r.A}, {"B", r.B}} {
		fmt.Fprintf(b, "%s  %s  run %s, %s, %d predictions\n", s.name, s.side.Label, s.side.ID[:min(record.ShortID, len(s.side.ID))], s.side.Evidence, s.side.Instances)
		fmt.Fprintf(b, "   model: %s; weights: %s; engine: %s; BOS: %s\n", orUnknown(s.side.Model), orUnknown(s.side.Weights), orUnknown(s.side.Engine), s.side.BOS)
	}
	fmt.Fprintln(b)
	if r.Models != nil {
		fmt.Fprintf(b, "   %-18s %-8s %s\n", r.Models.Stage, "differ", r.Models.Text)
	}
	marks := map[reproduce.Answer]string{reproduce.Yes: "same", reproduce.No: "differ", reproduce.Unknown: "unknown"}
	for i, s := range r.Stages {
		fmt.Fprintf(b, "%d. %-18s %-8s %s\n", i+1, s.Name, marks[s.Same], s.Text)
		for _, c := range s.Causes {
			sure := ""
			if !c.Certain {
				sure = ", inferred"
			}
			fmt.Fprintf(b, "   cause: %s%s: %s\n", c.Code, sure, c.Text)
			if where := places(c.Where); where != "" {
				fmt.Fprintf(b, "     in %s\n", where)
			}
			for _, at := range c.Examples {
				fmt.Fprintf(b, "     %s\n", atText(at))
			}
			if more := c.Count - len(c.Examples); more > 0 && len(c.Examples) > 0 {
				fmt.Fprintf(b, "     …\n")
			}
		}
		if d := s.Differences; d != nil && d.Equal < d.N {
			fmt.Fprintf(b, "   B − A, nats: mean %+.3g, sd %.3g, |median| %.3g, |90%%| %.3g, |99%%| %.3g, |largest| %.3g, correlation %.6f\n", d.Mean, d.SD, d.MedianAbs, d.P90, d.P99, d.Largest, d.Correlation)
		}
		if s.Name == reproduce.Decisions {
			printFlips(b, r.Flips)
		}
		if s.Name == reproduce.Scores {
			printScores(b, r.Scores)
		}
	}
	if len(r.Unknown) > 0 {
		fmt.Fprintln(b, "\nNot known:")
		for _, u := range r.Unknown {
			fmt.Fprintf(b, "  %s\n", u)
		}
	}
	fmt.Fprintf(b, "\n%s\n", r.Verdict)
	return b.Flush()
}

func orUnknown(s string) string {
	if s == "" {
		return "not known"
	}
	return s
}

// places names where a cause is, those of a group together.
func places(where []reproduce.Where) string {
	var parts []string
	subjects, instances, of := 0, 0, 0
	for _, w := range where {
		if strings.HasPrefix(w.Task, "mmlu_") {
			subjects, instances, of = subjects+1, instances+w.Instances, of+w.Of
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s (%d of %d instances)", olmes.Label(w.Task, w.Variant), w.Formulation, w.Instances, w.Of))
	}
	if subjects > 0 {
		parts = append(parts, fmt.Sprintf("mmlu, %d subjects and formulations (%d of %d instances)", subjects, instances, of))
	}
	return strings.Join(parts, ", ")
}

func atText(at reproduce.At) string {
	text := fmt.Sprintf("%s/%d %s", olmes.Label(at.Task, at.Variant), at.DocID, at.Formulation)
	if at.Choice != nil {
		text += fmt.Sprintf(", choice %d", *at.Choice)
	}
	if at.Detail != "" {
		text += ": " + at.Detail
	}
	return text
}

// flipsShown is how many flips are printed.
const flipsShown = 10

func printFlips(w io.Writer, flips []reproduce.Flip) {
	for i, f := range flips {
		if i == flipsShown {
			fmt.Fprintf(w, "   … and %d more (--json lists all)\n", len(flips)-flipsShown)
			return
		}
		near := map[reproduce.Answer]string{reproduce.Yes: "near-tie", reproduce.No: "no near-tie", reproduce.Unknown: "near-tie or not is unknown"}[f.NearTie]
		fmt.Fprintf(w, "   %s/%d %s: choice %d in A (by %s), %d in B (by %s), gold %d; %s\n", olmes.Label(f.Task, f.Variant), f.DocID, f.Formulation, f.A, marginText(f.MarginA), f.B, marginText(f.MarginB), f.Gold, near)
	}
}

func marginText(m *float64) string {
	if m == nil {
		return "-"
	}
	return fmt.Sprintf("%.2g", *m)
}

func printScores(w io.Writer, scores []reproduce.Score) {
	for _, s := range scores {
		name := olmes.Label(s.Name, s.Variant)
		switch {
		case s.FormulationA != s.FormulationB:
			name += fmt.Sprintf(" (%s in A, %s in B)", s.FormulationA, s.FormulationB)
		case s.Kind != "average":
			name += " " + string(s.FormulationA)
		}
		se := "-"
		if s.SE != nil {
			se = fmt.Sprintf("%.2f", 100**s.SE)
		}
		verdict := map[reproduce.Answer]string{reproduce.Yes: "", reproduce.No: "  beyond 1.96 standard errors", reproduce.Unknown: "  no standard error"}[s.Agree]
		fmt.Fprintf(w, "   %-28s n %-6d A %6.2f  B %6.2f  B − A %+6.2f ± %s%s\n", name, s.N, 100*s.A, 100*s.B, 100*s.Difference, se, verdict)
	}
}
