package report

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"olmes"
	"olmes/outcome"
	"olmes/record"
	"olmes/score"
	"olmes/study"
)

// Options says how a sheet is made.
type Options struct {
	// Product is the version of the program that makes it.
	Product string
	// Instances reads every instance of the records, for near-ties and calibration.
	// Without it only metrics are read.
	Instances bool
	// Apart keeps records of one model and setting in rows of their own.
	Apart bool
	// Claim makes a record's claim, for model cards; nil leaves it out.
	Claim func(*record.Record, score.Metrics) string
}

// Builder makes a sheet of records, one after the other, so that only their numbers
// are held in memory.
type Builder struct {
	options Options
	rows    []*Row
	skipped []Skipped
}

// NewBuilder returns a builder without records.
func NewBuilder(o Options) *Builder { return &Builder{options: o} }

// Add reads a record and makes its rows.
func (b *Builder) Add(ctx context.Context, src outcome.Source) error {
	depth := outcome.Metrics
	if b.options.Instances && src.Record.HasPredictions() {
		depth = outcome.Answers // metrics that are not theirs are damage
	}
	run, err := outcome.Load(ctx, src, depth)
	if err != nil {
		return err
	}
	rows := rowsOf(run)
	if b.options.Instances && src.Record.HasPredictions() {
		if err := instances(ctx, run, rows); err != nil {
			return fmt.Errorf("%s: %w", src.Label, err)
		}
	}
	if b.options.Claim != nil {
		claim := b.options.Claim(run.Record, run.Metrics)
		for _, r := range rows {
			r.Runs[0].Claim = claim
		}
	}
	b.rows = append(b.rows, rows...)
	return nil
}

// Skip notes a record that could not be read.
func (b *Builder) Skip(name string, why error) {
	b.skipped = append(b.skipped, Skipped{name, why.Error()})
}

// Sheet orders, marks and returns the rows.
func (b *Builder) Sheet() *Sheet {
	rows := b.rows
	if !b.options.Apart {
		rows = merge(rows)
	}
	slices.SortStableFunc(rows, compare)
	s := &Sheet{Format: 1, Product: b.options.Product, Rows: append([]*Row{}, rows...), NotRun: []string{}, Skipped: append([]Skipped{}, b.skipped...)}
	has := map[string]bool{}
	var others []Column
	for _, r := range rows {
		for _, u := range r.Units {
			if !has[u.Task] && !slices.Contains(score.SuiteTasks(), u.Task) {
				others = append(others, Column{u.Task, u.Task, u.Task})
			}
			has[u.Task] = true
		}
	}
	for _, c := range columns() {
		if has[c.Task] {
			s.Columns = append(s.Columns, c)
		} else {
			s.NotRun = append(s.NotRun, c.Task)
		}
	}
	s.Columns = append(append([]Column{}, s.Columns...), others...)
	apart(rows, s.Columns)
	s.Footnotes = append([]Footnote{}, footnotes(rows, s.Columns)...)
	return s
}

// instances reads a record's instances once and fills in what needs them.
func instances(ctx context.Context, run *outcome.Run, rows []*Row) error {
	cal := calibrator{}
	seen := 0
	preds := func(yield func(olmes.Prediction, error) bool) {
		for p, err := range run.Record.Predictions() {
			if seen++; seen%1024 == 0 && ctx.Err() != nil {
				yield(p, context.Cause(ctx))
				return
			}
			if err == nil {
				cal.add(&p)
			}
			if !yield(p, err) {
				return
			}
		}
	}
	near, err := nearTies(run, preds)
	if err != nil {
		return err
	}
	ranges := score.Ranges(run.Metrics, near)
	for _, r := range rows {
		for _, u := range r.Units {
			u.near(r.Variant, near, ranges)
			for _, p := range u.Parts {
				p.near(r.Variant, near, ranges)
			}
		}
		for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			if c, ok := cal.of(f, r.Variant); ok {
				r.Calibrations = append(r.Calibrations, c)
			}
		}
		r.average(run.Metrics.Suite)
	}
	return nil
}

// nearTies counts a run's near-ties by its measured noise; without one it only
// passes over the instances.
func nearTies(run *outcome.Run, preds iter.Seq2[olmes.Prediction, error]) ([]score.NearTies, error) {
	noise := run.Record.Provenance.Noise
	_, near, err := score.FindNearTies(run.Record.Identity.Facts(), preds, noise.Margin)
	return near, err
}

// near fills in the near-ties of a unit.
func (u *Unit) near(variant string, near []score.NearTies, ranges map[string]score.Range) {
	for _, n := range near {
		if (n.Task == u.Task || n.Group == u.Task) && n.Variant == variant {
			sum := n.Near
			if u.NearTies != nil {
				sum += *u.NearTies
			}
			u.NearTies = &sum
		}
	}
	if r, ok := ranges[olmes.Label(u.Task, variant)]; ok {
		u.Range = &r
	}
}

// AddTraining gives the sheet the curves of a training (paper, Figure 1), one a
// task, the average first.
func (s *Sheet) AddTraining(t study.TrainingStudy) error {
	drawn, err := TrainingFigures(t)
	if err != nil {
		return err
	}
	slices.SortStableFunc(drawn, func(a, b StudyFigure) int {
		return cmp.Compare(order(a.Task), order(b.Task))
	})
	warning := ""
	for _, n := range t.Notes {
		if n.Code == study.NoteOtherModels {
			warning = " Note: " + n.Text + "."
		}
	}
	for _, f := range drawn {
		s.training = append(s.training, Figure{Kind: "training", Title: "Training: " + f.Title, SVG: f.SVG,
			Caption: fmt.Sprintf("Both formulations at each checkpoint with %.0f%% intervals, and what guessing gives. A line stands where a formulation leaves chance or multiple choice passes cloze, a bar at the bottom over the interval in which that is; olmes study training has the rules and the numbers.%s", 100*t.Level, warning)})
	}
	return nil
}

// order is where a task's figure stands: the average first, the others as they are.
func order(task string) int {
	if task == "average" {
		return 0
	}
	return 1
}
