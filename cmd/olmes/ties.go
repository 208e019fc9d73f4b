package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"olmes/record"
	"olmes/report"
	"olmes/run"
	"olmes/score"
)

// tiesSummary is what `olmes ties --json` prints.
type tiesSummary struct {
	ID       string           `json:"id"`
	Dir      string           `json:"dir"`
	Noise    *record.Noise    `json:"noise"`  // as measured; null where it was not
	Counts   []score.NearTies `json:"counts"` // a task and formulation each
	NearTies []score.NearTie  `json:"near_ties"`
}

func (a *app) tiesCommand() *cobra.Command {
	var asJSON bool
	var noise float64
	cmd := &cobra.Command{
		Use:   "ties RUN",
		Short: "list the decisions that numerical noise may turn",
		Long: `Ties lists the near-ties of a run: instances whose two best choices, under the
normalization in force, are no further apart than the noise that the run has measured by
computing some instances again under other schedules. Choices are given by position,
from 0. RUN is a folder, an id or a unique prefix of one.

--noise X takes X instead of what was measured: nats for none and pmi, nats per token or
per character for these normalizations.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("noise") && !(noise > 0 && !math.IsInf(noise, 0)) {
				return &run.UsageError{Err: fmt.Errorf("--noise is %v; give a margin above 0", noise)}
			}
			rec, err := a.openRecord(args[0])
			if err != nil {
				return err
			}
			switch {
			case !rec.HasPredictions():
				return fmt.Errorf("%s holds no predictions (%s), so near-ties cannot be told", rec.Dir, rec.Provenance.Evidence)
			case rec.Provenance.Noise == nil && noise == 0:
				return fmt.Errorf("%s has no measured noise (it is imported, or of an earlier version); give the margin with --noise X", rec.Dir)
			}
			list, counts, err := rec.NearTies(noise)
			if err != nil {
				return coded(err)
			}
			if asJSON {
				return a.printJSON(tiesSummary{ID: rec.ID, Dir: rec.Dir, Noise: rec.Provenance.Noise, Counts: notNil(counts), NearTies: notNil(list)})
			}
			return report.Ties(a.stdout, list, counts)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.Flags().Float64Var(&noise, "noise", 0, "take this margin instead of the measured noise")
	return cmd
}
