package dataset

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// ReadParquet reads a Parquet file.
func ReadParquet(ctx context.Context, path string) (Table, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Table{}, fmt.Errorf("read rows: %w", err)
	}
	return ParseParquet(ctx, path, data)
}

// ParseParquet reads Parquet out of memory.
func ParseParquet(ctx context.Context, name string, data []byte) (t Table, err error) {
	// The reader panics on some damaged input.
	defer func() {
		if p := recover(); p != nil {
			t, err = Table{}, fmt.Errorf("%s: read Parquet: the file is damaged: %v", name, p)
		}
	}()
	fail := func(err error) (Table, error) {
		return Table{}, fmt.Errorf("%s: read Parquet: %w", name, err)
	}
	r, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		return fail(err)
	}
	defer r.Close()
	if err := checkFooter(r.MetaData(), int64(len(data))); err != nil {
		return fail(err)
	}
	arrows, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: 4096}, memory.DefaultAllocator)
	if err != nil {
		return fail(err)
	}
	batches, err := arrows.GetRecordReader(ctx, nil, nil)
	if err != nil {
		return fail(err)
	}
	defer batches.Release()
	t = newTable(name, data)
	for batches.Next() {
		if err := t.add(batches.RecordBatch()); err != nil {
			return Table{}, err
		}
	}
	if err := batches.Err(); err != nil {
		return fail(err)
	}
	if int64(len(t.Rows)) != r.NumRows() {
		return fail(fmt.Errorf("%d rows, but its footer says %d", len(t.Rows), r.NumRows()))
	}
	return t, nil
}

// checkFooter reports whether all that a footer points to lies within the file
// of that size. The reader follows it in goroutines of its own, whose panics
// nobody can stop.
func checkFooter(m *metadata.FileMetaData, size int64) error {
	if n := m.NumRows; n < 0 || n > maxRows {
		return fmt.Errorf("%d rows, over the limit of %d: too large, or damaged", n, maxRows)
	}
	for i := range m.RowGroups {
		group := m.RowGroup(i)
		for j := range group.NumColumns() {
			column, err := group.ColumnChunk(j)
			if err != nil {
				return err
			}
			start, length := column.DataPageOffset(), column.TotalCompressedSize()
			if d := column.DictionaryPageOffset(); column.HasDictionaryPage() && d > 0 {
				start = min(start, d)
			}
			if start < 0 || start > size || length < 0 || length > size-start {
				return fmt.Errorf("column %d of row group %d is said to be %d bytes at %d of %d: the file is damaged", j, i, length, start, size)
			}
		}
	}
	return nil
}
