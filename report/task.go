package report

import (
	"fmt"
	"io"
	"strings"

	"olmes"
	"olmes/task"
)

// Tasks prints a table of tasks; a group of subjects takes one row.
func Tasks(w io.Writer, tasks []task.Task) error {
	t := table{header: []string{"task", "split", "few-shot from", "instances", "evaluated", "CF norm"}}
	done := map[string]bool{}
	for _, k := range tasks {
		name, size := k.Name, k.Size
		if k.Group != "" && len(tasks) > 1 {
			if done[k.Group] {
				continue
			}
			done[k.Group] = true
			subjects := 0
			size = 0
			for _, s := range tasks {
				if s.Group == k.Group {
					subjects++
					size += s.Size
				}
			}
			name = fmt.Sprintf("%s (%d subjects)", k.Group, subjects)
		}
		evaluated := size
		if k.Sample > 0 {
			evaluated = k.Sample
		}
		t.add([]string{name, k.Split, k.FewShotSplit, fmt.Sprint(size), fmt.Sprint(evaluated), string(k.Normalization)})
	}
	_, err := fmt.Fprintf(w, "%s\nSuites: olmes (all ten), mmlu (its 57 subjects). AI2's names work too: core_9mcqa::olmes, mmlu::olmes,\narc_easy:rc::olmes, arc_easy:mc::olmes. Every choice and its reason: olmes tasks NAME.\n", t.text())
	return err
}

// Task prints every choice the standard makes for a task, each with its reason.
func Task(w io.Writer, t task.Task) error {
	var b strings.Builder
	line := func(name, value, why string) {
		fmt.Fprintf(&b, "%-15s %s\n", name, value)
		if why != "" {
			for _, l := range wrap(why, 88) {
				fmt.Fprintf(&b, "%-15s   %s\n", "", l)
			}
		}
	}
	line("task", t.Name, "")
	if t.Group != "" {
		line("group", fmt.Sprintf("%s, scored as the plain mean over its subjects (macro)", t.Group), "")
	}
	line("split", fmt.Sprintf("%s, %d instances", t.Split, t.Size), t.Why.Split)
	sampling := "all, in file order"
	if t.Sample > 0 {
		sampling = fmt.Sprintf("%d of %d: Python's Random(1234).sample over the file order, in the order it returns", t.Sample, t.Size)
	}
	line("evaluated", sampling, t.Why.Sampling)
	line("few-shot", fmt.Sprintf("%d from %s: %s", len(t.FewShot), t.FewShotSplit, strings.Join(t.FewShot, ", ")), t.Why.FewShot)
	if t.Template.Description != "" {
		line("description", fmt.Sprintf("%q", t.Template.Description), "")
	}
	line("cf query", layout(t.Template, olmes.CF), t.Why.Template)
	line("mcf query", layout(t.Template, olmes.MCF), "")
	line("separator", fmt.Sprintf("%q between examples", t.Template.Separator), "")
	norm := string(t.Normalization)
	if t.PMI {
		norm += fmt.Sprintf(", with requests after %q alone", t.Template.Unconditional)
	}
	line("normalization", "cf: "+norm+"; mcf: none", t.Why.Normalization)
	_, err := io.WriteString(w, b.String())
	return err
}

// layout shows a template's query with its parts named.
func layout(t olmes.Template, f olmes.Formulation) string {
	form := t.Form(f)
	question := "{question}"
	switch {
	case t.Blank != "" && f == olmes.CF:
		return fmt.Sprintf("%q, continuation %q", form.Prefix+"{sentence up to its blank}{choice}", t.Gap+"{rest of the sentence}")
	case t.Blank != "":
		question = "{sentence with " + t.Blank + "}"
	case form.Prefix == "":
		question = "{text}"
	}
	q := form.Prefix + question + form.Suffix
	if t.PassageEnd != "" {
		q = "{passage}" + t.PassageEnd + q
	}
	answer := t.Gap + "{choice}"
	if f == olmes.MCF {
		for _, label := range []string{"A", "B"} {
			q += t.LabelStart + label + t.LabelEnd + "{choice " + label + "}"
		}
		q += "…"
		answer = t.Gap + "{label}"
	}
	return fmt.Sprintf("%q, continuation %q", q+form.Cue, answer)
}

// wrap breaks text into lines of at most width bytes where words allow it.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
