package report

import (
	"fmt"
	"io"
	"strings"

	"olmes/study"
)

// TrainingStudy prints curves and events of a series of checkpoints (paper,
// Figure 1).
func TrainingStudy(w io.Writer, s study.TrainingStudy) error {
	var b strings.Builder
	unit := string(s.Axis)
	if s.Axis == study.TokensB {
		unit = "billions of tokens"
	}
	fmt.Fprintf(&b, "%s, counted in %s\n\n", plural(len(s.Checkpoints), "checkpoint"), unit)
	events := table{header: []string{"task", "checkpoints", "event", "state", "at", "interval", "width", "known after"}}
	for _, t := range s.Tasks {
		for _, e := range []struct {
			name  string
			event study.TrainingEvent
		}{{"CF leaves chance", t.CFOnset}, {"MCF leaves chance", t.MCFOnset}, {"MCF passes CF", t.Crossover}} {
			events.add(append([]string{t.Task, fmt.Sprint(len(t.Curve)), e.name}, eventCells(e.event)...))
		}
	}
	fmt.Fprintf(&b, "%sAn event is the first checkpoint from which on the accuracy is at least %s points above what guessing gives, or MCF not below CF, for\ngood; interval (%.0f%%): the first and the last checkpoint that may be it; width in checkpoint steps; known after: the checkpoint after\nwhich a look at the growing series knew of it, with every earlier look allowed for.\n",
		events.text(), inPoints(s.Margin), 100*s.Level)
	for _, t := range s.Tasks {
		b.WriteString("\n" + trainingTask(t, string(s.Axis)))
	}
	fmt.Fprintf(&b, "%s the gap is near noise; %s, at that checkpoint alone.\n", near, guessLegend)
	return write(w, &b, s.Notes)
}

func step(v float64) string { return fmt.Sprintf("%.10g", v) }

func eventCells(e study.TrainingEvent) []string {
	at := func(v *float64) string {
		if v == nil {
			return "later"
		}
		return step(*v)
	}
	if e.State == study.NeverBehind {
		return []string{string(e.State), "-", "-", "-", "-"}
	}
	width, known := "-", "-"
	if e.Width != nil {
		width = fmt.Sprint(*e.Width)
	}
	if d := e.Declared; d != nil {
		known = fmt.Sprintf("%s (%s to %s)", step(d.Step), step(d.Low), step(d.High))
	}
	return []string{string(e.State), at(e.At), at(e.Low) + " to " + at(e.High), width, known}
}

func trainingTask(t study.TrainingTask, axis string) string {
	out := table{header: []string{t.Task + " " + axis, "n", "phase", "CF", "±", "MCF", "±", "gap", "interval"}}
	for _, p := range t.Curve {
		n := "-"
		if p.Instances > 0 {
			n = fmt.Sprint(p.Instances)
		}
		out.add([]string{step(p.Step), n, string(p.Phase), noted(p.CF, p.CFNoise), percent(p.CF.SE), noted(p.MCF, p.MCFNoise), percent(p.MCF.SE), gap(p.Gap), pointsBetween(p.Gap.Interval)})
	}
	text := out.text() + fmt.Sprintf("chance %s, guessing %s", percent(&t.Chance), percent(&t.Guessing))
	if o := t.Overestimate; o != nil {
		text += fmt.Sprintf("; best checkpoint %s, %s %s: picking the best overestimates by %s points on average, up to %s",
			step(o.Best), strings.ToUpper(string(o.Formulation)), percent(&o.Score), fmt.Sprintf("%.2f", 100*o.Mean), fmt.Sprintf("%.2f", 100*o.Max))
		if o.Noise != nil {
			text += fmt.Sprintf("; in the phase of noise the best score is %s points above guessing", points(*o.Noise))
		}
	}
	return text + "\n"
}
