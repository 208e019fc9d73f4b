package ai2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"olmes"
	"olmes/foreign/results"
	"olmes/record"
)

// Formats name the kinds of files.
const (
	PredictionsFormat = "AI2 predictions"
	MetricsFormat     = "AI2 metrics"
	RequestsFormat    = "AI2 requests"
)

// log2e is log2(e) as oe-eval has it, with 12 digits.
const log2e = 1.44269504089

// uncondOffset is where oe-eval's doc_ids of unconditional requests start.
const uncondOffset = 1000000

// Options are what the person who imports says.
type Options struct {
	KeepFailed bool // an instance without a usable log-probability is kept as failed
}

// Predictions is a file of predictions.
type Predictions struct {
	Stem    string // the file's name without its end, shared with metrics and requests
	File    record.ImportFile
	Skipped string // why nothing of it can be kept

	later     bool // of olmo-eval, not of oe-eval
	instances []instance
	taskHash  string
	modelHash string
	natives   string // "int", "text", "none" or "mixed"
	absent    int    // choices with the log-probability -999
	failed    int
	noAll     bool // num_tokens_all is not told
}

type instance struct {
	line    int
	docID   int
	native  string
	label   int
	choices []olmes.Choice
	all     []int // num_tokens_all
	stored  map[string]results.Number
	perByte []float64
}

type predictionLine struct {
	DocID           *int                       `json:"doc_id"`
	NativeID        json.RawMessage            `json:"native_id"`
	Metrics         map[string]json.RawMessage `json:"metrics"`
	ModelOutput     []output                   `json:"model_output"`
	Label           json.RawMessage            `json:"label"`
	TaskHash        string                     `json:"task_hash"`
	ModelHash       string                     `json:"model_hash"`
	InstanceMetrics json.RawMessage            `json:"instance_metrics"` // of olmo-eval
}

type output struct {
	SumLogits       *results.Number `json:"sum_logits"`
	Tokens          *int            `json:"num_tokens"`
	TokensAll       *int            `json:"num_tokens_all"`
	Chars           *int            `json:"num_chars"`
	Uncond          *results.Number `json:"sum_logits_uncond"`
	PerChar         *results.Number `json:"logits_per_char"`
	BitsPerByte     *results.Number `json:"bits_per_byte"`
	Continuation    *string         `json:"continuation"` // of generated texts
	Text            *string         `json:"text"`         // of olmo-eval
	ExtractedAnswer json.RawMessage `json:"extracted_answer"`
}

// numbers are those of the metrics that are numbers. An accuracy may be true or false;
// a position that is a text or such is an error.
func (l *predictionLine) numbers() (map[string]results.Number, error) {
	out := make(map[string]results.Number, len(l.Metrics))
	for _, name := range slices.Sorted(maps.Keys(l.Metrics)) {
		v := l.Metrics[name]
		var n results.Number
		var loose results.Loose
		err := json.Unmarshal(v, &n)
		switch {
		case err == nil && n.Set:
			out[name] = n
		case err == nil:
		case results.IsAccuracy(name) && json.Unmarshal(v, &loose) == nil:
			out[name] = loose.Number
		case (name == "correct_choice" || strings.HasPrefix(name, "predicted_index_")) && json.Unmarshal(v, &loose) == nil:
			return nil, fmt.Errorf("metrics.%s: want a number, got %s", name, v)
		}
	}
	return out, nil
}

// ends are the ends of the names of files of one task.
var ends = regexp.MustCompile(`[-_](predictions\.jsonl|metrics\.json|requests\.jsonl|recorded-inputs\.jsonl)(\.gz)?$`)

// Stem is what the files of one task share: their name without its end.
func Stem(path string) string { return ends.ReplaceAllString(filepath.Base(path), "") }

// taskNumber is how oe-eval counts tasks in its files' names.
var taskNumber = regexp.MustCompile(`^task-\d+-`)

// nameOf is the task's name in a file's name.
func nameOf(stem string) string { return taskNumber.ReplaceAllString(stem, "") }

// errOther says that a file holds predictions of another kind than is kept.
type errOther struct{ why string }

func (e *errOther) Error() string { return e.why }

// ReadPredictions reads a file of predictions.
func ReadPredictions(ctx context.Context, path string, o Options) (*Predictions, error) {
	p := &Predictions{Stem: Stem(path)}
	lines := map[int]int{}
	var err error
	p.File, err = results.Lines(ctx, path, PredictionsFormat, func(n int, data []byte) error {
		var l predictionLine
		if err := results.Decode(data, &l); err != nil {
			return err
		}
		in, err := p.instance(&l, o)
		var other *errOther
		if errors.As(err, &other) && len(p.instances) > 0 {
			return fmt.Errorf("%s, unlike the lines before", other.why)
		}
		if err != nil {
			return err
		}
		in.line = n
		if at, ok := lines[in.docID]; ok {
			return fmt.Errorf("doc_id %d is there twice, first in line %d", in.docID, at)
		}
		lines[in.docID] = n
		p.instances = append(p.instances, in)
		return nil
	})
	var other *errOther
	if errors.As(err, &other) {
		p.Skipped = other.why
		p.File = record.ImportFile{Name: path, Format: PredictionsFormat}
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	if len(p.instances) == 0 {
		return nil, results.At(path, 0, "it holds no predictions")
	}
	if p.later {
		p.halve()
	}
	return p, nil
}

func (p *Predictions) instance(l *predictionLine, o Options) (instance, error) {
	if l.DocID == nil || l.ModelOutput == nil {
		return instance{}, errors.New("no doc_id or no model_output: not a line of AI2's predictions")
	}
	in := instance{docID: *l.DocID}
	if in.docID < 0 || in.docID >= uncondOffset {
		return in, fmt.Errorf("doc_id is %d", in.docID)
	}
	if len(p.instances) == 0 {
		p.taskHash, p.modelHash, p.later = l.TaskHash, l.ModelHash, len(l.InstanceMetrics) > 0
	} else if l.TaskHash != p.taskHash || l.ModelHash != p.modelHash {
		return in, errors.New("its task_hash or model_hash is another than the lines' before: the file holds more than one run")
	}
	if len(l.ModelOutput) < 2 || l.ModelOutput[0].SumLogits == nil || l.ModelOutput[0].Continuation != nil {
		return in, &errOther{"it is not multiple choice: its outputs are texts or single values"}
	}
	var err error
	if in.stored, err = l.numbers(); err != nil {
		return in, err
	}
	if err := p.native(&in, l.NativeID); err != nil {
		return in, err
	}
	for i := range l.ModelOutput {
		c, err := p.choice(&l.ModelOutput[i], o)
		if err != nil {
			return in, fmt.Errorf("choice %d: %w", i, err)
		}
		in.choices = append(in.choices, c)
		all := -1
		if v := l.ModelOutput[i].TokensAll; v != nil {
			all = *v
		}
		in.all = append(in.all, all)
		p.noAll = p.noAll || all < 0
		if b := l.ModelOutput[i].BitsPerByte; b != nil && b.Finite() {
			in.perByte = append(in.perByte, b.Value)
		}
	}
	if in.label, err = label(l, in.stored, len(in.choices)); err != nil {
		return in, err
	}
	return in, nil
}

// native reads an instance's own id, a text or a number.
func (p *Predictions) native(in *instance, raw json.RawMessage) error {
	var text string
	var number json.Number
	kind := "none"
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &text) == nil:
		in.native, kind = text, "text"
	case json.Unmarshal(raw, &number) == nil:
		in.native, kind = number.String(), "int"
	default:
		return errors.New("native_id: want a text or a number")
	}
	switch p.natives {
	case "", kind:
		p.natives = kind
	default:
		p.natives = "mixed"
	}
	return nil
}

func (p *Predictions) choice(out *output, o Options) (olmes.Choice, error) {
	var c olmes.Choice
	if out.SumLogits == nil {
		return c, errors.New("no sum_logits")
	}
	if err := results.CheckLogProb("sum_logits", *out.SumLogits); err != nil {
		return c, err
	}
	if !out.SumLogits.Finite() {
		if !o.KeepFailed {
			return c, fmt.Errorf("sum_logits is %v; --keep-failed keeps such instances as failed ones, which no score counts", *out.SumLogits)
		}
		c.Error = "the tool gave the log-probability " + out.SumLogits.String()
		p.failed++
	}
	c.LogProb = out.SumLogits.Pointer()
	if c.LogProb != nil && *c.LogProb == -999 {
		p.absent++
	}
	for _, n := range []struct {
		name string
		from *int
		to   *int
	}{{"num_tokens", out.Tokens, &c.Tokens}, {"num_chars", out.Chars, &c.Chars}} {
		if n.from != nil {
			if *n.from < 0 || *n.from > math.MaxInt32 {
				return c, fmt.Errorf("%s is %d", n.name, *n.from)
			}
			*n.to = *n.from
		}
	}
	if out.TokensAll != nil && (*out.TokensAll < c.Tokens || *out.TokensAll > math.MaxInt32) {
		return c, fmt.Errorf("num_tokens_all is %d with %d tokens of the continuation", *out.TokensAll, c.Tokens)
	}
	if out.Text != nil {
		c.Chars, c.Bytes = utf8.RuneCountInString(*out.Text), len(*out.Text)
	}
	if c.LogProb != nil {
		if c.Chars == 0 && out.PerChar != nil {
			c.Chars = divisor(*c.LogProb, *out.PerChar, func(n float64) float64 { return *c.LogProb / n })
		}
		if c.Bytes == 0 && out.BitsPerByte != nil {
			c.Bytes = divisor(-log2e**c.LogProb, *out.BitsPerByte, func(n float64) float64 { return -log2e * (*c.LogProb / n) })
		}
	}
	if out.Uncond != nil && out.Uncond.Set {
		if !out.Uncond.Finite() && !o.KeepFailed {
			return c, fmt.Errorf("sum_logits_uncond is %v; --keep-failed keeps such instances as failed ones", *out.Uncond)
		}
		if err := results.CheckLogProb("sum_logits_uncond", *out.Uncond); err != nil {
			return c, err
		}
		c.Unconditional = out.Uncond.Pointer()
	}
	return c, nil
}

// divisor returns the whole number that a total was divided by, where dividing by
// it gives the printed quotient exactly; else 0.
func divisor(total float64, quotient results.Number, by func(float64) float64) int {
	if !quotient.Finite() || quotient.Value == 0 {
		return 0
	}
	n := math.Round(total / quotient.Value)
	if n < 1 || n > math.MaxInt32 || by(n) != quotient.Value {
		return 0
	}
	return int(n)
}

// label tells the right choice: label, or the metrics' correct_choice.
func label(l *predictionLine, stored map[string]results.Number, n int) (int, error) {
	var position int
	var text string
	var list []json.RawMessage
	out := -1
	switch {
	case len(l.Label) == 0 || string(l.Label) == "null":
		if c, ok := stored["correct_choice"]; ok && c.Finite() {
			if c.Value != math.Trunc(c.Value) || math.Abs(c.Value) > math.MaxInt32 {
				return 0, fmt.Errorf("correct_choice is %v; it is a whole number", c)
			}
			out = int(c.Value)
		} else {
			return 0, errors.New("no label and no correct_choice: which choice is right is not told")
		}
	case json.Unmarshal(l.Label, &position) == nil:
		out = position
	case json.Unmarshal(l.Label, &text) == nil:
		if len(text) == 1 && text[0] >= 'A' && text[0] <= 'Z' {
			out = int(text[0] - 'A')
		} else if v, err := strconv.Atoi(text); err == nil {
			out = v
		} else {
			return 0, errors.New("label is a text that is no letter and no position")
		}
	case json.Unmarshal(l.Label, &list) == nil:
		return 0, &errOther{"several answers are right at once"}
	default:
		return 0, errors.New("label: want the right choice's position")
	}
	if out < 0 || out >= n {
		return 0, fmt.Errorf("the right choice is %d of %d, counted from 0", out, n)
	}
	if c, ok := stored["correct_choice"]; ok && c.Finite() && c.Value != float64(out) && len(l.Label) > 0 && string(l.Label) != "null" {
		return 0, fmt.Errorf("label is %d and correct_choice %v", out, c.Value)
	}
	return out, nil
}

// halve takes the second half of every instance's outputs for the unconditional
// ones, where olmo-eval asked for them: an even number of at least four, and of
// every instance both halves are of equal lengths.
func (p *Predictions) halve() {
	for i := range p.instances {
		c := p.instances[i].choices
		if len(c) < 4 || len(c)%2 != 0 || p.instances[i].label >= len(c)/2 {
			return
		}
		for j := range len(c) / 2 {
			a, b := &c[j], &c[len(c)/2+j]
			if a.Chars == 0 || a.Chars != b.Chars || a.Tokens != b.Tokens || p.instances[i].all[j] <= p.instances[i].all[len(c)/2+j] {
				return
			}
		}
	}
	for i := range p.instances {
		in := &p.instances[i]
		half := len(in.choices) / 2
		for j := range half {
			in.choices[j].Unconditional = in.choices[half+j].LogProb
		}
		in.choices, in.all = in.choices[:half], in.all[:half]
		if len(in.perByte) == 2*half {
			in.perByte = in.perByte[:half]
		}
	}
}

// spec is a task as AI2 names it.
type spec struct {
	base        string            // "arc_easy", "mmlu_anatomy"
	formulation olmes.Formulation // "" where the name does not tell
	regime      string            // "olmes", "" where there is none
}

// parseSpec reads "arc_easy:mc::olmes", "arc_easy:rc", "arc_easy_mc", "arc_easy".
func parseSpec(name string) spec {
	base, regime, _ := strings.Cut(name, "::")
	s := spec{base: base, regime: regime}
	for _, sep := range []string{":", "_"} {
		for suffix, f := range map[string]olmes.Formulation{"mc": olmes.MCF, "rc": olmes.CF} {
			if rest, ok := strings.CutSuffix(base, sep+suffix); ok {
				s.base, s.formulation = rest, f
			}
		}
	}
	if t, ok := results.Lookup(s.base); ok {
		s.base = t.Name
	}
	return s
}
