package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"olmes"
	"olmes/spelling"
)

// Selection is a task and the formulations in which it was asked for.
type Selection struct {
	Task         Task
	Formulations []olmes.Formulation // nil: as the run says
}

// Suites returns the names that stand for several tasks.
func Suites() []string { return []string{"olmes", "core_9mcqa", "mmlu"} }

// suite returns the tasks that a suite's name stands for.
func suite(name string) []Task {
	return slices.DeleteFunc(table(), func(t Task) bool {
		switch name {
		case "olmes":
			return false
		case "core_9mcqa":
			return t.Group != ""
		}
		return t.Group != name
	})
}

// Select returns the tasks that specs name, each once, in the table's order.
//
// A spec is a task, a subject of mmlu or a suite ("arc_easy", "mmlu_anatomy",
// "mmlu", "olmes", "core_9mcqa"), alone or with ":cf" or ":mcf". The spelling
// of the authors' own tool is understood too: "::olmes" at the end, and ":rc"
// and ":mc" for the formulations, as in "arc_easy:mc::olmes". An unknown name
// is an error that suggests the nearest one.
func Select(specs []string) ([]Selection, error) {
	type choice struct {
		named bool // with a formulation, every time
		cf    bool
		mcf   bool
	}
	chosen := make(map[string]*choice)
	for _, spec := range specs {
		tasks, f, err := parseSpec(spec)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			c := chosen[t.Name]
			if c == nil {
				c = &choice{named: true}
				chosen[t.Name] = c
			}
			c.named = c.named && f != ""
			c.cf = c.cf || f == olmes.CF
			c.mcf = c.mcf || f == olmes.MCF
		}
	}
	var selections []Selection
	for _, t := range table() {
		c := chosen[t.Name]
		if c == nil {
			continue
		}
		s := Selection{Task: t}
		if c.named && c.cf {
			s.Formulations = append(s.Formulations, olmes.CF)
		}
		if c.named && c.mcf {
			s.Formulations = append(s.Formulations, olmes.MCF)
		}
		selections = append(selections, s)
	}
	return selections, nil
}

// parseSpec returns the tasks that one spec names, and the formulation, "" where
// it names none.
func parseSpec(spec string) ([]Task, olmes.Formulation, error) {
	rest := strings.TrimSpace(spec)
	if rest == "" {
		return nil, "", errors.New("a task's name is empty; leave out the comma, or the whole list for all ten tasks")
	}
	if name, variant, ok := strings.Cut(rest, "::"); ok {
		switch variant {
		case "olmes":
		case "olmes:full":
			return nil, "", fmt.Errorf("task %q: the whole split is asked for with --all: use %q", spec, name+"::olmes")
		default:
			return nil, "", fmt.Errorf("task %q: unknown variant %q; only \"::olmes\" is known", spec, "::"+variant)
		}
		rest = name
	}
	name, form, ok := strings.Cut(rest, ":")
	var f olmes.Formulation
	if ok {
		switch form {
		case "cf", "rc":
			f = olmes.CF
		case "mcf", "mc":
			f = olmes.MCF
		default:
			return nil, "", fmt.Errorf("task %q: unknown formulation %q; use \"cf\" or \"mcf\"", spec, form)
		}
	}
	if slices.Contains(Suites(), name) {
		return suite(name), f, nil
	}
	t, ok := Lookup(name)
	if !ok {
		return nil, "", &UnknownError{Name: name, Nearest: nearest(name)}
	}
	return []Task{t}, f, nil
}

// UnknownError says that a name is no task and no suite.
type UnknownError struct {
	Name    string
	Nearest string // the most similar name that there is
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no task or suite %q; did you mean %q?", e.Name, e.Nearest)
}

// Hint says what the user can do.
func (e *UnknownError) Hint() string { return "\"olmes tasks\" lists all names" }

// nearest returns the task or suite that name may have meant.
func nearest(name string) string {
	list := Suites()
	for _, t := range table() {
		list = append(list, t.Name)
	}
	typed := slices.Clone(list)
	for _, t := range table() {
		if t.Group != "" { // a subject may be named without its group
			list, typed = append(list, t.Name), append(typed, t.Subject)
		}
	}
	at, _ := spelling.Nearest(name, typed)
	return list[at]
}
