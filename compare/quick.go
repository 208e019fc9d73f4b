package compare

import (
	"math"
	"math/bits"

	"olmes/stat"
)

// quick compares many pairs by the same formulas as estimate, without memory of
// its own: what does not depend on the pair is prepared once.
type quick struct {
	right [][]uint64 // by run: the right answers of all members, one after the other
	units [][]*member
	forms [][]*Score // each run's own score in the formulation it counts by, by unit and run
}

// member is one task of a unit: the sets of each run in the formulation that it
// counts by, nil where it has no instances.
type member struct {
	table  *table
	runs   []*column
	whole  []bool // every position has an answer
	at     int    // where its words begin in quick.right
	words  int
	multis []int // words of positions that share a text
	singly int   // sum of the clusters' squared sizes, less the number of instances in them
	fewer  int   // clusters less instances, of those that share a text
}

func (s *Set) prepare(units []unit) *quick {
	q := &quick{right: make([][]uint64, len(s.sides))}
	words := 0
	for _, u := range units {
		own := make([]*Score, len(s.sides))
		at := make([]int, len(s.sides))
		for i, sd := range s.sides {
			at[i], _, _ = s.choose(i, i, u, u, s.options.View)
			own[i] = sd.own[u].forms[at[i]]
		}
		var members []*member
		for _, k := range s.members[u] {
			t := s.tables[k]
			m := &member{table: t, runs: make([]*column, len(s.sides)), whole: make([]bool, len(s.sides)), at: words, words: len(newSet(t.size))}
			words += m.words
			for i := range s.sides {
				if m.runs[i] = t.columns[at[i]][i]; m.runs[i] != nil {
					m.whole[i] = m.runs[i].known.count() == t.size
				}
			}
			if c := t.clusters; c != nil {
				m.singly, m.fewer = c.nn, len(c.size)
				for w, word := range c.multi {
					if word != 0 {
						m.multis = append(m.multis, w)
						m.singly -= bits.OnesCount64(word)
						m.fewer -= bits.OnesCount64(word)
					}
				}
			}
			members = append(members, m)
		}
		q.units, q.forms = append(q.units, members), append(q.forms, own)
	}
	for i := range s.sides {
		q.right[i] = make([]uint64, words)
		for _, members := range q.units {
			for _, m := range members {
				if c := m.runs[i]; c != nil {
					copy(q.right[i][m.at:], c.right)
				}
			}
		}
	}
	return q
}

// gap is a pair's difference in one unit or on average, with its variance
// (below 0 where it is not known).
type gap struct {
	difference, variance float64
	onlyA, onlyB         int
	paired               bool
}

// average is the mean over all units.
func (q *quick) average(i, j int, sc *scratch) gap {
	out := gap{paired: true}
	n := float64(len(q.units))
	for u := range q.units {
		o := q.unit(u, i, j, sc)
		out.difference += o.difference
		out.variance = add(out.variance, o.variance)
		out.onlyA, out.onlyB = out.onlyA+o.onlyA, out.onlyB+o.onlyB
		out.paired = out.paired && o.paired
	}
	out.difference /= n
	if out.variance > 0 {
		out.variance /= n * n
	}
	return out
}

// add adds variances, of which one below 0 is not known.
func add(a, b float64) float64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// unit is the mean over a unit's tasks that both runs have.
func (q *quick) unit(u, i, j int, sc *scratch) gap {
	out := gap{paired: true}
	var plain, clustered float64
	strata, known, shared := 0, true, false
	x, y := q.right[i], q.right[j]
	for _, m := range q.units[u] {
		var sums stat.ClusterSums
		all := m.whole[i] && m.whole[j]
		if all {
			sums = wholeSums(x[m.at:m.at+m.words], y[m.at:m.at+m.words], m.table.size)
		} else {
			a, b := m.runs[i], m.runs[j]
			if a == nil || b == nil {
				continue
			}
			sums = partSums(a, b)
		}
		if sums.N == 0 {
			continue
		}
		strata++
		n := float64(sums.N)
		out.difference += float64(sums.Sum) / n
		up := (sums.Squares + sums.Sum) / 2
		out.onlyB, out.onlyA = out.onlyB+up, out.onlyA+sums.Squares-up
		v := variance(sums)
		plain = add(plain, v)
		c := m.table.clusters
		known = known && c != nil
		if c != nil && len(c.size) > 0 {
			shared = true
			if all {
				m.correct(&sums, x[m.at:m.at+m.words], y[m.at:m.at+m.words], sc)
			} else {
				sums = stratum{table: m.table, a: m.runs[i], b: m.runs[j]}.difference(sc)
			}
			v = variance(sums)
		}
		clustered = add(clustered, v)
	}
	if strata == 0 {
		a, b := q.forms[u][i], q.forms[u][j]
		out = gap{difference: b.Accuracy - a.Accuracy, variance: -1}
		if se := stat.DifferenceError(a.SE, b.SE); se != nil {
			out.variance = *se * *se
		}
		return out
	}
	n := float64(strata)
	out.difference /= n
	if out.variance = plain; known && shared {
		out.variance = clustered
	}
	if out.variance > 0 {
		out.variance /= n * n
	}
	return out
}

// variance is the square of the clustered error, below 0 where there is none.
func variance(s stat.ClusterSums) float64 {
	if v, ok := s.Variance(); ok {
		return v
	}
	return -1
}

// wholeSums adds up B − A of n instances, all of which both have an answer to, with
// every instance for a cluster of its own.
func wholeSums(right, other []uint64, n int) stat.ClusterSums {
	up, down := 0, 0
	other = other[:len(right)]
	for w, x := range right {
		d := x ^ other[w]
		up += bits.OnesCount64(d &^ x)
		down += bits.OnesCount64(d & x)
	}
	return single(n, up, down)
}

// partSums does so over the instances that both have an answer to.
func partSums(a, b *column) stat.ClusterSums {
	up, down, n := 0, 0, 0
	for w := range a.right {
		known := a.known[w] & b.known[w]
		x, y := a.right[w]&known, b.right[w]&known
		up += bits.OnesCount64(y &^ x)
		down += bits.OnesCount64(x &^ y)
		n += bits.OnesCount64(known)
	}
	return single(n, up, down)
}

// single is the sums of n instances, a cluster each.
func single(n, up, down int) stat.ClusterSums {
	return stat.ClusterSums{N: n, Clusters: n, Sum: up - down, Squares: up + down, SS: up + down, NS: up - down, NN: n}
}

// correct takes the instances together that are about one text.
func (m *member) correct(s *stat.ClusterSums, right, other []uint64, sc *scratch) {
	c := m.table.clusters
	sc.room(len(c.size))
	sc.touched = sc.touched[:0]
	for _, w := range m.multis {
		x, y := right[w], other[w]
		for word := (x ^ y) & c.multi[w]; word != 0; word &= word - 1 {
			bit := bits.TrailingZeros64(word)
			k := c.of[64*w+bit]
			if sc.sums[k] == 0 {
				sc.touched = append(sc.touched, k)
			}
			sc.sums[k] += 2*int32(y>>bit&1) - 1
			s.SS--
			s.NS -= 2*int(y>>bit&1) - 1
		}
	}
	for _, k := range sc.touched {
		v := int(sc.sums[k])
		sc.sums[k] = 0
		s.SS += v * v
		s.NS += v * int(c.size[k])
	}
	s.NN += m.singly
	s.Clusters += m.fewer
}

// test is the p-value of a mean over units.
func (o gap) test() (float64, bool) {
	if o.variance < 0 {
		return 0, false
	}
	se := math.Sqrt(o.variance)
	all := stat.Pairs{OnlyA: o.onlyA, OnlyB: o.onlyB}
	if !o.paired {
		all = stat.Pairs{}
	}
	if p, ok := normalTest(o.difference, &se, all); ok {
		return p, true
	}
	return 1, o.paired && o.onlyA+o.onlyB == 0 // not one instance differs
}
