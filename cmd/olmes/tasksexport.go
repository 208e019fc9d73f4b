package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"olmes/folder"
	"olmes/foreign/lighteval"
	"olmes/foreign/lmeval"
	"olmes/foreign/taskfile"
	"olmes/run"
	"olmes/task"
)

// harnesses are the programs that tasks can be exported for, each with what
// writes its files and the command line that runs them.
var harnesses = map[string]struct {
	write func(dir string, sets []taskfile.Set) error
	start string // %s is the folder
}{
	"lm-eval": {lmeval.WriteTasks,
		"lm-eval run --include_path %[1]s --tasks olmes --model hf --model_args pretrained=MODEL,add_bos_token=False,max_length=2048,softmax_dtype=float32"},
	"lighteval": {lighteval.WriteTasks,
		`lighteval accelerate "model_name=MODEL,max_length=2048" %[1]s/tasks.txt --custom-tasks %[1]s/olmes_lighteval.py`},
}

// exportedTask is one task that was written, as --json lists it.
type exportedTask struct {
	Name        string       `json:"name"` // in the harness
	Task        string       `json:"task"`
	Formulation string       `json:"formulation"`
	Split       string       `json:"split"`
	Selection   string       `json:"selection"` // how the instances were chosen
	Instances   int          `json:"instances"`
	License     task.License `json:"license"` // of the dataset's texts
}

func (a *app) tasksExportCommand() *cobra.Command {
	var c run.Config
	var to string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "export DIR [TASK[:cf|:mcf]...]",
		Short: "write the tasks for another harness",
		Long: `Export writes task files and rows into the new folder DIR, so that another harness
sends the standard's requests, byte for byte: all ten tasks in both formulations,
or those that are named. Names are olmes_TASK_cf and olmes_TASK_mcf.

The rows hold dataset text under the datasets' own licences, which are listed. They
are for your own use; DIR can be moved.`,
		Example: `  olmes tasks export --to lm-eval tasks-lm-eval
  olmes tasks export --to lighteval tasks-lighteval arc_easy mmlu:mcf`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			harness, ok := harnesses[to]
			if !ok {
				return &run.UsageError{Err: fmt.Errorf("--to is %q; it can be lm-eval or lighteval", to)}
			}
			dir := args[0]
			if empty, err := folder.Empty(dir); err == nil && !empty {
				return &run.UsageError{Err: fmt.Errorf("%s is not empty; choose an empty or a new folder", dir)}
			} else if err != nil && !errors.Is(err, os.ErrNotExist) {
				return &run.UsageError{Err: fmt.Errorf("%s cannot be written into: %w", dir, err)}
			}
			if c.Tasks = args[1:]; len(c.Tasks) == 0 {
				c.Tasks = []string{"olmes"}
			}
			store, err := a.store()
			if err != nil {
				return err
			}
			selected, err := run.Select(cmd.Context(), c, run.Env{Store: store, Reporter: a.reporter()})
			if err != nil {
				return err
			}
			var sets []taskfile.Set
			var list []exportedTask
			for _, s := range selected {
				for _, f := range s.Formulations {
					if err := cmd.Context().Err(); err != nil {
						return err
					}
					set, err := taskfile.Make(s.Task, f, s.Shots, s.Evaluated)
					if err != nil {
						return err
					}
					sets = append(sets, set)
					list = append(list, exportedTask{set.Name(), s.Task.Name, string(f), s.Split, s.Selection, len(set.Rows), s.Task.License()})
				}
			}
			start := fmt.Sprintf(harness.start, dir)
			note := licenseNote(selected)
			err = folder.Write(dir, func(temp string) error {
				if err := harness.write(temp, sets); err != nil {
					return err
				}
				return os.WriteFile(filepath.Join(temp, "README.md"), []byte(exportReadme(to, start, note)), 0o644)
			})
			if err != nil {
				return fmt.Errorf("write the tasks for %s: %w", to, err)
			}
			if asJSON {
				return a.printJSON(struct {
					Dir     string         `json:"dir"`
					Harness string         `json:"harness"`
					Start   string         `json:"start"` // a command line
					Tasks   []exportedTask `json:"tasks"`
				}{dir, to, start, notNil(list)})
			}
			fmt.Fprintf(a.stdout, "%d tasks for %s in %s\n\n    %s\n\n%s", len(list), to, dir, start, note)
			return nil
		},
	}
	dataFlags(cmd, &c)
	cmd.Flags().StringVar(&to, "to", "", "`harness`: lm-eval or lighteval")
	cmd.Flags().StringVar(&c.Formulation, "formulation", "", "cf, mcf or both (default)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// licenseNote says under which terms the texts of tasks stand, a line each.
func licenseNote(selected []run.Instances) string {
	var b strings.Builder
	b.WriteString("The files hold dataset text under the datasets' own terms:\n")
	var seen []string
	for _, s := range selected {
		name := s.Task.Name
		if s.Task.Group != "" {
			name = s.Task.Group
		}
		if slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		l := s.Task.License()
		if l.Name == "" {
			l.Name = "no licence stated"
		}
		fmt.Fprintf(&b, "  %s: %s (%s)\n", name, l.Name, l.Note)
	}
	return b.String()
}

// exportReadme is the README.md beside exported tasks.
func exportReadme(harness, start, note string) string {
	return fmt.Sprintf(`# Tasks of the OLMES standard for %s

    %s

The requests are the standard's (arXiv 2406.08446), byte for byte. Whether the scores are too depends on how the harness is
started: no BOS token but for Gemma and its like, a context of 2048 tokens or the model's own where that is shorter, weights as
published or in a higher precision, log-probabilities in 32 bits.

A task's score is the better of its two formulations, olmes_TASK_cf and olmes_TASK_mcf. acc is the accuracy by the plain
log-probability, acc_norm per character with the leading space, acc_pmi by the gain over "Answer:" alone. What counts in
the cloze form (cf): acc_pmi for arc_challenge, csqa and openbookqa, acc for boolq and winogrande, acc_norm for the others; in the
multiple-choice form (mcf): acc. mmlu is the plain mean over its subjects.

`+"`olmes import`"+` reads what the harness writes and checks all of it.

%s`, harness, start, note)
}
