package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"olmes"
	"olmes/figure"
	"olmes/stat"
)

// Figure is a figure with what stands below it.
type Figure struct {
	Kind    string // "gap", "scatter", "subjects", "normalizations", "wins", "labels", "calibration", "training"
	Title   string
	Caption string
	SVG     []byte
	Wide    bool // it has many rows
}

const (
	// fewModels is up to how many models each has figures of its own; above it they
	// share one, in rows.
	fewModels = 6
	// manyModels is how many rows a figure of models has, the best first.
	manyModels = 40
)

type drawing interface{ SVG() ([]byte, error) }

// figures gathers figures and gives each its id.
type figures struct {
	list []Figure
	err  error
}

func (f *figures) add(kind, caption string, wide bool, make func(figure.About) drawing, title, description string) {
	if f.err != nil {
		return
	}
	about := figure.About{ID: fmt.Sprintf("figure-%d", len(f.list)+1), Title: title, Description: description}
	svg, err := make(about).SVG()
	if err != nil {
		f.err = fmt.Errorf("%s: %w", title, err)
		return
	}
	f.list = append(f.list, Figure{kind, title, caption, svg, wide})
}

// Figures draws what the sheet's numbers show: the formulation gap, mmlu by
// subject, normalizations, label bias, calibration and, for three models or more,
// the two formulations against each other; before them the curves of a training.
func (s *Sheet) Figures() ([]Figure, error) {
	var f figures
	s.gaps(&f)
	s.scatter(&f)
	s.subjects(&f)
	s.normalizations(&f)
	s.labels(&f)
	s.calibrations(&f)
	return append(slices.Clone(s.training), f.list...), f.err
}

// forms returns a unit's accuracies that count, in percent; NaN where there is none.
func (u *Unit) forms() (cf, mcf float64) {
	cf, mcf = math.NaN(), math.NaN()
	if u == nil {
		return
	}
	if a := u.form(olmes.CF).counts(); a != nil {
		cf = 100 * a.Accuracy
	}
	if a := u.form(olmes.MCF).counts(); a != nil {
		mcf = 100 * a.Accuracy
	}
	return
}

// gapRow is a row of the formulation gap: both formulations, a ring around the one
// that gave the score.
func gapRow(name string, u *Unit) (figure.Row, bool) {
	row := figure.Row{Name: name}
	cf, mcf := u.forms()
	for i, v := range []float64{cf, mcf} {
		if math.IsNaN(v) {
			continue
		}
		f := []olmes.Formulation{olmes.CF, olmes.MCF}[i]
		row.Dots = append(row.Dots, figure.Dot{Series: i, Value: v, Ring: u.Score != nil && u.Score.Formulation == f})
	}
	if len(row.Dots) == 0 {
		return row, false
	}
	if u.Chance != nil {
		level := 100 * *u.Chance
		row.Level = &level
	}
	return row, true
}

func gapDots(about figure.About, rows []figure.Row) drawing {
	return figure.Dots{About: about, X: "accuracy, %", Series: []string{"CF", "MCF"}, Rows: rows, Join: true, Level: "chance", Ring: "score"}
}

// words says a row's numbers.
func words(rows []figure.Row, series []string) string {
	var out []string
	for i, r := range rows {
		if i == manyModels {
			out = append(out, fmt.Sprintf("and %d more", len(rows)-i))
			break
		}
		var parts []string
		for _, d := range r.Dots {
			parts = append(parts, fmt.Sprintf("%s %.1f", series[d.Series], d.Value))
		}
		if r.Level != nil {
			parts = append(parts, fmt.Sprintf("chance %.1f", *r.Level))
		}
		out = append(out, r.Name+": "+strings.Join(parts, ", "))
	}
	return strings.Join(out, ". ") + "."
}

func (s *Sheet) gaps(f *figures) {
	series := []string{"CF", "MCF"}
	const what = "Both formulations under the normalization that counts; the ring is around the one that gave the score, the line at the level of chance."
	if len(s.Rows) <= fewModels {
		for _, r := range s.Rows {
			var rows []figure.Row
			for _, c := range s.Columns {
				if row, ok := gapRow(c.Head, r.unit(c.Task)); ok {
					rows = append(rows, row)
				}
			}
			if rows != nil {
				f.add("gap", what, false, func(a figure.About) drawing { return gapDots(a, rows) }, "Formulation gap of "+r.Label, words(rows, series))
			}
		}
		return
	}
	for _, c := range s.Columns {
		var rows []figure.Row
		for _, r := range s.Rows[:min(len(s.Rows), manyModels)] {
			if row, ok := gapRow(r.Label, r.unit(c.Task)); ok {
				rows = append(rows, row)
			}
		}
		if rows != nil {
			f.add("gap", what+s.cut(), false, func(a figure.About) drawing { return gapDots(a, rows) }, "Formulation gap on "+c.Name, words(rows, series))
		}
	}
}

// cut says that a figure does not show all models.
func (s *Sheet) cut() string {
	if len(s.Rows) <= manyModels {
		return ""
	}
	return fmt.Sprintf(" The first %d of %d rows.", manyModels, len(s.Rows))
}

// scatter sets the mean of CF against that of MCF over the tasks that every model
// has in both.
func (s *Sheet) scatter(f *figures) {
	var tasks []Column
	rows := s.Rows
	for _, c := range s.Columns {
		if !slices.ContainsFunc(rows, func(r *Row) bool { cf, mcf := r.unit(c.Task).forms(); return math.IsNaN(cf + mcf) }) {
			tasks = append(tasks, c)
		}
	}
	if len(rows) < 3 || len(tasks) == 0 {
		return
	}
	var points []figure.Named
	var xs, ys []float64
	var said []string
	for _, r := range rows {
		var x, y float64
		for _, c := range tasks {
			cf, mcf := r.unit(c.Task).forms()
			x, y = x+cf/float64(len(tasks)), y+mcf/float64(len(tasks))
		}
		xs, ys = append(xs, x), append(ys, y)
		points = append(points, figure.Named{Name: figure.Shorten(r.Label, 24), X: x, Y: y})
		if len(said) < manyModels {
			said = append(said, fmt.Sprintf("%s: CF %.1f, MCF %.1f", r.Label, x, y))
		}
	}
	caption := fmt.Sprintf("A point a model: the means of both formulations over %s that all have.", plural(len(tasks), "task"))
	if len(points) > figure.Names {
		caption += " More than " + fmt.Sprint(figure.Names) + " points, so they have no names; the table has them."
	}
	var fitted *figure.Fit
	if line, ok := stat.Line(xs, ys, 0.95); ok {
		fitted = fitOf(line)
		caption += " The line is the least-squares fit."
	}
	f.add("scatter", caption, false, func(a figure.About) drawing {
		return figure.Scatter{About: a, X: "mean CF accuracy, %", Y: "mean MCF accuracy, %", Points: points, Fit: fitted, Diagonal: "equal"}
	}, "Multiple choice against cloze", strings.Join(said, ". ")+".")
}

// fitOf is a least-squares line with what it is called.
func fitOf(line stat.Fit) *figure.Fit {
	name := fmt.Sprintf("fit: slope %.2f", line.Slope)
	if line.R2 != nil {
		name += fmt.Sprintf(", R² %.2f", *line.R2)
	}
	return &figure.Fit{Slope: line.Slope, Intercept: line.Intercept, Name: name}
}

// subjects shows the parts of mmlu (or of another group), a series a model.
func (s *Sheet) subjects(f *figures) {
	for _, c := range s.Columns {
		var names, labels []string
		var units []*Unit
		for _, r := range s.Rows {
			u := r.unit(c.Task)
			if u == nil || len(u.Parts) < 2 || len(units) == figure.Series {
				continue
			}
			units, labels = append(units, u), append(labels, figure.Shorten(r.Label, 28))
			for _, p := range u.Parts {
				names = add(names, p.Task)
			}
		}
		if units == nil {
			continue
		}
		rows := make([]figure.Row, 0, len(names))
		first := map[string]float64{}
		for _, name := range names {
			row := figure.Row{Name: strings.ReplaceAll(strings.TrimPrefix(name, c.Task+"_"), "_", " ")}
			for i, u := range units {
				k := slices.IndexFunc(u.Parts, func(p *Unit) bool { return p.Task == name })
				if k < 0 {
					continue
				}
				cf, mcf := u.Parts[k].forms()
				v := cf
				if u.Score != nil && u.Score.Formulation == olmes.MCF || math.IsNaN(cf) {
					v = mcf
				}
				if math.IsNaN(v) {
					continue
				}
				if len(row.Dots) == 0 {
					first[row.Name] = v
				}
				row.Dots = append(row.Dots, figure.Dot{Series: i, Value: v})
			}
			if len(row.Dots) > 0 {
				rows = append(rows, row)
			}
		}
		if len(rows) == 0 {
			continue
		}
		slices.SortStableFunc(rows, func(a, b figure.Row) int { return cmp.Compare(first[b.Name], first[a.Name]) })
		caption := "Each subject in the formulation that gave the model's score of the group; ordered by the first model."
		f.add("subjects", caption, len(rows) > 15, func(a figure.About) drawing {
			return figure.Dots{About: a, X: "accuracy, %", Series: labels, Rows: rows}
		}, c.Name+" by subject", words(rows, labels))
	}
}

// normalizations shows the cloze accuracies under each normalization: of few models
// each by itself, else how many models each serves best.
func (s *Sheet) normalizations(f *figures) {
	var series []string
	for _, n := range olmes.Normalizations() {
		series = append(series, string(n))
	}
	if len(s.Rows) <= fewModels {
		for _, r := range s.Rows {
			var rows []figure.Row
			for _, c := range s.Columns {
				if row := normRow(c.Head, r.unit(c.Task)); len(row.Dots) > 0 {
					rows = append(rows, row)
				}
			}
			if rows != nil {
				f.add("normalizations", "The cloze formulation under each normalization that was scored; the ring is around the standard's.", false, func(a figure.About) drawing {
					return figure.Dots{About: a, X: "accuracy, %", Series: series, Rows: rows, Join: true, Ring: "the standard's"}
				}, "Normalizations of "+r.Label, words(rows, series))
			}
		}
	}
	if len(s.Rows) >= 3 {
		s.wins(f, series)
	}
}

func normRow(name string, u *Unit) figure.Row {
	row := figure.Row{Name: name}
	if u == nil {
		return row
	}
	form := u.form(olmes.CF)
	for i, n := range olmes.Normalizations() {
		if a := form.accuracy(n); a != nil {
			row.Dots = append(row.Dots, figure.Dot{Series: i, Value: 100 * a.Accuracy, Ring: form.Normalization == n})
		}
	}
	return row
}

// wins shows for how many models each normalization gives the highest accuracy.
func (s *Sheet) wins(f *figures, series []string) {
	var rows []figure.Row
	for _, c := range s.Columns {
		shares, models := s.winners(c.Task)
		if models < 3 {
			continue
		}
		row := figure.Row{Name: c.Head}
		for i, n := range olmes.Normalizations() {
			if share, ok := shares[n]; ok {
				row.Dots = append(row.Dots, figure.Dot{Series: i, Value: 100 * share / float64(models), Ring: s.standardOf(c.Task) == n})
			}
		}
		rows = append(rows, row)
	}
	if rows == nil {
		return
	}
	f.add("wins", "The share of models whose cloze accuracy is highest under each normalization, those that all of them were scored by; a tie counts in equal parts. The ring is around the standard's. olmes study normalization gives intervals.", false,
		func(a figure.About) drawing {
			return figure.Dots{About: a, X: "share of models, %", Series: series, Rows: rows, Ring: "the standard's", Min: -4, Max: 104}
		}, "Normalizations by wins", words(rows, series))
}

// winners counts, for one task, the models that each normalization is best for.
func (s *Sheet) winners(task string) (shares map[olmes.Normalization]float64, models int) {
	shares = map[olmes.Normalization]float64{}
	common := olmes.Normalizations()
	var forms []*Form
	for _, r := range s.Rows {
		if u := r.unit(task); u != nil && u.form(olmes.CF) != nil {
			form := u.form(olmes.CF)
			forms = append(forms, form)
			common = slices.DeleteFunc(common, func(n olmes.Normalization) bool { return form.accuracy(n) == nil })
		}
	}
	if len(common) < 2 {
		return shares, 0
	}
	for _, n := range common {
		shares[n] = 0
	}
	for _, form := range forms {
		var best []olmes.Normalization
		for _, n := range common {
			switch {
			case best == nil || form.accuracy(n).Accuracy > form.accuracy(best[0]).Accuracy:
				best = []olmes.Normalization{n}
			case form.accuracy(n).Accuracy == form.accuracy(best[0]).Accuracy:
				best = append(best, n)
			}
		}
		for _, n := range best {
			shares[n] += 1 / float64(len(best))
		}
	}
	return shares, len(forms)
}

func (s *Sheet) standardOf(task string) olmes.Normalization {
	for _, r := range s.Rows {
		if u := r.unit(task); u != nil && u.form(olmes.CF) != nil {
			return u.form(olmes.CF).Normalization
		}
	}
	return ""
}

// bias returns by how much each label is predicted more often than it is right, in
// points of percent, and half of the sum of the absolute values.
func bias(f *Form) (by []float64, total float64, ok bool) {
	if f == nil {
		return nil, 0, false
	}
	var gold, predicted float64
	for _, k := range f.Gold {
		gold += float64(k)
	}
	for _, k := range f.Predicted {
		predicted += float64(k)
	}
	if gold == 0 || predicted == 0 {
		return nil, 0, false
	}
	for i := range max(len(f.Gold), len(f.Predicted)) {
		var g, p float64
		if i < len(f.Gold) {
			g = float64(f.Gold[i]) / gold
		}
		if i < len(f.Predicted) {
			p = float64(f.Predicted[i]) / predicted
		}
		by = append(by, 100*(p-g))
		total += 50 * math.Abs(p-g)
	}
	return by, total, true
}

// labelled returns a unit's multiple-choice form with its labels; a group's is the
// sum of its tasks'.
func (u *Unit) labelled() *Form {
	if u == nil {
		return nil
	}
	if len(u.Parts) == 0 {
		return u.form(olmes.MCF)
	}
	sum := &Form{}
	for _, p := range u.Parts {
		f := p.form(olmes.MCF)
		if f == nil {
			continue
		}
		sum.Gold, sum.Predicted = added(sum.Gold, f.Gold), added(sum.Predicted, f.Predicted)
	}
	return sum
}

func added(a, b []int) []int {
	for len(a) < len(b) {
		a = append(a, 0)
	}
	for i, k := range b {
		a[i] += k
	}
	return a
}

func (s *Sheet) labels(f *figures) {
	series := []string{"A", "B", "C", "D", "E", "F"}
	if len(s.Rows) > fewModels {
		var rows []figure.Row
		for _, r := range s.Rows[:min(len(s.Rows), manyModels)] {
			sum, n := 0.0, 0
			for _, c := range s.Columns {
				if _, total, ok := bias(r.unit(c.Task).labelled()); ok {
					sum, n = sum+total, n+1
				}
			}
			if n > 0 {
				rows = append(rows, figure.Row{Name: r.Label, Dots: []figure.Dot{{Value: sum / float64(n)}}})
			}
		}
		if rows != nil {
			f.add("labels", "How far the labels that a model predicts in the multiple-choice formulation are from the right ones: half of the sum of the absolute differences of their shares, the mean over tasks. 0 is no bias."+s.cut(), false,
				func(a figure.About) drawing {
					return figure.Dots{About: a, X: "label bias, points", Series: []string{"label bias"}, Rows: rows, Zero: true}
				}, "Label bias", words(rows, []string{"bias"}))
		}
		return
	}
	for _, r := range s.Rows {
		var rows []figure.Row
		used := 0
		for _, c := range s.Columns {
			by, _, ok := bias(r.unit(c.Task).labelled())
			if !ok || len(by) > len(series) {
				continue
			}
			row := figure.Row{Name: c.Head}
			for i, v := range by {
				row.Dots = append(row.Dots, figure.Dot{Series: i, Value: v})
			}
			used = max(used, len(by))
			rows = append(rows, row)
		}
		if rows != nil {
			f.add("labels", "Multiple choice: how much more often each label is predicted than it is right, in points. Without bias all stand at 0.", false, func(a figure.About) drawing {
				return figure.Dots{About: a, X: "predicted − right, points", Series: series[:used], Rows: rows, Zero: true}
			}, "Label bias of "+r.Label, words(rows, series))
		}
	}
}

func (s *Sheet) calibrations(f *figures) {
	shown := 0
	for _, r := range s.Rows {
		if len(r.Calibrations) == 0 || shown == fewModels {
			continue
		}
		shown++
		var curves []figure.Curve
		var said []string
		for _, c := range r.Calibrations {
			curve := figure.Curve{Name: fmt.Sprintf("%s, expected error %.1f", strings.ToUpper(string(c.Formulation)), 100*c.Error)}
			for _, b := range c.Bins {
				p := figure.Point{X: 100 * b.Confidence, Y: 100 * b.Accuracy}
				if iv := stat.Wilson(int(math.Round(b.Accuracy*float64(b.Instances))), b.Instances, 0.95); iv != nil {
					p.Low, p.High = percents(iv.Low), percents(iv.High)
				}
				curve.Points = append(curve.Points, p)
				said = append(said, fmt.Sprintf("%s: confidence %.0f, accuracy %.0f of %d instances", strings.ToUpper(string(c.Formulation)), p.X, p.Y, b.Instances))
			}
			curves = append(curves, curve)
		}
		f.add("calibration", "How often the model is right that is as sure as it is: the best choice's share of the probability of all choices, without a normalization, in ten bins with 95% Wilson intervals, over all tasks. In the legend the expected calibration error, in points.", false,
			func(a figure.About) drawing {
				return figure.Curves{About: a, X: "confidence, %", Y: "accuracy, %", XMin: -2, XMax: 102, YMin: -2, YMax: 102, Curves: curves, Diagonal: "calibrated"}
			}, "Calibration of "+r.Label, strings.Join(said, ". ")+".")
	}
}

func percents(v float64) *float64 {
	v *= 100
	return &v
}
