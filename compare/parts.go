package compare

import (
	"fmt"
	"strings"

	"olmes"
	"olmes/record"
)

// modelOf is equal for runs of one model in one setting, which may be parts of one
// evaluation; "" where the weights are not known.
func modelOf(id record.Identity) string {
	if !id.Model.Known() {
		return ""
	}
	return id.ModelKey()
}

// parts groups the runs of one model that hold different parts of an evaluation:
// other tasks, or the same instances in other formulations. Of runs that have
// anything in common none is a part.
func (s *Set) parts() (groups [][]int, group []int) {
	group = make([]int, len(s.sides))
	of := map[string][][]int{}
	var order []string
	for i, sd := range s.sides {
		group[i] = -1
		if sd.of == "" {
			continue
		}
		if of[sd.of] == nil {
			order = append(order, sd.of)
		}
		found := false
		for k, g := range of[sd.of] {
			if found = !s.overlaps(i, g); found {
				of[sd.of][k] = append(g, i)
				break
			}
		}
		if !found {
			of[sd.of] = append(of[sd.of], []int{i})
		}
	}
	for _, key := range order {
		for _, g := range of[key] {
			if len(g) < 2 {
				continue
			}
			for _, i := range g {
				group[i] = len(groups)
			}
			groups = append(groups, g)
		}
	}
	return groups, group
}

// overlaps reports whether run i has anything of what the runs of a group have,
// another variant or split of a task included.
func (s *Set) overlaps(i int, group []int) bool {
	for _, g := range group {
		other := s.sides[g]
		for _, k := range s.sides[i].order {
			p := s.sides[i].parts[k]
			for _, o := range other.order {
				if o.task != k.task {
					continue
				}
				q := other.parts[o]
				if o != k || q.docs != p.docs || q.has[cf] && p.has[cf] || q.has[mcf] && p.has[mcf] {
					return true
				}
			}
		}
	}
	return false
}

// inParts reports whether another part of run i's model has a unit, in a
// formulation where that is 0 or above.
func (s *Set) inParts(i int, u unit, form int) bool {
	if s.group[i] < 0 {
		return false
	}
	for _, g := range s.groups[s.group[i]] {
		if o := s.sides[g].own[u]; g != i && o != nil && (form < 0 || o.forms[form] != nil) {
			return true
		}
	}
	return false
}

// findParts says which runs are parts of one, in place of all that each lacks.
func (s *Set) findParts(f *finder) {
	for _, g := range s.groups {
		var labels, each []string
		for _, i := range g {
			sd := s.sides[i]
			var holds []string
			for _, u := range s.units {
				if sd.own[u] != nil {
					holds = append(holds, sd.holds(u, s.members[u]))
				}
			}
			labels = append(labels, sd.model.Label)
			each = append(each, fmt.Sprintf("%s holds %s", sd.model.Label, shortened(holds, ", ", 12)))
		}
		f.list = append(f.list, &Finding{Code: "parts", Labels: labels, Blocks: true, Text: fmt.Sprintf(
			"one model in parts: %s. Each is compared by itself. To compare them as one, make one record of all of it with olmes run, which computes nothing again that finished "+
				"records of the same settings hold; olmes study joins the parts as they are", shortened(each, "; ", namesShown))})
	}
}

// holds says what a run has of a unit, for people.
func (sd *side) holds(u unit, members []key) string {
	var list []string
	var subjects []string
	for f := range forms {
		any := false
		for _, k := range members {
			if p := sd.parts[k]; p != nil && p.has[f] {
				any = true
			}
		}
		if any {
			list = append(list, strings.ToUpper(string(formulation(f))))
		}
	}
	for _, k := range members {
		if p := sd.parts[k]; p != nil && p.group != "" {
			subjects = append(subjects, olmes.Label(k.task, k.variant))
		}
	}
	out := olmes.Label(u.name, u.variant)
	switch {
	case len(subjects) > 2:
		out += fmt.Sprintf(" (%d subjects)", len(subjects))
	case len(subjects) > 0:
		out = strings.Join(subjects, " and ")
	}
	return out + " " + strings.Join(list, "+")
}
