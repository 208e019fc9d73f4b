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

With runs it prints their scores beside the claims, with instances and what is off-standard, and
the line of claimed minus own scores over claimed ones, where there are three different own scores. A run belongs to the model that its label names: MODEL=RUN, or RUN where the run's
model has the ledger's name. RUN is a record's folder, a folder of records, a glob or an id.

The ledger "paper" is the OLMES paper's own.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ledger, err := readLedger(args[0])
			if err != nil {
				return err
			}
			own, notes, err := a.ownScores(cmd.Context(), ledger, args[1:], skipBroken)
			if err != nil {
				return err
			}
			made := audit.Make(ledger, own)
			made.Notes = append(made.Notes, notes...)
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

// ownScores reads the scores of runs for the models of a ledger. Notes name the runs
// that have none.
func (a *app) ownScores(ctx context.Context, l *audit.Ledger, names []string, skipBroken bool) (own []audit.Own, notes []string, err error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	sources, err := a.sources(names, skipBroken)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range sources {
		r, err := outcome.Load(ctx, s, outcome.Metrics)
		if err != nil {
			return nil, nil, coded(err)
		}
		scores := scoresOf(r, modelOf(l, s))
		if len(scores) == 0 {
			notes = append(notes, fmt.Sprintf("%s has no score in the standard's rendering: no task was evaluated in both formulations, whole and without an error", s.Label))
		}
		own = append(own, scores...)
	}
	return own, notes, nil
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
	all := record.Deviations(r.Record.Identity, &r.Metrics)
	of := func(task, group, split string, shots, n int, s *score.Score) audit.Own {
		o := audit.Own{Model: model, RunModel: r.Record.Identity.Model.Name, Label: r.Label, Task: task, Score: 100 * s.Accuracy, N: n, Off: offStandard(all, task, group),
			Setup: audit.Setup{Formulation: string(s.Formulation), Normalization: string(s.Normalization), Split: split, Shots: strconv.Itoa(shots), Examples: "curated"}}
		o.Standard = len(o.Off) == 0
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
			out = append(out, of(t.Task, t.Group, t.Split, shots(t.Task, ""), t.Instances, t.Score))
		}
	}
	for _, g := range r.Metrics.Groups {
		if g.Score == nil || g.Variant != "" {
			continue
		}
		n := 0
		for _, t := range r.Metrics.Tasks {
			if t.Group == g.Group && t.Split == g.Split && t.Variant == "" {
				n += t.Instances
			}
		}
		o := of(g.Group, g.Group, g.Split, shots("", g.Group), n, g.Score)
		if g.Tasks != g.Size {
			o.Part, o.Standard = fmt.Sprintf("%d of %d", g.Tasks, g.Size), false
			o.Off = append(o.Off, fmt.Sprintf("%s: %s subjects", g.Group, o.Part))
		}
		out = append(out, o)
	}
	if s := r.Metrics.Suite; s != nil && s.Average != nil {
		o := of("average", "", "", 0, 0, &score.Score{Estimate: *s.Average})
		o.Setup = audit.Setup{Formulation: "best"}
		out = append(out, o)
	}
	return out
}

// offStandard says what of a score in the standard's rendering is off-standard: of
// the whole run, of its task, or of its group where that is the task's. The average
// is of all tasks.
func offStandard(all []record.Deviation, task, group string) []string {
	out := []string{}
	for _, d := range all {
		name, variant, ofTask := report.TaskOf(d)
		switch {
		case !d.OffStandard, d.Code == "variant", variant != "":
		case !ofTask, name == task, task == "average", group != "" && name == group, group == task && strings.HasPrefix(name, task+"_"):
			out = append(out, d.Text)
		}
	}
	return out
}
