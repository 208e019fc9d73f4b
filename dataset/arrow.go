package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
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

// checkStream walks the stream's messages and reports whether all of them lie
// within it and the end mark follows the last one. arrow-go believes the
// lengths it finds, and takes a cut between messages for the end.
func checkStream(data []byte) error {
	const mark = 0xffffffff
	for at := 0; ; {
		if len(data)-at < 8 {
			return fmt.Errorf("cut at byte %d: the end mark is missing", len(data))
		}
		if binary.LittleEndian.Uint32(data[at:]) != mark {
			return fmt.Errorf("no message at byte %d: not an Arrow stream, or damaged", at)
		}
		size := int64(int32(binary.LittleEndian.Uint32(data[at+4:])))
		at += 8
		if size == 0 {
			if at != len(data) {
				return fmt.Errorf("%d bytes follow the end mark", len(data)-at)
			}
			return nil
		}
		if size < 0 || size > int64(len(data)-at) {
			return fmt.Errorf("cut in the message at byte %d", at-8)
		}
		body, err := bodyLength(data[at : at+int(size)])
		if err != nil {
			return fmt.Errorf("message at byte %d: %w", at-8, err)
		}
		at += int(size)
		if body < 0 || body > int64(len(data)-at) {
			return fmt.Errorf("cut in the body at byte %d", at)
		}
		at += int(body)
	}
}

// bodyLength reads the field of that name out of a message's flatbuffer: its
// root table's fourth field, 0 where absent.
func bodyLength(message []byte) (int64, error) {
	damaged := errors.New("damaged header")
	u16 := func(at int64) int64 { return int64(binary.LittleEndian.Uint16(message[at:])) }
	if len(message) < 8 {
		return 0, damaged
	}
	n := int64(len(message))
	root := int64(binary.LittleEndian.Uint32(message))
	if root > n-4 {
		return 0, damaged
	}
	vtable := root - int64(int32(binary.LittleEndian.Uint32(message[root:])))
	if vtable < 0 || vtable > n-4 {
		return 0, damaged
	}
	const field = 10 // two sizes, then the fields' offsets, two bytes each
	if u16(vtable) < field+2 {
		return 0, nil
	}
	if vtable+field+2 > n {
		return 0, damaged
	}
	offset := u16(vtable + field)
	if offset == 0 {
		return 0, nil
	}
	if root+offset+8 > n {
		return 0, damaged
	}
	return int64(binary.LittleEndian.Uint64(message[root+offset:])), nil
}

// add appends the rows of one batch.
func (t *Table) add(batch arrow.RecordBatch) error {
	first := len(t.Rows)
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
