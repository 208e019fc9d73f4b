package dataset

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/klauspost/compress/gzip"
)

// sample makes two batches with every kind of column that datasets use.
func sample(t testing.TB) []arrow.RecordBatch {
	t.Helper()
	choices := arrow.StructOf(
		arrow.Field{Name: "text", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		arrow.Field{Name: "label", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "large", Type: arrow.BinaryTypes.LargeString, Nullable: true},
		{Name: "n8", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
		{Name: "n32", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "n64", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "u16", Type: arrow.PrimitiveTypes.Uint16, Nullable: true},
		{Name: "real", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "yes", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "endings", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "choices", Type: choices, Nullable: true},
	}, nil)
	var batches []arrow.RecordBatch
	for _, rows := range []string{
		`[{"id":"a","large":"b","n8":-1,"n32":2,"n64":9007199254740993,"u16":4,"real":0.5,"yes":true,"endings":["x","é "],"choices":{"text":["p"],"label":["1"]}},
		  {"id":null,"large":"","n8":0,"n32":0,"n64":0,"u16":0,"real":0,"yes":false,"endings":[],"choices":{"text":[],"label":[]}}]`,
		`[{"id":"c","large":"d","n8":1,"n32":1,"n64":1,"u16":1,"real":1,"yes":true,"endings":["z"],"choices":{"text":["q","r"],"label":["A","B"]}}]`,
	} {
		b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
	}
	return batches
}

func arrowStream(t testing.TB, batches []arrow.RecordBatch) []byte {
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(batches[0].Schema()))
	for _, batch := range batches {
		if err := w.Write(batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parquetFile(t testing.TB, batches []arrow.RecordBatch, codec compress.Compression) []byte {
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(batches[0].Schema(), &b, parquet.NewWriterProperties(parquet.WithCompression(codec)), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range batches {
		if err := w.Write(batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func checkSample(t *testing.T, got Table, data []byte) {
	t.Helper()
	sum := sha256.Sum256(data)
	if got.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s", got.SHA256)
	}
	if len(got.Rows) != 3 {
		t.Fatalf("%d rows, want 3", len(got.Rows))
	}
	want := map[string]any{
		"id": "a", "large": "b", "n8": int64(-1), "n32": int64(2), "n64": int64(9007199254740993), "u16": int64(4), "real": 0.5, "yes": true,
		"endings": []any{"x", "é "}, "choices": map[string]any{"text": []any{"p"}, "label": []any{"1"}},
	}
	if !reflect.DeepEqual(got.Rows[0].values, want) {
		t.Errorf("row 0 is %v", got.Rows[0].values)
	}
	if got.Rows[1].Has("id") || !got.Rows[1].Has("large") {
		t.Errorf("row 1 is %v", got.Rows[1].values)
	}
	choices, err := got.Rows[2].Struct("choices")
	if err != nil {
		t.Fatal(err)
	}
	if labels, err := choices.Strings("label"); err != nil || !reflect.DeepEqual(labels, []string{"A", "B"}) {
		t.Errorf("labels %v, %v", labels, err)
	}
}

func TestArrow(t *testing.T) {
	data := arrowStream(t, sample(t))
	path := filepath.Join(t.TempDir(), "rows.arrow")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadArrow(path)
	if err != nil {
		t.Fatal(err)
	}
	checkSample(t, got, data)
	// A cut anywhere is an error, also between two messages.
	for n := range data {
		if _, err := ParseArrow("cut", data[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes pass for a whole stream", n, len(data))
		}
	}
	if _, err := ParseArrow("more", append(bytes.Clone(data), 0)); err == nil {
		t.Error("a surplus byte goes unnoticed")
	}
	for _, text := range []string{"", "PAR1", "<!DOCTYPE html>", "ARROW1\x00\x00"} {
		if _, err := ParseArrow("some/file", []byte(text)); err == nil || !strings.Contains(err.Error(), "some/file") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestParquet(t *testing.T) {
	for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Zstd} {
		data := parquetFile(t, sample(t), codec)
		path := filepath.Join(t.TempDir(), "rows.parquet")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := ReadParquet(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		checkSample(t, got, data)
		for n := 0; n < len(data); n += 7 {
			if _, err := ParseParquet(t.Context(), "cut", data[:n]); err == nil {
				t.Fatalf("%v: the first %d of %d bytes pass for a whole file", codec, n, len(data))
			}
		}
	}
}

func TestJSONL(t *testing.T) {
	dir := t.TempDir()
	text := "{\"n\":1,\"s\":\"é\",\"l\":[\"a\"],\"big\":9007199254740993}\n{\"n\":2.5}\n"
	plain, packed := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "rows.jsonl.gz")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	for path, data := range map[string][]byte{plain: []byte(text), packed: b.Bytes()} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		table, err := ReadJSONL(path)
		if err != nil || len(table.Rows) != 2 {
			t.Fatalf("%s: %v, %v", path, table, err)
		}
		if n, err := table.Rows[0].Int("big"); n != 9007199254740993 || err != nil {
			t.Errorf("big number: %d, %v", n, err)
		}
		if l, err := table.Rows[0].Strings("l"); len(l) != 1 || err != nil {
			t.Errorf("list: %v, %v", l, err)
		}
		if _, err := table.Rows[1].Int("n"); err == nil || !strings.Contains(err.Error(), "row 1") {
			t.Errorf("2.5 as a whole number: error %v", err)
		}
	}
	if err := os.WriteFile(packed, b.Bytes()[:b.Len()-6], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadJSONL(packed); err == nil || !strings.Contains(err.Error(), packed) {
		t.Errorf("cut gzip: error %v", err)
	}
	if err := os.WriteFile(plain, []byte("{}\n{\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadJSONL(plain); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("broken object: error %v", err)
	}
	for _, line := range []string{"{} x", "{}{}", "[]", "", "null"} {
		if _, err := ParseRow("f", 0, []byte(line)); err == nil {
			t.Errorf("%q passes for one object", line)
		}
	}
	if _, err := ReadJSONL(filepath.Join(dir, "none")); err == nil {
		t.Error("an absent file has rows")
	}
}

func TestRowErrors(t *testing.T) {
	row := NewRow("some/file", 3, map[string]any{"s": "x", "n": int64(1), "l": []any{"a", int64(2)}, "m": map[string]any{}, "null": nil})
	get := map[string]func(string) error{
		"String":  func(c string) error { _, err := row.String(c); return err },
		"Int":     func(c string) error { _, err := row.Int(c); return err },
		"Bool":    func(c string) error { _, err := row.Bool(c); return err },
		"Strings": func(c string) error { _, err := row.Strings(c); return err },
		"Struct":  func(c string) error { _, err := row.Struct(c); return err },
	}
	fits := map[string]string{"String": "s", "Int": "n", "Struct": "m"}
	for method, f := range get {
		for _, column := range []string{"s", "n", "l", "m", "null", "none"} {
			err := f(column)
			if fits[method] == column {
				if err != nil {
					t.Errorf("%s(%q): %v", method, column, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), "some/file: row 3: ") || !strings.Contains(err.Error(), fmt.Sprintf("column %q", column)) {
				t.Errorf("%s(%q): error %v", method, column, err)
			}
		}
	}
}

func writeWheel(t testing.TB, files map[string][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	for name, data := range files {
		out, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWheel(t *testing.T) {
	data := arrowStream(t, sample(t))
	path := writeWheel(t, map[string][]byte{"pkg/rows.arrow": data, "pkg/rows.jsonl": []byte("{\"a\":1}\n")})
	w, err := OpenWheel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	got, err := w.Arrow("pkg/rows.arrow")
	if err != nil {
		t.Fatal(err)
	}
	checkSample(t, got, data)
	if table, err := w.JSONL("pkg/rows.jsonl"); err != nil || len(table.Rows) != 1 {
		t.Errorf("JSON lines: %v, %v", table, err)
	}
	if _, err := w.Arrow("pkg/none.arrow"); err == nil || !strings.Contains(err.Error(), "pkg/none.arrow") || !strings.Contains(err.Error(), path) {
		t.Errorf("absent file: error %v", err)
	}
	// One changed byte fails the archive's check sum.
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, data) + len(data)/2
	whole[at] ^= 1
	if err := os.WriteFile(path, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	damaged, err := OpenWheel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer damaged.Close()
	if _, err := damaged.Arrow("pkg/rows.arrow"); err == nil || !strings.Contains(err.Error(), "pkg/rows.arrow") {
		t.Errorf("changed byte: error %v", err)
	}
	if _, err := OpenWheel(filepath.Join(t.TempDir(), "none.whl")); err == nil {
		t.Error("an absent wheel opens")
	}
}

func FuzzParseArrow(f *testing.F) {
	data := arrowStream(f, sample(f))
	f.Add(data)
	f.Add(data[:len(data)-8])
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { ParseArrow("fuzz", data) })
}

func FuzzParseParquet(f *testing.F) {
	data := parquetFile(f, sample(f), compress.Codecs.Snappy)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) { ParseParquet(t.Context(), "fuzz", data) })
}

func FuzzParseRow(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":["c"],"d":{"e":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		row, err := ParseRow("fuzz", 0, data)
		if err != nil {
			return
		}
		for name := range row.values {
			row.String(name)
			row.Int(name)
			row.Strings(name)
			row.Struct(name)
		}
	})
}
