package compare

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"

	"olmes"
	"olmes/outcome"
	"olmes/record"
	"olmes/score"
)

// key names a task in a split and a variant, which is where instances join.
type key struct{ task, split, variant string }

// The two formulations, by index.
const (
	cf = iota
	mcf
	forms
)

func formulation(f int) olmes.Formulation { return []olmes.Formulation{olmes.CF, olmes.MCF}[f] }

// side is what is kept of a run.
type side struct {
	model  Model
	parts  map[key]*part
	order  []key
	own    map[unit]*own
	suite  *score.Suite
	of     string // equal for runs of one model in one setting; "" where it is not known whether they are
	looked bool   // for near-ties
	stated bool   // near-ties are by a stated margin
}

// part is one task of a side.
type part struct {
	group      string
	groupSize  int
	rows       string              // digest of the dataset's rows, "" where not known
	complete   bool                // the standard's instances
	standard   olmes.Normalization // of CF
	forms      [forms]*form
	has        [forms]bool   // the run evaluated it
	identities [forms]string // digest of all requests, "" where not known
	docs       string        // digest of the instances' doc_ids
}

// form is a task in one formulation.
type form struct {
	norm     olmes.Normalization
	docs     []int32 // ascending; shared with other sides where equal
	gold     []int16 // shared as docs
	known    set     // has an answer, by index of docs
	right    set
	prints   []uint64 // fingerprint of an instance's requests, 0 where not known; nil where not read
	toRight  set      // near-ties that are wrong and would be right; nil where not looked for
	toWrong  set
	nearTies set
}

// unit is a task, or a group of tasks that count as one.
type unit struct{ name, split, variant string }

// own is what a run's metrics say of a unit, over all its instances.
type own struct {
	better    olmes.Formulation // "" where there is no score
	forms     [forms]*Score
	nearNoise bool     // the better formulation is better by less than its noise
	chance    *float64 // nil where not known
}

// pool keeps one copy of lists that many sides share.
type pool struct {
	mu   sync.Mutex
	seed maphash.Seed
	docs map[uint64][][]int32
	gold map[uint64][][]int16
}

func newPool() *pool {
	return &pool{seed: maphash.MakeSeed(), docs: map[uint64][][]int32{}, gold: map[uint64][][]int16{}}
}

func (p *pool) doc(list []int32) []int32 { return interned(p, p.docs, list) }
func (p *pool) gol(list []int16) []int16 { return interned(p, p.gold, list) }

// interned returns the list that was kept first of those equal to it.
func interned[T int16 | int32](p *pool, kept map[uint64][][]T, list []T) []T {
	var h maphash.Hash
	h.SetSeed(p.seed)
	var buf [4]byte
	for _, v := range list {
		binary.LittleEndian.PutUint32(buf[:], uint32(v))
		h.Write(buf[:])
	}
	sum := h.Sum64()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range kept[sum] {
		if slices.Equal(k, list) {
			return k
		}
	}
	list = slices.Clone(list)
	kept[sum] = append(kept[sum], list)
	return list
}

// newSide keeps what a comparison needs of a run.
func newSide(run *outcome.Run, p *pool, near []score.NearTie) *side {
	id := run.Record.Identity
	s := &side{parts: map[key]*part{}, own: map[unit]*own{}, suite: run.Metrics.Suite, model: newModel(run), of: modelOf(id)}
	for _, t := range id.Tasks {
		k := key{t.Name, t.Split, id.VariantOf(t)}
		pt := &part{group: t.Group, groupSize: t.GroupSize, rows: t.Dataset.RowsSHA256, complete: t.Complete, standard: t.Normalization, docs: t.DocIDsSHA256}
		for f := range forms {
			var r record.Requests
			r, pt.has[f] = t.Formulations[formulation(f)]
			pt.identities[f] = r.RequestsSHA256
		}
		s.parts[k] = pt
		s.order = append(s.order, k)
	}
	for _, t := range run.Tasks {
		pt := s.parts[key{t.Name, t.Split, t.Variant}]
		if pt == nil {
			continue // outcome.Load refuses instances of a task that the identity has not
		}
		for f := range forms {
			if of := t.Forms[formulation(f)]; of != nil {
				pt.forms[f] = newForm(of, p)
			}
		}
	}
	for _, n := range near {
		s.near(n)
	}
	s.metrics(run.Metrics)
	return s
}

func newModel(run *outcome.Run) Model {
	r := run.Record
	m := Model{Label: run.Label, ID: r.ID, Dir: r.Dir, Name: r.Identity.Model.Name, Evidence: r.Provenance.Evidence,
		Standard: true, Deviations: record.Deviations(r.Identity, &run.Metrics)}
	if m.Evidence == "" {
		m.Evidence = record.Scored
	}
	if i := r.Provenance.Import; i != nil {
		m.Tool = i.Tool
	}
	for _, d := range m.Deviations {
		m.Standard = m.Standard && !d.OffStandard
	}
	if m.Deviations == nil {
		m.Deviations = []record.Deviation{}
	}
	if s := run.Metrics.Suite; s != nil {
		m.Average = s.Average
	}
	return m
}

func newForm(of *outcome.Form, p *pool) *form {
	n := of.Len()
	f := &form{norm: of.Normalization, docs: p.doc(of.DocID), gold: p.gol(of.Gold), known: newSet(n), right: newSet(n)}
	if k := slices.Index(olmes.Normalizations(), of.Normalization); k >= 0 {
		for i, best := range of.Best[k] {
			if best < 0 || of.Gold[i] < 0 {
				continue
			}
			f.known.add(i)
			if best == of.Gold[i] {
				f.right.add(i)
			}
		}
	}
	if len(of.Start) == n+1 {
		f.prints = make([]uint64, n)
		for i := range n {
			f.prints[i] = fingerprint(of.Choice.Request[of.Start[i]:of.Start[i+1]])
		}
	}
	return f
}

// fingerprint mixes the digests of an instance's requests; 0 where one is not
// known.
func fingerprint(requests [][32]byte) uint64 {
	h := uint64(len(requests)) + 0x9E3779B97F4A7C15
	for _, r := range requests {
		if r == ([32]byte{}) {
			return 0
		}
		h = (h ^ binary.LittleEndian.Uint64(r[:8])) * 0x100000001B3
		h ^= h >> 29
	}
	return max(h, 1)
}

// near marks a near-tie.
func (s *side) near(n score.NearTie) {
	f := cf
	if n.Formulation == olmes.MCF {
		f = mcf
	}
	for _, k := range s.order {
		if k.task != n.Task || k.variant != n.Variant || s.parts[k].forms[f] == nil {
			continue
		}
		of := s.parts[k].forms[f]
		i, ok := slices.BinarySearch(of.docs, int32(n.DocID))
		if !ok {
			continue
		}
		if of.nearTies == nil {
			size := len(of.docs)
			of.nearTies, of.toRight, of.toWrong = newSet(size), newSet(size), newSet(size)
		}
		of.nearTies.add(i)
		switch n.Turn {
		case score.ToRight:
			of.toRight.add(i)
		case score.ToWrong:
			of.toWrong.add(i)
		}
	}
}

// metrics keeps the scores that the run itself has.
func (s *side) metrics(m score.Metrics) {
	for _, t := range m.Tasks {
		o := &own{chance: t.Chance}
		for f := range forms {
			of, ok := t.Formulations[formulation(f)]
			if !ok {
				continue
			}
			if e, ok := of.Accuracy[of.Normalization]; ok {
				o.forms[f] = newScore(formulation(f), of.Normalization, e)
			}
		}
		o.score(t.Score)
		s.own[unit{t.Task, t.Split, t.Variant}] = o
	}
	for _, g := range m.Groups {
		o := &own{chance: g.Chance}
		for f := range forms {
			norm := s.groupNorm(g, f)
			if e, ok := g.Formulations[formulation(f)].Macro[norm]; ok {
				o.forms[f] = newScore(formulation(f), norm, e)
			}
		}
		o.score(g.Score)
		s.own[unit{g.Group, g.Split, g.Variant}] = o
	}
}

func (o *own) score(s *score.Score) {
	if s != nil {
		o.better = s.Formulation
		o.nearNoise = s.Difference != nil && s.Difference.NearNoise
	}
}

// groupNorm is the normalization that counts for a group in a formulation.
func (s *side) groupNorm(g score.Group, f int) olmes.Normalization {
	if f == cf {
		for _, k := range s.order {
			if pt := s.parts[k]; pt.group == g.Group && pt.standard != "" {
				return pt.standard
			}
		}
	}
	return olmes.None
}

// unitOf is the unit that a part belongs to.
func (s *side) unitOf(k key) unit {
	if g := s.parts[k].group; g != "" {
		return unit{g, k.split, k.variant}
	}
	return unit{k.task, k.split, k.variant}
}
