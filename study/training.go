package study

import (
	"math"
	"slices"

	"olmes"
	"olmes/stat"
)

// TrainingStudy says since when in its training a model can do what (paper,
// Figure 1): both formulations at each checkpoint, when each leaves chance (onset)
// and when MCF passes CF (crossover).
type TrainingStudy struct {
	Axis        Axis           `json:"axis"`
	Margin      float64        `json:"margin"` // above what guessing gives, for an onset
	Level       float64        `json:"level"`  // of the events' intervals
	Checkpoints []Moments      `json:"checkpoints"`
	Tasks       []TrainingTask `json:"tasks"` // and "average" where every checkpoint has all of several tasks
	Notes       []Note         `json:"notes"`
}

// Moments names a checkpoint.
type Moments struct {
	Model string  `json:"model"`
	Step  float64 `json:"step"`
}

// TrainingTask is one task's curves and events.
type TrainingTask struct {
	Task string `json:"task"`
	// Guessing is the larger of chance and the best constant position: what a
	// model that knows nothing can have.
	Guessing float64      `json:"guessing"`
	Chance   float64      `json:"chance"`
	Curve    []CurvePoint `json:"curve"`
	// CFOnset and MCFOnset are where the accuracy first is Margin above Guessing
	// for good, Crossover is where MCF is no longer below CF.
	CFOnset   TrainingEvent `json:"cf_onset"`
	MCFOnset  TrainingEvent `json:"mcf_onset"`
	Crossover TrainingEvent `json:"crossover"`
	Phases    []Phase       `json:"phases"`
	// Overestimate is null for the average, and where checkpoints share no
	// instances.
	Overestimate *Overestimate `json:"overestimate"`
}

// CurvePoint is a task at one checkpoint.
type CurvePoint struct {
	Model     string            `json:"model"`
	Step      float64           `json:"step"`
	Instances int               `json:"instances"` // 0 for the average
	CF        Estimate          `json:"cf"`
	MCF       Estimate          `json:"mcf"`
	Gap       Difference        `json:"gap"` // MCF − CF, paired
	Better    olmes.Formulation `json:"better"`
	CFNoise   bool              `json:"cf_noise"`  // not above what guessing gives; see AboveGuessing
	MCFNoise  bool              `json:"mcf_noise"` // that checkpoint by itself
	Phase     PhaseName         `json:"phase"`

	gapError float64 // above 0 always
	// common are the errors that this and all earlier checkpoints share: of CF, of
	// MCF and of the gap.
	common [3]float64
}

// TrainingEvent is an event at a step of the training.
type TrainingEvent struct {
	State State `json:"state"`
	// Low and High are the first and the last checkpoint that may be the first
	// one after the event, At the likeliest, as steps; null where they are after
	// the last checkpoint or there is no event.
	At     *float64 `json:"at"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	Width  *int     `json:"width"`  // from Low to High, in checkpoint steps
	Misfit float64  `json:"misfit"` // see Event
	// Declared is what was known when the series was looked at after each
	// checkpoint: the first look that knew of the event, and its interval, which
	// allows for all the looks. Null where none did.
	Declared *TrainingDeclared `json:"declared"`

	event Event
}

// TrainingDeclared is the look at which an event was known on a growing series.
type TrainingDeclared struct {
	Step float64 `json:"step"` // the last checkpoint there was
	Look int     `json:"look"` // how many there were
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// PhaseName says what a checkpoint can do.
type PhaseName string

// Phases of a training.
const (
	PhaseNoise   PhaseName = "noise"       // neither formulation has left chance: both scores are noise
	PhaseCF      PhaseName = "cf-only"     // CF has left chance, MCF has not
	PhaseMCF     PhaseName = "mcf-only"    // MCF has left chance, CF has not
	PhaseBoth    PhaseName = "cf-ahead"    // both have, and MCF has not passed CF
	PhaseCrossed PhaseName = "mcf-ahead"   // MCF has passed CF
	PhaseUnclear PhaseName = "unclear"     // within an interval before which it was noise
	PhaseNever   PhaseName = "no-crossing" // both have left chance and MCF never was behind
)

// Phase is a stretch of checkpoints.
type Phase struct {
	Name PhaseName `json:"name"`
	From float64   `json:"from"` // first and last checkpoint
	To   float64   `json:"to"`
}

// Overestimate says how far the score of the best checkpoint is above what that
// checkpoint has on other instances: the best of many noisy scores is biased
// upward. A score is the better of CF and MCF.
type Overestimate struct {
	Best        float64           `json:"best"` // step
	Formulation olmes.Formulation `json:"formulation"`
	Score       float64           `json:"score"`
	// Mean and Max are the mean and the 97.5% point, over draws of instances, of
	// the drawn best score minus what the same checkpoint has on all instances in
	// the same formulation.
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
	// Noise is the best score in the phase of noise minus what guessing gives;
	// null where there is no such phase.
	Noise *float64 `json:"noise"`
}

// DefaultMargin is how far above guessing an accuracy must be to have left
// chance, unless another margin is asked for: 3.7 standard errors of 1000
// instances with four choices.
const DefaultMargin = 0.05

// averageName names the mean over all tasks.
const averageName = "average"

// Trainings studies a series of checkpoints in their order (see Series), in a
// variant. A margin of 0 means DefaultMargin.
func Trainings(series []Checkpoint, axis Axis, variant string, margin float64, b stat.Bootstrap) TrainingStudy {
	if margin == 0 {
		margin = DefaultMargin
	}
	var n notes
	out := TrainingStudy{Axis: axis, Margin: margin, Level: level(b), Checkpoints: []Moments{}, Tasks: []TrainingTask{}}
	var models []Model
	for _, c := range series {
		out.Checkpoints = append(out.Checkpoints, Moments{c.Model.Label, c.Step})
		models = append(models, c.Model)
	}
	otherModels(series, &n)
	var whole []TrainingTask // that every checkpoint has
	names := unitNames(models, variant)
	for _, name := range names {
		t, ok := trainingTask(series, name, variant, b, &n)
		if !ok {
			continue
		}
		t.events(margin, level(b), &n)
		if t.Overestimate != nil {
			t.noiseMax()
		}
		if len(t.Curve) == len(series) {
			whole = append(whole, t)
		}
		out.Tasks = append(out.Tasks, t)
	}
	if len(whole) > 1 && len(whole) == len(names) {
		t := averageTask(whole, level(b))
		t.events(margin, level(b), &n)
		out.Tasks = append(out.Tasks, t)
	}
	if len(series) < 4 {
		n.add("few-checkpoints", "%s: an event needs some on both of its sides", plural(len(series), "checkpoint"))
	}
	n.deviations(models)
	out.Notes = n.all()
	return out
}

func trainingTask(series []Checkpoint, name, variant string, b stat.Bootstrap, n *notes) (TrainingTask, bool) {
	t := TrainingTask{Task: name}
	var cols []column
	var units []Unit
	var with []string
	for _, c := range series {
		u, ok := c.Model.unit(name, variant)
		if !ok || !u.has(olmes.CF) || !u.has(olmes.MCF) {
			n.add("missing", "%s: %s has not both formulations and is left out", name, c.Model.Label)
			continue
		}
		if len(units) > 0 && !slices.Equal(units[0].names(), u.names()) {
			n.add("other-subjects", "%s: %s has other tasks of it than %s and is left out", name, c.Model.Label, with[0])
			continue
		}
		pair := []column{u.column(olmes.CF, u.normalization(olmes.CF)), u.column(olmes.MCF, olmes.None)}
		p, ok := newPanel(pair)
		if !ok {
			n.add("missing", "%s: the formulations of %s share no instance; it is left out", name, c.Model.Label)
			continue
		}
		chance, majority := c.Model.levels(u)
		if chance == nil {
			n.add("missing", "%s: %s says no chance level and is left out", name, c.Model.Label)
			continue
		}
		units, with, cols = append(units, u), append(with, c.Model.Label), append(cols, pair...)
		t.Chance, t.Guessing = max(t.Chance, *chance), max(t.Guessing, *chance, *majority)
		t.Curve = append(t.Curve, curvePoint(c, p, level(b), chance, majority))
	}
	if len(units) == 0 {
		return t, false
	}
	samePrompts(name, with, units, olmes.CF, n)
	samePrompts(name, with, units, olmes.MCF, n)
	if p, ok := newPanel(cols); ok {
		if p.dropped > 0 {
			n.add("not-shared", "%s: left out of the overestimate: %s that not every checkpoint answered", name, plural(p.dropped, "instance"))
		}
		t.shared(p)
		t.overestimate(p, b)
	} else {
		n.add("no-shared-instances", "%s: the checkpoints share no instance", name)
	}
	return t, true
}

func curvePoint(c Checkpoint, p panel, level float64, chance, majority *float64) CurvePoint {
	e := p.estimates()
	point := CurvePoint{Model: c.Model.Label, Step: c.Step, Instances: p.n(), CF: e[0], MCF: e[1], Better: olmes.CF}
	if e[1].Value-e[0].Value > equal {
		point.Better = olmes.MCF
	}
	pairs := p.pairs(0, 1)
	point.Gap, _ = difference(pairs, level)
	point.CFNoise, point.MCFNoise = !AboveGuessing(e[0], chance, majority), !AboveGuessing(e[1], chance, majority)
	var sum float64
	for _, s := range pairs {
		n, d := float64(s.N()), float64(s.OnlyB-s.OnlyA)
		// One more instance that differs keeps the error above 0.
		sum += (float64(s.OnlyA+s.OnlyB+1) - d*d/n) / (n * n)
	}
	point.gapError = math.Sqrt(sum) / float64(len(pairs))
	return point
}

// shared fills the errors that checkpoints share. The covariances of k estimates
// sum to the variance of their sum less their own, and the instances that all
// checkpoints have tell both.
func (t *TrainingTask) shared(p panel) {
	variances := make([][3]float64, len(t.Curve)) // of the sums up to a checkpoint
	own := make([][3]float64, len(t.Curve))       // sums of the variances up to it
	for _, s := range p.strata {
		n := float64(len(s.docs))
		if n < 2 {
			continue
		}
		sums := make([][3]float64, len(s.docs))
		for k := range t.Curve {
			var total, squares, single, singles [3]float64
			for i := range sums {
				cf, mcf := float64(s.right[i*p.columns+2*k]), float64(s.right[i*p.columns+2*k+1])
				for j, v := range [3]float64{cf, mcf, mcf - cf} {
					sums[i][j] += v
					total[j], squares[j] = total[j]+sums[i][j], squares[j]+sums[i][j]*sums[i][j]
					single[j], singles[j] = single[j]+v, singles[j]+v*v
				}
			}
			for j := range 3 {
				scale := 1 / (n * (n - 1) * float64(len(p.strata)*len(p.strata)))
				variances[k][j] += (squares[j] - total[j]*total[j]/n) * scale
				v := (singles[j] - single[j]*single[j]/n) * scale
				for later := k; later < len(own); later++ {
					own[later][j] += v
				}
			}
		}
	}
	for k := 1; k < len(t.Curve); k++ {
		for j := range 3 {
			t.Curve[k].common[j] = math.Sqrt(max(variances[k][j]-own[k][j], 0) / float64(k*(k+1)))
		}
	}
}

// positiveError is an accuracy's standard error, kept above 0 where all or none
// of its instances are right, as if two right and two wrong ones were added
// (Agresti and Coull 1998).
func positiveError(e Estimate, n int) float64 {
	if e.SE != nil && *e.SE > 0 && n >= 30 {
		return *e.SE
	}
	m := float64(n) + 4
	p := (e.Value*float64(n) + 2) / m
	return math.Sqrt(p * (1 - p) / m)
}

func averageTask(tasks []TrainingTask, level float64) TrainingTask {
	k := float64(len(tasks))
	t := TrainingTask{Task: averageName}
	for _, of := range tasks {
		t.Chance, t.Guessing = t.Chance+of.Chance/k, t.Guessing+of.Guessing/k
	}
	for i, first := range tasks[0].Curve {
		p := CurvePoint{Model: first.Model, Step: first.Step, Better: olmes.CF}
		var cf, mcf, gap []*float64
		var squares float64
		var common [3]float64
		for _, of := range tasks {
			c := of.Curve[i]
			for j, v := range c.common {
				common[j] += v * v
			}
			p.CF.Value, p.MCF.Value = p.CF.Value+c.CF.Value/k, p.MCF.Value+c.MCF.Value/k
			cf, mcf, gap = append(cf, c.CF.SE), append(mcf, c.MCF.SE), append(gap, c.Gap.SE)
			squares += c.gapError * c.gapError
		}
		p.CF.SE, p.MCF.SE, p.gapError = stat.MeanError(cf), stat.MeanError(mcf), math.Sqrt(squares)/k
		for j, v := range common {
			p.common[j] = math.Sqrt(v) / k
		}
		p.Gap = newDifference(p.MCF.Value-p.CF.Value, stat.MeanError(gap), level)
		if p.Gap.Value > equal {
			p.Better = olmes.MCF
		}
		p.CFNoise, p.MCFNoise = !AboveGuessing(p.CF, &t.Chance, &t.Guessing), !AboveGuessing(p.MCF, &t.Chance, &t.Guessing)
		t.Curve = append(t.Curve, p)
	}
	return t
}

// events finds the task's events, and the phases between them.
func (t *TrainingTask) events(margin, level float64, n *notes) {
	var cf, mcf, gap Curve
	for _, p := range t.Curve {
		size := p.Instances
		if size == 0 { // of the average
			size = 30
		}
		cf.add(p.CF.Value, positiveError(p.CF, size))
		mcf.add(p.MCF.Value, positiveError(p.MCF, size))
		gap.add(p.Gap.Value, p.gapError)
		if p.Instances > 0 && p.Instances < 100 {
			n.add("few-instances", "%s: %s at step %v: errors are taken as normal, which so few are not, and events are seen late", t.Task, plural(p.Instances, "instance"), p.Step)
		}
	}
	// grown is what was known of a curve after n checkpoints.
	grown := func(c Curve, n, which int) Curve {
		c = c.part(0, n)
		c.Common = t.Curve[n-1].common[which]
		return c
	}
	passes := func(c Curve, which int) TrainingEvent {
		return t.event(1-level, func(n int, alpha float64) Event {
			return PassesLevel(grown(c, n, which), t.Guessing+margin, alpha)
		})
	}
	t.CFOnset, t.MCFOnset = passes(cf, 0), passes(mcf, 1)
	t.Crossover = t.event(1-level, func(n int, alpha float64) Event { return Crosses(grown(gap, n, 2), alpha) })
	for _, of := range []struct {
		what  string
		event TrainingEvent
	}{{"CF", t.CFOnset}, {"MCF", t.MCFOnset}, {"MCF − CF", t.Crossover}} {
		if of.event.Misfit > 2 {
			n.add("misfit", "%s: %s goes up and down by %.1f times its noise, which no smooth rise does; its interval is wider for that", t.Task, of.what, math.Sqrt(of.event.Misfit))
		}
	}
	t.phases()
}

func (c *Curve) add(value, se float64) {
	c.Values, c.Errors = append(c.Values, value), append(c.Errors, se)
}

// event looks at the whole series, and at each beginning of it.
func (t *TrainingTask) event(alpha float64, look func(n int, alpha float64) Event) TrainingEvent {
	e := look(len(t.Curve), alpha)
	out := TrainingEvent{State: e.State, Misfit: e.Misfit, event: e}
	if e.State == NeverBehind {
		return out
	}
	step := func(i int) *float64 {
		if i >= len(t.Curve) {
			return nil
		}
		return &t.Curve[i].Step
	}
	out.At, out.Low, out.High = step(e.At), step(e.Low), step(e.High)
	if e.State.Happened() {
		width := e.Width()
		out.Width = &width
	}
	if d := Stream(len(t.Curve), alpha, look); d != nil {
		out.Declared = &TrainingDeclared{Step: t.Curve[d.Look-1].Step, Look: d.Look, Low: t.Curve[d.Low].Step, High: t.Curve[d.High].Step}
	}
	return out
}

func (t *TrainingTask) phases() {
	t.Phases = []Phase{}
	// left says whether an event has happened at place i: yes, no or unclear.
	left := func(e TrainingEvent, i int) (yes, no bool) {
		return e.State.Happened() && i >= e.event.High, i < e.event.Low
	}
	for i := range t.Curve {
		p := &t.Curve[i]
		cf, cfNot := left(t.CFOnset, i)
		mcf, mcfNot := left(t.MCFOnset, i)
		crossed, _ := left(t.Crossover, i)
		switch {
		case crossed && mcf:
			p.Phase = PhaseCrossed
		case cf && mcf && t.Crossover.State == NeverBehind:
			p.Phase = PhaseNever
		case cf && mcf:
			p.Phase = PhaseBoth
		case cf:
			p.Phase = PhaseCF
		case mcf:
			p.Phase = PhaseMCF
		case cfNot && mcfNot:
			p.Phase = PhaseNoise
		default:
			p.Phase = PhaseUnclear
		}
		if k := len(t.Phases); k > 0 && t.Phases[k-1].Name == p.Phase {
			t.Phases[k-1].To = p.Step
			continue
		}
		t.Phases = append(t.Phases, Phase{p.Phase, p.Step, p.Step})
	}
}

// overestimate draws instances and picks the best checkpoint of each draw. The
// panel's columns are CF and MCF of each checkpoint.
func (t *TrainingTask) overestimate(p panel, b stat.Bootstrap) {
	observed := make([]float64, p.columns)
	for c, e := range p.estimates() {
		observed[c] = e.Value
	}
	top := best(observed)[0]
	o := Overestimate{Best: t.Curve[top/2].Step, Formulation: olmes.CF, Score: observed[top]}
	if top%2 == 1 {
		o.Formulation = olmes.MCF
	}
	// A draw looks at every instance and column: long series take fewer draws.
	const work = 2e9
	if b.Resamples <= 0 {
		b.Resamples = stat.Resamples
	}
	b.Resamples = max(min(b.Resamples, int(work/float64(p.n()*p.columns))), 100)
	drawn := p.draws(b, 1, func(means, out []float64) {
		at := best(means)[0]
		out[0] = means[at] - observed[at]
	})
	if drawn == nil {
		return
	}
	o.Mean, _ = stat.Mean(drawn[0])
	o.Max = stat.Percentiles(drawn[0], stat.Level).High
	t.Overestimate = &o
}

// noiseMax fills what the best score of the phase of noise promises.
func (t *TrainingTask) noiseMax() {
	for _, p := range t.Curve {
		if p.Phase == PhaseNoise {
			over := max(p.CF.Value, p.MCF.Value) - t.Guessing
			if t.Overestimate.Noise == nil || over > *t.Overestimate.Noise {
				t.Overestimate.Noise = &over
			}
		}
	}
}
