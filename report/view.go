package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"olmes"
	"olmes/score"
)

// doubleDagger marks what cannot be compared with the rest of its column.
const doubleDagger = "‡"

// none stands where there is no number.
const none = "–"

// cell is a cell of the table of scores, before a format gives it its form.
type cell struct {
	value    string // in percent, or none
	se       string // "" where it is not shown or not known
	dagger   bool   // the multiple-choice formulation gave the score
	apart    bool
	brackets bool     // one formulation alone: no OLMES score
	marks    []string // of footnotes
	number   float64  // what it is ordered by; NaN for none
	says     string   // in words
}

// line is a row of the table of scores.
type line struct {
	label   string
	marks   []string
	cells   []cell
	average cell
	span    string // near-tie range of the average
}

// Show says what the tables show beside the scores.
type Show struct {
	Errors  bool // standard errors
	Details bool // a row for every task of every model, with all accuracies
}

// lines makes the table of scores.
func (s *Sheet) lines(show Show) []line {
	var out []line
	for _, r := range s.Rows {
		l := line{label: r.Label, marks: r.Marks, average: r.averageCell(show), span: none}
		for _, c := range s.Columns {
			l.cells = append(l.cells, unitCell(r.unit(c.Task), show))
		}
		if r.Average != nil && r.Average.Range != nil {
			l.span = spanOf(r.Average.Range)
		}
		out = append(out, l)
	}
	return out
}

func unitCell(u *Unit, show Show) cell {
	c := cell{value: none, number: math.NaN()}
	if u == nil {
		c.says = "not evaluated"
		return c
	}
	c.apart, c.marks = len(u.Apart) > 0, u.Marks
	var se *float64
	if s := u.Score; s != nil {
		c.number, se = 100*s.Accuracy, s.SE
		c.dagger = s.Formulation == olmes.MCF
		c.says = fmt.Sprintf("%s, normalization %s, %d instances", strings.ToUpper(string(s.Formulation)), s.Normalization, u.Instances)
	} else if a, f := u.only(); a != nil {
		c.number, se, c.brackets = 100*a.Accuracy, a.SE, true
		c.says = fmt.Sprintf("%s alone, normalization %s, %d instances: no OLMES score", strings.ToUpper(string(f)), a.Normalization, a.N)
	} else {
		c.says = "no score"
		return c
	}
	if part := u.lacking(); part != "" {
		c.says += "; " + part + ": no OLMES score"
	}
	c.value = fmt.Sprintf("%.1f", c.number)
	if show.Errors && se != nil {
		c.se = percent(se)
	}
	if c.apart {
		c.says += "; not comparable: " + strings.Join(u.Apart, ", ")
	}
	return c
}

func (r *Row) averageCell(show Show) cell {
	a := r.Average
	if a == nil {
		return cell{value: fmt.Sprintf("%d of %d", r.Scored, len(score.SuiteTasks())), number: math.NaN(), says: "no average: not all ten tasks have a score"}
	}
	c := cell{value: percent(&a.Accuracy), number: 100 * a.Accuracy, says: "OLMES average"}
	switch {
	case !a.OLMES:
		c.apart, c.says = true, "mean of the ten tasks, some of other instances than the standard's or of a variant: not the OLMES average"
	case slices.ContainsFunc(score.SuiteTasks(), func(name string) bool { return len(r.unit(name).Apart) > 0 }):
		c.apart, c.says = true, "OLMES average of scores some of which are not comparable with the others of their column"
	}
	if show.Errors && a.SE != nil {
		c.se = percent(a.SE)
	}
	return c
}

func spanOf(r *score.Range) string { return fmt.Sprintf("%.1f–%.1f", 100*r.Low, 100*r.High) }

// apart says in which columns a row cannot be compared, and why, those of one
// reason together.
func (r *Row) apart(columns []Column) []string {
	var reasons []string
	heads := map[string][]string{}
	cells := 0
	for _, c := range columns {
		u := r.unit(c.Task)
		if u == nil {
			continue
		}
		cells++
		if len(u.Apart) == 0 {
			continue
		}
		why := strings.Join(u.Apart, ", ")
		reasons = add(reasons, why)
		heads[why] = append(heads[why], c.Head)
	}
	var out []string
	for _, why := range reasons {
		where := " " + some(heads[why], manyLabels, ", ")
		if n := len(heads[why]); n == cells && n > 1 {
			where = ", all tasks"
		}
		out = append(out, fmt.Sprintf("%s%s (%s)", r.Label, where, why))
	}
	return out
}

// spans reports whether any row has a near-tie range.
func (s *Sheet) spans() bool {
	return slices.ContainsFunc(s.Rows, func(r *Row) bool { return r.Average != nil && r.Average.Range != nil })
}

// manyNotes is how many texts of one footnote, and how many labels of one text,
// are shown in full.
const (
	manyNotes  = 6
	manyLabels = 5
)

// explained is a line below a table: a mark and what it means.
type explained struct {
	mark, text string
}

// legend explains a table of scores, in plain text: what the numbers are, and each
// mark that is in it.
func (s *Sheet) legend(show Show) []explained {
	mcf, apart, brackets, short, other := false, []string{}, false, false, false
	for _, r := range s.Rows {
		short = short || r.Average == nil
		other = other || r.Average != nil && r.averageCell(show).apart
		for _, c := range s.Columns {
			u := r.unit(c.Task)
			shown := unitCell(u, show)
			mcf, brackets = mcf || shown.dagger, brackets || shown.brackets
		}
		apart = append(apart, r.apart(s.Columns)...)
	}
	out := []explained{{"", "Accuracies in percent: the better of the cloze and the multiple-choice formulation."}}
	if show.Errors {
		out[0].text += " ± is one standard error."
	}
	if s.spans() {
		out[0].text += " Range: the average if all near-ties fell to the wrong side, and to the right one."
	}
	if short {
		out[0].text += " Models that lack a score of one of the ten tasks have no average and stand last."
	}
	if mcf {
		out = append(out, explained{dagger, "the multiple-choice formulation gave the score"})
	}
	if brackets {
		out = append(out, explained{"( )", "one formulation alone was evaluated: no OLMES score"})
	}
	if len(apart) > 0 {
		out = append(out, explained{doubleDagger, "not comparable with the rest of its column: " + some(apart, manyNotes, "; ")})
	}
	if other {
		out = append(out, explained{doubleDagger, "as an average: some of its scores are of other instances than the standard's, of a variant or marked " + doubleDagger})
	}
	for _, f := range s.Footnotes {
		out = append(out, explained{f.Mark, f.text(len(s.Rows))})
	}
	if len(s.NotRun) > 0 {
		out = append(out, explained{"", "In no record: " + strings.Join(s.NotRun, ", ") + "."})
	}
	for _, k := range s.Skipped {
		out = append(out, explained{"", fmt.Sprintf("Skipped: %s: %s.", k.Record, k.Reason)})
	}
	return out
}

// text is a footnote in one line, of a table of so many rows.
func (f Footnote) text(rows int) string {
	var texts []string
	for _, n := range f.Notes {
		t := n.Text
		if rows > 1 && len(n.Labels) < rows {
			t += " (" + some(n.Labels, manyLabels, ", ") + ")"
		}
		texts = append(texts, t)
	}
	kind := "note"
	if f.OffStandard {
		kind = "off-standard"
	}
	return fmt.Sprintf("%s, %s: %s", kind, f.Title, some(texts, manyNotes, "; "))
}

// some joins the first texts of a list and says how many more there are.
func some(list []string, most int, separator string) string {
	if len(list) <= most+1 {
		return strings.Join(list, separator)
	}
	return strings.Join(list[:most], separator) + fmt.Sprintf("%sand %d more", separator, len(list)-most)
}

// detail is a row of the table of details.
type detail struct {
	row  *Row
	unit *Unit
	name string
	part bool   // of a group
	of   string // the group, for a part
}

// details lists every task of every row, groups before their parts.
func (s *Sheet) details() []detail {
	var out []detail
	for _, r := range s.Rows {
		out = append(out, r.details(s.Columns)...)
	}
	return out
}

func (r *Row) details(columns []Column) []detail {
	var out []detail
	for _, u := range r.inOrder(columns) {
		name := u.Task
		if u.lacking() != "" {
			name = fmt.Sprintf("%s (%d of %d)", name, len(u.Parts), u.Size)
		}
		out = append(out, detail{r, u, name, false, ""})
		for _, p := range u.Parts {
			out = append(out, detail{r, p, p.Task, true, u.Task})
		}
	}
	return out
}

// detailHead names the columns of a detail's cells.
func detailHead() []string {
	return []string{"split", "n", "score", "±", "95% of better", "CF none", "CF token", "CF character", "CF pmi", "MCF", "MCF − CF", "near-ties", "range", "chance", "majority", "cut"}
}

// cells are what a detail shows beside its name.
func (d detail) cells() []string {
	u := d.unit
	score, se, interval := none, none, none
	if s := u.Score; s != nil {
		score, se = percent(&s.Accuracy), percent(s.SE)
		if s.Formulation == olmes.MCF {
			score += dagger
		}
		if s.Low != nil && s.High != nil {
			interval = fmt.Sprintf("%.1f–%.1f", 100**s.Low, 100**s.High)
		}
	} else if a, _ := u.only(); a != nil {
		score, se = "("+percent(&a.Accuracy)+")", percent(a.SE)
	}
	if len(u.Apart) > 0 {
		score += doubleDagger
	}
	out := []string{u.Split, whole(u.Instances), score, dash(se), interval}
	for _, n := range olmes.Normalizations() {
		text := accuracyOf(u.form(olmes.CF), n)
		if f := u.form(olmes.CF); f != nil && f.Normalization == n && text != none {
			text += "*"
		}
		out = append(out, text)
	}
	out = append(out, accuracyOf(u.form(olmes.MCF), olmes.None), dash(differenceText(u.Difference)))
	ties, span := none, none
	if u.NearTies != nil {
		ties = fmt.Sprint(*u.NearTies)
	}
	if u.Range != nil {
		span = spanOf(u.Range)
	}
	cut := 0
	for _, f := range u.Forms {
		cut += f.Truncated
	}
	return append(out, ties, span, dash(percent(u.Chance)), dash(percent(u.Majority)), fmt.Sprint(cut))
}

// detailLegend explains the table of details.
const detailLegend = "* the normalization that counts; 95% of better: bootstrap interval of the better formulation; MCF − CF: paired, ± one standard error, " + near + " within its noise; near-ties: instances of both formulations that the noise of the arithmetic may turn; cut: requests cut to fit the context."

func accuracyOf(f *Form, n olmes.Normalization) string {
	a := f.accuracy(n)
	if a == nil {
		return none
	}
	return percent(&a.Accuracy)
}

func differenceText(d *score.Difference) string { return strings.TrimSpace(difference(d)) }

// dash turns the hyphen of other tables into this one's sign for no number.
func dash(s string) string {
	if s == "-" {
		return none
	}
	return s
}

func whole(n int) string {
	if n == 0 {
		return none
	}
	return fmt.Sprint(n)
}
