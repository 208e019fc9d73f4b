package study

import (
	"maps"
	"regexp"
	"slices"

	"olmes"
	"olmes/outcome"
	"olmes/record"
	"olmes/score"
)

// Model is what one model did, in one or several runs.
type Model struct {
	Label string
	Runs  []*outcome.Run
	// Tasks holds the tasks of all runs, one for each name and variant. Where one
	// run has a task in one formulation and another in the other, both are in it.
	Tasks []*outcome.Task
}

// counted is what makes several runs of one name distinct; see outcome.Sources.
var counted = regexp.MustCompile(`(@[0-9a-f]{12}|/[0-9]+)?(#[0-9]+)?$`)

// base is a label without what only tells runs of one name apart.
func base(label string) string { return label[:len(label)-len(counted.FindString(label))] }

// Group puts runs of one model together: those of one name, weights, precision,
// BOS and window that evaluated different tasks, variants or formulations. Runs
// that hold the same are different models, as are runs that were given different
// labels. The models are in the order of their first runs.
func Group(runs []*outcome.Run) []Model {
	var out []Model
	var keys []string
	for _, r := range runs {
		key := modelKey(r)
		at := -1
		for i := range out {
			if keys[i] == key && !out[i].overlaps(r) {
				at = i
				break
			}
		}
		if at < 0 {
			at, keys = len(out), append(keys, key)
			out = append(out, Model{Label: r.Label})
		}
		m := &out[at]
		m.Runs = append(m.Runs, r)
		for _, t := range r.Tasks {
			m.merge(t)
		}
	}
	bases := map[string]int{}
	for _, m := range out {
		bases[base(m.Label)]++
	}
	for i := range out {
		if m := &out[i]; len(m.Runs) > 1 && bases[base(m.Label)] == 1 {
			m.Label = base(m.Label)
		}
	}
	return out
}

// modelKey is equal for runs that may be of one model.
func modelKey(r *outcome.Run) string {
	key := r.Record.Identity.ModelKey()
	if key == "" {
		return r.Label
	}
	return base(r.Label) + "\x00" + key
}

// overlaps reports whether the model has anything of what the run has.
func (m *Model) overlaps(r *outcome.Run) bool {
	for _, t := range tasksOf(r) {
		for _, other := range m.Runs {
			for _, o := range tasksOf(other) {
				if o.Name != t.Name || o.Variant != t.Variant {
					continue
				}
				if o.Split != t.Split || o.DocIDsSHA256 != t.DocIDsSHA256 {
					return true
				}
				for f := range t.forms {
					if o.forms[f] {
						return true
					}
				}
			}
		}
	}
	return false
}

// held is what a run has of a task, whatever depth it was read at.
type held struct {
	record.Task
	Variant string
	forms   map[olmes.Formulation]bool
}

func tasksOf(r *outcome.Run) []held {
	var out []held
	for _, t := range r.Record.Identity.Tasks {
		h := held{Task: t, Variant: r.Record.Identity.VariantOf(t), forms: map[olmes.Formulation]bool{}}
		for f := range t.Formulations {
			h.forms[f] = true
		}
		out = append(out, h)
	}
	return out
}

func (m *Model) merge(t *outcome.Task) {
	if have := m.Task(t.Name, t.Variant); have != nil {
		both := *have
		both.Forms, both.Formulations = maps.Clone(have.Forms), maps.Clone(have.Formulations)
		maps.Copy(both.Forms, t.Forms)
		maps.Copy(both.Formulations, t.Formulations)
		m.Tasks[slices.Index(m.Tasks, have)] = &both
		return
	}
	m.Tasks = append(m.Tasks, t)
}

// Task returns the task of a name in a variant ("" is the standard's), or nil.
func (m *Model) Task(name, variant string) *outcome.Task {
	for _, t := range m.Tasks {
		if t.Name == name && t.Variant == variant {
			return t
		}
	}
	return nil
}

// Variants lists the variants that the model was run in, by name; "" is the
// standard's own rendering.
func (m *Model) Variants() []string {
	seen := map[string]bool{}
	for _, t := range m.Tasks {
		seen[t.Variant] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// Unit is what has one score: a task, or the tasks of a group (mmlu) together.
type Unit struct {
	Name    string
	Variant string
	Tasks   []*outcome.Task // by name
	Size    int             // tasks of the whole unit
}

// Whole reports whether all of the unit's tasks are there, each with exactly the
// instances that the standard evaluates.
func (u Unit) Whole() bool {
	for _, t := range u.Tasks {
		if !t.Complete {
			return false
		}
	}
	return len(u.Tasks) == u.Size
}

// names lists the unit's tasks.
func (u Unit) names() []string {
	out := make([]string, len(u.Tasks))
	for i, t := range u.Tasks {
		out[i] = t.Name
	}
	return out
}

// has reports whether all of the unit's tasks have a formulation.
func (u Unit) has(f olmes.Formulation) bool {
	for _, t := range u.Tasks {
		if t.Forms[f] == nil {
			return false
		}
	}
	return len(u.Tasks) > 0
}

// normalization is the one that counts for the unit's score in a formulation.
func (u Unit) normalization(f olmes.Formulation) olmes.Normalization {
	if f == olmes.CF && len(u.Tasks) > 0 && u.Tasks[0].Normalization != "" {
		return u.Tasks[0].Normalization
	}
	return olmes.None
}

// Units lists what has a score in a variant, the standard's ten tasks first, in
// their order, then others by name.
func (m *Model) Units(variant string) []Unit {
	byName := map[string]*Unit{}
	for _, t := range m.Tasks {
		if t.Variant != variant {
			continue
		}
		name, size := t.Name, 1
		if t.Group != "" {
			name, size = t.Group, t.GroupSize
		}
		if byName[name] == nil {
			byName[name] = &Unit{Name: name, Variant: variant, Size: size}
		}
		byName[name].Tasks = append(byName[name].Tasks, t)
	}
	var out []Unit
	for _, name := range inOrder(slices.Collect(maps.Keys(byName))) {
		u := *byName[name]
		slices.SortFunc(u.Tasks, func(a, b *outcome.Task) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
		out = append(out, u)
	}
	return out
}

// unit returns the unit of a name in a variant.
func (m *Model) unit(name, variant string) (Unit, bool) {
	for _, u := range m.Units(variant) {
		if u.Name == name {
			return u, true
		}
	}
	return Unit{}, false
}

// inOrder sorts names of units: the standard's in its order, then others by name.
func inOrder(names []string) []string {
	rank := func(name string) int {
		if at := slices.Index(score.SuiteTasks(), name); at >= 0 {
			return at
		}
		return len(score.SuiteTasks())
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		if a < b {
			return -1
		}
		return 1
	})
	return names
}

// unitNames lists the units that any model has in a variant.
func unitNames(models []Model, variant string) []string {
	seen := map[string]bool{}
	for i := range models {
		for _, u := range models[i].Units(variant) {
			seen[u.Name] = true
		}
	}
	return inOrder(slices.Collect(maps.Keys(seen)))
}

// labels lists the models' labels.
func labels(models []Model) []string {
	out := make([]string, len(models))
	for i := range models {
		out[i] = models[i].Label
	}
	return out
}

// levels returns what guessing gives on a unit, as the runs' metrics say: chance,
// and the best constant position. Subjects count equally.
func (m *Model) levels(u Unit) (chance, majority *float64) {
	var sums [2]float64
	for _, t := range u.Tasks {
		found := false
		for _, r := range m.Runs {
			for _, mt := range r.Metrics.Tasks {
				if mt.Task == t.Name && mt.Variant == t.Variant && mt.Chance != nil && mt.Majority != nil && !found {
					sums[0], found = sums[0]+*mt.Chance, true
				}
			}
		}
		if !found {
			return nil, nil
		}
	}
	c := sums[0] / float64(len(u.Tasks))
	j := u.majority()
	return &c, &j
}

// majority is the unit's accuracy of the best constant position.
func (u Unit) majority() float64 {
	var shares []float64
	for _, t := range u.Tasks {
		for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			form := t.Forms[f]
			if form == nil || form.Len() == 0 {
				continue
			}
			for _, g := range form.Gold {
				for len(shares) <= int(g) {
					shares = append(shares, 0)
				}
				if g >= 0 {
					shares[g] += 1 / float64(form.Len())
				}
			}
			break
		}
	}
	if len(shares) == 0 {
		return 0
	}
	return slices.Max(shares) / float64(len(u.Tasks))
}

// suiteSize is the number of tasks of the standard.
var suiteSize = len(score.SuiteTasks())

func isStandard(name string) bool { return slices.Contains(score.SuiteTasks(), name) }

// keys lists a map's keys.
func keys[K comparable, V any](m map[K]V) []K { return slices.Collect(maps.Keys(m)) }
