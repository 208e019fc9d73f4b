package reproduce

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"olmes"
	"olmes/outcome"
	"olmes/record"
)

// listed is how many instances a cause lists where Options does not say.
const listed = 5

// Compare compares two runs, both read at depth outcome.Tokens. Where one has no
// instances, only its scores are compared.
func Compare(a, b *outcome.Run, o Options) Report {
	c := &comparison{a: a, b: b, o: o, references: map[[2]string]*Reference{}, turned: map[docOf]bool{}, reworded: map[docOf]bool{}}
	if c.o.Instances == 0 {
		c.o.Instances = listed
	}
	r := Report{A: side(a), B: side(b), Flips: []Flip{}, Unknown: []string{}}
	c.match()
	r.Shared = c.shared
	if other, ok := differentModels(a.Record.Identity, b.Record.Identity); ok {
		c.different = true
		r.Models = &c.finish([]Cause{other})[0]
		r.First = r.Models
	} else {
		c.doubtful()
	}
	for _, stage := range []func() Stage{c.instances, c.requests, c.ids, c.logProbs} {
		r.Stages = append(r.Stages, stage())
	}
	c.otherFiles(r.Stages[len(r.Stages)-1])
	flips, stage := c.decisions()
	r.Flips = append(r.Flips, flips...)
	r.Stages = append(r.Stages, stage)
	r.Scores, stage = c.scores()
	r.Stages = append(r.Stages, stage)
	r.Agree = stage.Same
	for i := range r.Stages {
		s := &r.Stages[i]
		s.Causes = c.finish(s.Causes)
		if r.First == nil && len(s.Causes) > 0 {
			r.First = &s.Causes[0]
		}
	}
	c.imported()
	r.Unknown = append(r.Unknown, c.unknown...)
	r.Verdict = verdict(&r)
	return r
}

// comparison is the state of one Compare.
type comparison struct {
	a, b       *outcome.Run
	o          Options
	different  bool // the models are
	pairs      []*pair
	onlyA      []lone // tasks, with formulation, that only one run has
	onlyB      []lone
	shared     int // instances that both runs have
	unknown    []string
	references map[[2]string]*Reference
	turned     map[docOf]bool // instances whose choices stand in another order
	reworded   map[docOf]bool // instances of whose choices one has another text in CF
}

// lone is one task in one formulation that one run alone has.
type lone struct {
	task        *outcome.Task
	formulation olmes.Formulation
	n           int // instances
}

// apart reports whether both runs hold instances and share none.
func (c *comparison) apart() bool { return c.a.Instances() && c.b.Instances() && c.shared == 0 }

// noneShared is why there is nothing to compare by instance.
const noneShared = "the runs share no instance"

// pair is one task in one formulation, in both runs.
type pair struct {
	ta, tb      *outcome.Task
	formulation olmes.Formulation
	a, b        *outcome.Form
	comparable  bool // of one split, so that instances can be told apart
	renumbered  bool // instances were matched by content and not by doc_id
	both        []outcome.Pair
	onlyA       []int // indices into a
	onlyB       []int // indices into b
	// ordered says, of each of both, that its choices stand at the same positions.
	// Where they do not, nothing further is compared.
	ordered []bool
}

func (p *pair) where(instances int) Where {
	return Where{Task: p.ta.Name, Variant: p.ta.Variant, Formulation: p.formulation, Instances: instances, Of: len(p.both)}
}

// at names an instance of a.
func (p *pair) at(i int, choice *int, format string, args ...any) At {
	return At{Task: p.ta.Name, Variant: p.ta.Variant, Formulation: p.formulation, DocID: int(p.a.DocID[i]), Choice: choice, Detail: fmt.Sprintf(format, args...)}
}

// choices returns where the choices of a matched instance begin in both runs, and
// how many both have.
func (p *pair) choices(x outcome.Pair) (ka, kb, n int) {
	ka, kb = int(p.a.Start[x.A]), int(p.b.Start[x.B])
	return ka, kb, min(int(p.a.Start[x.A+1])-ka, int(p.b.Start[x.B+1])-kb)
}

// sameText compares the requests of two choices.
func (p *pair) sameText(ka, kb int) Answer {
	return sameDigest(p.a.Choice.Request[ka], p.b.Choice.Request[kb])
}

// sameIDs compares the ids fed for two choices. Where their digests are not known,
// other numbers of them tell that they are not the same.
func (p *pair) sameIDs(ka, kb int) Answer {
	a, b := &p.a.Choice, &p.b.Choice
	same := sameDigest(a.IDs[ka], b.IDs[kb])
	counted := a.Context[ka] > 0 && b.Context[kb] > 0 && a.Tokens[ka] > 0 && b.Tokens[kb] > 0
	if same == Unknown && counted && (a.Context[ka] != b.Context[kb] || a.Tokens[ka] != b.Tokens[kb]) {
		return No
	}
	return same
}

func sameDigest(a, b [32]byte) Answer {
	var none [32]byte
	switch {
	case a == none || b == none:
		return Unknown
	case a == b:
		return Yes
	}
	return No
}

// match pairs the tasks and formulations of both runs.
func (c *comparison) match() {
	used := map[*outcome.Task]bool{}
	partner := map[*outcome.Task]*outcome.Task{}
	find := func(of *outcome.Task, fits func(t *outcome.Task) bool) {
		if partner[of] != nil {
			return
		}
		for _, t := range c.b.Tasks {
			if !used[t] && t.Name == of.Name && fits(t) {
				partner[of], used[t] = t, true
				return
			}
		}
	}
	for _, t := range c.a.Tasks {
		find(t, func(o *outcome.Task) bool { return o.Variant == t.Variant && o.Split == t.Split })
	}
	for _, t := range c.a.Tasks {
		find(t, func(o *outcome.Task) bool { return o.Variant == t.Variant })
	}
	for _, t := range c.a.Tasks {
		// Another variant of the task is compared where each run has one only.
		if count(c.a.Tasks, t.Name) == 1 && count(c.b.Tasks, t.Name) == 1 {
			find(t, func(*outcome.Task) bool { return true })
		}
	}
	for _, ta := range c.a.Tasks {
		tb := partner[ta]
		for _, f := range formulations(ta) {
			if tb == nil || tb.Forms[f] == nil {
				c.onlyA = append(c.onlyA, lone{ta, f, ta.Forms[f].Len()})
				continue
			}
			p := &pair{ta: ta, tb: tb, formulation: f, a: ta.Forms[f], b: tb.Forms[f], comparable: ta.Split == tb.Split || ta.Split == "" || tb.Split == ""}
			if p.comparable {
				p.join()
				c.shared += len(p.both)
			}
			c.pairs = append(c.pairs, p)
		}
		if tb == nil {
			continue
		}
		for _, f := range formulations(tb) {
			if ta.Forms[f] == nil {
				c.onlyB = append(c.onlyB, lone{tb, f, tb.Forms[f].Len()})
			}
		}
	}
	for _, tb := range c.b.Tasks {
		if !used[tb] {
			for _, f := range formulations(tb) {
				c.onlyB = append(c.onlyB, lone{tb, f, tb.Forms[f].Len()})
			}
		}
	}
}

func count(tasks []*outcome.Task, name string) (n int) {
	for _, t := range tasks {
		if t.Name == name {
			n++
		}
	}
	return n
}

// formulations lists those that a task has, CF first.
func formulations(t *outcome.Task) []olmes.Formulation {
	var out []olmes.Formulation
	for f := range t.Forms {
		out = append(out, f)
	}
	slices.Sort(out)
	return out
}

func name(t *outcome.Task, f olmes.Formulation) string {
	n := olmes.Label(t.Name, t.Variant)
	if f != "" {
		n += " " + string(f)
	}
	return n
}

// join matches instances by doc_id, or by content where that finds clearly more
// of the same ones.
func (p *pair) join() {
	both, _, _ := outcome.Join(p.a, p.b)
	same := 0
	for _, x := range both {
		if p.alike(x) {
			same++
		}
	}
	if least := min(p.a.Len(), p.b.Len()); 2*same < least {
		if other := p.joinByContent(); len(other) > same && 2*len(other) >= least {
			both, p.renumbered = other, !slices.Equal(other, both)
		}
	}
	p.both = both
	inA, inB := make([]bool, p.a.Len()), make([]bool, p.b.Len())
	for _, x := range both {
		inA[x.A], inB[x.B] = true, true
	}
	p.onlyA, p.onlyB = missing(inA), missing(inB)
}

func missing(in []bool) (out []int) {
	for i, there := range in {
		if !there {
			out = append(out, i)
		}
	}
	return out
}

// alike reports whether anything that is known says that two instances are the
// same, and nothing that they are not.
func (p *pair) alike(x outcome.Pair) bool {
	if a, b := p.a.NativeID[x.A], p.b.NativeID[x.B]; a != "" && b != "" {
		return a == b
	}
	ka, kb, n := p.choices(x)
	for k := range n {
		if p.sameText(ka+k, kb+k) != No {
			return true
		}
	}
	return false
}

// joinByContent matches instances by their requests, or where these are of no use
// by the dataset's own ids, as far as either is unique.
func (p *pair) joinByContent() []outcome.Pair {
	byText := func(f *outcome.Form) func(i int) string {
		return func(i int) string {
			var key []byte
			for k := f.Start[i]; k < f.Start[i+1]; k++ {
				if f.Choice.Request[k] == [32]byte{} {
					return ""
				}
				key = append(key, f.Choice.Request[k][:16]...)
			}
			return string(key)
		}
	}
	byID := func(f *outcome.Form) func(i int) string { return func(i int) string { return f.NativeID[i] } }
	texts := matchKeys(p.a, p.b, byText(p.a), byText(p.b))
	ids := matchKeys(p.a, p.b, byID(p.a), byID(p.b))
	if len(ids) > len(texts) {
		return ids
	}
	return texts
}

func matchKeys(a, b *outcome.Form, keyA, keyB func(int) string) []outcome.Pair {
	index := func(f *outcome.Form, key func(int) string) map[string]int {
		at := map[string]int{}
		for i := range f.Len() {
			k := key(i)
			if _, twice := at[k]; twice || k == "" {
				at[k] = -1
				continue
			}
			at[k] = i
		}
		return at
	}
	ofB := index(b, keyB)
	var out []outcome.Pair
	for k, i := range index(a, keyA) {
		if j, ok := ofB[k]; ok && i >= 0 && j >= 0 {
			out = append(out, outcome.Pair{A: i, B: j})
		}
	}
	slices.SortFunc(out, func(x, y outcome.Pair) int { return cmp.Compare(x.A, y.A) })
	return out
}

// reference returns the standard's own of a task, or nil.
func (c *comparison) reference(t *outcome.Task) *Reference {
	if c.o.Reference == nil {
		return nil
	}
	key := [2]string{t.Name, t.Split}
	r, ok := c.references[key]
	if !ok {
		r = c.o.Reference(t.Name, t.Split)
		c.references[key] = r
	}
	return r
}

// doubt notes once that something is not known.
func (c *comparison) doubt(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.unknown, text) {
		c.unknown = append(c.unknown, text)
	}
}

// imported notes what imported results are without.
func (c *comparison) imported() {
	for _, r := range []*outcome.Run{c.a, c.b} {
		if from := r.Record.Provenance.Import; from != nil {
			for _, lack := range from.Lacks {
				if lack = stillLacking(r, lack); lack != "" {
					c.doubt("%s, imported from %s: %s", r.Label, from.Tool, lack)
				}
			}
		}
	}
}

// stillLacking leaves out of what an import lacks, as its record says, what the
// record has all the same: older imports of what olmes export wrote say so of
// counts and ids.
func stillLacking(r *outcome.Run, lack string) string {
	all := func(has func(c *outcome.Choices, k int) bool) bool {
		for _, t := range r.Tasks {
			for _, f := range t.Forms {
				for k := range f.Choice.LogProb {
					if !has(&f.Choice, k) {
						return false
					}
				}
			}
		}
		return r.Instances()
	}
	parts := slices.DeleteFunc(strings.Split(lack, "; "), func(part string) bool {
		switch {
		case part == "ids":
			return all(func(c *outcome.Choices, k int) bool { return known(c.IDs[k]) })
		case strings.HasPrefix(part, "token counts"):
			return all(func(c *outcome.Choices, k int) bool { return c.Tokens[k] > 0 && c.Context[k] > 0 })
		}
		return false
	})
	return strings.Join(parts, "; ")
}

// found adds instances of a pair to the cause of the same kind, or begins it.
func found(causes []Cause, cause Cause, p *pair, at ...At) []Cause {
	if len(at) == 0 {
		return causes
	}
	docs := map[int]bool{}
	for _, x := range at {
		docs[x.DocID] = true
	}
	instances := len(docs)
	i := slices.IndexFunc(causes, func(o Cause) bool {
		return o.Code == cause.Code && o.Run == cause.Run && o.Text == cause.Text && o.Certain == cause.Certain
	})
	if i < 0 {
		causes = append(causes, cause)
		i = len(causes) - 1
	}
	o := &causes[i]
	o.Count += instances
	w := p.where(instances)
	switch cause.Code {
	case RequestMissing, Subset, OtherSample:
		w.Of += len(p.onlyA) + len(p.onlyB)
	}
	o.Where = append(o.Where, w)
	o.Examples = append(o.Examples, at...)
	return causes
}

// finish cuts the examples of causes to what is to be listed, those of each task
// in turn, and makes lists that are not nil.
func (c *comparison) finish(causes []Cause) []Cause {
	if causes == nil {
		return []Cause{}
	}
	for i := range causes {
		k := &causes[i]
		if n := c.o.Instances; n >= 0 && len(k.Examples) > n {
			k.Examples = inTurn(k.Examples, n)
		}
		if k.Examples == nil {
			k.Examples = []At{}
		}
		if k.Where == nil {
			k.Where = []Where{}
		}
	}
	return causes
}

// inTurn takes n of a list that is sorted by task: the first of each task, then
// the second, and so on.
func inTurn(all []At, n int) []At {
	type part struct {
		task string
		f    olmes.Formulation
	}
	var order []part
	by := map[part][]At{}
	for _, x := range all {
		k := part{x.Task, x.Formulation}
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], x)
	}
	var out []At
	for round := 0; len(out) < n; round++ {
		for _, k := range order {
			if round < len(by[k]) && len(out) < n {
				out = append(out, by[k][round])
			}
		}
	}
	return out
}

func side(r *outcome.Run) Side {
	id := r.Record.Identity
	s := Side{Label: r.Label, ID: r.Record.ID, Evidence: string(r.Record.Provenance.Evidence), Model: id.Model.Name, Weights: weights(id), Engine: engine(id), BOS: bosText(id)}
	for _, t := range r.Tasks {
		for _, f := range t.Forms {
			s.Instances += f.Len()
		}
	}
	return s
}

// weights says what the weights are and what they are computed in.
func weights(id record.Identity) string {
	var parts []string
	if t := weightTypes(id.Model); t != "" {
		parts = append(parts, t)
	} else if id.Precision.Published != "" {
		parts = append(parts, id.Precision.Published)
	}
	if q := id.Model.Quantization; q != "" {
		parts = append(parts, q)
	}
	if p := id.Precision.Computed; p != "" {
		parts = append(parts, "computed in "+p)
	}
	if id.Model.Adapter != "" {
		parts = append(parts, "with the adapter "+id.Model.Adapter)
	}
	return strings.Join(parts, ", ")
}

// weightTypes lists the types of a model's tensors, the most frequent first.
func weightTypes(m record.Model) string {
	type entry struct {
		name string
		n    int
	}
	var all []entry
	for name, n := range m.WeightTypes {
		all = append(all, entry{name, n})
	}
	slices.SortFunc(all, func(x, y entry) int { return cmp.Or(cmp.Compare(y.n, x.n), strings.Compare(x.name, y.name)) })
	var out []string
	for _, e := range all {
		out = append(out, e.name)
	}
	return strings.Join(out, " and ")
}

func engine(id record.Identity) string {
	var parts []string
	for _, s := range []string{id.Engine.Name, id.Engine.Version, id.Engine.Variant} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

// bosText says what a run does about a BOS.
func bosText(id record.Identity) string {
	b := id.BOS
	switch {
	case b.Policy == "":
		return "not known"
	case b.Added && b.ID != nil:
		return fmt.Sprintf("token %d (--bos %s)", *b.ID, b.Policy)
	case b.Added:
		return fmt.Sprintf("one (--bos %s)", b.Policy)
	}
	return fmt.Sprintf("none (--bos %s)", b.Policy)
}

// known reports whether a digest is.
func known(d [32]byte) bool { return !bytes.Equal(d[:], make([]byte, len(d))) }

// plural counts things in words.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
