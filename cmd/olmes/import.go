package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"olmes"
	"olmes/foreign"
	"olmes/foreign/results"
	"olmes/record"
	"olmes/run"
)

// imported is one record that was imported, as --json prints it.
type imported struct {
	ID        string              `json:"id"`
	Dir       string              `json:"dir"`
	There     bool                `json:"there"` // the folder held the very same record already
	Tool      string              `json:"tool"`
	Version   string              `json:"version"`
	Model     string              `json:"model"`
	Variant   string              `json:"variant"` // "" is the standard's own rendering
	Evidence  record.Evidence     `json:"evidence"`
	Tasks     int                 `json:"tasks"`
	Instances int                 `json:"instances"` // predictions
	Printed   []record.Printed    `json:"printed"`
	Lacks     []string            `json:"lacks"`
	Notes     []string            `json:"notes"`
	Files     []record.ImportFile `json:"files"`
}

func (a *app) importCommand() *cobra.Command {
	var o foreign.Options
	var out, formulation string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "turn another tool's results into records",
		Long: `Import reads what other tools wrote and seals it as records that every other command
takes: lm-evaluation-harness's samples (--log_samples) and results files, AI2's
predictions.jsonl, metrics.json and requests.jsonl, and CSV. FILE can be a folder, which
is searched, and can be packed with gzip. Files of one run become one record.

Records are marked as imported. What the files do not say stays empty and is listed; nothing
is guessed. Accuracies are computed again from the instances by the tool's own definition,
and must be what it printed; where they are not, both are shown.`,
		Example: `  olmes import lm-eval-out/model/samples_arc_easy_*.jsonl lm-eval-out/model/results_*.json
  olmes import oe-eval-out -o runs/theirs
  olmes import scores.csv`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch formulation {
			case "", "cf", "mcf":
				o.Formulation = olmes.Formulation(formulation)
			default:
				return &run.UsageError{Err: fmt.Errorf("--formulation is %q; it can be cf or mcf", formulation)}
			}
			runs, err := foreign.Read(cmd.Context(), args, o)
			if err != nil {
				return err
			}
			if out != "" && len(runs) > 1 {
				return &run.UsageError{Err: fmt.Errorf("the files are of %d runs, and -o is one folder; leave it out, give one run's files, or say with --together that they are one", len(runs))}
			}
			env, err := a.env()
			if err != nil {
				return err
			}
			list := make([]imported, 0, len(runs))
			for _, r := range runs {
				dir := out
				if dir == "" {
					dir = filepath.Join(a.runs, r.Identity().ID()[:12])
				}
				one, err := save(dir, r, env.Command)
				if err != nil {
					return coded(err)
				}
				list = append(list, one)
			}
			if asJSON {
				return a.printJSON(struct {
					Records []imported `json:"records"`
				}{list})
			}
			for i, one := range list {
				if i > 0 {
					fmt.Fprintln(a.stdout)
				}
				a.printImported(one)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "folder of the record (default: below --runs, by its id)")
	f.StringVar(&o.Model, "model", "", "the model's `name`, where the files have none or another")
	f.StringVar(&o.Task, "task", "", "the task's `name`, for files of one task")
	f.StringVar(&formulation, "formulation", "", "cf or mcf, for files of one task that do not tell")
	f.StringVar(&o.Split, "split", "", "the `split` that doc_ids count in, where the files do not tell")
	f.BoolVar(&o.Together, "together", false, "all files are of one run, whatever their names say")
	f.BoolVar(&o.KeepFailed, "keep-failed", false, "keep instances without a usable log-probability, as failed; else they end the import")
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// save seals a run, or finds it in the folder already.
func save(dir string, r *results.Run, command []string) (imported, error) {
	rec, err := foreign.Save(dir, r, time.Now(), command)
	there := errors.Is(err, record.ErrExists) && errors.Is(err, record.ErrSealed)
	if there {
		rec, err = record.Open(dir)
	}
	if errors.Is(err, record.ErrNoSpace) {
		// The error says how a run goes on; of an import nothing is left to go on with.
		err = &fullDiskError{dir, err}
	}
	if err != nil {
		return imported{}, err
	}
	evidence := record.ImportedInstances
	if r.Aggregate() {
		evidence = record.ImportedAggregates
	}
	return imported{ID: rec.ID, Dir: dir, There: there, Tool: r.Tool, Version: r.Version, Model: r.Model.Name, Variant: r.Variant, Evidence: evidence,
		Tasks: len(rec.Identity.Tasks), Instances: r.Instances(), Printed: notNil(r.Printed), Lacks: notNil(r.Lacks), Notes: notNil(r.Notes), Files: notNil(r.Files)}, nil
}

// fullDiskError is an import that found no room.
type fullDiskError struct {
	dir string
	err error
}

func (e *fullDiskError) Error() string {
	cause := ""
	for _, known := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(e.err, known) {
			cause = fmt.Sprintf(" (%v)", known)
		}
	}
	return fmt.Sprintf("%v: make room for %s and import again%s", record.ErrNoSpace, e.dir, cause)
}

func (e *fullDiskError) Unwrap() error { return e.err }

// printImported says what was imported, what it is without, and what does not fit.
func (a *app) printImported(one imported) {
	name := one.Model
	if name == "" {
		name = "a model without a name"
	}
	what := fmt.Sprintf("%d instances of %d tasks", one.Instances, one.Tasks)
	if one.Evidence == record.ImportedAggregates {
		what = fmt.Sprintf("the metrics of %d tasks, no instances", one.Tasks)
	}
	there := ""
	if one.There {
		there = " (there already)"
	}
	fmt.Fprintf(a.stdout, "run %s  %s%s\n%s, %s: %s\n", one.ID[:12], one.Dir, there, strings.TrimSpace(one.Tool+" "+one.Version), name, what)
	equal, other, alone := 0, 0, 0
	for _, p := range one.Printed {
		switch {
		case p.Again == nil:
			alone++
		case p.Equal:
			equal++
		default:
			other++
		}
	}
	if len(one.Printed) > 0 {
		fmt.Fprintf(a.stdout, "printed numbers: %d computed again and equal to the last digit, %d computed again and different, %d not computed again\n", equal, other, alone)
	}
	for _, n := range one.Notes {
		fmt.Fprintf(a.stdout, "warning: %s\n", n)
	}
	for _, l := range one.Lacks {
		fmt.Fprintf(a.stdout, "lacks: %s\n", l)
	}
}
