package report

import (
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"olmes"
	"olmes/record"
	"olmes/task"
)

// Card prints for each row the section of a model card: scores, how they were
// made, and what deviates from the standard.
func (s *Sheet) Card(w io.Writer, show Show) error {
	var b strings.Builder
	for i, r := range s.Rows {
		if i > 0 {
			b.WriteString("\n")
		}
		r.card(&b, s.Columns, show)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r *Row) card(b *strings.Builder, columns []Column, show Show) {
	name := r.Label
	title := "OLMES evaluation of " + escapeMarkdown(name)
	fmt.Fprintf(b, "## %s\n\n", title)
	fmt.Fprintf(b, "Scores by the Open Language Model Evaluation Standard ([arXiv 2406.08446](https://arxiv.org/abs/2406.08446)), %s: five curated examples, the better of the cloze (CF) and the multiple-choice formulation (MCF).\n\n", escapeMarkdown(version(r.Standard)))
	ties := false
	for _, u := range r.Units {
		ties = ties || u.Range != nil
	}
	head := []string{"task", "split", "n", "score, %", "± s.e.", "formulation", "normalization", "CF", "MCF"}
	if ties {
		head = append(head, "near-tie range")
	}
	writeMarkdownRow(b, head)
	writeMarkdownRule(b, len(head), 2)
	for _, u := range r.inOrder(columns) {
		writeMarkdownRow(b, r.cardRow(u, columns, ties))
		if show.Details {
			for _, p := range u.Parts {
				writeMarkdownRow(b, r.cardRow(p, columns, ties))
			}
		}
	}
	if a := r.Average; a != nil {
		what := "**OLMES average**"
		if !a.OLMES {
			what = "mean of the ten, not the OLMES average"
		}
		row := []string{what, "", "", "**" + percent(&a.Accuracy) + "**", dash(percent(a.SE)), "", "", "", ""}
		if ties {
			span := none
			if a.Range != nil {
				span = spanOf(a.Range)
			}
			row = append(row, span)
		}
		writeMarkdownRow(b, row)
	} else {
		fmt.Fprintf(b, "\nThere is no OLMES average: scores of %d of its ten tasks are there.\n", r.Scored)
	}
	b.WriteString("\n")
	for _, k := range r.Runs {
		fmt.Fprintf(b, "- Run `%s`, olmes %s", k.ID[:min(12, len(k.ID))], escapeMarkdown(k.Product))
		if k.Import != nil {
			fmt.Fprintf(b, ", imported from %s", escapeMarkdown(strings.TrimSpace(k.Import.Tool+" "+k.Import.Version)))
		}
		if len(k.Command) > 0 {
			b.WriteString(": " + code(shell(k.Command)))
		}
		b.WriteString("\n")
		if k.Claim != "" {
			b.WriteString("- Claim, which `olmes verify` checks: " + code(k.Claim) + "\n")
		}
	}
	fmt.Fprintf(b, "- %s\n- %s\n", escapeMarkdown(r.Model.Says), escapeMarkdown(r.Model.Computed))
	if len(r.Deviations) == 0 {
		b.WriteString("- Nothing deviates from the standard.\n")
		return
	}
	for _, d := range r.shortened() {
		kind := "Note"
		if d.OffStandard {
			kind = "Off-standard"
		}
		fmt.Fprintf(b, "- %s: %s\n", kind, escapeMarkdown(d.Text))
	}
}

// version names a version of the standard.
func version(standard string) string {
	if standard == "" {
		return "version not known"
	}
	return "version " + standard
}

func (r *Row) cardRow(u *Unit, columns []Column, ties bool) []string {
	name := u.Task
	for _, c := range columns {
		if c.Task == u.Task {
			name = c.Name
		}
	}
	if part := u.lacking(); part != "" {
		name += " (" + part + ")"
	}
	score, se, form, normalization := none, none, none, none
	if s := u.Score; s != nil {
		score, se, form, normalization = percent(&s.Accuracy), dash(percent(s.SE)), strings.ToUpper(string(s.Formulation)), string(s.Normalization)
	}
	row := []string{escapeMarkdown(name), escapeMarkdown(u.Split), whole(u.Instances), score, se, form, normalization,
		countsText(u.form(olmes.CF)), countsText(u.form(olmes.MCF))}
	if ties {
		span := none
		if u.Range != nil {
			span = spanOf(u.Range)
		}
		row = append(row, span)
	}
	return row
}

func countsText(f *Form) string {
	a := f.counts()
	if a == nil {
		return none
	}
	return percent(&a.Accuracy)
}

// code is a span of code that holds any text.
func code(s string) string {
	s = strings.Join(strings.Fields(plain(s)), " ")
	ticks := "`"
	for strings.Contains(s, ticks) {
		ticks += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return ticks + s + ticks
}

// shell joins the words of a command as a POSIX shell reads them. The program is
// named without the folder that it was started from.
func shell(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if i == 0 {
			w = path.Base(strings.ReplaceAll(w, `\`, "/"))
		}
		quoted[i] = w
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%~") != "" {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// modelIndex is the model-index of a Hugging Face model card, as huggingface_hub
// reads and writes it.
type modelIndex struct {
	Models []indexed `yaml:"model-index"`
}

type indexed struct {
	Name    string   `yaml:"name"`
	Results []result `yaml:"results"`
}

type result struct {
	Task    indexTask     `yaml:"task"`
	Dataset indexDataset  `yaml:"dataset"`
	Metrics []indexMetric `yaml:"metrics"`
}

type indexTask struct {
	Type string `yaml:"type"`
	Name string `yaml:"name"`
}

type indexDataset struct {
	Name   string    `yaml:"name"`
	Type   string    `yaml:"type"`
	Config string    `yaml:"config"` // "" is left out
	Split  string    `yaml:"split"`  // "" is left out
	Args   indexArgs `yaml:"args"`
}

type indexArgs struct {
	Shots     int `yaml:"num_few_shot"`  // 0 is left out
	Instances int `yaml:"num_instances"` // 0 is left out
}

type indexMetric struct {
	Type  string  `yaml:"type"`
	Value float64 `yaml:"value"` // percent
	Name  string  `yaml:"name"`
}

// ModelIndex prints Hugging Face metadata of the rows as YAML: accuracies in
// percent, one result a task and the average. What is off-standard says so in the
// metric's name; a group of which some tasks alone were run is named as an accuracy over
// them, in dataset and metric, and never as an OLMES score.
func (s *Sheet) ModelIndex(w io.Writer) error {
	var b strings.Builder
	b.WriteString("model-index:")
	none := true
	for _, r := range s.Rows {
		m := r.indexed(s)
		if len(m.Results) == 0 {
			continue
		}
		none = false
		fmt.Fprintf(&b, "\n- name: %s\n  results:", scalar(m.Name))
		for _, k := range m.Results {
			k.write(&b)
		}
	}
	if none {
		b.WriteString(" []")
	}
	b.WriteString("\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (k result) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n  - task:\n      type: %s\n      name: %s\n    dataset:\n      name: %s\n      type: %s",
		scalar(k.Task.Type), scalar(k.Task.Name), scalar(k.Dataset.Name), scalar(k.Dataset.Type))
	if k.Dataset.Config != "" {
		fmt.Fprintf(b, "\n      config: %s", scalar(k.Dataset.Config))
	}
	if k.Dataset.Split != "" {
		fmt.Fprintf(b, "\n      split: %s", scalar(k.Dataset.Split))
	}
	if k.Dataset.Args != (indexArgs{}) {
		b.WriteString("\n      args:")
	}
	if n := k.Dataset.Args.Shots; n > 0 {
		fmt.Fprintf(b, "\n        num_few_shot: %d", n)
	}
	if n := k.Dataset.Args.Instances; n > 0 {
		fmt.Fprintf(b, "\n        num_instances: %d", n)
	}
	b.WriteString("\n    metrics:")
	for _, m := range k.Metrics {
		value := strconv.FormatFloat(m.Value, 'f', -1, 64)
		if !strings.Contains(value, ".") {
			value += ".0"
		}
		fmt.Fprintf(b, "\n    - type: %s\n      value: %s\n      name: %s", scalar(m.Type), value, scalar(m.Name))
	}
}

// plainScalar is a text that YAML reads as it stands. It has two letters at least,
// a space or a hyphen within it, or a sign that no number or word of YAML has.
var plainScalar = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*([ /_(-][A-Za-z0-9(),_-]+)+$`)

// scalar writes a text as a scalar of YAML 1.1 and 1.2: in quotes unless it is
// plain, all but letters, digits and ASCII by its code point.
func scalar(s string) string {
	if plainScalar.MatchString(s) && len(s) < 80 {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7F, unicode.IsLetter(r), unicode.IsNumber(r):
			b.WriteRune(r)
		case r <= 0xFF:
			fmt.Fprintf(&b, "\\x%02X", r)
		case r <= 0xFFFF:
			fmt.Fprintf(&b, "\\u%04X", r)
		default:
			fmt.Fprintf(&b, "\\U%08X", r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (r *Row) indexed(s *Sheet) indexed {
	m := indexed{Name: plain(r.Label), Results: []result{}}
	shots := 5
	if r.Variant != "" || r.Runs[0].Evidence != record.Scored {
		shots = 0 // not known here
	}
	for _, c := range s.Columns {
		u := r.unit(c.Task)
		if u == nil || u.Score == nil {
			continue
		}
		repo, config := repository(c.Task)
		name, what := c.Name, "OLMES score"
		if part := u.lacking(); part != "" {
			name, what = name+" ("+part+")", "accuracy over "+part+", no OLMES score"
		}
		m.Results = append(m.Results, result{
			Task:    indexTask{"multiple-choice", "Multiple choice"},
			Dataset: indexDataset{name, repo, config, u.Split, indexArgs{shots, u.Instances}},
			Metrics: []indexMetric{{"acc", rounded(u.Score.Accuracy), fmt.Sprintf("%s (%s, normalization %s)%s", what,
				strings.ToUpper(string(u.Score.Formulation)), u.Score.Normalization, s.offStandard(r.Marks, u.Marks))}},
		})
	}
	if a := r.Average; a != nil {
		name := "OLMES average"
		if !a.OLMES {
			name = "mean of ten tasks, not the OLMES average"
		}
		marks := [][]string{r.Marks}
		for _, u := range r.Units {
			marks = append(marks, u.Marks)
		}
		m.Results = append(m.Results, result{
			Task:    indexTask{"multiple-choice", "Multiple choice"},
			Dataset: indexDataset{"OLMES (ten tasks)", "olmes", "", "", indexArgs{Shots: shots}},
			Metrics: []indexMetric{{"acc", rounded(a.Accuracy), name + s.offStandard(marks...)}},
		})
	}
	return m
}

// repository is where the dataset of a task is on the Hugging Face Hub, and in which
// of its configurations; for a task that the standard has not, its name.
func repository(name string) (repo, config string) {
	for _, t := range task.Tasks() {
		if t.Group == name {
			return t.Hub.Repo, "all"
		}
		if t.Name == name {
			config, _, _ = strings.Cut(t.Hub.File, "/")
			if config == "data" { // the only one has no name
				config = ""
			}
			return t.Hub.Repo, config
		}
	}
	return name, ""
}

// offStandard says which of the marks' footnotes make a result off-standard.
func (s *Sheet) offStandard(marks ...[]string) string {
	var codes []string
	for _, f := range s.Footnotes {
		if f.OffStandard && slices.ContainsFunc(marks, func(m []string) bool { return slices.Contains(m, f.Mark) }) {
			codes = append(codes, f.Code)
		}
	}
	if codes == nil {
		return ""
	}
	return ", off-standard: " + strings.Join(codes, ", ")
}

// rounded is a fraction in percent with two digits after the point.
func rounded(v float64) float64 {
	var out float64
	fmt.Sscanf(fmt.Sprintf("%.2f", 100*v), "%f", &out)
	return out
}
