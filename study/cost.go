package study

import (
	"cmp"
	"math"
	"slices"

	"olmes"
	"olmes/outcome"
	"olmes/record"
)

// CostStudy says what evaluations cost (paper, Appendix F), from the runs' own
// counts.
type CostStudy struct {
	Models []CostModel `json:"models"`
	Notes  []Note      `json:"notes"`
}

// CostModel is what one model's runs cost.
type CostModel struct {
	Model string     `json:"model"`
	Runs  []CostRun  `json:"runs"`
	Tasks []CostTask `json:"tasks"` // one a task (groups as one), variant and formulation
	CF    Cost       `json:"cf"`    // unconditional requests included
	MCF   Cost       `json:"mcf"`
	PMI   Cost       `json:"pmi"` // the unconditional requests, which are part of CF
	All   Cost       `json:"all"` // CF and MCF
	// BothOverCF and BothOverMCF are how many times the distinct tokens of one
	// formulation both take, PMIOverCF what share of CF's the unconditional
	// requests are; null where not known.
	BothOverCF  *float64 `json:"both_over_cf"`
	BothOverMCF *float64 `json:"both_over_mcf"`
	PMIOverCF   *float64 `json:"pmi_over_cf"`
	// Shared is how many naive tokens one distinct token stands for.
	Shared *float64 `json:"naive_over_distinct"`
}

// CostRun is one run's clock, and where it ran.
type CostRun struct {
	Label       string   `json:"label"`
	ID          string   `json:"id"`
	Hours       float64  `json:"hours"` // wall-clock time of its last session
	Resumed     int      `json:"resumed"`
	Computed    int64    `json:"computed"` // tokens
	CPU         string   `json:"cpu,omitempty"`
	Cores       int      `json:"cores,omitempty"`
	Accelerator string   `json:"accelerator,omitempty"`
	Rate        *float64 `json:"tokens_per_second"` // computed ones; null where none was
}

// CostTask is the cost of one task in one formulation.
type CostTask struct {
	Task        string            `json:"task"`
	Variants    []string          `json:"variants"` // rendered together; empty is the standard's rendering
	Formulation olmes.Formulation `json:"formulation"`
	Cost
	PMI *Cost `json:"pmi"` // the part of the unconditional requests; null where there are none
}

// Cost is work. Numbers that a run does not say are null.
type Cost struct {
	Requests int64 `json:"requests"`
	// Naive counts the tokens of every request from its first, Distinct those
	// that differ, Computed those that the engine computed: more than distinct
	// where a prefix is computed again, fewer where an earlier run had them.
	Naive    *int64 `json:"naive"`
	Distinct *int64 `json:"distinct"`
	Computed *int64 `json:"computed"`
	// Hours is the part of the run's wall-clock time by computed tokens.
	Hours *float64 `json:"hours"`
}

func (c *Cost) add(o Cost) {
	c.Requests += o.Requests
	c.Naive, c.Distinct, c.Computed = plus(c.Naive, o.Naive), plus(c.Distinct, o.Distinct), plus(c.Computed, o.Computed)
	c.Hours = plus(c.Hours, o.Hours)
}

// plus adds what is known.
func plus[T int64 | float64](a, b *T) *T {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	sum := *a + *b
	return &sum
}

// Costs sums up what runs cost. With runs read at depth outcome.Tokens it also
// tells the unconditional requests' tokens apart.
func Costs(models []Model) CostStudy {
	var n notes
	out := CostStudy{Models: []CostModel{}}
	for i := range models {
		m := &models[i]
		c := CostModel{Model: m.Label, Runs: []CostRun{}, Tasks: []CostTask{}}
		for _, r := range m.Runs {
			c.run(m, r, &n)
		}
		for _, t := range c.Tasks {
			switch t.Formulation {
			case olmes.CF:
				c.CF.add(t.Cost)
			case olmes.MCF:
				c.MCF.add(t.Cost)
			}
			c.All.add(t.Cost)
			if t.PMI != nil {
				c.PMI.add(*t.PMI)
			}
		}
		c.BothOverCF, c.BothOverMCF = ratio(c.All.Distinct, c.CF.Distinct), ratio(c.All.Distinct, c.MCF.Distinct)
		c.PMIOverCF, c.Shared = ratio(c.PMI.Distinct, c.CF.Distinct), ratio(c.All.Naive, c.All.Distinct)
		out.Models = append(out.Models, c)
	}
	out.Notes = n.all()
	return out
}

func ratio(a, b *int64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	r := float64(*a) / float64(*b)
	return &r
}

// run adds one run's costs.
func (c *CostModel) run(m *Model, r *outcome.Run, n *notes) {
	p := r.Record.Provenance
	run := CostRun{Label: r.Label, ID: r.Record.ID, Hours: p.WallSeconds / 3600, Resumed: p.Resumed, Computed: p.Tokens.Computed}
	if k := len(p.Environments); k > 0 {
		e := p.Environments[k-1]
		run.CPU, run.Cores, run.Accelerator = e.CPU, e.Cores, e.Accelerator
	}
	if p.WallSeconds > 0 && p.Tokens.Computed > 0 && p.Resumed == 0 {
		rate := float64(p.Tokens.Computed) / p.WallSeconds
		run.Rate = &rate
	}
	c.Runs = append(c.Runs, run)
	switch {
	case len(p.TaskTokens) == 0:
		n.add("no-counts", "%s says nothing of its tokens (%s)", r.Label, p.Evidence)
	case p.Resumed > 0:
		n.add("resumed", "%s was taken up again %s, and its clock is that of the last time alone: its hours are too few", r.Label, plural(p.Resumed, "time"))
	case p.Tokens.Computed < p.Tokens.Distinct:
		n.add("reused", "%s computed %d of its %s; the others an earlier run had, so its hours are not the cost of its scores", r.Label, p.Tokens.Computed, plural(int(p.Tokens.Distinct), "distinct token"))
	}
	for _, t := range rows(r) {
		c.task(t)
	}
	if p.Noise != nil && p.Noise.Tokens > 0 {
		n.add("noise", "%s computed %s to measure the noise of its arithmetic, which its hours include", r.Label, plural(int(p.Noise.Tokens), "more token"))
	}
}

// task adds a task's cost to its row; a group's tasks have one.
func (c *CostModel) task(cost CostTask) {
	at := slices.IndexFunc(c.Tasks, func(t CostTask) bool {
		return t.Task == cost.Task && t.Formulation == cost.Formulation && slices.Equal(t.Variants, cost.Variants)
	})
	if at < 0 {
		c.Tasks = append(c.Tasks, cost)
		return
	}
	row := &c.Tasks[at]
	row.Cost.add(cost.Cost)
	if cost.PMI != nil {
		if row.PMI == nil {
			row.PMI = &Cost{}
		}
		row.PMI.add(*cost.PMI)
	}
}

// rows lists what a run did: as its counts have it, and what they say nothing of.
func rows(r *outcome.Run) []CostTask {
	p, id := r.Record.Provenance, r.Record.Identity
	type key struct {
		task, variant string
		f             olmes.Formulation
	}
	tasks := map[key]record.Task{}
	var order []key
	for _, t := range id.Tasks {
		for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			if _, ok := t.Formulations[f]; ok {
				k := key{t.Name, id.VariantOf(t), f}
				tasks[k], order = t, append(order, k)
			}
		}
	}
	var out []CostTask
	add := func(counted *record.TaskTokens, variants []string, of []key) {
		row := CostTask{Task: cmp.Or(tasks[of[0]].Group, of[0].task), Variants: append([]string{}, variants...), Formulation: of[0].f}
		unconditional := 0
		for _, k := range of {
			requests := tasks[k].Formulations[k.f]
			row.Requests += int64(requests.Requests + requests.Unconditional)
			unconditional += requests.Unconditional
			delete(tasks, k)
		}
		if counted != nil {
			row.Naive, row.Distinct, row.Computed = &counted.Naive, &counted.Distinct, &counted.Computed
			row.Hours = hours(p, counted.Computed)
		}
		if unconditional > 0 {
			row.PMI = &Cost{Requests: int64(unconditional)}
			if t := r.Task(of[0].task, of[0].variant); len(of) == 1 && t != nil && counted != nil {
				row.PMI.unconditional(t.Forms[of[0].f], row.Cost, p)
			}
		}
		out = append(out, row)
	}
	for i := range p.TaskTokens {
		k := &p.TaskTokens[i]
		variants := k.Variants
		if len(variants) == 0 {
			variants = []string{""}
		}
		var of []key
		for _, v := range variants {
			if at := (key{k.Task, v, olmes.Formulation(k.Formulation)}); tasks[at].Name != "" {
				of = append(of, at)
			}
		}
		if len(of) > 0 {
			add(k, k.Variants, of)
		}
	}
	for _, k := range order {
		if tasks[k].Name == "" {
			continue
		}
		var variants []string
		if k.variant != "" {
			variants = []string{k.variant}
		}
		add(nil, variants, []key{k})
	}
	return out
}

// hours is the part of a run's wall-clock time by computed tokens; nil where it
// computed none.
func hours(p record.Provenance, computed int64) *float64 {
	if p.Tokens.Computed <= 0 {
		return nil
	}
	h := p.WallSeconds / 3600 * float64(computed) / float64(p.Tokens.Computed)
	return &h
}

// unconditional fills what is known of the unconditional requests of a form whose
// whole cost is given.
func (c *Cost) unconditional(f *outcome.Form, all Cost, p record.Provenance) {
	if f == nil || f.Choice.TokenID == nil {
		return
	}
	c.Naive, c.Distinct = unconditionalTokens(f, *all.Naive)
	if c.Distinct == nil || *all.Distinct <= 0 {
		return
	}
	computed := int64(math.Round(float64(*c.Distinct) / float64(*all.Distinct) * float64(*all.Computed)))
	c.Computed = &computed
	c.Hours = hours(p, computed)
}

// unconditionalTokens tells the unconditional requests' tokens apart from a form's
// naive ones: what the conditional requests do not account for. The distinct ones
// are those of the cue, which all share, and the answers' as a tree of their ids;
// as everywhere, a request's last token is not computed. Nil where a token's id is
// not known.
func unconditionalTokens(f *outcome.Form, naive int64) (*int64, *int64) {
	var conditional, answers, requests int64
	type node struct {
		parent int
		id     int32
	}
	tree := map[node]int{}
	for k := range f.Choice.LogProb {
		ids := f.Choice.TokenID[k]
		if len(ids) == 0 || len(ids) != int(f.Choice.Tokens[k]) {
			return nil, nil
		}
		conditional += int64(f.Choice.Context[k]) + int64(len(ids)) - 1
		answers += int64(len(ids)) - 1
		requests++
		at := 0
		for _, id := range ids[:len(ids)-1] {
			n := node{at, id}
			if _, ok := tree[n]; !ok {
				tree[n] = len(tree) + 1
			}
			at = tree[n]
		}
	}
	rest := naive - conditional
	cue := (rest - answers) / max(requests, 1)
	if rest <= 0 || cue < 1 {
		return nil, nil
	}
	distinct := cue + int64(len(tree))
	return &rest, &distinct
}
