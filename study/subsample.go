package study

import (
	"math"
	"slices"

	"olmes"
	"olmes/pyrandom"
	"olmes/stat"
	"olmes/task"
)

// SubsampleStudy says what evaluating fewer instances costs in precision.
type SubsampleStudy struct {
	Variant string          `json:"variant"`
	Models  []string        `json:"models"`
	Draws   int             `json:"draws"`
	Tasks   []SubsampleTask `json:"tasks"`
	Notes   []Note          `json:"notes"`
}

// SubsampleTask is one task's part, on the instances that all models have.
type SubsampleTask struct {
	Task      string    `json:"task"`
	Models    []string  `json:"models"`
	Instances int       `json:"instances"`
	Scores    []float64 `json:"scores"` // of all instances, one a model
	// Micro says that the scores, of samples and of all, are shares of a group's
	// instances together and not the mean over its tasks, which the standard takes.
	Micro bool            `json:"micro"`
	Sizes []SubsampleSize `json:"sizes"`
	// Standard is what the standard's own subsample costs against the whole
	// split; null where the standard takes all.
	Standard *StandardSample `json:"standard_sample"`
}

// SubsampleSize is what a sample of k of the instances is worth.
type SubsampleSize struct {
	K int `json:"k"`
	// SE is the standard error of an accuracy of k instances, the mean over the
	// models: how far it is from that of ever more instances like these.
	SE float64 `json:"se"`
	// Off is how far scores of k instances are from those of all, root mean
	// square over draws and models. A score is the better of both formulations,
	// so this includes choosing the other one.
	Off float64 `json:"off"`
	// Bias is the mean of the same distance with its sign: the better of two
	// noisy numbers is too high, the more so for few instances.
	Bias float64 `json:"bias"`
	// Tau is Kendall's rank correlation (tau-b) with the ranks of all instances,
	// SameBest the share of draws with the same best model, Flipped the share of
	// pairs of models in the other order; null for one model.
	Tau      *float64 `json:"tau"`
	SameBest *float64 `json:"same_best"`
	Flipped  *float64 `json:"flipped"`
	// OtherFormulation is the share of draws and models whose better formulation
	// is another one.
	OtherFormulation float64 `json:"other_formulation"`
}

// StandardSample compares the standard's subsample with the whole split.
type StandardSample struct {
	Sample  int     `json:"sample"`
	Split   int     `json:"split"`
	SE      float64 `json:"se"`       // of the sample's score
	SplitSE float64 `json:"split_se"` // of the whole split's, were it as high
	Ratio   float64 `json:"ratio"`    // how many times larger
	// Off is the standard error of the sample's score as an estimate of the whole
	// split's.
	Off float64 `json:"off"`
}

// Subsamples draws samples without replacement of every size, the same for all
// models, as often as the bootstrap draws.
func Subsamples(models []Model, variant string, b stat.Bootstrap) SubsampleStudy {
	if b.Resamples <= 0 {
		b.Resamples = stat.Resamples
	}
	var n notes
	out := SubsampleStudy{Variant: variant, Models: labels(models), Draws: b.Resamples, Tasks: []SubsampleTask{}}
	for _, name := range unitNames(models, variant) {
		if t, ok := subsampleTask(models, name, variant, b, &n); ok {
			out.Tasks = append(out.Tasks, t)
		}
	}
	n.deviations(models)
	out.Notes = n.all()
	return out
}

func subsampleTask(models []Model, name, variant string, b stat.Bootstrap, n *notes) (SubsampleTask, bool) {
	t := SubsampleTask{Task: name}
	var units []Unit
	var cols []column
	for i := range models {
		u, ok := models[i].unit(name, variant)
		if !ok || !u.has(olmes.CF) || !u.has(olmes.MCF) {
			continue
		}
		if len(units) > 0 && !slices.Equal(units[0].names(), u.names()) {
			n.add("other-subjects", "%s: %s has other tasks of it than %s and is left out", name, models[i].Label, t.Models[0])
			continue
		}
		units, t.Models = append(units, u), append(t.Models, models[i].Label)
		cols = append(cols, u.column(olmes.CF, u.normalization(olmes.CF)), u.column(olmes.MCF, olmes.None))
	}
	if len(units) == 0 {
		return t, false
	}
	p, ok := newPanel(cols)
	if !ok {
		n.add("no-shared-instances", "%s: the models share no instance", name)
		return t, false
	}
	if p.dropped > 0 {
		n.add("not-shared", "%s: left out: %s that not every model answered", name, plural(p.dropped, "instance"))
	}
	if len(units) > 1 {
		for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			samePrompts(name, t.Models, units, f, n)
		}
	}
	t.Instances, t.Micro = p.n(), len(units[0].Tasks) > 1
	s := newSampler(p)
	t.Scores = s.scores
	for _, k := range append(LookSizes(t.Instances), t.Instances) {
		size := SubsampleSize{K: k}
		for _, score := range s.scores {
			if k > 1 {
				size.SE += math.Sqrt(score*(1-score)/float64(k-1)) / float64(len(s.scores))
			}
		}
		t.Sizes = append(t.Sizes, size)
	}
	s.draw(t.Sizes, b)
	if whole, sampled := sampledTask(name); sampled && units[0].Whole() {
		t.Standard = standardSample(s.scores, t.Instances, whole)
	}
	return t, true
}

// sampledTask returns the size of a task's split, and whether the standard takes
// a sample of it.
func sampledTask(name string) (int, bool) {
	t, ok := task.Lookup(name)
	return t.Size, ok && t.Sample > 0
}

func standardSample(scores []float64, n, split int) *StandardSample {
	s := StandardSample{Sample: n, Split: split}
	for _, p := range scores {
		s.SE += math.Sqrt(p*(1-p)/float64(n-1)) / float64(len(scores))
		s.SplitSE += math.Sqrt(p*(1-p)/float64(split-1)) / float64(len(scores))
	}
	if s.SplitSE == 0 {
		return nil
	}
	s.Ratio = s.SE / s.SplitSE
	s.Off = s.SE * math.Sqrt(1-float64(n)/float64(split))
	return &s
}

// sampler draws samples of a panel whose columns are CF and MCF of each model.
// Samples of a group are of all its instances together, and their accuracies the
// plain shares: few of a task's instances have no mean of their own.
type sampler struct {
	columns int
	rows    []byte // instance after instance
	scores  []float64
	mcf     []bool // whether MCF is the better formulation
}

func newSampler(p panel) *sampler {
	s := &sampler{columns: p.columns}
	for _, k := range p.strata {
		s.rows = append(s.rows, k.right...)
	}
	counts := make([]int, s.columns)
	for i, r := range s.rows {
		counts[i%s.columns] += int(r)
	}
	s.scores, s.mcf = s.better(counts, p.n())
	return s
}

// better returns each model's better share of k instances, and whether it is
// MCF's.
func (s *sampler) better(counts []int, k int) ([]float64, []bool) {
	scores, mcf := make([]float64, s.columns/2), make([]bool, s.columns/2)
	for m := range scores {
		mcf[m] = counts[2*m+1] > counts[2*m]
		scores[m] = float64(max(counts[2*m], counts[2*m+1])) / float64(k)
	}
	return scores, mcf
}

// draw fills the sizes with what random orders of the instances show of their
// first k.
func (s *sampler) draw(sizes []SubsampleSize, b stat.Bootstrap) {
	n, models := len(s.rows)/s.columns, len(s.scores)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	random := pyrandom.New(int64(b.Seed))
	tallies := make([]sizeTally, len(sizes))
	counts := make([]int, s.columns)
	for range b.Resamples {
		random.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
		clear(counts)
		from := 0
		for i, size := range sizes {
			for _, at := range order[from:size.K] {
				for c, r := range s.rows[at*s.columns : (at+1)*s.columns] {
					counts[c] += int(r)
				}
			}
			from = size.K
			scores, mcf := s.better(counts, size.K)
			tallies[i].add(s, scores, mcf)
		}
	}
	for i := range sizes {
		tallies[i].fill(&sizes[i], b.Resamples, models)
	}
}

// sizeTally sums up the draws of one size.
type sizeTally struct {
	squares, sum, tau, flipped float64
	best, other                int
}

func (t *sizeTally) add(s *sampler, scores []float64, mcf []bool) {
	for m := range scores {
		d := scores[m] - s.scores[m]
		t.squares += d * d
		t.sum += d
		if mcf[m] != s.mcf[m] {
			t.other++
		}
	}
	if len(scores) < 2 {
		return
	}
	tau, flipped := Kendall(scores, s.scores)
	t.tau += tau
	t.flipped += flipped
	if best(scores)[0] == best(s.scores)[0] {
		t.best++
	}
}

func (t *sizeTally) fill(size *SubsampleSize, draws, models int) {
	n := float64(draws)
	size.Off, size.Bias = math.Sqrt(t.squares/n/float64(models)), t.sum/n/float64(models)
	size.OtherFormulation = float64(t.other) / n / float64(models)
	if models > 1 {
		tau, same, flipped := t.tau/n, float64(t.best)/n, t.flipped/n
		size.Tau, size.SameBest, size.Flipped = &tau, &same, &flipped
	}
}

// Kendall returns the rank correlation tau-b of two lists (Kendall 1945) and the
// share of pairs that are in the other order in the second one. Tau is 0 where
// all of one list are equal. The lists have two values or more.
func Kendall(a, b []float64) (tau, flipped float64) {
	var agree, disagree, pairs, tiesA, tiesB float64
	for i := range a {
		for j := range i {
			pairs++
			x, y := a[i]-a[j], b[i]-b[j]
			switch {
			case x*y > 0:
				agree++
			case x*y < 0:
				disagree++
			}
			if x == 0 {
				tiesA++
			}
			if y == 0 {
				tiesB++
			}
		}
	}
	if root := math.Sqrt((pairs - tiesA) * (pairs - tiesB)); root > 0 {
		tau = (agree - disagree) / root
	}
	return tau, disagree / pairs
}
