package table

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"olmes"
	"olmes/foreign/results"
	"olmes/record"
	"olmes/score"
)

// Format names the kind of file.
const Format = "CSV"

// Tool is what records name where they come from a table.
const Tool = "csv"

// Options are what the person who imports says.
type Options struct {
	KeepFailed bool // a choice without a log-probability is kept as failed
}

// Read reads a table. Each model in it makes a run of its own.
func Read(ctx context.Context, path string, o Options) ([]*results.Run, error) {
	f, err := results.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := csv.NewReader(f)
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return nil, fault(path, c, err)
	}
	r := &reader{path: path, options: o, csv: c, column: map[string]int{}, forms: map[key]*form{}}
	for i, name := range header {
		name = strings.TrimSpace(name)
		if _, twice := r.column[name]; twice {
			return nil, results.At(path, 1, "the column %q is there twice", name)
		}
		r.column[name] = i
	}
	names := sortedKeys(r.column)
	kind := Kind(names)
	known := Columns
	if kind == "accuracies" {
		known = AccuracyColumns
	}
	if kind == "" {
		return nil, results.At(path, 1, "the header has none of both sets of columns: %s (choices), or %s (accuracies), separated by commas",
			strings.Join(Needed, ", "), strings.Join(NeededAccuracy, ", "))
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, results.At(path, 1, "unknown column %q; a table of %s can have %s", name, kind, strings.Join(known, ", "))
		}
	}
	for n := 1; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fault(path, c, err)
		}
		r.row = row
		r.line, _ = c.FieldPos(0)
		if kind == "choices" {
			err = r.choice()
		} else {
			err = r.accuracy()
		}
		if err != nil {
			return nil, &results.Error{File: path, Line: r.line, Err: err}
		}
	}
	if len(r.order) == 0 {
		return nil, results.At(path, 0, "the table has a header and no rows")
	}
	file, err := f.Sum(Format)
	if err != nil {
		return nil, err
	}
	return r.runs(file, kind)
}

// fault gives an error of the CSV reader its line.
func fault(path string, c *csv.Reader, err error) error {
	var pe *csv.ParseError
	if errors.As(err, &pe) {
		return &results.Error{File: path, Line: pe.Line, Err: pe.Err}
	}
	if errors.Is(err, io.EOF) {
		return results.At(path, 0, "the file has no lines")
	}
	line, _ := c.FieldPos(0)
	return &results.Error{File: path, Line: line, Err: err}
}

func sortedKeys(m map[string]int) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// key tells the forms apart.
type key struct{ model, variant, task, split, formulation string }

type form struct {
	*results.Form
	docs   map[int]*doc
	byDoc  []int
	failed int
}

type doc struct {
	line    int
	gold    int
	native  string
	choices map[int]olmes.Choice
}

type reader struct {
	path    string
	options Options
	csv     *csv.Reader
	column  map[string]int
	row     []string
	line    int
	forms   map[key]*form
	order   []key
}

// cell returns a cell without white space around it, "" where the column is not there.
func (r *reader) cell(name string) string {
	i, ok := r.column[name]
	if !ok || i >= len(r.row) {
		return ""
	}
	return strings.TrimSpace(r.row[i])
}

// form finds or makes the form of a row.
func (r *reader) form() (*form, error) {
	for i, v := range r.row {
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("column %d is not valid UTF-8", i+1)
		}
	}
	k := key{model: r.cell("model"), variant: results.Unknown, task: r.cell("task"), split: r.cell("split"), formulation: strings.ToLower(r.cell("formulation"))}
	if _, ok := r.column["variant"]; ok {
		k.variant = r.cell("variant")
	}
	switch k.formulation {
	case "", "cf", "mcf":
	case "rc":
		k.formulation = "cf"
	case "mc":
		k.formulation = "mcf"
	default:
		return nil, fmt.Errorf("formulation is %q; it can be cf, mcf or empty", k.formulation)
	}
	if k.task == "" {
		return nil, errors.New("task is empty")
	}
	if t, ok := results.Lookup(k.task); ok {
		k.task = t.Name
	}
	f := r.forms[k]
	if f == nil {
		f = &form{Form: &results.Form{Task: k.task, Foreign: k.task, Split: k.split, Formulation: olmes.Formulation(k.formulation)}, docs: map[int]*doc{}}
		r.forms[k] = f
		r.order = append(r.order, k)
	}
	return f, nil
}

// whole reads a cell that is a whole number from 0 to max; -1 where it is empty.
func (r *reader) whole(name string, max int) (int, error) {
	s := r.cell(name)
	if s == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > max {
		return 0, fmt.Errorf("%s is %q; it can be a whole number from 0 to %d", name, s, max)
	}
	return n, nil
}

// number reads a cell that is a number.
func (r *reader) number(name string) (results.Number, error) {
	s := r.cell(name)
	if s == "" {
		return results.Number{}, nil
	}
	v, ok := results.ParseNumber(s)
	if !ok {
		return results.Number{}, fmt.Errorf("%s is %q, which is no number", name, s)
	}
	return results.Number{Value: v, Set: true}, nil
}

// maxChoices bounds the choices of one instance.
const maxChoices = 1 << 12

// choice reads a row of a table of choices.
func (r *reader) choice() error {
	f, err := r.form()
	if err != nil {
		return err
	}
	var ints [7]int
	for i, name := range []string{"doc_id", "choice", "gold", "tokens", "chars", "bytes", "context_tokens"} {
		limit := math.MaxInt32
		if name == "choice" || name == "gold" {
			limit = maxChoices
		}
		if ints[i], err = r.whole(name, limit); err != nil {
			return err
		}
		if ints[i] < 0 && i < 3 {
			return fmt.Errorf("%s is empty", name)
		}
		ints[i] = max(0, ints[i])
	}
	dropped, err := r.whole("dropped", math.MaxInt32)
	if err != nil {
		return err
	}
	logprob, err := r.number("logprob")
	if err != nil {
		return err
	}
	alone, err := r.number("unconditional")
	if err != nil {
		return err
	}
	if alone.Set && !alone.Finite() {
		return fmt.Errorf("unconditional is %v", alone)
	}
	if err := cmp.Or(results.CheckLogProb("logprob", logprob), results.CheckLogProb("unconditional", alone)); err != nil {
		return err
	}
	c := olmes.Choice{LogProb: logprob.Pointer(), Unconditional: alone.Pointer(), Tokens: ints[3], Chars: ints[4], Bytes: ints[5], ContextTokens: ints[6],
		Dropped: max(0, dropped), RequestSHA256: r.cell("request_sha256"), IDsSHA256: r.cell("ids_sha256"), Error: r.cell("error")}
	if _, has := r.column["continuation"]; has {
		// As they are: white space matters.
		continuation := r.row[r.column["continuation"]]
		c.Chars, c.Bytes = utf8.RuneCountInString(continuation), len(continuation)
		if at, has := r.column["context"]; has {
			sum := results.Digest(r.row[at], continuation)
			if c.RequestSHA256 != "" && c.RequestSHA256 != sum {
				return errors.New("request_sha256 is not that of context and continuation")
			}
			c.RequestSHA256 = sum
		}
	}
	for name, s := range map[string]string{"request_sha256": c.RequestSHA256, "ids_sha256": c.IDsSHA256} {
		if s != "" && (len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "") {
			return fmt.Errorf("%s is no SHA-256 in lower-case hexadecimal digits", name)
		}
	}
	switch {
	case c.Error != "":
		c.LogProb = nil
	case c.LogProb == nil && !r.options.KeepFailed:
		return fmt.Errorf("logprob is %v; --keep-failed keeps such instances as failed ones, which no score counts", logprob)
	case c.LogProb == nil:
		c.Error = "the table gives the log-probability " + logprob.String()
		f.failed++
	}
	d := f.docs[ints[0]]
	if d == nil {
		d = &doc{line: r.line, gold: ints[2], native: r.cell("native_id"), choices: map[int]olmes.Choice{}}
		f.docs[ints[0]] = d
		f.byDoc = append(f.byDoc, ints[0])
	}
	if d.gold != ints[2] {
		return fmt.Errorf("gold of doc_id %d is %d, in line %d it is %d", ints[0], ints[2], d.line, d.gold)
	}
	if _, ok := d.choices[ints[1]]; ok {
		return fmt.Errorf("choice %d of doc_id %d is there twice", ints[1], ints[0])
	}
	d.choices[ints[1]] = c
	return nil
}

// accuracy reads a row of a table of accuracies.
func (r *reader) accuracy() error {
	f, err := r.form()
	if err != nil {
		return err
	}
	v, err := r.number("accuracy")
	if err != nil {
		return err
	}
	if !v.Finite() {
		return fmt.Errorf("accuracy is %v", v)
	}
	if err := results.CheckAccuracy("accuracy", v); err != nil {
		return err
	}
	se, err := r.number("se")
	if err != nil {
		return err
	}
	if se.Set && !se.Finite() {
		return fmt.Errorf("se is %v", se)
	}
	if err := results.CheckSE("se", se, true); err != nil {
		return err
	}
	n, err := r.whole("n", math.MaxInt32)
	if err != nil {
		return err
	}
	name := strings.ToLower(r.cell("normalization"))
	norm := olmes.Normalization(name)
	if f.Accuracy == nil {
		f.Accuracy, f.Values = map[olmes.Normalization]score.Estimate{}, map[string]score.Measure{}
	}
	switch {
	case name == "":
		if _, twice := f.Values["accuracy"]; twice {
			return errors.New("another row has the accuracy of this task and formulation; say with normalization which is which")
		}
		f.Values["accuracy"] = score.Measure{Value: v.Value, SE: se.Pointer(), N: max(0, n)}
	case !slices.Contains(olmes.Normalizations(), norm):
		return fmt.Errorf("normalization is %q; it can be none, token, character, pmi or empty", name)
	default:
		if _, twice := f.Accuracy[norm]; twice {
			return fmt.Errorf("the accuracy under %s is there twice", norm)
		}
		f.Accuracy[norm] = results.Estimate(v.Value, max(0, n), se.Pointer())
	}
	if n > 0 && f.N > 0 && n != f.N {
		return fmt.Errorf("n is %d, in a row before it is %d", n, f.N)
	}
	f.N = max(f.N, n)
	return nil
}

// runs makes a run of each model and variant.
func (r *reader) runs(file record.ImportFile, kind string) ([]*results.Run, error) {
	var out []*results.Run
	byModel := map[[2]string]*results.Run{}
	for _, k := range r.order {
		f := r.forms[k]
		for _, id := range f.byDoc {
			p, err := r.prediction(f.docs[id], id)
			if err != nil {
				return nil, err
			}
			f.Predictions = append(f.Predictions, p)
		}
		name := [2]string{k.model, k.variant}
		run := byModel[name]
		if run == nil {
			run = &results.Run{Tool: Tool, Variant: k.variant, Model: record.Model{Name: k.model}, Files: []record.ImportFile{file}}
			byModel[name] = run
			out = append(out, run)
		}
		if f.failed > 0 {
			run.Note("%s: %d choices have no log-probability; their instances are kept as failed", k.task, f.failed)
		}
		if f.Formulation == "" {
			run.Lack("%s: the formulation", k.task)
		}
		if f.Split == "" {
			run.Lack("%s: the split", k.task)
		}
		run.Forms = append(run.Forms, f.Form)
	}
	for _, run := range out {
		if run.Model.Name == "" {
			run.Lack("everything about model, engine and precision")
		} else {
			run.Lack("everything about model, engine and precision but the model's name")
		}
		if kind == "accuracies" {
			run.Lack("the instances, so nothing can be compared by instance or computed again")
		}
		if run.Variant == results.Unknown {
			run.Lack("how the requests were rendered (no column \"variant\"; an empty one says: as the standard has it)")
		}
		if err := run.Settle(); err != nil {
			return nil, results.At(r.path, 0, "%w", err)
		}
	}
	slices.SortStableFunc(out, func(a, b *results.Run) int { return cmp.Compare(a.Model.Name, b.Model.Name) })
	return out, nil
}

// prediction puts the choices of an instance in order.
func (r *reader) prediction(d *doc, id int) (olmes.Prediction, error) {
	p := olmes.Prediction{DocID: id, NativeID: d.native, Gold: d.gold, Choices: make([]olmes.Choice, len(d.choices))}
	for i := range p.Choices {
		c, ok := d.choices[i]
		if !ok {
			return p, results.At(r.path, d.line, "doc_id %d has %d choices and none with the number %d, counted from 0", id, len(d.choices), i)
		}
		p.Choices[i] = c
	}
	if d.gold >= len(p.Choices) {
		return p, results.At(r.path, d.line, "gold of doc_id %d is %d of %d choices, counted from 0", id, d.gold, len(p.Choices))
	}
	return p, nil
}
