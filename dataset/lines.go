package dataset

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// maxLine bounds a line of a file of JSON lines, in bytes.
const maxLine = 64 << 20

// Lines yields the lines of a file of JSON lines, without their ends; a name
// that ends in .gz is unpacked. A line's bytes are valid until the next one.
// After an error no more lines come.
func Lines(path string) iter.Seq2[[]byte, error] {
	return lines(path, func() (io.ReadCloser, error) { return os.Open(path) })
}

// ReadJSONL reads a whole file of JSON lines, one row an object. The table has
// no digest: the reader does not hold the file's bytes.
func ReadJSONL(path string) (Table, error) { return readJSONL(path, Lines(path)) }

func readJSONL(name string, lines iter.Seq2[[]byte, error]) (Table, error) {
	t := Table{File: name}
	for line, err := range lines {
		if err != nil {
			return Table{}, err
		}
		row, err := ParseRow(name, len(t.Rows), line)
		if err != nil {
			return Table{}, err
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

func lines(name string, open func() (io.ReadCloser, error)) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		fail := func(err error) { yield(nil, fmt.Errorf("%s: read lines: %w", name, err)) }
		f, err := open()
		if err != nil {
			fail(err)
			return
		}
		defer f.Close()
		var r io.Reader = f
		if strings.HasSuffix(name, ".gz") {
			z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<16))
			if err != nil {
				fail(err)
				return
			}
			defer z.Close()
			r = z
		}
		scan := bufio.NewScanner(r)
		scan.Buffer(make([]byte, 1<<20), maxLine)
		for scan.Scan() {
			if !yield(scan.Bytes(), nil) {
				return
			}
		}
		switch err := scan.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			fail(fmt.Errorf("a line is longer than %d MiB", maxLine>>20))
		case err != nil:
			fail(err)
		}
	}
}
