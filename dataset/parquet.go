package dataset

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
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
