package report

import (
	"fmt"

	"olmes/audit"
	"olmes/figure"
)

// AuditFigures draws an audit's lines (paper, Figure 4): claimed minus own score
// over the claimed one, a figure a task, "all" for all tasks together.
func AuditFigures(a audit.Audit) ([]StudyFigure, error) {
	var out []StudyFigure
	for _, f := range a.Fits {
		name := f.Task
		if name == "" {
			name = "all"
		}
		s := figure.Scatter{X: "claimed score, %", Y: "claimed minus own, points", Zero: true}
		for _, p := range f.Points {
			text := figure.Shorten(p.Model+", "+p.Reference, 24)
			if f.Task == "" {
				text = figure.Shorten(p.Model+", "+p.Task, 24)
			}
			s.Points = append(s.Points, figure.Named{Name: text, X: p.Claimed, Y: p.Above})
		}
		s.Fit = fitOf(f.Line)
		title := "Claimed and own scores, " + name
		s.About = figure.About{ID: figureID("audit", name), Title: title,
			Description: fmt.Sprintf("%s: claimed minus own score over the claimed one, with the least-squares line; %s.", plural(len(f.Points), "claim"), s.Fit.Name)}
		svg, err := s.SVG()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", title, err)
		}
		out = append(out, StudyFigure{name, title, svg})
	}
	return out, nil
}
