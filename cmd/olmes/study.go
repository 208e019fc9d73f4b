package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"olmes"
	"olmes/folder"
	"olmes/outcome"
	"olmes/report"
	"olmes/run"
	"olmes/stat"
	"olmes/study"
	"olmes/task"
)

// studyFlags are what every study takes.
type studyFlags struct {
	asJSON, skipBroken bool
	mixed              bool
	resamples          int
	seed               uint64
	level              float64
	variant            string
}

func (f *studyFlags) add(flags *pflag.FlagSet, draws, variant, mixed bool) {
	flags.BoolVar(&f.asJSON, "json", false, "print as JSON")
	flags.BoolVar(&f.skipBroken, "skip-broken", false, "name records that cannot be read and go on without them")
	flags.Float64Var(&f.level, "level", stat.Level, "level of intervals, between 0 and 1")
	if draws {
		flags.IntVar(&f.resamples, "resamples", stat.Resamples, "draws of a bootstrap or of orders")
		flags.Uint64Var(&f.seed, "seed", study.Seed, "seed of all that is drawn")
	}
	if variant {
		flags.StringVar(&f.variant, "variant", "", "study this variant of the prompts (default the standard's rendering)")
	}
	if mixed {
		flags.BoolVar(&f.mixed, "mixed", false, "put models side by side that were not asked the same")
	}
}

// bootstrap checks the flags.
func (f *studyFlags) bootstrap() (stat.Bootstrap, error) {
	b := stat.Bootstrap{Seed: f.seed, Resamples: f.resamples, Level: f.level}
	if !(f.level > 0 && f.level < 1) {
		return b, &run.UsageError{Err: fmt.Errorf("--level is %v; give a number between 0 and 1, as 0.95", f.level)}
	}
	if f.resamples < 0 || f.resamples > 1_000_000 {
		return b, &run.UsageError{Err: fmt.Errorf("--resamples is %d; give 1 to 1000000, 0 for %d", f.resamples, stat.Resamples)}
	}
	if f.seed > 1<<62 {
		return b, &run.UsageError{Err: fmt.Errorf("--seed is %d; give a number up to 2^62", f.seed)}
	}
	if f.variant == task.VariantStandard {
		f.variant = ""
	}
	return b, nil
}

// saveFigures writes a file for each figure into a folder, or none.
func saveFigures(dir string, figures []report.StudyFigure, err error) error {
	if err != nil {
		return err
	}
	err = folder.Write(dir, func(temp string) error {
		for _, f := range figures {
			if err := os.WriteFile(filepath.Join(temp, f.Task+".svg"), f.SVG, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}

// figuresFlag adds --figures.
func figuresFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "figures", "", "also draw a figure for each task, as DIR/TASK.svg")
}

// models reads runs and puts those of one model together.
func (a *app) models(ctx context.Context, names []string, f *studyFlags, d outcome.Depth) ([]study.Model, error) {
	sources, err := a.sources(names, f.skipBroken)
	if err != nil {
		return nil, err
	}
	var runs []*outcome.Run
	for _, s := range sources {
		r, err := outcome.Load(ctx, s, d)
		switch {
		case err == nil:
		case f.skipBroken && ctx.Err() == nil:
			fmt.Fprintf(a.stderr, "skipped: %v\n", err)
			continue
		default:
			return nil, coded(fmt.Errorf("%w\n--skip-broken goes on without it", err))
		}
		if d != outcome.Metrics && !r.Instances() {
			if !f.skipBroken {
				return nil, fmt.Errorf("%s holds no instances (%s), and a study needs them; --skip-broken goes on without it", s.Label, s.Record.Provenance.Evidence)
			}
			fmt.Fprintf(a.stderr, "skipped: %s: no instances\n", s.Label)
			continue
		}
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		return nil, &exitError{exitFailed, outcome.ErrNoRecords}
	}
	return study.Group(runs), nil
}

// printed writes a study as JSON or text, and refuses models side by side that
// were not asked the same.
func (a *app) printed(f *studyFlags, value any, notes []study.Note, text func(io.Writer) error) error {
	other := func(n study.Note) bool { return n.Code == study.NoteOtherPrompts }
	if !f.mixed && slices.ContainsFunc(notes, other) {
		var what []string
		for _, n := range notes {
			if other(n) {
				what = append(what, "  "+n.Text)
			}
		}
		return &exitError{exitOffStandard, fmt.Errorf("these runs do not compare:\n%s\n--mixed studies them all the same", strings.Join(what, "\n"))}
	}
	if f.asJSON {
		return a.printJSON(value)
	}
	return text(a.stdout)
}

func (a *app) studyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "study",
		Short: "the paper's studies, from runs alone",
		Long: `Study computes from finished runs what the paper's tables and figures show, over any
models, with intervals: no model is run. docs/studies.md has every rule and its source.

RUN is a record's folder, a folder of records, a glob, an id, or LABEL=RUN. Runs of one
model that evaluated other tasks, formulations or variants are taken together.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.studyNormalization(), a.studyFormulation(), a.studyMMLU(), a.studyRobustness(), a.studyLabelBias(), a.studyTraining(), a.studyCost(), a.studySubsample())
	return cmd
}

func (a *app) studyNormalization() *cobra.Command {
	var f studyFlags
	var threshold float64
	var noAlarms bool
	cmd := &cobra.Command{
		Use:   "normalization RUN…",
		Short: "which normalization serves CF best (Tables 3, 9 to 12)",
		Long: `Normalization prints for each task the share of models that each normalization is best for,
with intervals over models and over instances, what the best of them would gain over the standard's
(diff oracle), every model's accuracies, the study without each model, how prompt variants change
what a normalization is worth, and odd unconditional probabilities, on which pmi rests.

pmi is scored for three tasks alone unless a run has --normalizations all.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := f.bootstrap()
			if err != nil {
				return err
			}
			if !(threshold > 0) {
				return &run.UsageError{Err: fmt.Errorf("--alarm is %v; give a number above 0", threshold)}
			}
			models, err := a.models(cmd.Context(), args, &f, outcome.Answers)
			if err != nil {
				return err
			}
			s := study.Normalizations(models, f.variant, b)
			if !noAlarms {
				if s.Unconditional, err = unconditionals(cmd.Context(), models, threshold); err != nil {
					return err
				}
			}
			return a.printed(&f, s, s.Notes, func(w io.Writer) error { return report.NormalizationStudy(w, s) })
		},
	}
	f.add(cmd.Flags(), true, true, true)
	cmd.Flags().Float64Var(&threshold, "alarm", study.AlarmThreshold, "how many scales off an unconditional probability is odd")
	cmd.Flags().BoolVar(&noAlarms, "no-alarms", false, "do not look at unconditional probabilities, which takes reading all log-probabilities")
	return cmd
}

// unconditionals looks at one model after the other, so that the log-probabilities
// of one alone are in memory.
func unconditionals(ctx context.Context, models []study.Model, threshold float64) (*study.UnconditionalStudy, error) {
	out := study.UnconditionalStudy{Threshold: threshold, Tasks: []study.UnconditionalTask{}}
	for _, m := range models {
		var runs []*outcome.Run
		for _, r := range m.Runs {
			deep, err := outcome.Load(ctx, r.Source, outcome.Values)
			if err != nil {
				return nil, coded(err)
			}
			runs = append(runs, deep)
		}
		for _, deep := range study.Group(runs) {
			deep.Label = m.Label
			out.Tasks = append(out.Tasks, study.Unconditionals(&deep, threshold)...)
		}
	}
	return &out, nil
}

func (a *app) studyFormulation() *cobra.Command {
	var f studyFlags
	var weakest int
	var figures string
	cmd := &cobra.Command{
		Use:   "formulation RUN…",
		Short: "CF against MCF (Tables 6 and 7, Figure 2, error rates)",
		Long: `Formulation prints both formulations of every model and task, their paired difference with
its interval, how many errors CF makes for one of MCF's, the range over the weakest models, what is
not above chance, where MCF gives the score by less than noise, and how soon the better formulation
is known: by the first k instances, how often that errs, and what stopping the worse one saves.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := f.bootstrap()
			if err != nil {
				return err
			}
			if weakest < 0 {
				return &run.UsageError{Err: fmt.Errorf("--weakest is %d; give a number of models", weakest)}
			}
			models, err := a.models(cmd.Context(), args, &f, outcome.Answers)
			if err != nil {
				return err
			}
			s := study.Formulations(models, f.variant, b)
			s.Early = study.Predict(models, f.variant, b)
			err = a.printed(&f, s, s.Notes, func(w io.Writer) error { return report.FormulationStudy(w, s, weakest) })
			if err == nil && figures != "" {
				drawn, err := report.FormulationFigures(s, b.Level)
				return saveFigures(figures, drawn, err)
			}
			return err
		},
	}
	f.add(cmd.Flags(), true, true, true)
	figuresFlag(cmd, &figures)
	cmd.Flags().IntVar(&weakest, "weakest", 0, "show the range over so many of the weakest models (default half of them)")
	return cmd
}

func (a *app) studyMMLU() *cobra.Command {
	var f studyFlags
	o := study.MMLUOptions{}
	var norms []string
	cmd := &cobra.Command{
		Use:   "mmlu-average RUN…",
		Short: "macro and micro means of mmlu (Table 8)",
		Long: `Mmlu-average prints the mean over subjects (macro, which counts) and over instances (micro)
of both formulations, their difference, and their errors: of instances, over subjects, and with the
instances of a subject taken as alike. Also of some subjects alone, or under other normalizations.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := f.bootstrap()
			if err != nil {
				return err
			}
			for _, n := range norms {
				if !slices.Contains(olmes.Normalizations(), olmes.Normalization(n)) {
					return &run.UsageError{Err: fmt.Errorf("--normalizations: %q is none of none, token, character, pmi", n)}
				}
				o.Normalizations = append(o.Normalizations, olmes.Normalization(n))
			}
			models, err := a.models(cmd.Context(), args, &f, outcome.Answers)
			if err != nil {
				return err
			}
			o.Variant, o.Level = f.variant, b.Level
			s, err := study.MMLU(models, o)
			if errors.Is(err, study.ErrNoSubject) {
				err = &run.UsageError{Err: err}
			}
			if err != nil {
				return err
			}
			return a.printed(&f, s, s.Notes, func(w io.Writer) error { return report.MMLUStudy(w, s) })
		},
	}
	f.add(cmd.Flags(), false, true, false)
	cmd.Flags().StringSliceVar(&o.Subjects, "subjects", nil, "only these, as anatomy,astronomy")
	cmd.Flags().StringSliceVar(&norms, "normalizations", nil, "of CF: none, token, character, pmi (default the standard's)")
	return cmd
}

func (a *app) studyRobustness() *cobra.Command {
	var f studyFlags
	var variants []string
	cmd := &cobra.Command{
		Use:   "robustness RUN…",
		Short: "how far other wordings and examples move scores (Table 5)",
		Long: `Robustness compares the standard's rendering with variants of the prompts, run with
olmes run --variant standard,var1,var2,var3: each score, their average with and without the
original, its distance from the original, and the original's standard error.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := f.bootstrap()
			if err != nil {
				return err
			}
			chosen, err := otherRenderings(variants)
			if err != nil {
				return err
			}
			models, err := a.models(cmd.Context(), args, &f, outcome.Answers)
			if err != nil {
				return err
			}
			s := study.Robustness(models, chosen, b)
			return a.printed(&f, s, s.Notes, func(w io.Writer) error { return report.RobustnessStudy(w, s) })
		},
	}
	f.add(cmd.Flags(), false, false, false)
	cmd.Flags().StringSliceVar(&variants, "variants", []string{"var1", "var2", "var3"}, "compare the standard's rendering with these")
	return cmd
}

// otherRenderings expands names of variants, the standard's rendering left out.
func otherRenderings(names []string) ([]string, error) {
	variants, err := task.SelectVariants(names)
	if err != nil {
		return nil, &run.UsageError{Err: err}
	}
	var out []string
	for _, v := range variants {
		if v.Name != "" {
			out = append(out, v.Name)
		}
	}
	if len(out) == 0 {
		return nil, &run.UsageError{Err: fmt.Errorf("--variants names none beside the standard's rendering")}
	}
	return out, nil
}

func (a *app) studyLabelBias() *cobra.Command {
	var f studyFlags
	cmd := &cobra.Command{
		Use:   "label-bias RUN…",
		Short: "what models answer by label and position",
		Long: `Label-bias compares how often each label is answered and right, and names models that answer
one label. With runs in other orders (olmes run --variant standard,cyclic,reversed -t TASK:mcf) it
also gives the accuracy by each choice's mean over all positions, how much the standard's order
inflates the accuracy against the marks of 2 and 5 points, and what each position draws.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := f.bootstrap()
			if err != nil {
				return err
			}
			models, err := a.models(cmd.Context(), args, &f, outcome.Values)
			if err != nil {
				return err
			}
			s := study.LabelBiases(models, b)
			return a.printed(&f, s, s.Notes, func(w io.Writer) error { return report.LabelBiasStudy(w, s) })
		},
	}
	f.add(cmd.Flags(), false, false, false)
	cmd.Flags().Uint64Var(&f.seed, "seed", study.Seed, "seed of exact tests")
	return cmd
}

func (a *app) studyTraining() *cobra.Command {
	var f studyFlags
	var margin float64
	var stepsFile, figures string
	cmd := &cobra.Command{
		Use:   "training RUN…",
		Short: "since when in training a model can do what (Figure 1)",
		Long: `Training takes the checkpoints of one training, each evaluated in both formulations, and says
for each task when CF and MCF leave chance (onset) and when MCF passes CF (crossover), each with an
interval, where both are noise, and how far picking the best checkpoint overestimates. It can be asked
again after each checkpoint: what it then knows allows for all the looks.

A checkpoint's step or token count comes from its label (1000=RUN, 400B=RUN), the model's name
(step1000-tokens4B) or a file of lines LABEL,STEP (--steps).`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := f.bootstrap()
			if err != nil {
				return err
			}
			if !(margin > 0 && margin < 1) {
				return &run.UsageError{Err: fmt.Errorf("--margin is %v; give a fraction between 0 and 1, as 0.05 for 5 points", margin)}
			}
			steps, err := readSteps(stepsFile)
			if err != nil {
				return err
			}
			models, err := a.models(cmd.Context(), args, &f, outcome.Answers)
			if err != nil {
				return err
			}
			series, axis, err := study.Series(models, steps)
			if err != nil {
				return &run.UsageError{Err: err}
			}
			s := study.Trainings(series, axis, f.variant, margin, b)
			err = a.printed(&f, s, s.Notes, func(w io.Writer) error { return report.TrainingStudy(w, s) })
			if err == nil && figures != "" {
				drawn, err := report.TrainingFigures(s)
				return saveFigures(figures, drawn, err)
			}
			return err
		},
	}
	f.add(cmd.Flags(), true, true, true)
	figuresFlag(cmd, &figures)
	cmd.Flags().Float64Var(&margin, "margin", study.DefaultMargin, "how far above guessing an accuracy has left chance, as a fraction")
	cmd.Flags().StringVar(&stepsFile, "steps", "", "file of lines LABEL,STEP")
	return cmd
}

func readSteps(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	steps, err := study.ParseSteps(string(data))
	if err != nil {
		return nil, &run.UsageError{Err: fmt.Errorf("%s: %w", path, err)}
	}
	return steps, nil
}

func (a *app) studyCost() *cobra.Command {
	var f studyFlags
	var noPMI bool
	cmd := &cobra.Command{
		Use:   "cost RUN…",
		Short: "requests, tokens and hours (Appendix F)",
		Long: `Cost sums up, from the runs' own counts, requests, tokens (naive, distinct, computed) and
hours of CF, of the unconditional requests of pmi within it, and of MCF.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.bootstrap(); err != nil {
				return err
			}
			depth := outcome.Tokens
			if noPMI {
				depth = outcome.Metrics
			}
			models, err := a.models(cmd.Context(), args, &f, depth)
			if err != nil {
				return err
			}
			s := study.Costs(models)
			return a.printed(&f, s, s.Notes, func(w io.Writer) error { return report.CostStudy(w, s) })
		},
	}
	f.add(cmd.Flags(), false, false, false)
	cmd.Flags().BoolVar(&noPMI, "no-pmi", false, "do not tell the tokens of unconditional requests apart, which takes reading every token")
	return cmd
}

func (a *app) studySubsample() *cobra.Command {
	var f studyFlags
	cmd := &cobra.Command{
		Use:   "subsample RUN…",
		Short: "what fewer instances cost in precision",
		Long: `Subsample draws samples of growing size and says how far their scores are from those of all
instances, how often they choose the other formulation, and how well they rank the models; and
what the standard's own samples of 1000 cost against whole splits.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := f.bootstrap()
			if err != nil {
				return err
			}
			models, err := a.models(cmd.Context(), args, &f, outcome.Answers)
			if err != nil {
				return err
			}
			s := study.Subsamples(models, f.variant, b)
			return a.printed(&f, s, s.Notes, func(w io.Writer) error { return report.SubsampleStudy(w, s) })
		},
	}
	f.add(cmd.Flags(), true, true, true)
	return cmd
}
