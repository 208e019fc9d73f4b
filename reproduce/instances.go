package reproduce

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"olmes"
	"olmes/outcome"
	"olmes/task"
)

// missingShare is the share of instances up to which a run of unknown selection
// is taken to lack them rather than to have taken fewer.
const missingShare = 0.1

// instances asks whether both runs hold the same instances with the same right
// answers.
func (c *comparison) instances() Stage {
	s := Stage{Name: Instances, Unit: "instances"}
	for _, side := range []struct {
		run  string
		r    *outcome.Run
		only []lone
	}{{"b", c.b, c.onlyA}, {"a", c.a, c.onlyB}} { // what only A has, B lacks
		switch {
		case !side.r.Instances():
			s.Unknown++
			c.doubt("%s holds no instances, only scores, so nothing below the scores can be compared", side.r.Label)
		case len(side.only) > 0:
			s.Causes = append(s.Causes, missingTasks(side.run, side.only))
			s.Compared += s.Causes[len(s.Causes)-1].Count
		}
	}
	for _, p := range c.pairs {
		if !p.comparable {
			n := max(p.a.Len(), p.b.Len())
			s.Compared += n
			s.Causes = append(s.Causes, Cause{Stage: Instances, Code: OtherSplit, Certain: true, Count: n, Run: offSplit(p),
				Text:  fmt.Sprintf("%s: A takes the split %s, B the split %s", p.ta.Name, p.ta.Split, p.tb.Split),
				Where: []Where{{p.ta.Name, p.ta.Variant, p.formulation, n, n}}})
			continue
		}
		s.Compared += len(p.both) + len(p.onlyA) + len(p.onlyB)
		s.Causes = c.absent(s.Causes, p)
		if p.renumbered {
			s.Causes = c.numbering(s.Causes, p)
		}
		s.Causes = c.halves(s.Causes, p)
		s.Causes = c.gold(s.Causes, p)
	}
	t := tell(s.Causes)
	s.Different = t.different
	goldless, numbered, unproved := c.goldless(), 0, 0
	for _, p := range c.pairs {
		n := p.byNumber()
		if numbered += n; p.ta.Split == "" || p.tb.Split == "" {
			unproved += n
		}
	}
	s.Unknown += goldless + unproved
	s.Same = outcomeOf(s.Different, s.Unknown, s.Compared)
	switch {
	case s.Same == No && c.apart():
		s.Text = noneShared + ": " + t.text
	case s.Same == No:
		s.Text = fmt.Sprintf("%d of %s differ: %s", s.Different, plural(s.Compared, "instance", "instances"), t.text)
	case s.Same == Yes:
		s.Text = fmt.Sprintf("the same %s, with the same right answers", plural(s.Compared, "instance", "instances"))
	case s.Compared > 0:
		s.Text = fmt.Sprintf("nothing differs in %s", plural(s.Compared, "instance", "instances"))
		if goldless > 0 {
			s.Text += fmt.Sprintf("; of %d the right answers are not known in both runs", goldless)
		}
		if unproved > 0 {
			s.Text += fmt.Sprintf("; whether %d are the same is not known, since a split is not", unproved)
		}
	default:
		s.Text = "no instances to compare"
	}
	if numbered > 0 {
		s.Text += fmt.Sprintf("; %d go together by their doc_ids alone", numbered)
	}
	return s
}

// missingTasks names the tasks and formulations that a run has not, and counts
// their instances.
func missingTasks(run string, only []lone) Cause {
	c := Cause{Stage: Instances, Code: TaskMissing, Run: run, Certain: true}
	var names []string
	for _, o := range only {
		names = append(names, name(o.task, o.formulation))
		c.Count += o.n
		c.Where = append(c.Where, Where{o.task.Name, o.task.Variant, o.formulation, o.n, o.n})
	}
	c.Text = fmt.Sprintf("%s has nothing of %s: %s", upper(run), some(names, 6), plural(c.Count, "instance", "instances"))
	return c
}

// told is what the causes of a stage come to.
type told struct {
	different int // instances, each counted once
	text      string
}

// tell counts the instances that causes concern, before their lists are cut, and
// says what is the matter with how many.
func tell(causes []Cause) (t told) {
	type instance struct {
		task, variant, alone string
		formulation          olmes.Formulation
		doc                  int
	}
	all := map[instance]bool{}
	counts := map[string]int{}
	var order []string
	add := func(what string, n int) {
		if counts[what] == 0 {
			order = append(order, what)
		}
		counts[what] += n
	}
	for _, c := range causes {
		switch c.Code {
		case TaskMissing:
			t.different += c.Count
			add("in "+otherRun(c.Run)+" alone", c.Count)
			continue
		case OtherSplit:
			t.different += c.Count
			add("of another split", c.Count)
			continue
		}
		by := map[string]map[instance]bool{}
		for _, at := range c.Examples {
			what, alone := troubles[c.Code], ""
			if x, ok := strings.CutPrefix(at.Detail, onlyIn); ok {
				what, alone = "in "+x+" alone", x
			}
			key := instance{at.Task, at.Variant, alone, at.Formulation, at.DocID}
			if all[key] = true; by[what] == nil {
				by[what] = map[instance]bool{}
			}
			by[what][key] = true
		}
		for _, what := range slices.Sorted(maps.Keys(by)) {
			add(what, len(by[what]))
		}
	}
	t.different += len(all)
	parts := make([]string, len(order))
	for i, what := range order {
		parts[i] = fmt.Sprintf("%d %s", counts[what], what)
	}
	t.text = strings.Join(parts, ", ")
	return t
}

// onlyIn begins the detail of an instance that one run has.
const onlyIn = "only in "

// troubles says what is the matter with instances that both runs have.
var troubles = map[Code]string{
	RequestMissing: "with choices in one run only",
	RequestFailed:  "with requests that one run alone has scored",
	Numbering:      "under other doc_ids",
	GoldLabel:      "with another right answer",
	ChoiceOrder:    "with their choices in another order",
}

// byNumber counts the shared instances of which nothing but the doc_id says that
// they are the same: neither the dataset's id nor any request.
func (p *pair) byNumber() (n int) {
	for _, x := range p.both {
		if p.a.NativeID[x.A] != "" && p.b.NativeID[x.B] != "" {
			continue
		}
		told := false
		ka, kb, choices := p.choices(x)
		for k := range choices {
			told = told || p.sameText(ka+k, kb+k) != Unknown
		}
		if !told {
			n++
		}
	}
	return n
}

// goldless counts shared instances of which a run does not tell the right answer.
func (c *comparison) goldless() (n int) {
	for _, p := range c.pairs {
		for _, x := range p.both {
			if p.a.Gold[x.A] < 0 || p.b.Gold[x.B] < 0 {
				n++
			}
		}
	}
	return n
}

// outcomeOf is what counts say of a stage.
func outcomeOf(different, unknown, compared int) Answer {
	switch {
	case different > 0:
		return No
	case unknown > 0 || compared == 0:
		return Unknown
	}
	return Yes
}

func upper(run string) string { return strings.ToUpper(run) }

// some lists the first few of many names.
func some(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// offSplit is the run whose split is not the standard's.
func offSplit(p *pair) string {
	standard := p.ta.StandardSplit
	if standard == "" {
		standard = p.tb.StandardSplit
	}
	switch standard {
	case p.ta.Split:
		return "b"
	case p.tb.Split:
		return "a"
	}
	return ""
}

// absent names the instances that one run has and the other has not.
func (c *comparison) absent(causes []Cause, p *pair) []Cause {
	a, b := len(p.onlyA), len(p.onlyB)
	if a == 0 && b == 0 {
		return causes
	}
	at := func(docs []int32, of []int, run string) []At {
		out := make([]At, len(of))
		for k, i := range of {
			out[k] = At{Task: p.ta.Name, Variant: p.ta.Variant, Formulation: p.formulation, DocID: int(docs[i]), Detail: onlyIn + upper(run)}
		}
		return out
	}
	if a > 0 && b > 0 && !(p.lost(a, p.a.Len(), "b") && p.lost(b, p.b.Len(), "a")) {
		text := fmt.Sprintf("the runs took different instances: A %s, B %s", c.selection(p.ta, p.a), c.selection(p.tb, p.b))
		return found(causes, Cause{Stage: Instances, Code: OtherSample, Certain: true, Text: text}, p, append(at(p.a.DocID, p.onlyA, "a"), at(p.b.DocID, p.onlyB, "b")...)...)
	}
	for _, lacks := range []struct {
		run  string
		n    int
		docs []At
		of   int
		form *outcome.Form
		task *outcome.Task
	}{{"b", a, at(p.a.DocID, p.onlyA, "a"), p.a.Len(), p.b, p.tb}, {"a", b, at(p.b.DocID, p.onlyB, "b"), p.b.Len(), p.a, p.ta}} {
		if lacks.n == 0 {
			continue
		}
		if p.lost(lacks.n, lacks.of, lacks.run) {
			causes = found(causes, Cause{Stage: Instances, Code: RequestMissing, Run: lacks.run, Certain: true,
				Text: fmt.Sprintf("%s lacks requests: instances that the other run has are not there", upper(lacks.run))}, p, lacks.docs...)
			continue
		}
		causes = found(causes, Cause{Stage: Instances, Code: Subset, Run: lacks.run, Certain: true,
			Text: fmt.Sprintf("%s took fewer instances (%s)", upper(lacks.run), c.selection(lacks.task, lacks.form))}, p, lacks.docs...)
	}
	return causes
}

// lost reports whether a run that has n of the other's instances not was to
// evaluate them, as far as that can be told.
func (p *pair) lost(n, of int, run string) bool {
	lacking, other := p.tb, p.ta
	if run == "a" {
		lacking, other = p.ta, p.tb
	}
	if lacking.Selection != "" && other.Selection != "" {
		return lacking.Selection == other.Selection
	}
	return float64(n) <= math.Max(1, missingShare*float64(of))
}

// selection says in words which instances a run took of a task.
func (c *comparison) selection(t *outcome.Task, f *outcome.Form) string {
	words := fmt.Sprintf("%d", f.Len())
	if t.Selection != "" && t.Selection != "all" {
		words += ": " + t.Selection
	}
	known, ok := task.Lookup(t.Name)
	size, has := known.SizeOf(t.Split)
	if !ok || !has || f.Len() == 0 {
		return words
	}
	first := true
	for i, doc := range f.DocID {
		first = first && int(doc) == i
	}
	var recognized string
	switch order := known.Order(size); {
	case f.Len() == size:
		recognized = "the whole split"
	case sameSet(f.DocID, order):
		recognized = "the standard's sample"
	case first:
		recognized = "the first of the split in file order"
	case f.Len() < len(order) && sameSet(f.DocID, known.LimitOrder(size)[:f.Len()]):
		recognized = "the first of the standard's order"
	}
	if recognized == "" || recognized == t.Selection {
		return words
	}
	return words + ", " + recognized
}

// sameSet reports whether sorted doc_ids are a set of positions.
func sameSet(docs []int32, positions []int) bool {
	if len(docs) != len(positions) {
		return false
	}
	in := make(map[int32]bool, len(docs))
	for _, d := range docs {
		in[d] = true
	}
	for _, p := range positions {
		if !in[int32(p)] {
			return false
		}
	}
	return true
}

// numbering names instances that have another doc_id.
func (c *comparison) numbering(causes []Cause, p *pair) []Cause {
	var at []At
	for _, x := range p.both {
		if p.a.DocID[x.A] != p.b.DocID[x.B] {
			at = append(at, p.at(x.A, nil, "doc_id %d in B", p.b.DocID[x.B]))
		}
	}
	return found(causes, Cause{Stage: Instances, Code: Numbering, Certain: true,
		Text: "the same instances stand under other doc_ids, as where positions are counted in a sample and not in the split; they are compared as the same"}, p, at...)
}

// halves names instances of which one run lacks choices, or a choice's
// log-probability.
func (c *comparison) halves(causes []Cause, p *pair) []Cause {
	lacking := map[string][]At{}
	failed := map[string][]At{}
	for _, x := range p.both {
		ka, kb, n := p.choices(x)
		na, nb := int(p.a.Start[x.A+1])-ka, int(p.b.Start[x.B+1])-kb
		if na != nb {
			run := "b"
			if nb > na {
				run = "a"
			}
			lacking[run] = append(lacking[run], p.at(x.A, p.absentChoice(x), "%s in A, %s in B", plural(na, "choice", "choices"), plural(nb, "choice", "choices")))
			continue
		}
		for k := range n {
			a, b := math.IsNaN(p.a.Choice.LogProb[ka+k]), math.IsNaN(p.b.Choice.LogProb[kb+k])
			if a == b {
				continue
			}
			run := "b"
			if a {
				run = "a"
			}
			choice := k
			failed[run] = append(failed[run], p.at(x.A, &choice, ""))
		}
	}
	for _, run := range []string{"a", "b"} {
		causes = found(causes, Cause{Stage: Instances, Code: RequestMissing, Run: run, Certain: true,
			Text: fmt.Sprintf("%s lacks requests: choices that the other run has are not there", upper(run))}, p, lacking[run]...)
		causes = found(causes, Cause{Stage: Instances, Code: RequestFailed, Run: run, Certain: true,
			Text: fmt.Sprintf("%s has no log-probability for requests that the other run has scored", upper(run))}, p, failed[run]...)
	}
	return causes
}

// absentChoice returns the one choice that the run with fewer lacks, where the
// requests tell.
func (p *pair) absentChoice(x outcome.Pair) *int {
	long, short := p.a, p.b
	i, j := x.A, x.B
	if p.b.Start[x.B+1]-p.b.Start[x.B] > p.a.Start[x.A+1]-p.a.Start[x.A] {
		long, short, i, j = p.b, p.a, x.B, x.A
	}
	have := map[[32]byte]bool{}
	for k := short.Start[j]; k < short.Start[j+1]; k++ {
		have[short.Choice.Request[k]] = true
	}
	var out *int
	for k := long.Start[i]; k < long.Start[i+1]; k++ {
		if have[long.Choice.Request[k]] {
			continue
		}
		if out != nil || !known(long.Choice.Request[k]) {
			return nil
		}
		at := int(k - long.Start[i])
		out = &at
	}
	return out
}

// gold names instances with another right answer, and those whose choices stand
// in another order, and fills p.ordered.
func (c *comparison) gold(causes []Cause, p *pair) []Cause {
	p.ordered = make([]bool, len(p.both))
	var turned []At
	flipped := map[string][]At{} // by the run that departs from the dataset
	for i, x := range p.both {
		if p.a.Start[x.A+1]-p.a.Start[x.A] != p.b.Start[x.B+1]-p.b.Start[x.B] {
			continue // named by halves; which choice stands where is not known
		}
		p.ordered[i] = true
		if key := (docOf{p.ta.Name, p.ta.Variant, p.a.DocID[x.A]}); p.permuted(x) || c.turned[key] {
			// The list of choices hides it in MCF, which comes after CF.
			c.turned[key] = true
			p.ordered[i] = false
			turned = append(turned, p.at(x.A, nil, ""))
			continue
		}
		a, b := p.a.Gold[x.A], p.b.Gold[x.B]
		if a == b || a < 0 || b < 0 {
			continue
		}
		if p.ta.Variant != p.tb.Variant && p.formulation == olmes.MCF {
			p.ordered[i] = false // one of the variants is another order
			continue
		}
		run, detail := "", fmt.Sprintf("choice %d in A, %d in B", a, b)
		if gold, ok := c.reference(p.ta).gold(int(p.a.DocID[x.A])); ok && p.ta.Variant == "" && p.tb.Variant == "" {
			detail += fmt.Sprintf(", %d in the dataset", gold)
			switch gold {
			case int(a):
				run = "b"
			case int(b):
				run = "a"
			}
		}
		flipped[run] = append(flipped[run], p.at(x.A, nil, "%s", detail))
	}
	causes = found(causes, Cause{Stage: Instances, Code: ChoiceOrder, Certain: true, Text: "the same choices stand in another order, and with them the right answer"}, p, turned...)
	for _, run := range []string{"", "a", "b"} {
		text := "the runs hold another right answer (gold label) for the same instance"
		if run != "" {
			text += ": " + upper(run) + "'s is not the dataset's"
		}
		causes = found(causes, Cause{Stage: Instances, Code: GoldLabel, Run: run, Certain: true, Text: text}, p, flipped[run]...)
	}
	return causes
}

// docOf names an instance, whatever the formulation.
type docOf struct {
	task, variant string
	doc           int32
}

// permuted reports whether an instance has the same requests at other positions.
func (p *pair) permuted(x outcome.Pair) bool {
	ka, kb, n := p.choices(x)
	if n != int(p.a.Start[x.A+1])-ka || n != int(p.b.Start[x.B+1])-kb {
		return false
	}
	have := map[[32]byte]int{}
	moved := false
	for k := range n {
		if p.sameText(ka+k, kb+k) == Unknown {
			return false
		}
		moved = moved || p.sameText(ka+k, kb+k) == No
		have[p.a.Choice.Request[ka+k]]++
		have[p.b.Choice.Request[kb+k]]--
	}
	for _, n := range have {
		if n != 0 {
			return false
		}
	}
	return moved
}
