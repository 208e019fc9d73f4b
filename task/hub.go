package task

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"olmes"
	"olmes/dataset"
)

// HubSource reads the Parquet files that the datasets' owners publish on the
// Hugging Face Hub.
type HubSource struct {
	open func(ctx context.Context, repo, revision, file string) (path string, err error)
}

// NewHubSource returns a source that gets each file through open, which returns
// the path of a local copy. Where the files lie is in the tasks' Hub fields.
func NewHubSource(open func(ctx context.Context, repo, revision, file string) (path string, err error)) *HubSource {
	return &HubSource{open: open}
}

// Path returns the path of a split's file within the repository.
func (h Hub) Path(split string) string { return strings.ReplaceAll(h.File, "{split}", split) }

// Rows returns a split in file order.
func (s *HubSource) Rows(ctx context.Context, t Task, split string) (Part, error) {
	part, table, err := s.table(ctx, t, split)
	if err != nil {
		return Part{}, err
	}
	part.Instances, err = t.instances(table, split)
	return part, err
}

func (s *HubSource) table(ctx context.Context, t Task, split string) (Part, dataset.Table, error) {
	file := t.Hub.Path(split)
	path, err := s.open(ctx, t.Hub.Repo, t.Hub.Revision, file)
	if err != nil {
		return Part{}, dataset.Table{}, fmt.Errorf("fetch %s of dataset %s at %s: %w", file, t.Hub.Repo, t.Hub.Revision, err)
	}
	table, err := dataset.ReadParquet(ctx, path)
	return Part{File: file, Artifact: t.Hub.Repo + "@" + t.Hub.Revision, ArtifactSHA256: table.SHA256}, table, err
}

// Shots returns mmlu's development rows. For the other tasks it looks for the
// rows of the training split that have the digests held of the examples, since
// some datasets have no ids and others repeat them.
func (s *HubSource) Shots(ctx context.Context, t Task) (Part, error) {
	part, table, err := s.table(ctx, t, t.FewShotSplit)
	if err != nil {
		return Part{}, err
	}
	if t.Group == "mmlu" {
		part.Instances, err = t.instances(table, t.FewShotSplit)
		return part, err
	}
	digests, err := heldDigests()
	if err != nil {
		return Part{}, err
	}
	want := make(map[string]int) // the place of each example, by digest
	for i, d := range digests[t.Name+" "+shotsPart].examples {
		want[d] = i
	}
	part.Instances = make([]olmes.Instance, len(want))
	found := make([]bool, len(want))
	similar := make([]string, len(want)) // rows with an example's id and other text
	for i, row := range table.Rows {
		if i%1024 == 0 && ctx.Err() != nil {
			return Part{}, ctx.Err()
		}
		in, err := t.instance(row, t.FewShotSplit, i)
		if err != nil {
			return Part{}, err
		}
		shot, ok := shotForm(t.Template, in)
		if !ok {
			continue
		}
		bare := shot
		bare.NativeID = ""
		digest := rowDigest(&bare)
		if at, ok := want[hex.EncodeToString(digest[:])]; ok {
			part.Instances[at], found[at] = shot, true
			continue
		}
		for at, id := range t.FewShot {
			if at < len(similar) && id == in.NativeID && id != "" {
				similar[at] = fmt.Sprintf("; row %d has that id, but: %s", i, brief(in))
			}
		}
	}
	for at, ok := range found {
		if !ok {
			return Part{}, fmt.Errorf("%s: few-shot example %d (%s) is not in its %d rows%s",
				part.File, at+1, t.FewShot[at], len(table.Rows), cmp.Or(similar[at], "; the dataset was changed, or is another one"))
		}
	}
	t.name(part.Instances)
	return part, nil
}
