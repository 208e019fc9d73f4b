package compare

import (
	"fmt"
	"slices"
	"strings"

	"olmes/record"
)

// holding is a set of instances of a unit, which one or more runs have.
type holding struct {
	labels []string
	docs   [][]int32 // by task of the unit
}

func (h holding) size() int {
	n := 0
	for _, d := range h.docs {
		n += len(d)
	}
	return n
}

func (h holding) equal(o holding) bool {
	for k := range h.docs {
		if !sameList(h.docs[k], o.docs[k]) && !slices.Equal(h.docs[k], o.docs[k]) {
			return false
		}
	}
	return true
}

// findInstances says where runs have other instances of a unit in a formulation:
// which and how many are counted over all its tasks. The parts of one model count
// as one run.
func (s *Set) findInstances(f *finder, u unit, form int) {
	sets := s.holdings(u, form)
	if len(sets) < 2 {
		return
	}
	all, most := 0, -1
	for _, h := range sets {
		all += len(h.labels)
	}
	for i, h := range sets {
		if 2*len(h.labels) > all {
			most = i
		}
	}
	head := fmt.Sprintf("%s %s", u.label(), strings.ToUpper(string(formulation(form))))
	say := func(labels []string, count, of int, format string, args ...any) {
		f.list = append(f.list, &Finding{Code: "sample", Task: u.name, Variant: u.variant, Formulation: formulation(form), Labels: labels, Count: count, Of: of, Blocks: true,
			Text: head + ": " + fmt.Sprintf(format, args...)})
	}
	if most >= 0 {
		m := sets[most]
		for i, h := range sets {
			if i == most {
				continue
			}
			shared := overlap(m, h)
			of := m.size() + h.size() - shared
			say(h.labels, of-shared, of, "%s %s other instances than most runs: %d against %d, of which %d are shared; %d of %d are in one of them only",
				shortened(h.labels, ", ", namesShown), verb(h.labels, "has", "have"), h.size(), m.size(), shared, of-shared, of)
		}
		return
	}
	var labels, each []string
	shared, union := sets[0], sets[0]
	for i, h := range sets {
		labels = append(labels, h.labels...)
		text := fmt.Sprintf("%s %s %d", shortened(h.labels, ", ", namesShown), verb(h.labels, "has", "have"), h.size())
		if i == 0 {
			text += " instances"
		}
		each = append(each, text)
		shared, union = shared.and(h), union.or(h)
	}
	in := "in one of them only"
	if len(sets) > 2 {
		in = "not in all of them"
	}
	n, of := shared.size(), union.size()
	say(labels, of-n, of, "%s; %d are shared, %d of %d are %s", shortened(each, "; ", namesShown), n, of-n, of, in)
}

// holdings lists the distinct sets of instances that runs have of a unit, in the
// order of the runs.
func (s *Set) holdings(u unit, form int) []holding {
	members := s.members[u]
	var each []holding
	at := map[int]int{} // by group of parts
	for i, sd := range s.sides {
		o := sd.own[u]
		if o == nil || sd.model.Evidence == record.ImportedAggregates {
			continue
		}
		h := holding{labels: []string{sd.model.Label}, docs: make([][]int32, len(members))}
		any := o.forms[form] != nil
		for k, m := range members {
			if p := sd.parts[m]; p != nil && p.forms[form] != nil {
				h.docs[k], any = p.forms[form].docs, true
			}
		}
		if !any {
			continue
		}
		if g := s.group[i]; g >= 0 {
			if to, ok := at[g]; ok {
				each[to].labels[0] += " + " + sd.model.Label
				each[to].docs = each[to].or(h).docs
				continue
			}
			at[g] = len(each)
		}
		each = append(each, h)
	}
	var out []holding
	for _, h := range each {
		if i := slices.IndexFunc(out, h.equal); i >= 0 {
			out[i].labels = append(out[i].labels, h.labels...)
			continue
		}
		out = append(out, h)
	}
	return out
}

// or is the union of two sets of instances.
func (h holding) or(o holding) holding {
	return h.merge(o, func(a, b []int32) []int32 {
		both := slices.Concat(a, b)
		slices.Sort(both)
		return slices.Compact(both)
	})
}

// and is what two sets of instances have in common.
func (h holding) and(o holding) holding {
	return h.merge(o, func(a, b []int32) []int32 {
		var out []int32
		for _, d := range a {
			if _, ok := slices.BinarySearch(b, d); ok {
				out = append(out, d)
			}
		}
		return out
	})
}

func (h holding) merge(o holding, by func(a, b []int32) []int32) holding {
	out := holding{docs: make([][]int32, len(h.docs))}
	for k := range h.docs {
		if out.docs[k] = h.docs[k]; !sameList(h.docs[k], o.docs[k]) {
			out.docs[k] = by(h.docs[k], o.docs[k])
		}
	}
	return out
}

// overlap counts the instances of both.
func overlap(a, b holding) int { return a.and(b).size() }

// asked counts how a run was asked of a unit.
type asked struct {
	shared, prompts, unknown, gold, failed, all int
	promptsOthers, goldOthers                   bool // no more than half of the runs agree somewhere
}

// findAsked says where runs were asked otherwise, instance by instance: requests
// and right answers that are not those of more than half of the runs that have the
// instance.
func (s *Set) findAsked(f *finder, u unit, form int) {
	runs := make([]asked, len(s.sides))
	having := map[int]bool{}
	for _, k := range s.members[u] {
		s.ask(s.tables[k], form, runs)
		for i, c := range s.tables[k].columns[form] {
			if c != nil {
				having[i] = true
			}
		}
	}
	name := formulation(form)
	for i, a := range runs {
		label := s.sides[i].model.Label
		if a.prompts > 0 {
			f.add("prompts", true, u, name, label, a.prompts, a.shared, relation(len(having), !a.promptsOthers))
		}
		if a.unknown > 0 {
			f.add("prompts-unknown", true, u, name, label, a.unknown, a.shared, theMost)
		}
		if a.gold > 0 {
			f.add("gold", true, u, name, label, a.gold, a.shared, relation(len(having), !a.goldOthers))
		}
		if a.failed > 0 {
			f.add("failed", false, u, name, label, a.failed, a.all, theMost)
		}
	}
}

// class is a number of runs that were asked the same of a task.
type class struct {
	form     *form
	identity string
	runs     []int
	at       int // the instance next to look at
}

// ask counts how the runs were asked of one task.
func (s *Set) ask(t *table, form int, runs []asked) {
	type what struct {
		identity string
		run      int // where the identity is not known
		docs     *int32
		gold     *int16
	}
	index := map[what]*class{}
	var classes []*class
	identities := map[string]bool{}
	for i, c := range t.columns[form] {
		if c == nil {
			continue
		}
		of := c.form
		runs[i].all += len(of.docs)
		runs[i].failed += len(of.docs) - of.known.count()
		if len(of.docs) == 0 {
			continue
		}
		at := what{identity: t.ids[form][i], docs: &of.docs[0], gold: &of.gold[0]}
		if at.identity == "" {
			at.run = i
		}
		identities[at.identity] = true
		if index[at] == nil {
			index[at] = &class{form: of, identity: at.identity}
			classes = append(classes, index[at])
		}
		index[at].runs = append(index[at].runs, i)
	}
	if len(classes) == 1 {
		if c := classes[0]; len(c.runs) > 1 { // the same in all that counts
			for _, i := range c.runs {
				runs[i].shared += len(c.form.docs)
			}
		}
		return
	}
	compared := len(identities) > 1 || identities[""] // request by request
	var have []*class
	prints, golds := make([]uint64, len(classes)), make([]uint64, len(classes))
	for _, doc := range s.unionOf(classes) {
		have = have[:0]
		n := 0
		for _, c := range classes {
			if c.at < len(c.form.docs) && c.form.docs[c.at] == doc {
				prints[len(have)], golds[len(have)] = 0, uint64(c.form.gold[c.at])+1<<32 // never 0
				if c.form.prints != nil {
					prints[len(have)] = c.form.prints[c.at]
				}
				c.at++
				have = append(have, c)
				n += len(c.runs)
			}
		}
		if n < 2 {
			continue
		}
		for k, c := range have {
			for _, i := range c.runs {
				runs[i].shared++
				if compared && prints[k] == 0 {
					runs[i].unknown++
				}
			}
		}
		if compared {
			odd(have, prints, func(i int, most bool) {
				runs[i].prompts++
				runs[i].promptsOthers = runs[i].promptsOthers || !most
			})
		}
		odd(have, golds, func(i int, most bool) {
			runs[i].gold++
			runs[i].goldOthers = runs[i].goldOthers || !most
		})
	}
}

// unionOf lists all doc_ids of the classes.
func (s *Set) unionOf(classes []*class) []int32 {
	all := classes[0].form.docs
	for _, c := range classes[1:] {
		if !sameList(all, c.form.docs) {
			all = slices.Concat(all, c.form.docs)
			slices.Sort(all)
			all = slices.Compact(all)
		}
	}
	return all
}

// odd calls say for each run whose value is not that of more than half of the runs
// with a value, which is one above 0, and says whether there is such a half.
func odd(have []*class, values []uint64, say func(run int, most bool)) {
	first, same := uint64(0), true
	for k := range have {
		if v := values[k]; v != 0 {
			same = same && (first == 0 || v == first)
			first = v
		}
	}
	if same {
		return
	}
	counts := map[uint64]int{}
	for k, c := range have {
		if values[k] != 0 {
			counts[values[k]] += len(c.runs)
		}
	}
	usual, most := majority(counts)
	for k, c := range have {
		if values[k] == 0 || most && values[k] == usual {
			continue
		}
		for _, i := range c.runs {
			say(i, most)
		}
	}
}
