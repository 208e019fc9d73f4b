package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"olmes"
)

// groupRows is the number of predictions in a row group of the file. It is
// part of what makes the bytes of a file depend on nothing but its rows.
const groupRows = 4096

// required makes a field that is never null, optional one that may be.
func required(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t}
}

func optional(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// list makes a list whose elements are never null.
func list(t arrow.DataType) arrow.DataType {
	return arrow.ListOfField(required("element", t))
}

var (
	text     = arrow.BinaryTypes.String
	int32s   = arrow.PrimitiveTypes.Int32
	int64s   = arrow.PrimitiveTypes.Int64
	float64s = arrow.PrimitiveTypes.Float64
)

// choiceType, outputType and promptType are the structs within a prediction.
func choiceType() *arrow.StructType {
	return arrow.StructOf(
		optional("logprob", float64s),
		required("tokens", int32s),
		required("chars", int32s),
		required("bytes", int32s),
		optional("unconditional", float64s),
		optional("token_logprobs", list(float64s)),
		optional("continuation_ids", list(int32s)),
		optional("unconditional_logprobs", list(float64s)),
		required("context_tokens", int32s),
		required("dropped", int32s),
		required("request_sha256", text),
		required("ids_sha256", text),
		optional("error", text),
	)
}

func outputType() *arrow.StructType {
	return arrow.StructOf(
		required("text", text),
		optional("tokens", list(arrow.StructOf(required("id", int32s), required("logprob", float64s)))),
		optional("error", text),
	)
}

func promptType() *arrow.StructType {
	return arrow.StructOf(
		required("text", text),
		optional("messages", list(arrow.StructOf(required("role", text), required("content", text)))),
	)
}

// schema is the table of predictions; docs/record.md explains every column.
func schema() *arrow.Schema {
	fields := []arrow.Field{
		required("task", text),
		required("formulation", text),
		required("variant", text),
		required("split", text),
		required("kind", text),
		required("doc_id", int64s),
		required("native_id", text),
		optional("gold", int32s),
		required("chunk", text),
		optional("choices", list(choiceType())),
		optional("outputs", list(outputType())),
		optional("prompt", promptType()),
	}
	for _, n := range olmes.Normalizations() {
		fields = append(fields, optional("prediction_"+string(n), int32s))
	}
	return arrow.NewSchema(fields, nil)
}

// writePredictions writes the predictions as Parquet. The bytes depend on the
// predictions and their order alone.
func writePredictions(w io.Writer, preds []olmes.Prediction) error {
	props := parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithMaxRowGroupLength(groupRows),
		parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithDictionaryFor("choices.list.element.request_sha256", false),
		parquet.WithDictionaryFor("choices.list.element.ids_sha256", false),
		parquet.WithStats(false),
		parquet.WithCreatedBy("olmes record format 1"),
	)
	s := schema()
	fw, err := pqarrow.NewFileWriter(s, writerOnly{w}, props, pqarrow.NewArrowWriterProperties())
	if err != nil {
		return err
	}
	b := &rowBuilder{array.NewRecordBuilder(memory.DefaultAllocator, s)}
	defer b.Release()
	for len(preds) > 0 {
		n := min(groupRows, len(preds))
		for i := range preds[:n] {
			if err := b.add(&preds[i]); err != nil {
				fw.Close()
				return err
			}
		}
		preds = preds[n:]
		rec := b.NewRecordBatch()
		err := fw.Write(rec)
		rec.Release()
		if err != nil {
			fw.Close()
			return err
		}
	}
	return fw.Close()
}

// writerOnly hides that the file is a Closer: closing it is the caller's.
type writerOnly struct{ io.Writer }

// rowBuilder appends predictions as rows.
type rowBuilder struct{ *array.RecordBuilder }

func (b *rowBuilder) add(p *olmes.Prediction) error {
	i := 0
	next := func() array.Builder { i++; return b.Field(i - 1) }
	for _, s := range []string{p.Task, string(p.Formulation), p.Variant, p.Split, string(p.Kind)} {
		next().(*array.StringBuilder).Append(s)
	}
	next().(*array.Int64Builder).Append(int64(p.DocID))
	next().(*array.StringBuilder).Append(p.NativeID)
	if gold := next().(*array.Int32Builder); p.Gold < 0 {
		gold.AppendNull()
	} else if err := appendInt(gold, p.Gold); err != nil {
		return err
	}
	next().(*array.StringBuilder).Append(p.Chunk)
	if err := appendChoices(next().(*array.ListBuilder), p.Choices); err != nil {
		return fmt.Errorf("prediction of %s, doc_id %d: %w", p.Task, p.DocID, err)
	}
	appendOutputs(next().(*array.ListBuilder), p.Outputs)
	appendPrompt(next().(*array.StructBuilder), p.Prompt)
	known := 0
	for _, n := range olmes.Normalizations() {
		column := next().(*array.Int32Builder)
		best, ok := p.Predictions[n]
		if !ok {
			column.AppendNull()
			continue
		}
		known++
		if err := appendInt(column, best); err != nil {
			return err
		}
	}
	if known != len(p.Predictions) {
		return fmt.Errorf("prediction of %s, doc_id %d: a normalization in %v has no column", p.Task, p.DocID, p.Predictions)
	}
	return nil
}

func appendChoices(list *array.ListBuilder, choices []olmes.Choice) error {
	if choices == nil {
		list.AppendNull()
		return nil
	}
	list.Append(true)
	s := list.ValueBuilder().(*array.StructBuilder)
	for i := range choices {
		c := &choices[i]
		s.Append(true)
		f := 0
		next := func() array.Builder { f++; return s.FieldBuilder(f - 1) }
		appendFloat(next(), c.LogProb)
		var err error
		ints := func(values ...int) {
			for _, v := range values {
				err = errors.Join(err, appendInt(next().(*array.Int32Builder), v))
			}
		}
		ints(c.Tokens, c.Chars, c.Bytes)
		appendFloat(next(), c.Unconditional)
		appendFloats(next(), c.TokenLogProbs)
		appendInts(next(), c.ContinuationIDs)
		appendFloats(next(), c.UnconditionalLogProbs)
		ints(c.ContextTokens, c.Dropped)
		next().(*array.StringBuilder).Append(c.RequestSHA256)
		next().(*array.StringBuilder).Append(c.IDsSHA256)
		appendText(next(), c.Error)
		if err != nil {
			return fmt.Errorf("choice %d: %w", i, err)
		}
	}
	return nil
}

func appendOutputs(list *array.ListBuilder, outputs []olmes.Output) {
	if outputs == nil {
		list.AppendNull()
		return
	}
	list.Append(true)
	s := list.ValueBuilder().(*array.StructBuilder)
	for _, o := range outputs {
		s.Append(true)
		s.FieldBuilder(0).(*array.StringBuilder).Append(o.Text)
		tokens := s.FieldBuilder(1).(*array.ListBuilder)
		if o.Tokens == nil {
			tokens.AppendNull()
		} else {
			tokens.Append(true)
			t := tokens.ValueBuilder().(*array.StructBuilder)
			for _, token := range o.Tokens {
				t.Append(true)
				t.FieldBuilder(0).(*array.Int32Builder).Append(token.ID)
				t.FieldBuilder(1).(*array.Float64Builder).Append(token.LogProb)
			}
		}
		appendText(s.FieldBuilder(2), o.Error)
	}
}

func appendPrompt(s *array.StructBuilder, p *olmes.Prompt) {
	if p == nil {
		s.AppendNull()
		return
	}
	s.Append(true)
	s.FieldBuilder(0).(*array.StringBuilder).Append(p.Text)
	messages := s.FieldBuilder(1).(*array.ListBuilder)
	if p.Messages == nil {
		messages.AppendNull()
		return
	}
	messages.Append(true)
	m := messages.ValueBuilder().(*array.StructBuilder)
	for _, message := range p.Messages {
		m.Append(true)
		m.FieldBuilder(0).(*array.StringBuilder).Append(message.Role)
		m.FieldBuilder(1).(*array.StringBuilder).Append(message.Content)
	}
}

func appendInt(b *array.Int32Builder, v int) error {
	if v < math.MinInt32 || v > math.MaxInt32 {
		return fmt.Errorf("%d does not fit its column", v)
	}
	b.Append(int32(v))
	return nil
}

func appendFloat(b array.Builder, v *float64) {
	if v == nil {
		b.AppendNull()
		return
	}
	b.(*array.Float64Builder).Append(*v)
}

// appendText appends s, and null for none.
func appendText(b array.Builder, s string) {
	if s == "" {
		b.AppendNull()
		return
	}
	b.(*array.StringBuilder).Append(s)
}

func appendFloats(b array.Builder, v []float64) {
	l := b.(*array.ListBuilder)
	if v == nil {
		l.AppendNull()
		return
	}
	l.Append(true)
	l.ValueBuilder().(*array.Float64Builder).AppendValues(v, nil)
}

func appendInts(b array.Builder, v []int32) {
	l := b.(*array.ListBuilder)
	if v == nil {
		l.AppendNull()
		return
	}
	l.Append(true)
	l.ValueBuilder().(*array.Int32Builder).AppendValues(v, nil)
}

// readPredictions calls yield with every prediction of a Parquet file, in
// order, until it returns false. Env is left 0.
func readPredictions(ctx context.Context, r parquet.ReaderAtSeeker, yield func(olmes.Prediction) bool) (err error) {
	defer func() {
		// The library panics on some damaged files.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s cannot be read: %v", ErrDamaged, predictionsName, p)
		}
	}()
	pf, err := file.NewParquetReader(r)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, predictionsName, err)
	}
	defer pf.Close()
	fr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: 1024}, memory.DefaultAllocator)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, predictionsName, err)
	}
	rr, err := fr.GetRecordReader(ctx, nil, nil)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, predictionsName, err)
	}
	defer rr.Release()
	for rr.Next() {
		more, err := readBatch(rr.RecordBatch(), yield)
		if err != nil || !more {
			return err
		}
	}
	if err := rr.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, predictionsName, err)
	}
	return nil
}
