package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"olmes/audit"
	"olmes/outcome"
	"olmes/record"
	"olmes/report"
	"olmes/run"
	"olmes/score"
)

func (a *app) auditCommand() *cobra.Command {
	var asJSON, skipBroken bool
	var figures string
	cmd := &cobra.Command{
		Use:   "audit LEDGER [MODEL=RUN…]",
		Short: "hold published scores against each other and against own runs",
		Long: `Audit reads a ledger of published scores (model, task, value, source and how they were
made; docs/audit.md) and prints, task by task, what each reference claims of each model, how far
the references lie apart, which setups differ or are not documented, which rankings turn with the
reference, and which relations a source's own numbers do not keep.

With runs it prints their scores beside the claims and the line of claimed minus own scores over
claimed ones. A run belongs to the model that its label names: MODEL=RUN, or RUN where the run's
model has the ledger's name. RUN is a record's folder, a folder of records, a glob or an id.

The ledger "paper" is the OLMES paper's own.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ledger, err := readLedger(args[0])
			if err != nil {
				return err
			}
			own, err := a.ownScores(cmd.Context(), ledger, args[1:], skipBroken)
			if err != nil {
				return err
			}
			made := audit.Make(ledger, own)
			if figures != "" {
				drawn, err := report.AuditFigures(made)
				if err := saveFigures(figures, drawn, err); err != nil {
					return err
				}
			}
			if asJSON {
				return a.printJSON(made)
			}
			return report.Audit(a.stdout, made)
		},
	}
	figuresFlag(cmd, &figures)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.Flags().BoolVar(&skipBroken, "skip-broken", false, "name records that cannot be read and go on without them")
	return cmd
}

func readLedger(name string) (*audit.Ledger, error) {
	f, err := os.Open(name)
	if name == "paper" && errors.Is(err, fs.ErrNotExist) {
		return audit.Paper()
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := audit.Read(f)
	if err != nil {
		return nil, &run.UsageError{Err: fmt.Errorf("%s: %w", name, err)}
	}
	return l, nil
}

// ownScores reads the scores of runs for the models of a ledger.
func (a *app) ownScores(ctx context.Context, l *audit.Ledger, names []string, skipBroken bool) ([]audit.Own, error) {
	if len(names) == 0 {
		return nil, nil
	}
	sources, err := a.sources(names, skipBroken)
	if err != nil {
		return nil, err
	}
	var own []audit.Own
	for _, s := range sources {
		r, err := outcome.Load(ctx, s, outcome.Metrics)
		if err != nil {
			return nil, coded(err)
		}
		own = append(own, scoresOf(r, modelOf(l, s))...)
	}
	return own, nil
}

// modelOf is the ledger's name of a run's model.
func modelOf(l *audit.Ledger, s outcome.Source) string {
	for _, name := range []string{s.Label, s.Record.Identity.Model.Name} {
		for _, c := range l.Claims {
			if c.Model != "" && strings.EqualFold(c.Model, name) {
				return c.Model
			}
		}
	}
	return s.Label
}

func scoresOf(r *outcome.Run, model string) []audit.Own {
	standard := true
	for _, d := range record.Deviations(r.Record.Identity, &r.Metrics) {
		standard = standard && !d.OffStandard
	}
	of := func(task, split string, shots int, s *score.Score) audit.Own {
		o := audit.Own{Model: model, Label: r.Label, Task: task, Score: 100 * s.Accuracy, Standard: standard,
			Setup: audit.Setup{Formulation: string(s.Formulation), Normalization: string(s.Normalization), Split: split, Shots: strconv.Itoa(shots), Examples: "curated"}}
		if s.SE != nil {
			o.SE = 100 * *s.SE
		}
		return o
	}
	shots := func(task, group string) int {
		for _, t := range r.Record.Identity.Tasks {
			if t.Name == task || group != "" && t.Group == group {
				return len(t.FewShot)
			}
		}
		return 0
	}
	out := []audit.Own{}
	for _, t := range r.Metrics.Tasks {
		if t.Score != nil && t.Variant == "" {
			out = append(out, of(t.Task, t.Split, shots(t.Task, ""), t.Score))
		}
	}
	for _, g := range r.Metrics.Groups {
		if g.Score != nil && g.Variant == "" && g.Tasks == g.Size {
			out = append(out, of(g.Group, g.Split, shots("", g.Group), g.Score))
		}
	}
	if s := r.Metrics.Suite; s != nil && s.Average != nil {
		out = append(out, of("average", "", 0, &score.Score{Estimate: *s.Average}))
		out[len(out)-1].Setup = audit.Setup{Formulation: "best"}
	}
	return out
}
