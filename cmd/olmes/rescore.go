package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"olmes"
	"olmes/outcome"
	"olmes/reproduce"
	"olmes/run"
	"olmes/task"
)

// rescoreSummary is what `olmes rescore --json` prints.
type rescoreSummary struct {
	Runs []reproduce.Rescored `json:"runs"`
}

func (a *app) rescoreCommand() *cobra.Command {
	var normalization, formulation, average string
	var subjects, tasks []string
	var asJSON, skip bool
	cmd := &cobra.Command{
		Use:   "rescore RUN...",
		Short: "score runs by other rules, without the model",
		Long: `Rescore computes the scores of runs anew from the choices in their records, by another
normalization, one formulation, another mean over mmlu, or some subjects or tasks of it.
What is not the standard's way is marked, as are means of it. Without flags it prints the
standard's scores. Variants of the prompts stand apart and are in no mean. Each task and
subject that is named must be in every run; a suite means those of its tasks that a run has.

RUN is a folder of a record, a folder of records, a glob, an id or a unique prefix of one;
"label=RUN" calls a run label.`,
		Example: `  olmes rescore runs/mine --normalization token
  olmes rescore runs/* --average micro --subjects anatomy,astronomy
  olmes rescore runs/mine --formulation cf --tasks arc_easy,boolq`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			how := reproduce.Rescoring{Normalization: olmes.Normalization(normalization)}
			if how.Normalization != "" && !slices.Contains(olmes.Normalizations(), how.Normalization) {
				return usagef("--normalization is %q; it can be none, token, character, pmi", normalization)
			}
			switch formulation {
			case "", "best":
			case "cf", "mcf":
				how.Formulation = olmes.Formulation(formulation)
			default:
				return usagef("--formulation is %q; it can be best, cf, mcf", formulation)
			}
			switch average {
			case "", "macro":
			case "micro":
				how.Micro = true
			default:
				return usagef("--average is %q; it can be macro, micro", average)
			}
			asked, err := askedFor(tasks)
			if err != nil {
				return err
			}
			how.Tasks = asked.names
			if how.Subjects, err = subjectNames(subjects); err != nil {
				return err
			}
			if how.Subjects != nil && how.Tasks != nil && !slices.Contains(how.Tasks, "mmlu") {
				return usagef("--subjects are of mmlu, which --tasks leaves out")
			}
			sources, err := a.sources(args, skip)
			if err != nil {
				return err
			}
			runs, err := loadAll(cmd.Context(), sources, outcome.Answers)
			if err != nil {
				return err
			}
			s := rescoreSummary{Runs: []reproduce.Rescored{}}
			for _, r := range runs {
				if err := asked.held(r, how.Subjects); err != nil {
					return err
				}
				one, err := reproduce.Rescore(r, how)
				if err != nil {
					return err
				}
				s.Runs = append(s.Runs, one)
			}
			if asJSON {
				return a.printJSON(s)
			}
			return printRescored(a.stdout, s.Runs)
		},
	}
	f := cmd.Flags()
	f.StringVar(&normalization, "normalization", "", "of every task's CF choices: none, token, character or pmi (default: each task's own)")
	f.StringVar(&formulation, "formulation", "", "best (default: the better of both), cf or mcf")
	f.StringVar(&average, "average", "", "of mmlu: macro (default: over subjects) or micro (over instances)")
	f.StringSliceVar(&subjects, "subjects", nil, "of mmlu, comma-separated (default all of the run)")
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	f.BoolVar(&skip, "skip-broken", false, "leave out records that are broken or not finished")
	tasksFlag(cmd, &tasks, "all of the run")
	return cmd
}

func usagef(format string, args ...any) error {
	return &run.UsageError{Err: fmt.Errorf(format, args...)}
}

// asked is what --tasks names: each name as given, with the tasks and groups that it
// stands for, and these of all of them; nil means all.
type asked struct {
	specs []struct {
		name  string
		tasks []string
	}
	names []string
}

// askedFor expands suites; a group stands for itself.
func askedFor(specs []string) (asked, error) {
	var a asked
	for _, spec := range specs {
		selections, err := task.Select([]string{spec})
		if err != nil {
			return a, &run.UsageError{Err: err}
		}
		var names []string
		for _, s := range selections {
			if len(s.Formulations) > 0 {
				return a, usagef("%q names a formulation; give it with --formulation", spec)
			}
			name := s.Task.Name
			if s.Task.Group != "" && len(selections) > 1 {
				name = s.Task.Group
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			if !slices.Contains(a.names, name) {
				a.names = append(a.names, name)
			}
		}
		a.specs = append(a.specs, struct {
			name  string
			tasks []string
		}{spec, names})
	}
	return a, nil
}

// held reports what was asked for that a run has not: a task, a subject, or all of
// a suite.
func (a asked) held(r *outcome.Run, subjects []string) error {
	if !r.Instances() {
		return nil // which is its own error
	}
	var tasks, have []string
	for _, t := range r.Tasks {
		name := t.Name
		if t.Group != "" {
			name = t.Group
			if subject := strings.TrimPrefix(t.Name, t.Group+"_"); !slices.Contains(have, subject) {
				have = append(have, subject)
			}
		}
		if !slices.Contains(tasks, name) {
			tasks = append(tasks, name)
		}
	}
	has := func(name string) bool {
		return slices.Contains(tasks, name) || slices.ContainsFunc(r.Tasks, func(t *outcome.Task) bool { return t.Name == name })
	}
	for _, s := range a.specs {
		if !slices.ContainsFunc(s.tasks, has) {
			return usagef("%s holds nothing of %s; it has %s", r.Label, s.name, strings.Join(tasks, ", "))
		}
	}
	for _, name := range subjects {
		switch {
		case len(have) == 0:
			return usagef("%s holds nothing of mmlu; it has %s", r.Label, strings.Join(tasks, ", "))
		case !has(name):
			return usagef("%s does not hold the subject %s of mmlu; it has %s", r.Label, strings.TrimPrefix(name, "mmlu_"), strings.Join(have, ", "))
		}
	}
	return nil
}

// subjectNames are the tasks of subjects, which may be named without "mmlu_".
func subjectNames(subjects []string) ([]string, error) {
	var names []string
	for _, s := range subjects {
		name := s
		if !strings.HasPrefix(s, "mmlu_") {
			name = "mmlu_" + s
		}
		t, ok := task.Lookup(name)
		if !ok || t.Group == "" {
			return nil, usagef("%q is no subject of mmlu; olmes tasks mmlu lists them", s)
		}
		names = append(names, name)
	}
	return names, nil
}
