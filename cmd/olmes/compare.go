package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"olmes/compare"
	"olmes/outcome"
	"olmes/record"
	"olmes/run"
)

// fewCompared is the number of runs up to which near-ties are looked for: that
// reads every log-probability.
const fewCompared = 8

type compareFlags struct {
	asJSON, anyway, skipBroken bool
	view                       string
	tasks                      []string
	alpha, noise               float64
}

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare RUN RUN...",
		Short: "say whether runs differ, on the instances they share",
		Long: `Compare sets runs against each other on the instances that they share. Of two runs it
prints, task by task and on average, both scores with their formulation († is
multiple-choice), the difference with its interval, McNemar's exact test, that test
corrected for the number of tasks, and the smallest difference that the sample could have
shown. Of more it prints a rank table in which runs that cannot be told apart share a
rank, and the differences of all pairs.

RUN is a folder, a folder of such folders, a glob, an id or the beginning of one;
"label=RUN" names it. Runs with other prompts, splits, instances, formulations or
normalizations, and imported ones, are compared, and what differs is said, but nothing is
ranked and the exit code is 4; --anyway ranks all the same, where there is a task that all
runs have.

docs/compare.md says how each number comes about.`,
		Example: `  olmes compare runs/a runs/b
  olmes compare old=runs/f16 new=runs/q8 --json
  olmes compare 'runs/*' --formulation cf`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.compare(cmd, args, f)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.asJSON, "json", false, "print as JSON")
	fs.BoolVar(&f.anyway, "anyway", false, "rank also what is not comparable")
	fs.BoolVar(&f.skipBroken, "skip-broken", false, "name records that cannot be read and go on without them")
	fs.StringVar(&f.view, "formulation", "", "compare by `better` (each run's better one), cf or mcf (default better, or the one formulation that all runs have)")
	fs.StringSliceVarP(&f.tasks, "task", "t", nil, "only these tasks or groups")
	fs.Float64Var(&f.alpha, "alpha", 0.05, "error rate of each test; intervals have the level 1 - alpha")
	fs.Float64Var(&f.noise, "noise", 0, fmt.Sprintf("margin of near-ties in place of the measured noise (default what was measured, else %v)", compare.Margin))
	return cmd
}

func (f compareFlags) check(cmd *cobra.Command) error {
	usage := func(format string, args ...any) error { return &run.UsageError{Err: fmt.Errorf(format, args...)} }
	if f.view != "" && !slices.Contains([]string{"better", "cf", "mcf"}, f.view) {
		return usage("--formulation is %q; use better, cf or mcf", f.view)
	}
	if !(f.alpha > 0 && f.alpha < 1) {
		return usage("--alpha is %v; give a rate between 0 and 1", f.alpha)
	}
	if cmd.Flags().Changed("noise") && !(f.noise > 0 && !math.IsInf(f.noise, 0)) {
		return usage("--noise is %v; give a margin above 0", f.noise)
	}
	return nil
}

func (a *app) compare(cmd *cobra.Command, args []string, f compareFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	sources, err := a.sources(args, f.skipBroken)
	if err != nil {
		return err
	}
	found, err := a.gather(cmd.Context(), sources, f)
	if err != nil {
		return err
	}
	r := found.Report()
	if len(f.tasks) > 0 && len(r.Tasks) == 0 {
		return &run.UsageError{Err: fmt.Errorf("none of the runs has %s", strings.Join(f.tasks, ", "))}
	}
	if f.asJSON {
		err = a.printJSON(r)
	} else {
		err = printComparison(a.stdout, r)
	}
	if err == nil && len(r.Refused) > 0 && (!f.anyway || r.NothingToRank) {
		err = &exitError{code: exitOffStandard}
	}
	return err
}

// gather reads the runs, several at a time, and keeps of each what a comparison
// needs.
func (a *app) gather(ctx context.Context, sources []outcome.Source, f compareFlags) (*compare.Set, error) {
	depth := compare.Depth(sources)
	set := compare.New(len(sources), compare.Options{Alpha: f.alpha, View: compare.View(f.view), Anyway: f.anyway, Tasks: f.tasks})
	broken := make([]error, len(sources))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, src := range sources {
		g.Go(func() error {
			loaded, err := outcome.Load(ctx, src, depth)
			var ties compare.Ties
			if err == nil && len(sources) <= fewCompared {
				ties, err = nearTies(src.Record, f.noise)
			}
			if errors.Is(err, record.ErrDamaged) {
				broken[i] = err
				return nil
			}
			if err == nil {
				set.Put(i, loaded, ties)
				sources[i].Record = nil // a thousand manifests need not stay
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, coded(err)
	}
	left := len(sources)
	for i, err := range broken {
		if err == nil {
			continue
		}
		p := outcome.Problem{Path: sources[i].Record.Dir, Err: err}
		if !f.skipBroken {
			return nil, coded(fmt.Errorf("%w\n--skip-broken goes on without it", p))
		}
		fmt.Fprintf(a.stderr, "skipped: %v\n", p)
		left--
	}
	if left < 2 {
		return nil, &run.UsageError{Err: fmt.Errorf("there is %d run to compare (%s); name two or more", left, strings.Join(outcome.Labels(sources), ", "))}
	}
	return set, nil
}

// nearTies looks for the near-ties of a run: by the noise that it has measured,
// by a margin where that is above 0, else by one that is stated.
func nearTies(r *record.Record, margin float64) (compare.Ties, error) {
	t := compare.Ties{Looked: r.HasPredictions(), Stated: margin > 0 || r.Provenance.Noise == nil}
	if t.Stated && margin <= 0 {
		margin = compare.Margin
	}
	var err error
	t.List, _, err = r.NearTies(margin)
	return t, err
}
