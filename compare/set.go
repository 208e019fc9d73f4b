package compare

import (
	"fmt"
	"slices"

	"olmes"
	"olmes/outcome"
	"olmes/record"
	"olmes/score"
	"olmes/task"
)

// Set gathers runs to compare. Put may be called from several goroutines.
type Set struct {
	options Options
	pool    *pool
	sides   []*side

	// What follows is made by Report.
	units   []unit
	members map[unit][]key // tasks of a group, or the task itself
	tables  map[key]*table
	groups  [][]int // runs of one model with different parts of its evaluation
	group   []int   // by run, the index into groups; -1 for none
}

// New returns a set of n runs.
func New(n int, o Options) *Set {
	return &Set{options: o.filled(), pool: newPool(), sides: make([]*side, n)}
}

// Depth says how deep the runs must be read (see outcome.Load): where the
// identities have the same requests of every task, answers suffice; else the
// requests are compared one by one.
func Depth(sources []outcome.Source) outcome.Depth {
	seen := map[string]string{}
	for _, src := range sources {
		id := src.Record.Identity
		for _, t := range id.Tasks {
			for f := range forms {
				r, ok := t.Formulations[formulation(f)]
				if !ok {
					continue
				}
				at := fmt.Sprint(key{t.Name, t.Split, id.VariantOf(t)}, f)
				before, ok := seen[at]
				if r.RequestsSHA256 == "" || ok && before != r.RequestsSHA256 {
					return outcome.Values
				}
				seen[at] = r.RequestsSHA256
			}
		}
	}
	return outcome.Answers
}

// Ties are the near-ties of a run.
type Ties struct {
	Looked bool // for them
	Stated bool // by a stated margin and not the noise that the run measured
	List   []score.NearTie
}

// Put takes in run i with its near-ties. The run itself is not kept. Runs that are
// never put are left out.
func (s *Set) Put(i int, run *outcome.Run, ties Ties) {
	sd := newSide(run, s.pool, ties.List)
	sd.looked, sd.stated = ties.Looked, ties.Stated
	s.sides[i] = sd
}

// table is one task in a split and variant of all runs, its instances at common
// positions.
type table struct {
	key      key
	size     int // positions
	columns  [forms][]*column
	clusters *clusters       // nil where they are not known
	ids      [forms][]string // digests of all requests, by run
}

// column is a form with its sets at common positions.
type column struct {
	form                       *form
	known, right               set
	nearTies, toRight, toWrong set // nil where there are none
}

// arrange makes the units and tables of all runs.
func (s *Set) arrange() {
	s.units = nil
	s.sides = slices.DeleteFunc(s.sides, func(sd *side) bool { return sd == nil })
	s.members, s.tables = map[unit][]key{}, map[key]*table{}
	if s.options.View == "" {
		s.options.View = s.view()
	}
	for _, sd := range s.sides {
		for _, k := range sd.order {
			u := sd.unitOf(k)
			if !s.wanted(k, u) {
				continue
			}
			if s.members[u] == nil {
				s.units = append(s.units, u)
			}
			if !slices.Contains(s.members[u], k) {
				s.members[u] = append(s.members[u], k)
			}
		}
	}
	for _, u := range s.units {
		for _, k := range s.members[u] {
			s.tables[k] = s.table(k)
		}
	}
	s.groups, s.group = s.parts()
}

// view is what is compared where nobody asked: the better formulation, unless all
// runs have but one and the same.
func (s *Set) view() View {
	has := [forms]bool{}
	for _, sd := range s.sides {
		for _, o := range sd.own {
			has[cf] = has[cf] || o.forms[cf] != nil
			has[mcf] = has[mcf] || o.forms[mcf] != nil
		}
	}
	switch {
	case has[cf] && !has[mcf]:
		return CF
	case has[mcf] && !has[cf]:
		return MCF
	}
	return Better
}

// wanted reports whether the options name a task, its group or no task at all.
func (s *Set) wanted(k key, u unit) bool {
	return len(s.options.Tasks) == 0 || slices.Contains(s.options.Tasks, k.task) || slices.Contains(s.options.Tasks, u.name)
}

// table brings the instances of a task to common positions.
func (s *Set) table(k key) *table {
	t := &table{key: k}
	var first []int32
	same, any := true, false
	for f := range forms {
		t.columns[f] = make([]*column, len(s.sides))
		t.ids[f] = make([]string, len(s.sides))
		for i, sd := range s.sides {
			p := sd.parts[k]
			if p == nil {
				continue
			}
			t.ids[f][i] = p.identities[f]
			if p.forms[f] == nil {
				continue
			}
			t.columns[f][i] = &column{form: p.forms[f]}
			docs := p.forms[f].docs
			if !any {
				first, any = docs, true
			}
			same = same && (sameList(first, docs) || slices.Equal(first, docs))
		}
	}
	docs := first
	if !same {
		docs = s.union(k)
	}
	t.size = len(docs)
	for f := range forms {
		for _, c := range t.columns[f] {
			if c != nil {
				c.place(docs, same)
			}
		}
	}
	t.clusters = s.clustersOf(k, docs)
	return t
}

// sameList reports whether two lists are one in memory.
func sameList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// union lists all doc_ids that any run has of a task.
func (s *Set) union(k key) []int32 {
	var all []int32
	for _, sd := range s.sides {
		if p := sd.parts[k]; p != nil {
			for f := range forms {
				if p.forms[f] != nil {
					all = append(all, p.forms[f].docs...)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// place puts a form's sets at the positions of docs, which are its own where
// same.
func (c *column) place(docs []int32, same bool) {
	f := c.form
	if same {
		c.known, c.right, c.nearTies, c.toRight, c.toWrong = f.known, f.right, f.nearTies, f.toRight, f.toWrong
		return
	}
	at := make([]int, len(f.docs))
	for i, doc := range f.docs {
		at[i], _ = slices.BinarySearch(docs, doc)
	}
	move := func(from set) set {
		if from == nil {
			return nil
		}
		out := newSet(len(docs))
		for i := range f.docs {
			if from.has(i) {
				out.add(at[i])
			}
		}
		return out
	}
	c.known, c.right, c.nearTies, c.toRight, c.toWrong = move(f.known), move(f.right), move(f.nearTies), move(f.toRight), move(f.toWrong)
}

// clusters says which positions of a table are about the same text.
type clusters struct {
	shared string // what they share; "" where no two of them share anything
	multi  set    // positions that share it with another one
	of     []int32
	size   []int32 // by cluster of multi
	nn     int     // sum of the sizes' squares
}

// clustersOf returns the clusters of a task's instances, nil where it is not
// known that the runs have the rows that the pointers are for.
func (s *Set) clustersOf(k key, docs []int32) *clusters {
	held := task.RowsSHA256(k.task, k.split)
	if held == "" {
		return nil
	}
	asked := map[string]bool{} // requests that runs with these rows were asked
	for _, sd := range s.sides {
		if p := sd.parts[k]; p != nil && p.rows == held {
			for f := range forms {
				asked[p.identities[f]] = p.identities[f] != ""
			}
		}
	}
	for _, sd := range s.sides {
		p := sd.parts[k]
		if p == nil || sd.model.Evidence == record.ImportedAggregates {
			continue
		}
		if p.rows != held && !(p.rows == "" && (asked[p.identities[cf]] || asked[p.identities[mcf]])) {
			return nil
		}
	}
	out := &clusters{multi: newSet(len(docs)), of: make([]int32, len(docs))}
	all, ok := task.ClustersOf(k.task, k.split)
	if !ok {
		return out
	}
	count := map[int]int{}
	for _, doc := range docs {
		count[all.Of(int(doc))]++
	}
	number := map[int]int32{}
	for i, doc := range docs {
		first := all.Of(int(doc))
		if count[first] < 2 {
			continue
		}
		n, ok := number[first]
		if !ok {
			n = int32(len(out.size))
			number[first] = n
			out.size = append(out.size, int32(count[first]))
			out.nn += count[first] * count[first]
		}
		out.multi.add(i)
		out.of[i] = n
	}
	if len(out.size) > 0 {
		out.shared = all.Shared
	}
	return out
}

// label names a unit for people.
func (u unit) label() string { return olmes.Label(u.name, u.variant) }
