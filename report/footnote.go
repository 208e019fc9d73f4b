package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"olmes"
	"olmes/record"
	"olmes/task"
)

// titles names each kind of deviation; see record.Deviations.
var titles = map[string]string{
	"variant":             "another rendering of the prompts",
	"quantized":           "quantized weights",
	"adapter":             "an adapter is applied",
	"remote-code":         "computed by the model's own code",
	"weights-unknown":     "no digest of the weights",
	"precision":           "computed in a lower precision than published",
	"precision-unknown":   "precision not known",
	"bos":                 "another beginning of sequence than the standard's",
	"bos-unknown":         "beginning of sequence not known",
	"window":              "another length of context than the standard's",
	"window-unknown":      "length of context not known",
	"truncation":          "another rule of truncation than the standard's",
	"task":                "not a task of the standard",
	"split":               "another split than the standard's",
	"split-unknown":       "split not known",
	"subset":              "not all of the standard's instances",
	"instances":           "other instances than the standard's",
	"partial-group":       "not all subjects",
	"formulation":         "one formulation only, so no OLMES score",
	"normalization":       "the standard's normalization was not scored",
	"failed":              "instances failed or are missing, so no score",
	"truncated":           "requests cut to fit the context, so not 5-shot",
	"imported-instances":  "predictions imported from another tool",
	"imported-aggregate":  "accuracies imported from another tool",
	"imported-incomplete": "what the other tool does not say",
}

// ofTask lists the kinds of deviations that concern a task.
var ofTask = []string{"task", "split", "split-unknown", "subset", "instances", "partial-group", "formulation", "normalization", "failed", "truncated"}

// deviates returns which task a deviation concerns, with its variant where the text
// names one, and false where it concerns the whole run. record's texts begin with
// the task's name.
func deviates(d record.Deviation) (name, variant string, ok bool) {
	if !slices.Contains(ofTask, d.Code) {
		return "", "", false
	}
	head, _, _ := strings.Cut(d.Text, ":")
	head, _, _ = strings.Cut(head, " ")
	name, variant, _ = strings.Cut(head, "/")
	return name, variant, true
}

// TaskOf returns which task, group or part of a group a deviation of a record
// concerns, and in which variant of the prompts ("" where it names none); ok is false
// where it concerns the whole run.
func TaskOf(d record.Deviation) (name, variant string, ok bool) { return deviates(d) }

// footnotes marks rows and cells, and returns what the marks mean, in the order in
// which a reader meets them.
func footnotes(rows []*Row, columns []Column) []Footnote {
	n := notes{at: map[string]int{}}
	for _, r := range rows {
		for _, d := range r.Deviations {
			if _, _, ok := deviates(d); !ok {
				r.Marks = add(r.Marks, n.mark(d, r.Label))
			}
		}
		of := map[*Unit][]record.Deviation{}
		for _, d := range r.shortened() {
			if name, _, ok := deviates(d); ok {
				if u := r.holding(name, d); u != nil {
					of[u] = append(of[u], d)
				}
			}
		}
		for _, u := range r.inOrder(columns) {
			for _, d := range of[u] {
				u.Marks = add(u.Marks, n.mark(d, r.Label))
			}
		}
	}
	return n.list
}

func add(marks []string, m string) []string {
	if slices.Contains(marks, m) {
		return marks
	}
	return append(marks, m)
}

// holding returns the unit that a deviation of a task or of a part of one concerns.
func (r *Row) holding(name string, d record.Deviation) *Unit {
	var found *Unit
	for _, u := range r.Units {
		if u.Task != name && !slices.ContainsFunc(u.Parts, func(p *Unit) bool { return p.Task == name }) {
			continue
		}
		if found == nil || strings.Contains(d.Text, "split "+u.Split) {
			found = u
		}
	}
	return found
}

// shortened returns a row's deviations with one line for all parts of a group whose
// requests were cut.
func (r *Row) shortened() []record.Deviation {
	cut := map[*Unit][]string{}
	var out []record.Deviation
	for _, d := range r.Deviations {
		name, _, _ := deviates(d)
		u := r.holding(name, d)
		if d.Code != "truncated" || u == nil || u.Task == name {
			out = append(out, d)
			continue
		}
		cut[u] = append(cut[u], strings.TrimPrefix(name, u.Task+"_"))
	}
	for _, u := range r.Units {
		subjects := cut[u]
		if subjects == nil {
			continue
		}
		var counts []string
		for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			n := 0
			for _, p := range u.Parts {
				if of := p.form(f); of != nil {
					n += of.Truncated
				}
			}
			if n > 0 {
				counts = append(counts, fmt.Sprintf("%d requests (%s)", n, strings.ToUpper(string(f))))
			}
		}
		out = append(out, record.Deviation{Code: "truncated", Text: fmt.Sprintf("%s: %s cut from the left to fit the context, in %s",
			u.Task, strings.Join(counts, " and "), strings.Join(subjects, ", "))})
	}
	return out
}

// inOrder lists a row's units, those of the columns first.
func (r *Row) inOrder(columns []Column) []*Unit {
	var out []*Unit
	for _, c := range columns {
		if u := r.unit(c.Task); u != nil {
			out = append(out, u)
		}
	}
	for _, u := range r.Units {
		if !slices.Contains(out, u) {
			out = append(out, u)
		}
	}
	return out
}

// notes gathers footnotes by kind.
type notes struct {
	list []Footnote
	at   map[string]int
}

func (n *notes) mark(d record.Deviation, label string) string {
	i, ok := n.at[d.Code]
	if !ok {
		i = len(n.list)
		n.at[d.Code] = i
		n.list = append(n.list, Footnote{Mark: letters(i), Code: d.Code, Title: cmp.Or(titles[d.Code], d.Code), OffStandard: d.OffStandard})
	}
	f := &n.list[i]
	f.OffStandard = f.OffStandard || d.OffStandard
	k := slices.IndexFunc(f.Notes, func(t Note) bool { return t.Text == d.Text })
	if k < 0 {
		k = len(f.Notes)
		f.Notes = append(f.Notes, Note{Text: d.Text})
	}
	f.Notes[k].Labels = add(f.Notes[k].Labels, label)
	return f.Mark
}

// letters counts a, b, … z, aa, ab, …
func letters(i int) string {
	s := string(rune('a' + i%26))
	for i = i/26 - 1; i >= 0; i = i/26 - 1 {
		s = string(rune('a'+i%26)) + s
	}
	return s
}

// apart finds the cells of each column that cannot be compared with the others: of
// another version of the standard, split, variant or choice of instances. What the
// standard evaluates is what a column is measured by; where no row has that, it is
// what most rows have.
func apart(rows []*Row, columns []Column) {
	for _, c := range columns {
		kinds := map[kind]int{}
		var order []kind
		for _, r := range rows {
			if u := r.unit(c.Task); u != nil {
				k := kindOf(r, u)
				if kinds[k] == 0 {
					order = append(order, k)
				}
				kinds[k]++
			}
		}
		if len(order) == 0 {
			continue
		}
		slices.SortStableFunc(order, func(a, b kind) int {
			return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(kinds[b], kinds[a]))
		})
		best := order[0]
		for _, r := range rows {
			if u := r.unit(c.Task); u != nil {
				u.Apart = kindOf(r, u).differs(best, u)
			}
		}
	}
}

// kind is what makes scores of a task comparable where it is equal.
type kind struct {
	standard, split, variant, ids string
	complete                      bool
}

func kindOf(r *Row, u *Unit) kind {
	k := kind{r.Standard, u.Split, r.Variant, u.ids, u.Standard > 0 && u.Instances == u.Standard && u.Split == u.standardSplit && u.Size == len(u.Parts)}
	if k.ids == "" && k.complete {
		k.ids = "all of the standard's"
	}
	return k
}

// rank is how much of what the standard asks for a kind has.
func (k kind) rank() int {
	n := 0
	for _, b := range []bool{k.complete, k.variant == "", k.standard == task.Standard} {
		if b {
			n++
		}
	}
	return n
}

// differs says what keeps a cell of kind k from comparison with one of kind b.
func (k kind) differs(b kind, u *Unit) []string {
	out := []string{}
	if k.standard != b.standard {
		out = append(out, fmt.Sprintf("standard %s", cmp.Or(k.standard, "not known")))
	}
	if k.variant != b.variant {
		out = append(out, fmt.Sprintf("variant %s", cmp.Or(k.variant, "none")))
	}
	switch {
	case k.split != b.split:
		out = append(out, fmt.Sprintf("split %s", cmp.Or(k.split, "not known")))
	case k.ids == "":
		out = append(out, "its instances are not known")
	case k.ids != b.ids && u.Size > len(u.Parts):
		out = append(out, fmt.Sprintf("%d of %d subjects, %d instances", len(u.Parts), u.Size, u.Instances))
	case k.ids != b.ids && u.Standard > u.Instances:
		out = append(out, fmt.Sprintf("%d of %d instances", u.Instances, u.Standard))
	case k.ids != b.ids:
		out = append(out, "other instances")
	}
	return out
}
