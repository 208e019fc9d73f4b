package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"olmes/foreign/ai2"
	"olmes/foreign/lmeval"
	"olmes/foreign/results"
	"olmes/task"
)

// Implementations of multiple-choice tasks that marks tell apart.
const (
	OLMES    = "OLMES v0.1" // the standard as its authors published it, and as this program has it
	OLMoEval = "olmo-eval"  // the authors' later tool
	LMEval   = "lm-eval"    // lm-evaluation-harness's own tasks
	Other    = "another"    // something else
)

// implementations are all of them, in the order in which they are named.
func implementations() []string { return []string{OLMES, OLMoEval, LMEval, Other} }

// Findings is what a file's marks say.
type Findings struct {
	File string `json:"file"`
	Kind Kind   `json:"kind"`
	// Writer is the program that wrote the file, with its version where it is told.
	Writer string `json:"writer"`
	// Candidates are the implementations of the tasks that every finding fits;
	// none where findings contradict each other. Implementation is the one
	// candidate, "" where there are several or none.
	Candidates     []string  `json:"candidates"`
	Implementation string    `json:"implementation"`
	Findings       []Finding `json:"findings"`
}

// Finding is one mark.
type Finding struct {
	Mark     string   `json:"mark"`     // stable name of the mark
	Task     string   `json:"task"`     // as the file names it; "" where it is of the whole file
	Fits     []string `json:"fits"`     // implementations that have the mark; empty where it only tells the writer
	Evidence string   `json:"evidence"` // in words and counts, without dataset text
	Line     int      `json:"line"`     // first line where it was seen, 0 where it is of the whole file
}

// Which reads a file of results or requests and names the implementation that it
// comes from, with the evidence for it: how prompts are rendered, scores computed
// and averages made (docs/import.md lists the marks).
func Which(path string) (Findings, error) {
	kind, err := Detect(path)
	if err != nil {
		return Findings{}, err
	}
	w := &witness{Findings: Findings{File: path, Kind: kind}, tasks: map[string]*renderings{}}
	ctx := context.Background()
	switch kind {
	case LMEvalSamples:
		err = w.samples(ctx, path)
	case LMEvalResults:
		err = w.results(path)
	case AI2Requests:
		err = w.requests(ctx, path)
	case AI2Predictions:
		err = w.predictions(ctx, path)
	case AI2Metrics:
		err = w.metrics(ctx, path)
	case OwnRequests:
		err = w.own(ctx, path)
	default:
		err = &results.Error{File: path, Err: errors.New("a table has no marks of the implementation that its numbers come from")}
	}
	if err != nil {
		return Findings{}, err
	}
	for _, name := range sortedTasks(w.tasks) {
		w.renderings(name, w.tasks[name])
	}
	w.conclude()
	return w.Findings, nil
}

func sortedTasks(m map[string]*renderings) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// witness gathers the marks of one file.
type witness struct {
	Findings
	tasks map[string]*renderings
}

func (w *witness) found(mark, task string, line int, fits []string, format string, args ...any) {
	w.Findings.Findings = append(w.Findings.Findings, Finding{Mark: mark, Task: task, Fits: fits, Evidence: fmt.Sprintf(format, args...), Line: line})
}

// conclude names what all findings fit.
func (w *witness) conclude() {
	w.Candidates = []string{}
	telling := false
	for _, name := range implementations() {
		fits := true
		for _, f := range w.Findings.Findings {
			if len(f.Fits) > 0 {
				telling = true
				fits = fits && slices.Contains(f.Fits, name)
			}
		}
		if fits {
			w.Candidates = append(w.Candidates, name)
		}
	}
	if telling && len(w.Candidates) == 1 {
		w.Implementation = w.Candidates[0]
	}
	if w.Findings.Findings == nil {
		w.Findings.Findings = []Finding{}
	}
	for i := range w.Findings.Findings {
		if w.Findings.Findings[i].Fits == nil {
			w.Findings.Findings[i].Fits = []string{}
		}
	}
}

// of returns the renderings of a task.
func (w *witness) of(task string) *renderings {
	r := w.tasks[task]
	if r == nil {
		r = &renderings{shots: map[int]int{}, first: map[string]int{}, bySubject: map[string]int{}}
		w.tasks[task] = r
	}
	return r
}

// samples reads lm-eval's samples.
func (w *witness) samples(ctx context.Context, path string) error {
	w.Writer = "lm-eval"
	task := lmeval.TaskName(path)
	objects, lists := 0, 0
	var rows exportedRows
	_, err := results.Lines(ctx, path, lmeval.SamplesFormat, func(n int, data []byte) error {
		var l struct {
			Arguments json.RawMessage `json:"arguments"`
			Filtered  json.RawMessage `json:"filtered_resps"`
			Resps     json.RawMessage `json:"resps"`
			Filter    *string         `json:"filter"`
			Doc       json.RawMessage `json:"doc"`
		}
		if err := results.Decode(data, &l); err != nil {
			return err
		}
		requests, err := lmeval.Requests(l.Arguments)
		rows.add(n, l.Doc, requests)
		if err != nil {
			return nil // texts of another kind have no marks
		}
		if len(l.Arguments) > 0 && l.Arguments[0] == '{' {
			objects++
		} else {
			lists++
		}
		w.of(task).add(n, requests)
		return nil
	})
	w.exported(task, rows)
	switch {
	case objects > 0:
		w.found("arguments-named", task, 0, nil, "requests are logged as gen_args_0 and so on, as lm-eval does since 0.4.3 (%d samples)", objects)
	case lists > 0:
		w.found("arguments-listed", task, 0, nil, "requests are logged as lists of pairs, as lm-eval did before 0.4.3 (%d samples)", lists)
	}
	return err
}

// exportedRows counts the rows of exported tasks that lm-eval copies into its
// samples, and that olmes export writes in their place.
type exportedRows struct {
	all, rows, first       int // samples; those with the standard's row; the line of the first
	others, lengths        int // with a row of another variant; with lengths, which olmes export adds
	known, changed, change int // requests whose texts are there; that are not what was exported; the first line
}

func (r *exportedRows) add(line int, doc json.RawMessage, requests [][2]string) {
	r.all++
	var row struct {
		Standard string            `json:"standard"`
		SHA256   []string          `json:"request_sha256"`
		Lengths  []json.RawMessage `json:"lengths"`
	}
	if json.Unmarshal(doc, &row) != nil || len(row.SHA256) == 0 {
		return
	}
	if len(row.Lengths) > 0 {
		r.lengths++
	}
	switch row.Standard {
	case task.Standard:
		if r.rows++; r.first == 0 {
			r.first = line
		}
	case lmeval.RecordMark:
		r.others++
	}
	for i, q := range requests {
		if i == len(row.SHA256) {
			break // unconditional ones
		}
		if r.known++; results.Digest(q[0], q[1]) != row.SHA256[i] {
			if r.changed++; r.change == 0 {
				r.change = line
			}
		}
	}
}

// exported tells what the name of an exported task and its rows fit.
func (w *witness) exported(name string, r exportedRows) {
	if r.lengths > 0 {
		w.Writer = "olmes export"
		w.found("exported-record", name, 0, nil, "%d of %d samples have lengths of requests, which only olmes export writes", r.lengths, r.all)
	}
	switch {
	case r.changed > 0:
		w.found("exported-tasks", name, r.change, nil, "%d of %d requests are not what olmes tasks export gave: the task files or their rows were changed, or the harness renders them otherwise", r.changed, r.known)
	case r.others > 0:
		w.found("exported-tasks", name, 0, nil, "%d samples are of a variant of a record, not of the standard's own rendering", r.others)
	case r.rows > 0 && r.rows == r.all && r.known > 0:
		w.found("exported-tasks", name, r.first, []string{OLMES}, "all %d requests have the digests of the rows of olmes tasks export", r.known)
	case r.rows > 0 && r.rows == r.all:
		w.found("exported-tasks", name, r.first, []string{OLMES}, "all %d samples are of rows of olmes tasks export", r.rows)
	case lmeval.Exported(name):
		w.found("exported-tasks", name, 0, []string{OLMES}, "the task has a name that olmes tasks export gives")
	}
}

// requests reads AI2's requests.
func (w *witness) requests(ctx context.Context, path string) error {
	w.Writer = ai2.Earlier
	alone, later, prompts := 0, 0, 0
	var pending [][2]string
	doc, task, line := -1, "", 0
	flush := func() {
		if len(pending) > 0 {
			w.of(task).add(line, pending)
		}
		pending = nil
	}
	_, err := results.Lines(ctx, path, ai2.RequestsFormat, func(n int, data []byte) error {
		var l ai2.Line
		if err := results.Decode(data, &l); err != nil {
			return err
		}
		if l.DocID == nil {
			return errors.New("no doc_id")
		}
		context, ok := l.Context()
		if !ok {
			return nil
		}
		if l.Request.Continuations != nil || l.Request.Perplexity != nil {
			later++
			if len(l.Request.Prompts) > 0 {
				prompts++
			}
			var pairs [][2]string
			for i, c := range l.Request.Continuations {
				before := context
				if len(l.Request.Prompts) == len(l.Request.Continuations) {
					before = l.Request.Prompts[i]
				}
				pairs = append(pairs, [2]string{before, c})
			}
			w.of(l.Task).add(n, pairs)
			return nil
		}
		if l.Request.Continuation == nil {
			return nil
		}
		if *l.DocID >= 1000000 {
			alone++
			w.of(l.Task).alone(n, context)
			return nil
		}
		if *l.DocID != doc || l.Task != task {
			flush()
			doc, task, line = *l.DocID, l.Task, n
		}
		pending = append(pending, [2]string{context, *l.Request.Continuation})
		return nil
	})
	flush()
	if later > 0 {
		w.Writer = ai2.Later
		w.found("perplexity-context", "", 0, nil, "requests have perplexity_context or continuations, which only olmo-eval writes (%d lines)", later)
	}
	if alone > 0 {
		w.found("doc-id-offset", "", 0, []string{OLMES}, "unconditional requests have doc_ids from 1000000 on, as oe-eval has them (%d lines)", alone)
	}
	return err
}

// own reads what `olmes requests` prints.
func (w *witness) own(ctx context.Context, path string) error {
	w.Writer = "olmes"
	var pending [][2]string
	key, task, line := "", "", 0
	flush := func() {
		if len(pending) > 0 {
			w.of(task).add(line, pending)
		}
		pending = nil
	}
	_, err := results.Lines(ctx, path, string(OwnRequests), func(n int, data []byte) error {
		var l struct {
			Task          string `json:"task"`
			Formulation   string `json:"formulation"`
			DocID         int    `json:"doc_id"`
			Unconditional bool   `json:"unconditional"`
			Context       string `json:"context"`
			Continuation  string `json:"continuation"`
		}
		if err := results.Decode(data, &l); err != nil {
			return err
		}
		name := l.Task + ":" + l.Formulation
		if l.Unconditional {
			w.of(name).alone(n, l.Context)
			return nil
		}
		if k := fmt.Sprint(name, l.DocID); k != key {
			flush()
			key, task, line = k, name, n
		}
		pending = append(pending, [2]string{l.Context, l.Continuation})
		return nil
	})
	flush()
	return err
}

// results reads lm-eval's results file.
func (w *witness) results(path string) error {
	r, err := lmeval.ReadResults(path)
	if err != nil {
		return err
	}
	w.Writer = strings.TrimSpace("lm-eval " + r.Version())
	switch by := r.ExportedBy(); {
	case by != "":
		w.Writer = by + " export"
		w.found("exported-record", "", 0, nil, "the file says that %s export wrote it", by)
	case r.Version() == "":
		w.found("no-version", "", 0, nil, "the file does not tell lm-eval's version, as before 0.4.3")
	}
	exported, own := 0, 0
	for _, t := range r.Listed() {
		if t.Exported {
			exported++
		} else {
			own++
		}
	}
	if exported > 0 {
		w.found("exported-tasks", "", 0, []string{OLMES}, "%d tasks have the names that olmes tasks export gives", exported)
	}
	if own > 0 {
		w.found("own-tasks", "", 0, []string{LMEval, Other}, "%d tasks are lm-eval's own or someone's, by their names", own)
	}
	for _, g := range r.Groups() {
		w.averages(g.Name, g.Metric, g.Value, g.Members)
	}
	return nil
}

// predictions reads AI2's predictions: how lengths and bits are computed.
func (w *witness) predictions(ctx context.Context, path string) error {
	p, err := ai2.ReadPredictions(ctx, path, ai2.Options{KeepFailed: true})
	if err != nil {
		return err
	}
	w.Writer = p.Writer()
	if p.Skipped != "" {
		return &results.Error{File: path, Err: errors.New(p.Skipped)}
	}
	m := p.Marks()
	name := filepath.Base(p.Stem)
	if m.Short > 0 && m.Short > m.Exact {
		w.found("bits-per-byte", name, m.ShortLine, []string{OLMES, Other}, "bits_per_byte is computed with log2(e) cut to 12 digits, as oe-eval does (%d choices)", m.Short)
	} else if m.Exact > 0 && m.Exact > m.Short {
		w.found("bits-per-byte", name, m.ExactLine, []string{OLMoEval, Other}, "bits_per_byte is computed with the exact logarithm, as olmo-eval does (%d choices)", m.Exact)
	}
	if m.Absent > 0 {
		w.found("absent-999", name, 0, []string{OLMES, Other}, "%d choices have the log-probability -999, which oe-eval writes where vLLM returned none (vllm-for-mc)", m.Absent)
	}
	if size := m.TooMany; size > 0 {
		w.found("several-splits", name, 0, []string{OLMoEval}, "%d instances, and the standard's split has %d: several splits were drawn from", m.Instances, size)
	}
	return nil
}

// metrics reads AI2's metrics: regimes, primary metrics, averages.
func (w *witness) metrics(ctx context.Context, path string) error {
	m, err := ai2.ReadMetrics(ctx, path)
	if err != nil {
		return err
	}
	w.Writer = m.Writer()
	for _, t := range m.Describe() {
		if t.Regime {
			w.found("regime", t.Name, 0, []string{OLMES}, "its settings name the regime OLMES-v0.1 (or an alias with ::olmes)")
		}
		switch {
		case t.Base == "piqa" && t.CF && t.Primary == "acc_per_token":
			w.found("primary-metric", t.Name, 0, []string{OLMoEval, Other}, "piqa's score is per token, as in olmo-eval; in the standard it is per character")
		case t.PMI && t.CF && t.Primary == "acc_uncond":
			w.found("primary-metric", t.Name, 0, []string{OLMES, OLMoEval}, "the score is acc_uncond, as in the standard")
		case t.PMI && t.CF && (t.Primary == "acc_per_char" || t.Primary == "acc_raw"):
			w.found("primary-metric", t.Name, 0, nil, "the score is %s, while the standard's is acc_uncond: the score shown is not the standard's", t.Primary)
		}
		if t.TooMany > 0 {
			w.found("several-splits", t.Name, 0, []string{OLMoEval}, "%d instances, and the standard's split has %d: several splits were drawn from", t.Instances, t.TooMany)
		}
	}
	for _, g := range m.Groups() {
		w.averages(g.Name, g.Metric, g.Value, g.Members)
	}
	return nil
}
