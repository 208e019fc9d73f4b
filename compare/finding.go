package compare

import (
	"fmt"
	"slices"
	"strings"

	"olmes"
	"olmes/record"
)

// Finding is one way in which the runs were asked different things.
type Finding struct {
	Code        string            `json:"code"` // stable name of the kind, as "prompts"
	Task        string            `json:"task,omitempty"`
	Variant     string            `json:"variant,omitempty"`
	Formulation olmes.Formulation `json:"formulation,omitempty"`
	Labels      []string          `json:"runs"` // the runs it is about, set against the others
	Count       int               `json:"count,omitempty"`
	Of          int               `json:"of,omitempty"`
	Text        string            `json:"text"`   // one line for people
	Blocks      bool              `json:"blocks"` // it stands against a ranking

	against against
}

// against says what the runs of a finding are set against.
type against int

const (
	theMost   against = iota // what more than half of the runs have
	theOthers                // other runs, where no more than half have the same
	eachOther                // the two runs that there are: neither is the odd one
)

// finder gathers findings, the same ones of several runs as one.
type finder struct {
	list []*Finding
}

// add adds a finding of a unit for a run.
func (f *finder) add(code string, blocks bool, u unit, form olmes.Formulation, label string, count, of int, by against) {
	f.list = append(f.list, &Finding{Code: code, Task: u.name, Variant: u.variant, Formulation: form, Labels: []string{label}, Count: count, Of: of, Blocks: blocks, against: by})
}

// Codes of findings that say that there is nothing to rank by; pairs that share a
// task are told apart all the same.
const (
	noCommonTask  = "no-common-task"
	noCommonScore = "no-common-score"
)

// find compares what the runs were asked, each with most of the others.
func (s *Set) find() []Finding {
	f := &finder{}
	for _, sd := range s.sides {
		m := sd.model
		if m.Evidence != record.Scored {
			f.add("imported", true, unit{}, "", m.Label, 0, 0, theMost)
		}
		if m.Evidence == record.ImportedAggregates {
			f.add("no-instances", true, unit{}, "", m.Label, 0, 0, theMost)
		}
	}
	s.findParts(f)
	common := s.findCommon(f)
	for _, u := range s.units {
		s.findUnit(f, u, common || len(s.sides) > 2)
	}
	out := []Finding{}
	blocked := false
	for _, got := range f.merged() {
		if got.Text == "" {
			got.Text = text(got, s)
		}
		blocked = blocked || got.Blocks
		out = append(out, *got)
	}
	if !blocked && len(s.sides) > 1 && len(s.common()) == 0 {
		how := strings.ToUpper(string(s.options.View))
		if s.options.View == Better {
			how = "the better formulation"
		}
		out = append(out, Finding{Code: noCommonScore, Labels: s.labels(), Blocks: true, Text: fmt.Sprintf("no task has a score by %s in all runs, so there is nothing to rank by", how)})
	}
	return out
}

func (s *Set) labels() []string {
	out := []string{}
	for _, sd := range s.sides {
		out = append(out, sd.model.Label)
	}
	return out
}

// merged joins findings that differ in the run alone.
func (f *finder) merged() []*Finding {
	type what struct {
		code, task, variant string
		form                olmes.Formulation
		count, of           int
		by                  against
		text                string
	}
	var out []*Finding
	index := map[what]*Finding{}
	for _, got := range f.list {
		at := what{got.Code, got.Task, got.Variant, got.Formulation, got.Count, got.Of, got.against, got.Text}
		if o := index[at]; o != nil {
			o.Labels = append(o.Labels, got.Labels...)
			continue
		}
		index[at] = got
		out = append(out, got)
	}
	return out
}

// findCommon says where no task is common to all runs, and reports whether there
// is one, whatever its split.
func (s *Set) findCommon(f *finder) bool {
	has := make([][]string, len(s.sides))
	count := map[string]int{}
	for i, sd := range s.sides {
		for _, u := range s.units {
			if sd.own[u] == nil || slices.Contains(has[i], u.label()) {
				continue
			}
			has[i] = append(has[i], u.label())
			if count[u.label()]++; count[u.label()] == len(s.sides) {
				return true
			}
		}
	}
	if len(s.groups) == 1 && len(s.groups[0]) == len(s.sides) {
		return true // said as parts of one model
	}
	who := "the two runs"
	if len(s.sides) != 2 {
		who = fmt.Sprintf("all %d runs", len(s.sides))
	}
	var each []string
	for i, sd := range s.sides {
		if i == namesShown {
			each = append(each, fmt.Sprintf("%d more runs", len(s.sides)-i))
			break
		}
		what := "none of them"
		if len(has[i]) > 0 {
			what = shortened(has[i], ", ", 12)
		}
		each = append(each, fmt.Sprintf("%s has %s", sd.model.Label, what))
	}
	f.list = append(f.list, &Finding{Code: noCommonTask, Labels: s.labels(), Blocks: true,
		Text: fmt.Sprintf("no task is common to %s: %s", who, strings.Join(each, "; "))})
	return false
}

// findUnit compares what the runs were asked of a task or group; tasks that a run
// lacks are named where missing.
func (s *Set) findUnit(f *finder, u unit, missing bool) {
	with := 0
	for i, sd := range s.sides {
		if sd.own[u] != nil {
			with++
			continue
		}
		code, blocks := s.absent(sd, u)
		if code != "" && (code != "task" || missing && !s.inParts(i, u, -1)) {
			f.add(code, blocks, u, "", sd.model.Label, 0, 0, theMost)
		}
	}
	if with < 2 {
		return
	}
	for form := range forms {
		name := formulation(form)
		var having []int
		for i, sd := range s.sides {
			if o := sd.own[u]; o != nil && o.forms[form] != nil {
				having = append(having, i)
			}
		}
		if len(having) == 0 {
			continue
		}
		norms := map[olmes.Normalization]int{}
		for i, sd := range s.sides {
			switch o := sd.own[u]; {
			case o == nil:
			case o.forms[form] != nil:
				norms[o.forms[form].Normalization]++
			case !s.inParts(i, u, form):
				f.add("formulation", true, u, name, sd.model.Label, 0, 0, theMost)
			}
		}
		if usual, ok := majority(norms); len(norms) > 1 {
			for _, i := range having {
				if n := s.sides[i].own[u].forms[form].Normalization; !ok || n != usual {
					f.add("normalization", true, u, name, s.sides[i].model.Label, 0, 0, relation(len(having), ok))
				}
			}
		}
		s.findInstances(f, u, form)
		s.findAsked(f, u, form)
	}
}

// relation is what runs are set against that differ from others of n runs, of
// which more than half have the same or not.
func relation(n int, most bool) against {
	switch {
	case n == 2:
		return eachOther
	case most:
		return theMost
	}
	return theOthers
}

// majority is the key that counts more than half of all.
func majority[K comparable](counts map[K]int) (K, bool) {
	all := 0
	for _, c := range counts {
		all += c
	}
	for k, c := range counts {
		if 2*c > all {
			return k, true
		}
	}
	var none K
	return none, false
}

// absent says in what way a run lacks a unit that others have: it has the task in
// another split or variant, or not at all. The code is "" where another unit's
// finding says it already.
func (s *Set) absent(sd *side, u unit) (code string, blocks bool) {
	variant, joined := false, false
	for _, other := range s.units {
		if other.name != u.name || other == u {
			continue
		}
		has := sd.own[other] != nil
		switch {
		case other.variant == u.variant && has:
			if slices.Index(s.units, other) < slices.Index(s.units, u) {
				return "", false
			}
			return "split", true
		case has:
			variant = true
			for _, o := range s.sides {
				joined = joined || o != sd && o.own[other] != nil
			}
		}
	}
	if variant && !joined {
		return "variant", true
	}
	return "task", false
}

// namesShown is how many of something one line names.
const namesShown = 5

// verb is the form for so many runs.
func verb(labels []string, one, several string) string {
	if len(labels) > 1 {
		return several
	}
	return one
}

// shortened joins names, of many the first ones.
func shortened(names []string, by string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most-1], by), len(names)-most+1)
	}
	return strings.Join(names, by)
}

// text says a finding in one line.
func text(f *Finding, s *Set) string {
	who := shortened(f.Labels, ", ", namesShown)
	task := olmes.Label(f.Task, f.Variant)
	form := strings.ToUpper(string(f.Formulation))
	has, was, counts := verb(f.Labels, "has", "have"), verb(f.Labels, "was", "were"), verb(f.Labels, "counts", "count")
	others := "most runs"
	if f.against == theOthers {
		others = "other runs"
	}
	switch f.Code {
	case "imported":
		return fmt.Sprintf("%s: imported; how these results were made is not known as of a run of this program", who)
	case "no-instances":
		return fmt.Sprintf("%s: totals without instances, so nothing can be paired", who)
	case "task":
		return fmt.Sprintf("%s: not in %s", task, who)
	case "variant":
		return fmt.Sprintf("%s: %s %s the task in other variants only", task, who, has)
	case "split":
		return fmt.Sprintf("%s: %s %s another split than %s", task, who, has, s.splitOf(f))
	case "formulation":
		return fmt.Sprintf("%s: not evaluated as %s in %s", task, form, who)
	case "normalization":
		if f.against == eachOther {
			return fmt.Sprintf("%s %s: %s count different normalizations", task, form, who)
		}
		return fmt.Sprintf("%s %s: %s %s another normalization than %s", task, form, who, counts, others)
	case "prompts":
		if f.against == eachOther {
			return fmt.Sprintf("%s %s: %s were not asked the same: %d of %d shared instances have other requests", task, form, who, f.Count, f.Of)
		}
		return fmt.Sprintf("%s %s: %s %s asked otherwise than %s: %d of %d shared instances have other requests", task, form, who, was, others, f.Count, f.Of)
	case "prompts-unknown":
		return fmt.Sprintf("%s %s: what %s %s asked is not known for %d of %d shared instances", task, form, who, was, f.Count, f.Of)
	case "gold":
		if f.against == eachOther {
			return fmt.Sprintf("%s %s: %s have different right answers in %d of %d shared instances", task, form, who, f.Count, f.Of)
		}
		return fmt.Sprintf("%s %s: %s %s other right answers than %s in %d of %d shared instances", task, form, who, has, others, f.Count, f.Of)
	case "failed":
		return fmt.Sprintf("%s %s: %d of %d instances of %s have no answer and are left out", task, form, f.Count, f.Of, who)
	}
	return f.Code
}

// splitOf names the split that the others have.
func (s *Set) splitOf(f *Finding) string {
	for _, u := range s.units {
		if u.name != f.Task || u.variant != f.Variant {
			continue
		}
		for _, sd := range s.sides {
			if sd.own[u] != nil && !slices.Contains(f.Labels, sd.model.Label) {
				return fmt.Sprintf("%s (%s)", sd.model.Label, u.split)
			}
		}
	}
	return "others"
}
