package lmeval

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"olmes"
	"olmes/folder"
	"olmes/foreign/results"
	"olmes/foreign/taskfile"
	"olmes/record"
	"olmes/score"
	"olmes/task"
)

// RecordMark stands in a sample's doc in the standard's place where its requests
// are not the standard's.
const RecordMark = "olmes-record"

// sampleOut is a line of a samples file as the harness writes it. Whether the
// model would have chosen the continuation itself is not known: "None".
type sampleOut struct {
	DocID         int                 `json:"doc_id"`
	Doc           docOut              `json:"doc"`
	Target        string              `json:"target"`
	Arguments     map[string]argument `json:"arguments"`
	Resps         [][][2]string       `json:"resps"`
	FilteredResps [][2]string         `json:"filtered_resps"`
	Filter        string              `json:"filter"`
	Metrics       []string            `json:"metrics"`
	Acc           *float64            `json:"acc,omitempty"`
	AccNorm       *float64            `json:"acc_norm,omitempty"`
	AccPMI        *float64            `json:"acc_pmi,omitempty"`
}

type argument struct {
	Context      string `json:"arg_0"`
	Continuation string `json:"arg_1"`
}

// docOut is a sample's doc: what an exported task's row has but for the texts.
type docOut struct {
	Standard      string            `json:"standard"`
	Task          string            `json:"task"`
	Formulation   olmes.Formulation `json:"formulation"`
	Split         string            `json:"split"`
	DocID         int               `json:"doc_id"`
	NativeID      string            `json:"native_id"`
	Gold          int               `json:"gold"`
	RequestSHA256 []string          `json:"request_sha256"`
	Lengths       []length          `json:"lengths"`
}

// WriteRecord writes a record as the harness's results file and samples into a
// folder: texts only where texts is not nil. An instance that failed is left out,
// as the harness knows none; the result says how many were. A failure leaves no
// file in the folder.
func WriteRecord(dir string, rec *record.Record, texts results.Texts) (failed int, err error) {
	err = folder.Write(dir, func(temp string) error {
		failed, err = writeRecord(temp, rec, texts)
		return err
	})
	return failed, err
}

func writeRecord(dir string, rec *record.Record, texts results.Texts) (failed int, err error) {
	m, err := rec.Metrics()
	if err != nil {
		return 0, err
	}
	at := rec.Provenance.Finished
	if at.IsZero() {
		at = rec.Provenance.Created
	}
	w := &writer{dir: dir, rec: rec, stamp: at.UTC().Format("2006-01-02T15-04-05.000000"), counts: map[string]int{}}
	if rec.HasPredictions() {
		for p, err := range rec.Predictions() {
			if err == nil {
				err = w.add(&p, texts)
			}
			if err != nil {
				w.close()
				return 0, err
			}
		}
	}
	if err := w.close(); err != nil {
		return 0, err
	}
	doc, err := json.MarshalIndent(resultsOut(rec, m, w.counts, at), "", "  ")
	if err != nil {
		return 0, fmt.Errorf("encode results: %w", err)
	}
	return w.failed, os.WriteFile(filepath.Join(dir, "results_"+w.stamp+".json"), append(doc, '\n'), 0o644)
}

// writer writes one samples file after the other: records keep a task's
// predictions together.
type writer struct {
	dir, stamp string
	rec        *record.Record
	name       string
	file       *os.File
	buf        *bufio.Writer
	counts     map[string]int // samples by task
	failed     int
}

// nameFor is how the harness would name a task of a record.
func nameFor(t, variant string, f olmes.Formulation) string {
	if _, ok := task.Lookup(t); ok && variant == "" && (f == olmes.CF || f == olmes.MCF) {
		return taskfile.Name(t, f)
	}
	if f == olmes.MCF {
		return t + "_mcf"
	}
	return t
}

func (w *writer) open(name string) error {
	if err := w.close(); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(w.dir, "samples_"+results.FileName(name)+"_"+w.stamp+".jsonl"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("two tasks have file names like %s", results.FileName(name))
	}
	if err != nil {
		return err
	}
	w.name, w.file, w.buf = name, f, bufio.NewWriterSize(f, 1<<20)
	return nil
}

func (w *writer) close() error {
	if w.file == nil {
		return nil
	}
	err := w.buf.Flush()
	if e := w.file.Close(); err == nil {
		err = e
	}
	w.file = nil
	return err
}

func (w *writer) add(p *olmes.Prediction, texts results.Texts) error {
	if !score.Scores(p) {
		return nil
	}
	if score.Failed(p) {
		w.failed++
		return nil
	}
	if name := nameFor(p.Task, p.Variant, p.Formulation); w.file == nil || name != w.name {
		if err := w.open(name); err != nil {
			return err
		}
	}
	mark := task.Standard
	if p.Variant != "" {
		mark = RecordMark
	}
	s := sampleOut{DocID: w.counts[w.name], Target: strconv.Itoa(p.Gold), Arguments: map[string]argument{}, Filter: "none", Metrics: []string{},
		Doc: docOut{Standard: mark, Task: p.Task, Formulation: p.Formulation, Split: p.Split, DocID: p.DocID, NativeID: p.NativeID, Gold: p.Gold}}
	var alone [][2]string
	for i := range p.Choices {
		c := &p.Choices[i]
		s.FilteredResps = append(s.FilteredResps, [2]string{number64(*c.LogProb), "None"})
		if c.Unconditional != nil {
			alone = append(alone, [2]string{number64(*c.Unconditional), "None"})
		}
		s.Doc.RequestSHA256 = append(s.Doc.RequestSHA256, c.RequestSHA256)
		s.Doc.Lengths = append(s.Doc.Lengths, length{c.Tokens, c.Chars, c.Bytes, c.ContextTokens, c.Dropped, c.IDsSHA256})
	}
	if len(alone) == len(p.Choices) {
		s.FilteredResps = append(s.FilteredResps, alone...)
	}
	for _, r := range s.FilteredResps {
		s.Resps = append(s.Resps, [][2]string{r})
	}
	if texts != nil {
		requests, second, err := texts(p)
		if err != nil {
			return err
		}
		if len(alone) == len(p.Choices) {
			requests = append(slices.Clone(requests), second...)
		}
		for i, r := range requests {
			s.Arguments["gen_args_"+strconv.Itoa(i)] = argument{r.Prompt.Text, r.Continuation}
		}
	}
	for _, to := range []struct {
		name string
		n    olmes.Normalization
		mark **float64
	}{{"acc", olmes.None, &s.Acc}, {"acc_norm", olmes.Character, &s.AccNorm}, {"acc_pmi", olmes.PMI, &s.AccPMI}} {
		if best, ok := p.Predictions[to.n]; ok {
			v := 0.0
			if best == p.Gold {
				v = 1
			}
			*to.mark = &v
			s.Metrics = append(s.Metrics, to.name)
		}
	}
	w.counts[w.name]++
	enc := json.NewEncoder(w.buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(s)
}

func number64(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// resultsOut is the harness's results file for a record.
func resultsOut(rec *record.Record, m score.Metrics, counts map[string]int, at time.Time) map[string]any {
	numbers, configs, versions, shots, samples := map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}
	for _, t := range m.Tasks {
		known, is := task.Lookup(t.Task)
		for name, f := range t.Formulations {
			if len(f.Accuracy) == 0 {
				continue
			}
			formulation := name
			if name == olmes.Formulation(olmes.KindScore) {
				formulation = ""
			}
			foreign := nameFor(t.Task, t.Variant, formulation)
			values := map[string]any{"alias": foreign}
			n := 0
			for norm, metric := range map[olmes.Normalization]string{olmes.None: "acc", olmes.Character: "acc_norm", olmes.PMI: "acc_pmi"} {
				e, ok := f.Accuracy[norm]
				if !ok {
					continue
				}
				n = max(n, e.N)
				values[metric+",none"] = e.Accuracy
				values[metric+"_stderr,none"] = any("N/A")
				if e.SE != nil {
					values[metric+"_stderr,none"] = *e.SE
				}
			}
			if counts[foreign] > 0 {
				n = counts[foreign]
			}
			values["sample_len"] = n
			numbers[foreign] = values
			config := map[string]any{"task": foreign, "test_split": t.Split, "output_type": "multiple_choice", "target_delimiter": ""}
			original := n
			if is {
				config["dataset_path"] = known.Hub.Repo
				original = cmp.Or(results.StandardInstances(known), n)
			}
			if is && t.Variant == "" {
				config["num_fewshot"], shots[foreign], versions[foreign] = len(known.FewShot), len(known.FewShot), task.Standard
			}
			configs[foreign] = config
			samples[foreign] = map[string]int{"original": original, "effective": n}
		}
	}
	id := rec.Identity
	args := map[string]any{"pretrained": id.Model.Name}
	switch id.BOS.Policy {
	case "":
	default:
		args["add_bos_token"] = id.BOS.Added
	}
	config := map[string]any{"model": id.Engine.Name, "model_args": args, "limit": nil}
	if id.Model.Parameters > 0 {
		config["model_num_parameters"] = id.Model.Parameters
	}
	for torch, t := range map[string]string{"torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16"} {
		if id.Precision.Computed == t {
			config["model_dtype"] = torch
		}
	}
	out := map[string]any{"results": numbers, "configs": configs, "versions": versions, "n-shot": shots, "n-samples": samples, "config": config, "date": float64(at.UnixMilli()) / 1000,
		"model_source": id.Engine.Name, "model_name": id.Model.Name, "exported_by": "olmes", "olmes_run": rec.ID}
	if id.Window > 0 {
		out["max_length"] = id.Window
	}
	return out
}
