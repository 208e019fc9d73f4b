package report

import (
	"fmt"
	"math"
	"strings"

	"olmes/figure"
	"olmes/stat"
	"olmes/study"
)

// StudyFigure is a figure of a study: one task's.
type StudyFigure struct {
	Task  string
	Title string
	SVG   []byte
}

// TrainingFigures draws both formulations over training, with their events (paper,
// Figure 1), a figure a task.
func TrainingFigures(s study.TrainingStudy) ([]StudyFigure, error) {
	x := "training steps"
	if s.Axis == study.TokensB {
		x = "training tokens (billions)"
	}
	var out []StudyFigure
	for _, t := range s.Tasks {
		cf, mcf := figure.Curve{Name: "cloze (CF)"}, figure.Curve{Name: "multiple choice (MCF)"}
		for _, p := range t.Curve {
			cf.Points, mcf.Points = append(cf.Points, curvePoint(p.Step, p.CF, s.Level)), append(mcf.Points, curvePoint(p.Step, p.MCF, s.Level))
		}
		guessing := 100 * t.Guessing
		f := figure.Curves{X: x, Y: "accuracy (%)", Curves: []figure.Curve{cf, mcf}, Level: &guessing, LevelName: "guessing"}
		for _, e := range []struct {
			name  string
			event study.TrainingEvent
		}{{"CF leaves chance", t.CFOnset}, {"MCF leaves chance", t.MCFOnset}, {"MCF passes CF", t.Crossover}} {
			if e.event.State.Happened() {
				f.Events = append(f.Events, figure.Event{Name: e.name, X: *e.event.At, Low: e.event.Low, High: e.event.High})
			}
		}
		f.YMin, f.YMax = roomForEvents(cf, mcf)
		title := fmt.Sprintf("%s over %s", t.Task, plural(len(t.Curve), "checkpoint"))
		f.About = figure.About{ID: figureID("training", t.Task), Title: title, Description: "Accuracy in both formulations at each checkpoint with intervals, and the events that are known to have happened."}
		svg, err := f.SVG()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", title, err)
		}
		out = append(out, StudyFigure{t.Task, title, svg})
	}
	return out, nil
}

// roomForEvents is what an axis shows that has the names of events above its curves.
func roomForEvents(curves ...figure.Curve) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		for _, p := range c.Points {
			low, high = min(low, p.Y), max(high, p.Y)
			if p.Low != nil {
				low, high = min(low, *p.Low), max(high, *p.High)
			}
		}
	}
	return max(low-2, 0), high + max(high-low, 10)/4
}

func curvePoint(x float64, e study.Estimate, level float64) figure.Point {
	p := figure.Point{X: x, Y: 100 * e.Value}
	p.Low, p.High = hundredfold(stat.Normal(e.Value, e.SE, level))
	return p
}

// hundredfold turns an interval of fractions into percent.
func hundredfold(i *stat.Interval) (low, high *float64) {
	if i == nil {
		return nil, nil
	}
	l, h := 100*i.Low, 100*i.High
	return &l, &h
}

// FormulationFigures draws both formulations of every model, the strongest first
// (paper, Figure 2), a figure a task.
func FormulationFigures(s study.FormulationStudy, level float64) ([]StudyFigure, error) {
	var out []StudyFigure
	for _, t := range s.Tasks {
		f := figure.Dots{X: "accuracy (%)", Series: []string{"cloze (CF)", "multiple choice (MCF)"}, Join: true, Level: "chance"}
		for i := len(t.Cells) - 1; i >= 0; i-- {
			c := t.Cells[i]
			row := figure.Row{Name: c.Model}
			if t.Chance != nil {
				chance := 100 * *t.Chance
				row.Level = &chance
			}
			for k, e := range []study.Estimate{c.CF, c.MCF} {
				d := figure.Dot{Series: k, Value: 100 * e.Value}
				d.Low, d.High = hundredfold(stat.Normal(e.Value, e.SE, level))
				row.Dots = append(row.Dots, d)
			}
			f.Rows = append(f.Rows, row)
		}
		if t.Chance == nil {
			f.Level = ""
		}
		title := fmt.Sprintf("%s in both formulations", t.Task)
		f.About = figure.About{ID: figureID("formulation", t.Task), Title: title, Description: "Accuracy of every model in both formulations with intervals, the strongest model first: " + strings.Join(modelNames(s.Models), ", ") + " from the weakest."}
		svg, err := f.SVG()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", title, err)
		}
		out = append(out, StudyFigure{t.Task, title, svg})
	}
	return out, nil
}

func modelNames(list []study.Standing) []string {
	out := make([]string, len(list))
	for i, m := range list {
		out[i] = m.Model
	}
	return out
}

// figureID is an id of letters, digits and hyphens.
func figureID(kind, task string) string { return kind + "-" + strings.ReplaceAll(task, "_", "-") }
