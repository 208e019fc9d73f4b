package study

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	gonum "gonum.org/v1/gonum/stat"

	"olmes"
	"olmes/stat"
)

// MMLUStudy compares the two means of a group of tasks (paper, Table 8): over
// its tasks (macro) and over all instances (micro).
type MMLUStudy struct {
	Group  string      `json:"group"`
	Tasks  []string    `json:"tasks"` // that the study is of
	Models []MMLUModel `json:"models"`
	Notes  []Note      `json:"notes"`
}

// MMLUModel is one model's means.
type MMLUModel struct {
	Model string     `json:"model"`
	Tasks int        `json:"tasks"` // of the group that the model has
	Forms []MMLUForm `json:"forms"`
	// BetterMacro and BetterMicro are the formulations of the higher mean, CF
	// where they are equal; absent unless both are there.
	BetterMacro olmes.Formulation `json:"better_macro,omitempty"`
	BetterMicro olmes.Formulation `json:"better_micro,omitempty"`
}

// MMLUForm is one formulation under one normalization.
type MMLUForm struct {
	Formulation   olmes.Formulation   `json:"formulation"`
	Normalization olmes.Normalization `json:"normalization"`
	Standard      bool                `json:"standard"` // the normalization that counts
	Instances     int                 `json:"instances"`
	// Macro's error takes the tasks as given and draws instances, as scores have
	// it; MacroTasks is for other tasks like these: the tasks' standard deviation
	// over the root of their number.
	Macro      Estimate `json:"macro"`
	MacroTasks *float64 `json:"macro_se_over_tasks"`
	// Micro's error takes instances as independent; MicroClustered takes tasks as
	// clusters of instances that are alike (Miller 2024, section 2.2).
	Micro          Estimate `json:"micro"`
	MicroClustered *float64 `json:"micro_se_clustered"`
	// Difference is macro − micro: tasks with few instances count more in macro.
	Difference Difference `json:"difference"`
}

// MMLUOptions choose what a study of the two means is of.
type MMLUOptions struct {
	Group    string   // "mmlu" where empty
	Subjects []string // names with or without the group's prefix; all that a model has where empty
	// Normalizations of CF; the one that counts where empty. MCF has none alone.
	Normalizations []olmes.Normalization
	Variant        string
	Level          float64 // stat.Level where 0
}

// MMLU computes both means of every model. A model without an asked subject is an
// error, as is a set of models none of which has the group.
func MMLU(models []Model, o MMLUOptions) (MMLUStudy, error) {
	if o.Group == "" {
		o.Group = "mmlu"
	}
	if o.Level == 0 {
		o.Level = stat.Level
	}
	var n notes
	out := MMLUStudy{Group: o.Group, Tasks: []string{}, Models: []MMLUModel{}}
	for i := range models {
		u, ok := models[i].unit(o.Group, o.Variant)
		if !ok {
			n.add("missing", "%s has nothing of %s", models[i].Label, o.Group)
			continue
		}
		u, err := u.subset(o.Subjects)
		if err != nil {
			return out, fmt.Errorf("%s: %w", models[i].Label, err)
		}
		if len(out.Tasks) == 0 {
			out.Tasks = u.names()
		} else if !slices.Equal(out.Tasks, u.names()) {
			n.add("other-subjects", "%s has other tasks of %s than %s: their means do not compare (--subjects takes those that both have)", models[i].Label, o.Group, out.Models[0].Model)
		}
		if len(o.Subjects) == 0 && len(u.Tasks) < u.Size {
			n.add("subset", "%s has %d of the %d tasks of %s: these means are not the standard's", models[i].Label, len(u.Tasks), u.Size, o.Group)
		}
		out.Models = append(out.Models, mmluModel(models[i].Label, u, o, &n))
	}
	if len(out.Models) == 0 {
		return out, fmt.Errorf("no run has anything of %s", o.Group)
	}
	n.deviations(models)
	out.Notes = n.all()
	return out, nil
}

// ErrNoSubject says that a run lacks a subject that was asked for.
var ErrNoSubject = errors.New("it does not hold the subject")

// subset is the unit with some of its tasks alone.
func (u Unit) subset(names []string) (Unit, error) {
	if len(names) == 0 {
		return u, nil
	}
	full := u
	u.Tasks = nil
	for _, name := range names {
		found := false
		for _, t := range full.Tasks {
			if t.Name == name || t.Name == full.Name+"_"+name {
				found = true
				if !slices.Contains(u.Tasks, t) {
					u.Tasks = append(u.Tasks, t)
				}
			}
		}
		if !found {
			have := full.names()
			for i := range have {
				have[i] = strings.TrimPrefix(have[i], full.Name+"_")
			}
			return u, fmt.Errorf("%w %q of %s; it has %s", ErrNoSubject, name, full.Name, strings.Join(have, ", "))
		}
	}
	return u, nil
}

func mmluModel(label string, u Unit, o MMLUOptions, n *notes) MMLUModel {
	out := MMLUModel{Model: label, Tasks: len(u.Tasks), Forms: []MMLUForm{}}
	standard := map[olmes.Formulation]MMLUForm{}
	for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
		if !u.has(f) {
			continue
		}
		norms := []olmes.Normalization{u.normalization(f)}
		if f == olmes.CF && len(o.Normalizations) > 0 {
			norms = o.Normalizations
		}
		for _, norm := range norms {
			m, ok := mmluForm(u, f, norm, o.Level)
			if !ok {
				n.add("not-scored", "%s: %s was not scored for every task of %s", label, norm, u.Name)
				continue
			}
			if m.Standard {
				standard[f] = m
			}
			out.Forms = append(out.Forms, m)
		}
	}
	cf, okCF := standard[olmes.CF]
	mcf, okMCF := standard[olmes.MCF]
	if okCF && okMCF {
		better := func(cf, mcf Estimate) olmes.Formulation {
			if mcf.Value-cf.Value > equal {
				return olmes.MCF
			}
			return olmes.CF
		}
		out.BetterMacro, out.BetterMicro = better(cf.Macro, mcf.Macro), better(cf.Micro, mcf.Micro)
		if out.BetterMacro != out.BetterMicro {
			n.add("other-choice", "%s: the macro mean chooses %s, the micro mean %s", label, out.BetterMacro, out.BetterMicro)
		}
	}
	return out
}

func mmluForm(u Unit, f olmes.Formulation, norm olmes.Normalization, level float64) (MMLUForm, bool) {
	p, ok := newPanel([]column{u.column(f, norm)})
	if !ok {
		return MMLUForm{}, false
	}
	m := MMLUForm{Formulation: f, Normalization: norm, Standard: norm == u.normalization(f), Instances: p.n(), Macro: p.estimates()[0]}
	var scores, clusters []int
	var means, weights []float64
	var variances []*float64
	k, all := float64(len(p.strata)), float64(p.n())
	var value float64
	for i, s := range p.strata {
		correct := p.counts(s)[0]
		mean, se, _ := stat.Proportion(correct, len(s.docs))
		weight := 1/k - float64(len(s.docs))/all
		value += weight * mean
		means, weights, variances = append(means, mean), append(weights, weight), append(variances, se)
		for _, r := range s.right {
			scores, clusters = append(scores, int(r)), append(clusters, i)
		}
	}
	mean, se, _ := stat.Proportion(sum(scores), len(scores))
	m.Micro = Estimate{mean, se}
	if _, se, n, ok := stat.ClusteredMean(scores, clusters); ok && n > 1 {
		m.MicroClustered = se
	}
	m.MacroTasks = deviationOfMean(means)
	m.Difference = newDifference(value, weighted(weights, variances), level)
	return m, true
}

// weighted is the standard error of a weighted sum of independent estimates.
func weighted(weights []float64, errors []*float64) *float64 {
	scaled := make([]*float64, len(errors))
	for i, se := range errors {
		if se == nil {
			return nil
		}
		v := weights[i] * *se * float64(len(errors))
		scaled[i] = &v
	}
	return stat.MeanError(scaled)
}

// deviationOfMean is the sample standard deviation over the root of their number;
// nil for fewer than two values.
func deviationOfMean(values []float64) *float64 {
	if len(values) < 2 {
		return nil
	}
	se := gonum.StdDev(values, nil) / math.Sqrt(float64(len(values)))
	return &se
}

func sum(list []int) int {
	n := 0
	for _, v := range list {
		n += v
	}
	return n
}
