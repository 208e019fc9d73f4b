package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// ReadArrow reads a file in Arrow's stream format.
func ReadArrow(path string) (Table, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Table{}, fmt.Errorf("read rows: %w", err)
	}
	return ParseArrow(path, data)
}

// ParseArrow reads Arrow's stream format out of memory. The stream must be
// whole: one that is cut, also between two of its messages, is an error.
func ParseArrow(file string, data []byte) (t Table, err error) {
	// The reader panics on some damaged input.
	defer func() {
		if p := recover(); p != nil {
			t, err = Table{}, fmt.Errorf("%s: read Arrow stream: the file is damaged: %v", file, p)
		}
	}()
	if err := checkStream(data); err != nil {
		return Table{}, fmt.Errorf("%s: read Arrow stream: %w", file, err)
	}
	r, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		return Table{}, fmt.Errorf("%s: read Arrow stream: %w", file, err)
	}
	defer r.Release()
	t = newTable(file, data)
	for r.Next() {
		if err := t.add(r.RecordBatch()); err != nil {
			return Table{}, err
		}
	}
	if err := r.Err(); err != nil {
		return Table{}, fmt.Errorf("%s: read Arrow stream: %w", file, err)
	}
	return t, nil
}

func newTable(file string, data []byte) Table {
	sum := sha256.Sum256(data)
	return Table{File: file, SHA256: hex.EncodeToString(sum[:])}
}

// maxRows bounds a table, which is held in memory whole; datasets of the kind
// read here have some ten thousand rows.
const maxRows = 1 << 20

// add appends the rows of one batch.
func (t *Table) add(batch arrow.RecordBatch) error {
	first := len(t.Rows)
	if n := batch.NumRows(); n < 0 || n > int64(maxRows-first) {
		return fmt.Errorf("%s: %d rows and more, over the limit of %d: too large, or damaged", t.File, n, maxRows)
	}
	for _, column := range batch.Columns() {
		if int64(column.Len()) != batch.NumRows() {
			return fmt.Errorf("%s: a column of %d values in a batch of %d rows: the file is damaged", t.File, column.Len(), batch.NumRows())
		}
	}
	for i := range int(batch.NumRows()) {
		t.Rows = append(t.Rows, NewRow(t.File, first+i, make(map[string]any, batch.NumCols())))
	}
	for c, column := range batch.Columns() {
		name := batch.ColumnName(c)
		for i := range column.Len() {
			v, err := cell(column, i)
			if err != nil {
				return fmt.Errorf("%s: column %q: %w", t.File, name, err)
			}
			t.Rows[first+i].values[name] = v
		}
	}
	return nil
}

// cell converts one value to the types that Row names.
func cell(a arrow.Array, i int) (any, error) {
	if a.IsNull(i) {
		return nil, nil
	}
	switch a := a.(type) {
	case *array.Dictionary:
		return cell(a.Dictionary(), a.GetValueIndex(i))
	case array.StringLike:
		return a.Value(i), nil
	case *array.Boolean:
		return a.Value(i), nil
	case *array.Int8:
		return int64(a.Value(i)), nil
	case *array.Int16:
		return int64(a.Value(i)), nil
	case *array.Int32:
		return int64(a.Value(i)), nil
	case *array.Int64:
		return a.Value(i), nil
	case *array.Uint8:
		return int64(a.Value(i)), nil
	case *array.Uint16:
		return int64(a.Value(i)), nil
	case *array.Uint32:
		return int64(a.Value(i)), nil
	case *array.Float32:
		return float64(a.Value(i)), nil
	case *array.Float64:
		return a.Value(i), nil
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		if from < 0 || to < from || to > int64(a.ListValues().Len()) {
			return nil, fmt.Errorf("list from %d to %d of %d values: the file is damaged", from, to, a.ListValues().Len())
		}
		list := make([]any, 0, to-from)
		for j := from; j < to; j++ {
			v, err := cell(a.ListValues(), int(j))
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case *array.Struct:
		fields := a.DataType().(*arrow.StructType).Fields()
		m := make(map[string]any, len(fields))
		for j, f := range fields {
			v, err := cell(a.Field(j), i)
			if err != nil {
				return nil, err
			}
			m[f.Name] = v
		}
		return m, nil
	default:
		return nil, fmt.Errorf("values of type %s are not read", a.DataType())
	}
}
