package outcome

import (
	"context"
	"fmt"
	"math"
	"slices"

	"olmes"
	"olmes/record"
)

// Load reads a sealed record. Where instances are read, metrics that are not theirs
// give record.ErrDamaged.
func Load(ctx context.Context, src Source, d Depth) (*Run, error) {
	l := loader{run: &Run{Source: src}, tasks: map[taskKey]*Task{}}
	var err error
	if l.run.Metrics, err = src.Record.Metrics(); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Label, err)
	}
	switch d {
	case Answers:
		err = l.answers(ctx)
	case Values:
		err = l.values(ctx, nil)
	case Tokens:
		err = l.values(ctx, map[string]string{})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Label, err)
	}
	for _, t := range l.run.Tasks {
		for _, f := range t.Forms {
			f.sort()
		}
	}
	if d != Metrics && src.Record.HasPredictions() {
		if err := l.run.agree(); err != nil {
			return nil, fmt.Errorf("%s: %w", src.Label, err)
		}
	}
	return l.run, nil
}

// loader puts instances where they belong.
type loader struct {
	run   *Run
	tasks map[taskKey]*Task
	last  olmes.Key // of form, its doc_id aside
	form  *Form
}

type taskKey struct{ name, split, variant string }

// every is the number of instances between two looks at the context.
const every = 1024

func (l *loader) answers(ctx context.Context) error {
	n := 0
	for a, err := range l.run.Record.Answers() {
		if err != nil {
			return err
		}
		if n++; n%every == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := l.add(a); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) values(ctx context.Context, chunks map[string]string) error {
	n := 0
	for p, err := range l.run.Record.Predictions() {
		if err != nil {
			return err
		}
		if n++; n%every == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a := record.Answer{Key: p.Key(), Gold: p.Gold}
		for k, norm := range olmes.Normalizations() {
			a.Best[k] = -1
			if best, ok := p.Predictions[norm]; ok {
				a.Best[k] = best
			}
		}
		f, err := l.add(a)
		if err == nil {
			err = f.choices(&p, chunks)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add appends an instance and returns the form it is in.
func (l *loader) add(a record.Answer) (*Form, error) {
	key := a.Key
	key.DocID = 0
	if l.form == nil || key != l.last {
		form, err := l.find(key)
		if err != nil {
			return nil, err
		}
		l.last, l.form = key, form
	}
	if a.DocID < 0 || a.DocID > math.MaxInt32 || a.Gold > math.MaxInt16 || slices.Max(a.Best[:]) > math.MaxInt16 {
		return nil, fmt.Errorf("%w: %s %s: doc_id %d, gold %d, best %v", record.ErrDamaged, a.Task, a.Formulation, a.DocID, a.Gold, a.Best)
	}
	f := l.form
	f.DocID = append(f.DocID, int32(a.DocID))
	f.Gold = append(f.Gold, int16(a.Gold))
	for k := range f.Best {
		f.Best[k] = append(f.Best[k], int16(a.Best[k]))
	}
	return f, nil
}

// find returns where the instances of a task in one formulation go.
func (l *loader) find(k olmes.Key) (*Form, error) {
	key := taskKey{k.Task, k.Split, k.Variant}
	t := l.tasks[key]
	if t == nil {
		id := l.run.Record.Identity
		at := slices.IndexFunc(id.Tasks, func(t record.Task) bool {
			return t.Name == k.Task && t.Split == k.Split && id.VariantOf(t) == k.Variant
		})
		if at < 0 {
			return nil, fmt.Errorf("%w: an instance of %s (%s), which the record's identity has not", record.ErrDamaged, olmes.Label(k.Task, k.Variant), k.Split)
		}
		t = &Task{Task: id.Tasks[at], Variant: k.Variant, Forms: map[olmes.Formulation]*Form{}}
		l.tasks[key] = t
		l.run.Tasks = append(l.run.Tasks, t)
	}
	f := t.Forms[k.Formulation]
	if f == nil {
		f = &Form{Normalization: olmes.None}
		if k.Formulation == olmes.CF {
			f.Normalization = t.Normalization
		}
		t.Forms[k.Formulation] = f
	}
	return f, nil
}
