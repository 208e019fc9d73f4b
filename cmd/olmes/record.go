package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"olmes/artifact"
	"olmes/record"
	"olmes/report"
	"olmes/score"
)

// store opens the cache.
func (a *app) store() (*artifact.Store, error) {
	s, err := artifact.Open(a.cache)
	if err != nil {
		return nil, fmt.Errorf("open the cache: %w", err)
	}
	return s, nil
}

// openRecord finds a run by folder, id or unique prefix, and opens it.
func (a *app) openRecord(ref string) (*record.Record, error) {
	dir, err := record.Find(ref, a.runs)
	if err != nil {
		return nil, coded(err)
	}
	rec, err := record.Open(dir)
	if err != nil {
		return nil, coded(err)
	}
	if err := rec.CheckID(); err != nil {
		return nil, coded(err)
	}
	if !rec.Complete() {
		return nil, &exitError{exitIncomplete, fmt.Errorf("%s: %w, %d chunks are finished; the command that began it goes on with --resume", dir, record.ErrIncomplete, rec.Finished())}
	}
	return rec, nil
}

// coded gives a record's error its exit code.
func coded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, record.ErrDamaged):
		return &exitError{exitDamaged, err}
	case errors.Is(err, record.ErrIncomplete):
		return &exitError{exitIncomplete, err}
	case errors.Is(err, record.ErrNotFound), errors.Is(err, record.ErrAmbiguous):
		return &exitError{exitUsage, err}
	}
	return err
}

// runSummary is a run as --json prints it.
type runSummary struct {
	ID         string             `json:"id"`
	Dir        string             `json:"dir"`
	Identity   record.Identity    `json:"identity"`
	Metrics    any                `json:"metrics"`
	Tokens     record.Tokens      `json:"tokens"`
	Wall       float64            `json:"wall_seconds"`
	Noise      *record.Noise      `json:"noise"`     // null where it was not measured
	NearTies   []score.NearTies   `json:"near_ties"` // a task and formulation each
	Deviations []record.Deviation `json:"deviations"`
}

// printRun prints a complete run as tables or JSON.
func (a *app) printRun(rec *record.Record, asJSON bool) error {
	if !asJSON {
		return coded(report.Run(a.stdout, rec))
	}
	m, err := rec.Metrics()
	if err != nil {
		return coded(err)
	}
	_, near, err := rec.NearTies(0)
	if err != nil {
		return coded(err)
	}
	s := runSummary{ID: rec.ID, Dir: rec.Dir, Identity: rec.Identity, Metrics: m, Tokens: rec.Provenance.Tokens, Wall: rec.Provenance.WallSeconds,
		Noise: rec.Provenance.Noise, NearTies: notNil(near), Deviations: notNil(record.Deviations(rec.Identity, &m))}
	return a.printJSON(s)
}

// notNil makes an empty list print as [] and not as null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *app) showCommand() *cobra.Command {
	var asJSON, details bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "print a run's table of scores",
		Long:  "Show prints what `olmes run` printed at its end. RUN is a folder, an id or a unique prefix of one.",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			rec, err := a.openRecord(args[0])
			if err != nil {
				return err
			}
			if err := a.printRun(rec, asJSON); err != nil || asJSON || !details {
				return err
			}
			m, err := rec.Metrics()
			if err != nil {
				return coded(err)
			}
			fmt.Fprintln(a.stdout)
			return report.Details(a.stdout, m)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON, all metrics included")
	cmd.Flags().BoolVar(&details, "details", false, "also every normalization, formulation and subject")
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify RUN",
		Short: "check a run's record and whether it complies with the standard",
		Long: `Verify checks every digest, recomputes every metric from the predictions, and says
whether the run complies with the standard or lists each deviation. It exits with 0
where the run complies, 4 where it is off-standard, 5 where the record is damaged.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := record.Find(args[0], a.runs)
			if err != nil {
				return coded(err)
			}
			rec, err := record.Open(dir)
			if err != nil {
				return coded(err)
			}
			v, err := rec.Verify()
			if err != nil {
				return coded(err)
			}
			if asJSON {
				err = a.printJSON(verification(rec.Identity, v))
			} else {
				err = report.Verification(a.stdout, rec.Identity, v)
			}
			switch {
			case err != nil:
				return err
			case v.Damaged():
				return &exitError{code: exitDamaged}
			case !v.Complete:
				return &exitError{code: exitIncomplete}
			case !v.Compliant():
				return &exitError{code: exitOffStandard}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// verificationSummary is a verification as --json prints it.
type verificationSummary struct {
	ID          string             `json:"id"`
	Dir         string             `json:"dir"`
	Complete    bool               `json:"complete"`
	Predictions int                `json:"predictions"`
	Model       string             `json:"model"` // its name
	Engine      record.Engine      `json:"engine"`
	Precision   record.Precision   `json:"precision"`
	Damage      []string           `json:"damage"`
	Deviations  []record.Deviation `json:"deviations"`
	Compliant   bool               `json:"compliant"`
}

func verification(id record.Identity, v *record.Report) verificationSummary {
	s := verificationSummary{ID: v.ID, Dir: v.Dir, Complete: v.Complete, Predictions: v.Predictions, Model: id.Model.Name, Engine: id.Engine, Precision: id.Precision, Damage: []string{}, Deviations: notNil(v.Deviations), Compliant: v.Compliant()}
	for _, d := range v.Damage {
		s.Damage = append(s.Damage, d.String())
	}
	return s
}
