// Package folder writes several files into a folder at once: all of them stand
// under their final names, or none does.
package folder

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tempPrefix begins the names of folders that are being written.
const tempPrefix = ".tmp-"

// Write lets write put files into a folder of a temporary name, and then gives
// them their final ones: the temporary folder stands beside dir and becomes it,
// or, where dir is there already, stands in it and is emptied into it, in place
// of files of the same names. Parents of dir are made. A failure leaves nothing
// of what was written or made; its error speaks of dir.
func Write(dir string, write func(temp string) error) (err error) {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	there := err == nil
	parent := dir
	switch {
	case there && !info.IsDir():
		return &fs.PathError{Op: "write into", Path: dir, Err: fmt.Errorf("it is no folder")}
	case !there:
		parent = filepath.Dir(dir)
	}
	made, err := makeAll(parent)
	temp := filepath.Join(parent, tempPrefix+token())
	defer func() {
		if err == nil {
			return
		}
		os.RemoveAll(temp)
		for _, d := range made {
			os.Remove(d)
		}
		err = &failure{err: err, temp: temp, dir: dir}
	}()
	if err != nil {
		return err
	}
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	if err := write(temp); err != nil {
		return err
	}
	if !there {
		return os.Rename(temp, dir)
	}
	return empty(temp, dir)
}

// Empty reports whether a folder holds nothing, or nothing but what an ended
// process was writing.
func Empty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			return false, nil
		}
	}
	return true, nil
}

// empty moves all that is in one folder into another. A failure takes back what
// stood there under no name before.
func empty(from, to string) (err error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	var added []string
	defer func() {
		if err != nil {
			for _, path := range added {
				os.RemoveAll(path)
			}
		}
	}()
	for _, e := range entries {
		path := filepath.Join(to, e.Name())
		_, missing := os.Lstat(path)
		if err := os.Rename(filepath.Join(from, e.Name()), path); err != nil {
			return err
		}
		if missing != nil {
			added = append(added, path)
		}
	}
	return os.Remove(from)
}

// makeAll makes a folder with its parents and lists those it made, the innermost
// first.
func makeAll(dir string) (made []string, err error) {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || filepath.Dir(d) == d {
			break
		}
		made = append(made, d)
	}
	return made, os.MkdirAll(dir, 0o755)
}

func token() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// failure is an error that speaks of the folder asked for instead of the
// temporary one.
type failure struct {
	err       error
	temp, dir string
}

func (f *failure) Error() string { return strings.ReplaceAll(f.err.Error(), f.temp, f.dir) }
func (f *failure) Unwrap() error { return f.err }
