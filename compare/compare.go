package compare

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"olmes"
	"olmes/score"
	"olmes/stat"
)

// Report compares the runs, all of which must have been put.
func (s *Set) Report() *Report {
	s.arrange()
	r := &Report{Alpha: s.options.Alpha, Level: 1 - s.options.Alpha, Power: stat.Power, View: s.options.View, Anyway: s.options.Anyway,
		Models: []Model{}, Tasks: s.scores(), Pairs: []Pair{}, Ranking: []Rank{}, RankedBy: []string{}, Refused: []string{}, Findings: s.find()}
	for _, sd := range s.sides {
		r.Models = append(r.Models, sd.model)
	}
	ranked := true
	for _, f := range r.Findings {
		if f.Blocks {
			r.Refused = append(r.Refused, f.Text)
			ranked = ranked && (f.Code == noCommonTask || f.Code == noCommonScore)
		}
	}
	ranked = ranked || s.options.Anyway
	all := s.averages()
	r.NothingToRank = len(all.units) == 0
	if r.PairsLeftOut = len(s.sides) > s.options.Pairs; !r.PairsLeftOut {
		var sc scratch
		for i := range s.sides {
			for j := i + 1; j < len(s.sides); j++ {
				r.Pairs = append(r.Pairs, s.pair(i, j, ranked, &sc))
			}
		}
	}
	if ranked {
		r.Ranking = s.rank(all)
		for _, u := range all.units {
			r.RankedBy = append(r.RankedBy, u.label())
		}
	}
	return r
}

// scores lists the runs' own scores.
func (s *Set) scores() []Scores {
	out := []Scores{}
	for _, u := range s.units {
		row := Scores{Task: u.name, Variant: u.variant, Split: u.split, Own: make([]Score, len(s.sides))}
		for i, sd := range s.sides {
			if v := sd.shown(u, s.options.View); v != nil {
				row.Own[i] = *v
			}
		}
		out = append(out, row)
	}
	return out
}

// shown is a run's own score in a view, or nil. A run of one formulation has it
// for the better one.
func (sd *side) shown(u unit, v View) *Score {
	o := sd.own[u]
	if o == nil {
		return nil
	}
	switch {
	case v == CF:
		return o.forms[cf]
	case v == MCF:
		return o.forms[mcf]
	case o.better == olmes.CF && o.forms[cf] != nil:
		out := *o.forms[cf]
		out.NearNoise = o.nearNoise
		return &out
	case o.better == olmes.MCF && o.forms[mcf] != nil:
		out := *o.forms[mcf]
		out.NearNoise = o.nearNoise
		return &out
	case o.forms[cf] != nil && o.forms[mcf] == nil:
		return o.forms[cf]
	case o.forms[mcf] != nil && o.forms[cf] == nil:
		return o.forms[mcf]
	}
	return nil
}

// views are those that a row is given in, the report's first.
func (s *Set) views() []View {
	out := []View{s.options.View}
	for _, v := range []View{Better, CF, MCF} {
		if v != s.options.View {
			out = append(out, v)
		}
	}
	return out
}

// pair compares two runs in all that both have.
func (s *Set) pair(i, j int, ranked bool, sc *scratch) Pair {
	p := Pair{A: s.sides[i].model.Label, B: s.sides[j].model.Label, Rows: []Row{}}
	var units []unit
	for _, u := range s.units {
		other, ok := s.partner(j, u)
		if s.sides[i].own[u] == nil || !ok {
			continue
		}
		row := Row{Task: u.name, Variant: u.variant, Split: u.split, Comparisons: []Comparison{}, Warnings: []string{}}
		for _, v := range s.views() {
			if c, ok := s.compare(i, j, u, other, v, sc); ok {
				row.Comparisons = append(row.Comparisons, c)
			}
		}
		if len(row.Comparisons) == 0 {
			continue
		}
		s.warn(&row, i, j, u, other)
		p.Rows = append(p.Rows, row)
		units = append(units, u)
	}
	s.holm(p.Rows, ranked)
	p.Average = s.average(i, j, p.Rows, units, ranked)
	return p
}

// partner is the unit of run j that is compared with u: the same one, or the task
// in another split, with which nothing can be paired.
func (s *Set) partner(j int, u unit) (unit, bool) {
	own := s.sides[j].own
	if own[u] != nil {
		return u, true
	}
	for _, other := range s.units {
		if other.name == u.name && other.variant == u.variant && own[other] != nil {
			return other, true
		}
	}
	return unit{}, false
}

// compare sets run j against run i in one view.
func (s *Set) compare(i, j int, u, other unit, v View, sc *scratch) (Comparison, bool) {
	formI, formJ, ok := s.choose(i, j, u, other, v)
	if !ok {
		return Comparison{}, false
	}
	own, theirs := s.sides[i].own[u].forms[formI], s.sides[j].own[other].forms[formJ]
	c := Comparison{View: v, A: *own, B: *theirs, Method: NoInterval, Strata: 1}
	var strata []stratum
	if u == other {
		strata = s.strata(i, j, u, formI, formJ)
	}
	e, ok := s.estimate(strata, sc)
	if !ok {
		// Nothing shared: the totals are all there is (Miller 2024, 4.1).
		c.N = min(own.N, theirs.N)
		c.Difference = theirs.Accuracy - own.Accuracy
		c.SE = stat.DifferenceError(own.SE, theirs.SE)
		if c.Interval = stat.Normal(c.Difference, c.SE, 1-s.options.Alpha); c.Interval != nil {
			c.Method = Unpaired
		}
		if p, ok := stat.NormalTest(c.Difference, c.SE); ok {
			c.P = &p
		}
		c.Detectable = stat.Detectable(c.SE, s.options.Alpha, stat.Power)
		return c, true
	}
	c.alike = fallAlike(strata, sc)
	c.fill(e, s.options.Alpha)
	s.shares(&c, strata, sc)
	c.Near = s.nearTies(i, j, strata)
	return c, true
}

// fill takes over an estimate.
func (c *Comparison) fill(e estimate, alpha float64) {
	c.N, c.Strata = e.pairs.N(), e.strata
	c.Pairs = &PairCount{e.pairs.Both, e.pairs.OnlyA, e.pairs.OnlyB, e.pairs.None}
	c.Difference, c.SE = e.difference, e.se
	if e.known {
		c.Clustered = &Clustered{SE: e.clustered, Clusters: e.clusters, Shared: e.shared}
	}
	switch {
	case e.known && e.shared != "":
		c.Method, c.Interval = ByClustered, stat.Normal(e.difference, e.clustered, 1-alpha)
	case e.strata > 1:
		c.Method, c.Interval = ByError, stat.Normal(e.difference, e.se, 1-alpha)
	default:
		c.Method, c.Interval = ByScore, e.pairs.Score(1-alpha)
	}
	if c.Interval == nil && e.pairs.N() > 1 {
		c.Method, c.Interval = Exact, c.alike.interval(e.difference, alpha)
	}
	if c.Interval == nil {
		c.Method = NoInterval
	}
	if r, ok := e.pairs.Correlation(); ok {
		c.Correlation = &r
	}
	if t, ok := e.pairs.McNemar(); ok {
		c.McNemar = &t
	}
	p := e.test()
	c.P = &p
	if c.Method == ByScore {
		psi, _ := e.pairs.Discordance()
		c.Detectable = stat.DetectablePaired(c.N, psi, alpha, stat.Power)
	} else {
		c.Detectable = stat.Detectable(e.error(), alpha, stat.Power)
	}
}

// shares gives both scores over the instances compared.
func (s *Set) shares(c *Comparison, strata []stratum, sc *scratch) {
	give := func(to *Score, of func(stratum) (*column, int)) {
		var means []float64
		var ses, clustered []*float64
		right := 0
		known := true
		for _, st := range strata {
			col, k := of(st)
			right += k
			p, se, _ := stat.Proportion(k, st.pairs.N())
			means, ses = append(means, p), append(ses, se)
			if st.table.clusters == nil {
				known = false
				continue
			}
			_, se, _ = st.alone(col, sc).Mean()
			clustered = append(clustered, se)
		}
		to.Accuracy, _ = stat.Mean(means)
		to.SE, to.N, to.ClusteredSE = stat.MeanError(ses), c.N, nil
		if known {
			to.ClusteredSE = stat.MeanError(clustered)
		}
		to.Interval = stat.Normal(to.Accuracy, to.SE, 1-s.options.Alpha)
		if len(strata) == 1 {
			to.Interval = stat.Wilson(right, c.N, 1-s.options.Alpha)
		}
	}
	give(&c.A, func(st stratum) (*column, int) { return st.a, st.pairs.Both + st.pairs.OnlyA })
	give(&c.B, func(st stratum) (*column, int) { return st.b, st.pairs.Both + st.pairs.OnlyB })
}

// nearTies says how far noise may move the difference, nil where either run's
// near-ties were not looked for.
func (s *Set) nearTies(i, j int, strata []stratum) *Near {
	a, b := s.sides[i], s.sides[j]
	if !a.looked || !b.looked {
		return nil
	}
	n := &Near{Stated: a.stated || b.stated}
	lows, highs := make([]float64, len(strata)), make([]float64, len(strata))
	for k, st := range strata {
		d, _, _ := st.pairs.Difference()
		var down, up int
		for w := range st.a.known {
			known := st.a.known[w] & st.b.known[w]
			at := func(s set) uint64 {
				if s == nil {
					return 0
				}
				return s[w] & known
			}
			count := func(word uint64) (n int) {
				each(word, 0, func(int) { n++ })
				return n
			}
			n.A += count(at(st.a.nearTies))
			n.B += count(at(st.b.nearTies))
			n.Turns += count(at(st.a.toRight) | at(st.a.toWrong) | at(st.b.toRight) | at(st.b.toWrong))
			down += count(at(st.b.toWrong)) + count(at(st.a.toRight))
			up += count(at(st.b.toRight)) + count(at(st.a.toWrong))
		}
		of := float64(st.pairs.N())
		lows[k], highs[k] = d-float64(down)/of, d+float64(up)/of
	}
	n.Low, _ = stat.Mean(lows)
	n.High, _ = stat.Mean(highs)
	return n
}

// holm corrects the p-values of a pair's first comparisons and gives verdicts.
func (s *Set) holm(rows []Row, ranked bool) {
	var ps []float64
	var at []*Row
	for k := range rows {
		if c := &rows[k].Comparisons[0]; c.View == s.options.View && c.P != nil {
			ps = append(ps, *c.P)
			at = append(at, &rows[k])
		}
	}
	for k, p := range stat.Holm(ps) {
		c := &at[k].Comparisons[0]
		c.Holm = &p
		if ranked {
			at[k].Verdict = verdict(c.Difference, p, s.options.Alpha)
		}
	}
}

func verdict(difference, p, alpha float64) string {
	switch {
	case p > alpha:
		return "none"
	case difference > 0:
		return "b"
	}
	return "a"
}

// average compares the plain means over the rows, in each view that all of them
// have. It is nil for no row.
func (s *Set) average(i, j int, rows []Row, units []unit, ranked bool) *Row {
	// Variants are no tasks of their own: the standard's rendering counts, or
	// the one variant there is.
	if len(units) == 0 {
		return nil
	}
	var at []int
	variant := s.variants(units)[0]
	for k, u := range units {
		if u.variant == variant {
			at = append(at, k)
		}
	}
	out := &Row{Task: "average", Variant: variant, Tasks: []string{}, Comparisons: []Comparison{}, Warnings: []string{}}
	for _, k := range at {
		out.Tasks = append(out.Tasks, units[k].name)
	}
	for _, v := range s.views() {
		if c, ok := s.averageOf(rows, at, v); ok {
			out.Comparisons = append(out.Comparisons, c)
		}
	}
	if len(out.Comparisons) == 0 {
		return nil
	}
	first := &out.Comparisons[0]
	if ranked && first.View == s.options.View && first.P != nil {
		out.Verdict = verdict(first.Difference, *first.P, s.options.Alpha)
	}
	if first.Interval == nil && len(at) > 1 {
		out.Warnings = append(out.Warnings, s.noAverage(rows, at, first.View))
	}
	a, b := s.sides[i].suite, s.sides[j].suite
	out.Olmes = first.View == Better && a != nil && b != nil && a.Complete && b.Complete && out.Variant == "" && slices.Equal(slices.Sorted(slices.Values(out.Tasks)), score.SuiteTasks())
	if !out.Olmes && len(out.Tasks) > 1 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the plain mean of %d tasks, not the OLMES average", len(out.Tasks)))
	}
	return out
}

// variants lists the variants of units, the standard's rendering first.
func (s *Set) variants(units []unit) []string {
	var out []string
	for _, u := range units {
		if !slices.Contains(out, u.variant) {
			out = append(out, u.variant)
		}
	}
	slices.Sort(out)
	return out
}

func (s *Set) averageOf(rows []Row, at []int, v View) (Comparison, bool) {
	out := Comparison{View: v, Strata: len(at), Method: NoInterval}
	var ds, as, bs []float64
	var ses, sesA, sesB []*float64
	known, paired, clusters := true, true, 0
	near := &Near{}
	var all stat.Pairs
	for _, k := range at {
		i := slices.IndexFunc(rows[k].Comparisons, func(c Comparison) bool { return c.View == v })
		if i < 0 {
			return Comparison{}, false
		}
		c := rows[k].Comparisons[i]
		ds, as, bs = append(ds, c.Difference), append(as, c.A.Accuracy), append(bs, c.B.Accuracy)
		sesA, sesB = append(sesA, c.A.SE), append(sesB, c.B.SE)
		ses = append(ses, c.error())
		if out.alike = out.alike.mean(c.alike); k == at[0] {
			out.alike = c.alike
		}
		out.N += c.N
		if paired = paired && c.Pairs != nil; paired {
			addPairs(&all, stat.Pairs{Both: c.Pairs.Both, OnlyA: c.Pairs.OnlyA, OnlyB: c.Pairs.OnlyB, None: c.Pairs.None})
		}
		if known = known && c.Clustered != nil; known {
			clusters += c.Clustered.Clusters
		}
		if near != nil && c.Near != nil {
			near.A, near.B, near.Turns = near.A+c.Near.A, near.B+c.Near.B, near.Turns+c.Near.Turns
			near.Low, near.High, near.Stated = near.Low+c.Near.Low, near.High+c.Near.High, near.Stated || c.Near.Stated
		} else {
			near = nil
		}
		if out.A.Formulation = c.A.Formulation; v == Better {
			out.A.Formulation = ""
		}
		out.B.Formulation = out.A.Formulation
	}
	out.Difference, _ = stat.Mean(ds)
	out.A.Accuracy, _ = stat.Mean(as)
	out.B.Accuracy, _ = stat.Mean(bs)
	out.A.SE, out.B.SE, out.SE = stat.MeanError(sesA), stat.MeanError(sesB), stat.MeanError(ses)
	out.A.N, out.B.N = out.N, out.N
	alpha := s.options.Alpha
	out.A.Interval, out.B.Interval = stat.Normal(out.A.Accuracy, out.A.SE, 1-alpha), stat.Normal(out.B.Accuracy, out.B.SE, 1-alpha)
	if out.Interval = stat.Normal(out.Difference, out.SE, 1-alpha); out.Interval != nil {
		out.Method = ByError
		if known {
			out.Method = ByClustered
		}
		if !paired {
			out.Method = Unpaired
		}
	} else if out.alike != nil && paired {
		all := *out.alike
		all.draws *= len(at)
		if out.Interval = all.interval(out.Difference, alpha); out.Interval != nil {
			out.Method = Exact
		}
	}
	if known && paired {
		out.Clustered = &Clustered{SE: out.SE, Clusters: clusters, Shared: "text"}
	}
	if !paired {
		all = stat.Pairs{}
	} else {
		out.Pairs = &PairCount{all.Both, all.OnlyA, all.OnlyB, all.None}
	}
	if p, ok := normalTest(out.Difference, out.SE, all); ok {
		out.P = &p
	} else if paired && all.OnlyA+all.OnlyB == 0 {
		p = 1 // not one instance differs
		out.P = &p
	}
	out.Detectable = stat.Detectable(out.SE, alpha, stat.Power)
	if len(at) == 1 { // nothing is averaged: what the task says
		c := rows[at[0]].Comparisons[slices.IndexFunc(rows[at[0]].Comparisons, func(c Comparison) bool { return c.View == v })]
		out.Interval, out.Method, out.P, out.McNemar, out.Detectable = c.Interval, c.Method, c.P, c.McNemar, c.Detectable
	}
	if near != nil {
		n := float64(len(at))
		near.Low, near.High = near.Low/n, near.High/n
		out.Near = near
	}
	return out, true
}

// parallel runs f for 0 to n−1, each worker with memory of its own.
func parallel(n int, f func(i int, sc *scratch)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			var sc scratch
			for i := range next {
				f(i, &sc)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
