package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"olmes/artifact"
	"olmes/outcome"
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
	return rec, coded(rec.CheckSizes())
}

// agrees checks that a record's metrics are those of its instances, where it has any.
func agrees(ctx context.Context, rec *record.Record) error {
	_, err := outcome.Load(ctx, outcome.Source{Label: rec.Dir, Record: rec}, outcome.Answers)
	return coded(err)
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
		RunE: func(cmd *cobra.Command, args []string) error {
			rec, err := a.openRecord(args[0])
			if err != nil {
				return err
			}
			if err := agrees(cmd.Context(), rec); err != nil {
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
