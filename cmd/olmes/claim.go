package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"olmes/record"
	"olmes/reproduce"
	"olmes/run"
)

// claimSummary is what `olmes claim --json` and `olmes verify CLAIM --json` print.
type claimSummary struct {
	Claim    reproduce.Claim `json:"claim"`
	Text     string          `json:"text"`
	ID       string          `json:"id"`       // of the run it was compared with, or made of; "" without one
	Problems []string        `json:"problems"` // what in the claim contradicts itself or the standard
	Against  []string        `json:"against"`  // where it is not what the run says
	Holds    bool            `json:"holds"`
}

func (a *app) claimCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "claim RUN",
		Short: "print a run's scores as one line that can be checked",
		Long: `Claim prints one line without a space, for a model card or a paper: standard, model,
each score with its formulation, what is off-standard, the first digits of the run's id
and of its results' digest, and a checksum. olmes verify CLAIM checks the line by itself,
olmes verify CLAIM RUN against the record. A run whose record olmes verify finds damaged
has no claim: claim names the damage and exits with 5.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, id, err := a.claimOf(args[0])
			if err != nil {
				return err
			}
			// The line is for others: it says nothing that the record does not hold.
			_, rep, err := a.verified(args[0])
			if err != nil {
				return err
			}
			if rep.Damaged() {
				for _, d := range rep.Damage {
					fmt.Fprintf(a.stderr, "damaged: %s\n", d)
				}
				return &exitError{exitDamaged, fmt.Errorf("%w: no claim can be made of %s", record.ErrDamaged, rep.Dir)}
			}
			if asJSON {
				return a.printJSON(claimSummary{Claim: c, Text: c.String(), ID: id, Problems: c.Problems(), Against: []string{}, Holds: true})
			}
			_, err = fmt.Fprintln(a.stdout, c)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// claimOf makes the claim of a run.
func (a *app) claimOf(name string) (c reproduce.Claim, id string, err error) {
	rec, err := a.openRecord(name)
	if err != nil {
		return c, "", err
	}
	m, err := rec.Metrics()
	if err != nil {
		return c, "", coded(err)
	}
	c, err = reproduce.NewClaim(rec, m)
	return c, rec.ID, err
}

// verifyClaim checks a claim string by itself, and against a run where one is given.
func (a *app) verifyClaim(args []string, v verifying) error {
	if v.rescore > 0 {
		return &run.UsageError{Err: errors.New("--rescore is for a run; verify the claim and the run one after the other")}
	}
	c, err := reproduce.ParseClaim(args[0])
	switch {
	case errors.Is(err, reproduce.ErrClaimSum):
		return &exitError{exitDamaged, err}
	case err != nil:
		return &exitError{exitUsage, err}
	}
	s := claimSummary{Claim: c, Text: c.String(), Problems: c.Problems(), Against: []string{}}
	if len(args) > 1 {
		var of reproduce.Claim
		if of, s.ID, err = a.claimOf(args[1]); err != nil {
			return err
		}
		s.Against = c.Against(of)
		// The claim is of the record's bytes: they must be what they say.
		_, rep, err := a.verified(args[1])
		if err != nil {
			return err
		}
		for _, d := range rep.Damage {
			s.Against = append(s.Against, "the record is damaged: "+d.String())
		}
	}
	s.Holds = len(s.Problems)+len(s.Against) == 0
	if v.json {
		err = a.printJSON(s)
	} else {
		err = a.printClaim(s, len(args) > 1)
	}
	switch {
	case err != nil:
		return err
	case !s.Holds:
		return &exitError{code: exitDamaged}
	case len(c.Off) > 0:
		return &exitError{code: exitOffStandard}
	}
	return nil
}

func (a *app) printClaim(s claimSummary, compared bool) error {
	for _, p := range s.Problems {
		fmt.Fprintf(a.stdout, "problem: %s\n", p)
	}
	for _, p := range s.Against {
		fmt.Fprintf(a.stdout, "not so: %s\n", p)
	}
	for _, code := range s.Claim.Off {
		fmt.Fprintf(a.stdout, "off-standard, as the claim says: %s\n", code)
	}
	verdict := "the claim is consistent: its checksum is right and its scores are possible; whether a run says so only its record shows"
	switch {
	case !s.Holds:
		verdict = "the claim does not hold"
	case compared:
		verdict = "the claim holds: it is what the run says, and the record is sound"
	}
	_, err := fmt.Fprintln(a.stdout, verdict)
	return err
}
