package lmeval

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"olmes"
	"olmes/foreign/results"
	"olmes/foreign/taskfile"
	"olmes/record"
	"olmes/task"
)

// SamplesFormat names the kind of file.
const SamplesFormat = "lm-eval samples"

// Samples is what a file of samples holds of one task.
type Samples struct {
	Task    string // as the harness names it
	Stamp   string // time in the file's name, which it shares with its results file
	File    record.ImportFile
	Skipped string // why nothing of it can be kept; "" where something is

	instances []instance
	others    map[string]int // lines of filters that are not read
	exported  bool           // every row is one of an exported task, or of a record that was exported
	row       row            // of the first sample, where exported
	changed   int            // requests that are not those of the exported rows
	textless  int            // instances without their requests' texts
	empty     int            // instances whose unconditional requests have no context
	failed    int            // instances without a usable log-probability
	taskHash  string         // over all samples, as the results file has it
}

// instance is one sample.
type instance struct {
	line     int
	docID    int
	native   string
	split    string
	choices  []olmes.Choice
	alone    []float64 // log-probabilities after an empty context or after "Answer:", where asked for
	gold     [3]int    // by the exported row, by position, by text; -1 where it cannot be told
	marks    [len(markNames)]int8
	labelled bool // the continuations are labels
	several  bool // the continuation is one, and the contexts tell the choices apart
}

// Marks that the harness puts on each sample, in the order of instance.marks.
const (
	markAcc = iota
	markNorm
	markBytes
	markMutual
	markPMI
)

var markNames = [...]string{"acc", "acc_norm", "acc_bytes", "acc_mutual_info", "acc_pmi"}

// sampleLine is a line of a samples file. Older versions write lists where newer
// ones write objects, and numbers where newer ones write texts.
type sampleLine struct {
	DocID         *int            `json:"doc_id"`
	Doc           json.RawMessage `json:"doc"`
	Target        json.RawMessage `json:"target"`
	Arguments     json.RawMessage `json:"arguments"`
	Resps         json.RawMessage `json:"resps"`
	FilteredResps json.RawMessage `json:"filtered_resps"`
	Filter        *string         `json:"filter"`
	DocHash       string          `json:"doc_hash"`
	PromptHash    string          `json:"prompt_hash"`
	TargetHash    string          `json:"target_hash"`
	Acc           results.Loose   `json:"acc"`
	AccNorm       results.Loose   `json:"acc_norm"`
	AccBytes      results.Loose   `json:"acc_bytes"`
	AccMutual     results.Loose   `json:"acc_mutual_info"`
	AccPMI        results.Loose   `json:"acc_pmi"`
}

// row is what an exported task's rows say in a sample's doc, and what this
// program's own export to this format keeps there without texts.
type row struct {
	Standard      string   `json:"standard"`
	Task          string   `json:"task"`
	Formulation   string   `json:"formulation"`
	Split         string   `json:"split"`
	DocID         *int     `json:"doc_id"`
	NativeID      string   `json:"native_id"`
	Gold          *int     `json:"gold"`
	RequestSHA256 []string `json:"request_sha256"`
	Lengths       []length `json:"lengths"`
}

// length is what this program's own export keeps of a choice in place of texts.
type length struct {
	Tokens        int    `json:"tokens"`
	Chars         int    `json:"chars"`
	Bytes         int    `json:"bytes"`
	ContextTokens int    `json:"context_tokens"`
	Dropped       int    `json:"dropped"`
	IDsSHA256     string `json:"ids_sha256"`
}

// fileName is how the harness names samples files since 0.4.3.
var fileName = regexp.MustCompile(`^samples_(.+?)(?:_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?))?\.jsonl(?:\.gz)?$`)

// nameOf reads task and time out of a file's name.
func nameOf(path string) (task, stamp string) {
	base := filepath.Base(path)
	if m := fileName.FindStringSubmatch(base); m != nil {
		return m[1], m[2]
	}
	base = strings.TrimSuffix(strings.TrimSuffix(base, ".gz"), ".jsonl")
	return base, ""
}

// Options are what the person who imports says.
type Options struct {
	KeepFailed bool // an instance without a usable log-probability is kept as failed
}

// errOther says that a file holds samples of another kind than is kept.
type errOther struct{ why string }

func (e *errOther) Error() string { return e.why }

// ReadSamples reads a file of samples. Only multiple-choice tasks are kept; of
// another kind Skipped says why.
func ReadSamples(ctx context.Context, path string, o Options) (*Samples, error) {
	s := &Samples{others: map[string]int{}, exported: true}
	s.Task, s.Stamp = nameOf(path)
	r := reader{Samples: s, options: o, path: path, lines: map[int]int{}, hash: sha256.New()}
	var err error
	s.File, err = results.Lines(ctx, path, SamplesFormat, r.line)
	var other *errOther
	if errors.As(err, &other) {
		s.Skipped, s.File.Name, s.File.Format = other.why, path, SamplesFormat
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if len(s.instances) == 0 {
		return nil, results.At(path, 0, "it holds no samples")
	}
	if !r.unhashed {
		s.taskHash = hex.EncodeToString(r.hash.Sum(nil))
	}
	return s, nil
}

type reader struct {
	*Samples
	options Options
	path    string
	filter  *string
	lines   map[int]int // line of each doc_id
	// hash is of the samples' own hashes, in order, as the harness makes a task's.
	hash     hash.Hash
	unhashed bool
}

func (r *reader) line(n int, data []byte) error {
	var l sampleLine
	if err := results.Decode(data, &l); err != nil {
		return err
	}
	if l.DocID == nil || l.FilteredResps == nil && l.Resps == nil {
		return errors.New("no doc_id or no filtered_resps: not a line of lm-eval's samples (--log_samples)")
	}
	r.unhashed = r.unhashed || l.DocHash == "" || l.PromptHash == "" || l.TargetHash == ""
	r.hash.Write([]byte(l.DocHash + l.PromptHash + l.TargetHash))
	name := "none"
	if l.Filter != nil {
		name = *l.Filter
	}
	if r.filter == nil {
		r.filter = &name
	} else if *r.filter != name {
		r.others[name]++
		return nil
	}
	in, err := r.instance(&l)
	var other *errOther
	if errors.As(err, &other) && len(r.instances) > 0 {
		return fmt.Errorf("%s, unlike the lines before", other.why)
	}
	if err != nil {
		return err
	}
	in.line = n
	if at, ok := r.lines[in.docID]; ok {
		return fmt.Errorf("doc_id %d is there twice, first in line %d; the file holds more than one run", in.docID, at)
	}
	r.lines[in.docID] = n
	r.instances = append(r.instances, in)
	return nil
}

// instance makes an instance of a line.
func (r *reader) instance(l *sampleLine) (instance, error) {
	in := instance{docID: *l.DocID, gold: [3]int{-1, -1, -1}}
	if in.docID < 0 {
		return in, fmt.Errorf("doc_id is %d", in.docID)
	}
	logprobs, err := responses(l)
	if err != nil {
		return in, err
	}
	var doc row
	if len(l.Doc) > 0 && l.Doc[0] == '{' {
		if json.Unmarshal(l.Doc, &doc) != nil || doc.Standard != task.Standard && doc.Standard != RecordMark {
			doc = row{} // another dataset's row, whose fields mean other things
		}
	}
	requests, err := arguments(l.Arguments, len(logprobs))
	if err != nil {
		return in, err
	}
	if requests == nil && len(doc.Lengths) == 0 {
		return in, errors.New("no arguments: without the requests' texts nothing tells how long the choices are")
	}
	n := conditional(requests, len(logprobs), len(doc.Lengths))
	if n < 2 {
		return in, &errOther{"it is not multiple choice: one request an instance"}
	}
	if err := r.choices(&in, logprobs[:n], requests, &doc); err != nil {
		return in, err
	}
	if len(logprobs) == 2*n {
		if err := r.unconditional(&in, logprobs[n:], requests); err != nil {
			return in, err
		}
	}
	in.golds(l.Target, requests, n, &doc)
	r.standard(&in, &doc)
	for i, m := range []results.Loose{l.Acc, l.AccNorm, l.AccBytes, l.AccMutual, l.AccPMI} {
		in.marks[i] = -1
		if m.Set && (m.Value == 0 || m.Value == 1) {
			in.marks[i] = int8(m.Value)
		}
	}
	return in, nil
}

// responses returns one log-probability for each request.
func responses(l *sampleLine) ([]results.Number, error) {
	raw := l.FilteredResps
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		raw = l.Resps
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, &errOther{"its responses are no list of log-probabilities"}
	}
	out := make([]results.Number, len(list))
	for i, r := range list {
		v, ok := response(r, 0)
		if !ok {
			return nil, &errOther{"it is not multiple choice: its responses are texts or single numbers"}
		}
		if b := bytes.TrimSpace(v); b[0] == 't' || b[0] == 'f' {
			return nil, fmt.Errorf("filtered_resps: request %d: want a log-probability, got %s", i, b)
		}
		var n results.Loose // newer versions write texts
		if json.Unmarshal(v, &n) != nil || !n.Set {
			return nil, &errOther{"it is not multiple choice: its responses are texts or single numbers"}
		}
		out[i] = n.Number
		if err := results.CheckLogProb(fmt.Sprintf("filtered_resps: the log-probability of request %d", i), out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// response returns the log-probability of [log-probability, greedy], also within the
// list of repeats.
func response(raw json.RawMessage, depth int) (json.RawMessage, bool) {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 || depth > 1 {
		return nil, false
	}
	if parts[0][0] == '[' {
		return response(parts[0], depth+1)
	}
	if len(parts) != 2 {
		return nil, false
	}
	var text string
	var greedy results.Loose
	if json.Unmarshal(parts[1], &text) == nil {
		return parts[0], text == "True" || text == "False" || text == "None"
	}
	return parts[0], json.Unmarshal(parts[1], &greedy) == nil
}

// request is one pair of texts.
type request struct{ context, continuation string }

// arguments reads the requests' texts: {"gen_args_0": {"arg_0": …, "arg_1": …}},
// or a list of pairs as before 0.4.3. It returns nil where there are none.
func arguments(raw json.RawMessage, n int) ([]request, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) || bytes.Equal(raw, []byte("{}")) || bytes.Equal(raw, []byte("[]")) {
		return nil, nil
	}
	pairs := make([][]json.RawMessage, 0, n)
	if raw[0] == '{' {
		var named map[string]map[string]json.RawMessage
		if err := json.Unmarshal(raw, &named); err != nil {
			return nil, errors.New("arguments: want gen_args_0 with arg_0 and arg_1, and so on")
		}
		for i := range len(named) {
			args, ok := named["gen_args_"+strconv.Itoa(i)]
			if !ok {
				return nil, fmt.Errorf("arguments: %d of them, but no gen_args_%d", len(named), i)
			}
			pairs = append(pairs, []json.RawMessage{args["arg_0"], args["arg_1"]})
		}
	} else if err := json.Unmarshal(raw, &pairs); err != nil {
		return nil, errors.New("arguments: want a list of pairs")
	}
	if len(pairs) != n {
		return nil, fmt.Errorf("%d requests (arguments) and %d responses", len(pairs), n)
	}
	out := make([]request, n)
	for i, p := range pairs {
		if len(p) < 2 || json.Unmarshal(p[0], &out[i].context) != nil || json.Unmarshal(p[1], &out[i].continuation) != nil {
			return nil, fmt.Errorf("arguments: request %d has no text before and after; chats are not multiple choice", i)
		}
	}
	return out, nil
}

// conditional returns how many of the requests are conditional: all, or the first
// half where the second asks for the same continuations after one short context.
func conditional(requests []request, n, lengths int) int {
	if requests == nil {
		return lengths
	}
	half := n / 2
	if n%2 != 0 || half < 2 {
		return n
	}
	short := requests[half].context
	if short != "" && short != "Answer:" {
		return n
	}
	for i := range half {
		a, b := requests[i], requests[half+i]
		if a.continuation != b.continuation || b.context != short || a.context == short {
			return n
		}
	}
	return half
}

// choices fills in what is known of each choice.
func (r *reader) choices(in *instance, logprobs []results.Number, requests []request, doc *row) error {
	in.choices = make([]olmes.Choice, len(logprobs))
	in.labelled = requests != nil
	for i, v := range logprobs {
		c := &in.choices[i]
		if !v.Finite() {
			if !r.options.KeepFailed {
				return fmt.Errorf("choice %d has the log-probability %v; --keep-failed keeps such instances as failed ones, which no score counts", i, v)
			}
			c.Error = "the tool gave the log-probability " + v.String()
			r.failed++
		}
		c.LogProb = v.Pointer()
		if requests != nil {
			q := requests[i]
			c.Chars, c.Bytes = utf8.RuneCountInString(q.continuation), len(q.continuation)
			c.RequestSHA256 = results.Digest(q.context, q.continuation)
			in.labelled = in.labelled && isLabel(q.continuation, i)
		}
		if i < len(doc.Lengths) {
			l := doc.Lengths[i]
			if l.Tokens < 0 || l.Chars < 0 || l.Bytes < 0 || l.ContextTokens < 0 || l.Dropped < 0 {
				return fmt.Errorf("choice %d: a length is negative", i)
			}
			c.Tokens, c.Chars, c.Bytes, c.ContextTokens, c.Dropped, c.IDsSHA256 = l.Tokens, l.Chars, l.Bytes, l.ContextTokens, l.Dropped, l.IDsSHA256
			if c.RequestSHA256 == "" && i < len(doc.RequestSHA256) {
				c.RequestSHA256 = doc.RequestSHA256[i]
			}
		}
	}
	if requests == nil {
		r.textless++
	}
	return nil
}

// isLabel reports whether a continuation is the label of the i-th choice.
func isLabel(s string, i int) bool {
	s = strings.TrimSpace(s)
	s = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(s, "("), ")"), ".")
	return i < 26 && s == string(rune('A'+i))
}

// unconditional keeps the second half of the requests.
func (r *reader) unconditional(in *instance, logprobs []results.Number, requests []request) error {
	standard := requests == nil || requests[len(logprobs)].context == "Answer:"
	if !standard {
		r.empty++
	}
	for i, v := range logprobs {
		if !v.Finite() && !r.options.KeepFailed {
			return fmt.Errorf("choice %d has the unconditional log-probability %v; --keep-failed keeps such instances as failed ones", i, v)
		}
		in.alone = append(in.alone, v.Value)
		if standard {
			in.choices[i].Unconditional = v.Pointer()
		}
	}
	return nil
}

// golds notes what the right choice is by each way of telling it.
func (in *instance) golds(target json.RawMessage, requests []request, n int, doc *row) {
	if doc.Gold != nil && *doc.Gold >= 0 {
		in.gold[0] = *doc.Gold
	}
	var text string
	var position int
	switch {
	case json.Unmarshal(target, &text) == nil:
		if v, err := strconv.Atoi(text); err == nil {
			in.gold[1] = v
		}
	case json.Unmarshal(target, &position) == nil:
		in.gold[1], text = position, strconv.Itoa(position)
	}
	if requests == nil || text == "" {
		return
	}
	same, contexts := true, true
	for i := range n {
		same = same && requests[i].continuation == requests[0].continuation
		contexts = contexts && requests[i].context == requests[0].context
	}
	in.several = same && !contexts
	for i := range n {
		if c := requests[i].continuation; !in.several && (c == text || strings.TrimSpace(c) == strings.TrimSpace(text)) {
			in.gold[2] = i
			return
		}
	}
}

// standard takes what an exported task's row says, and notes whether the requests
// are those that were exported.
func (r *reader) standard(in *instance, doc *row) {
	_, _, named := taskfile.ParseName(r.Task)
	if doc.DocID == nil || *doc.DocID < 0 || doc.Standard == task.Standard && !named {
		r.exported = false
		return
	}
	if len(r.instances) == 0 {
		r.row = *doc
	}
	in.docID, in.native, in.split = *doc.DocID, doc.NativeID, doc.Split
	for i := range in.choices {
		if len(doc.RequestSHA256) != len(in.choices) || doc.RequestSHA256[i] != in.choices[i].RequestSHA256 {
			r.changed++
		}
	}
}

// TaskName is the task's name in a samples file's name.
func TaskName(path string) string { name, _ := nameOf(path); return name }

// Exported reports whether a task's name is one that exported tasks have.
func Exported(task string) bool { _, _, ok := taskfile.ParseName(task); return ok }

// Requests reads the logged requests of a sample: pairs of context and continuation.
func Requests(raw json.RawMessage) ([][2]string, error) {
	raw = bytes.TrimSpace(raw)
	n := 0
	var named map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(raw, &named) == nil {
		n = len(named)
	} else if json.Unmarshal(raw, &list) == nil {
		n = len(list)
	}
	requests, err := arguments(raw, n)
	out := make([][2]string, len(requests))
	for i, r := range requests {
		out[i] = [2]string{r.context, r.continuation}
	}
	return out, err
}
