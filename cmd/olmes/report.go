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

	"olmes/outcome"
	"olmes/record"
	"olmes/report"
	"olmes/reproduce"
	"olmes/run"
	"olmes/score"
	"olmes/stat"
	"olmes/study"
)

// reportFormats lists the formats of a report with the file names that stand for them.
var reportFormats = []struct{ name, extension string }{
	{"text", ".txt"}, {"md", ".md"}, {"latex", ".tex"}, {"csv", ".csv"}, {"html", ".html"}, {"json", ".json"}, {"card", ""}, {"model-index", ".yaml"},
}

// fewRecords is up to how many records a report reads every instance by itself.
const fewRecords = 10

type reportFlags struct {
	format, output, instances    string
	figures                      string // folder
	asJSON, errors, details      bool
	standalone, skipBroken, keep bool
	training                     bool
}

func (a *app) reportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "tables, figures and model cards out of records",
		Long: `Report shows records as papers and model cards do: a row a model, a column a task, the
better formulation's score, † where the multiple-choice one gave it, and the average of
all ten tasks, by which the rows are ordered. What deviates from the standard has a
footnote; what cannot be compared with the rest of its column has a ‡.

RUN is a record's folder, a folder of such folders, a glob, or the beginning of a run's id;
"label=RUN" names it. Records of one model and one setting that hold different tasks share
a row (--apart keeps them apart).

Formats: text, md, latex (needs booktabs; --standalone makes a whole document), csv (every
accuracy, one a line), html (one file without outside links, with figures), json, card (a
section of a model card) and model-index (metadata of Hugging Face, YAML). The ending of
-o FILE chooses one too; one that it does not know is refused without --format.

Without --instances, every instance is read for near-ties and calibration where there are
at most 10 records.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			sheet, err := a.sheet(cmd, args, f)
			if err != nil {
				return err
			}
			if f.figures != "" {
				if err := a.writeFigures(sheet, f.figures); err != nil {
					return err
				}
			}
			return a.writeReport(sheet, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.format, "format", "text", "text, md, latex, csv, html, json, card or model-index")
	fs.StringVarP(&f.output, "output", "o", "", "write into this file")
	fs.BoolVar(&f.asJSON, "json", false, "short for --format json")
	fs.BoolVar(&f.errors, "errors", false, "show standard errors")
	fs.BoolVar(&f.details, "details", false, "show every task and subject with both formulations and all normalizations")
	fs.BoolVar(&f.standalone, "standalone", false, "latex: a whole document")
	fs.BoolVar(&f.skipBroken, "skip-broken", false, "go on without records that cannot be read, and name them")
	fs.BoolVar(&f.training, "training", false, "the records are checkpoints of one training: draw its curves and events (html, --figures)")
	fs.BoolVar(&f.keep, "apart", false, "a row for every record")
	fs.StringVar(&f.figures, "figures", "", "also write each figure into this folder, as SVG")
	fs.StringVar(&f.instances, "instances", "auto", "read every instance: auto, yes or no")
	return cmd
}

// check settles the format and refuses what does not fit together.
func (f *reportFlags) check(cmd *cobra.Command) error {
	usage := func(format string, args ...any) error { return &run.UsageError{Err: fmt.Errorf(format, args...)} }
	if f.asJSON {
		if cmd.Flags().Changed("format") && f.format != "json" {
			return usage("--json and --format %s are two formats; give one", f.format)
		}
		f.format = "json"
	}
	if !cmd.Flags().Changed("format") && !f.asJSON && f.output != "" {
		var endings []string
		known := filepath.Ext(f.output) == "" // text, as on the terminal
		for _, k := range reportFormats {
			if k.extension == "" {
				continue
			}
			endings = append(endings, k.extension)
			if strings.EqualFold(filepath.Ext(f.output), k.extension) {
				f.format, known = k.name, true
			}
		}
		if !known {
			return usage("%s: no format has the ending %s; it can be %s\nhint: --format names the format of any file", f.output, filepath.Ext(f.output), strings.Join(endings, ", "))
		}
	}
	var names []string
	for _, k := range reportFormats {
		names = append(names, k.name)
	}
	if !slices.Contains(names, f.format) {
		return usage("no format %q; use one of %s", f.format, strings.Join(names, ", "))
	}
	if !slices.Contains([]string{"auto", "yes", "no"}, f.instances) {
		return usage("--instances is %q; use auto, yes or no", f.instances)
	}
	if f.standalone && f.format != "latex" {
		return usage("--standalone is for --format latex")
	}
	return nil
}

// sheet reads the records that args name.
func (a *app) sheet(cmd *cobra.Command, args []string, f reportFlags) (*report.Sheet, error) {
	sources, problems, err := outcome.Sources(args, a.runs)
	if err != nil {
		return nil, sourceError(err)
	}
	b := report.NewBuilder(report.Options{Product: run.Version, Apart: f.keep, Claim: claimLine,
		Instances: f.instances == "yes" || f.instances == "auto" && len(sources) <= fewRecords})
	skip := func(p outcome.Problem) error {
		if !f.skipBroken {
			return coded(fmt.Errorf("%w\n--skip-broken goes on without it", p))
		}
		fmt.Fprintf(a.stderr, "skipped: %v\n", p)
		// The report is for others: it names no folder of this machine.
		b.Skip(filepath.Base(p.Path), errors.New(strings.ReplaceAll(p.Err.Error(), p.Path+string(filepath.Separator), "")))
		return nil
	}
	for i, p := range problems {
		if err := skip(p); err != nil {
			for _, other := range problems[i+1:] {
				fmt.Fprintf(a.stderr, "broken: %v\n", other)
			}
			return nil, err
		}
	}
	for _, s := range sources {
		if err := cmd.Context().Err(); err != nil {
			return nil, err
		}
		switch err := b.Add(cmd.Context(), s); {
		case err == nil:
		case errors.Is(err, record.ErrDamaged):
			if err := skip(outcome.Problem{Path: s.Record.Dir, Err: err}); err != nil {
				return nil, err
			}
		default:
			return nil, coded(err)
		}
	}
	sheet := b.Sheet()
	if len(sheet.Rows) == 0 {
		return nil, &exitError{exitFailed, errors.New("no record is left to report")}
	}
	if f.training {
		if err := addTraining(cmd.Context(), sheet, sources); err != nil {
			return nil, err
		}
	}
	return sheet, nil
}

// claimLine is a record's claim, or "" where none can be made of it.
func claimLine(r *record.Record, m score.Metrics) string {
	c, err := reproduce.NewClaim(r, m)
	if err != nil {
		return ""
	}
	return c.String()
}

// addTraining reads the records as checkpoints of one training, as `olmes study
// training` does by default.
func addTraining(ctx context.Context, sheet *report.Sheet, sources []outcome.Source) error {
	var runs []*outcome.Run
	for _, s := range sources {
		r, err := outcome.Load(ctx, s, outcome.Answers)
		if err != nil {
			return coded(err)
		}
		runs = append(runs, r)
	}
	series, axis, err := study.Series(study.Group(runs), nil)
	if err != nil {
		return &run.UsageError{Err: err}
	}
	return sheet.AddTraining(study.Trainings(series, axis, "", 0, stat.Bootstrap{Resamples: stat.Resamples, Seed: study.Seed, Level: 0.95}))
}

// writeReport prints a sheet, or writes it into a file that is complete or absent.
func (a *app) writeReport(sheet *report.Sheet, f reportFlags) error {
	show := report.Show{Errors: f.errors, Details: f.details}
	write := func(w io.Writer) error {
		switch f.format {
		case "md":
			return sheet.Markdown(w, show)
		case "latex":
			return sheet.LaTeX(w, show, f.standalone)
		case "csv":
			return sheet.CSV(w)
		case "html":
			return sheet.HTML(w, show)
		case "json":
			return sheet.JSON(w)
		case "card":
			return sheet.Card(w, show)
		case "model-index":
			return sheet.ModelIndex(w)
		}
		return sheet.Text(w, show)
	}
	if f.output == "" {
		return write(a.stdout)
	}
	if err := replaceFile(f.output, write); err != nil {
		return err
	}
	if !a.quiet {
		fmt.Fprintf(a.stderr, "%s: %s\n", f.output, counted(len(sheet.Rows), "row"))
	}
	return nil
}

// writeFigures writes each figure into a file of its own.
func (a *app) writeFigures(sheet *report.Sheet, dir string) error {
	drawn, err := sheet.Figures()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	for i, f := range drawn {
		if err := replaceFile(filepath.Join(dir, fmt.Sprintf("%02d-%s.svg", i+1, f.Kind)), func(w io.Writer) error {
			_, err := w.Write(f.SVG)
			return err
		}); err != nil {
			return err
		}
	}
	if !a.quiet {
		fmt.Fprintf(a.stderr, "%s: %s\n", dir, counted(len(drawn), "figure"))
	}
	return nil
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// replaceFile writes a file under a name of its own and then gives it its own, so
// that nobody ever reads half of it.
func replaceFile(path string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	err = write(tmp)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
