package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// staged is a file written and synced under a temporary name.
type staged struct {
	temp, final string
	bytes       int64
}

// stage writes a file under a temporary name in dir, synced. A failure leaves
// nothing behind.
func stage(dir, name string, write func(*os.File) error) (s *staged, err error) {
	f, err := os.CreateTemp(dir, tempPrefix+name+"-")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, explain(dir, err))
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", name, explain(dir, err))
		}
	}()
	if err := write(f); err != nil {
		return nil, err
	}
	if err := f.Chmod(0o644); err != nil && runtime.GOOS != "windows" {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return &staged{temp: f.Name(), final: filepath.Join(dir, name), bytes: info.Size()}, nil
}

// publish gives the file its final name.
func (s *staged) publish() error { return os.Rename(s.temp, s.final) }

// discard removes the temporary file, if it is still there.
func (s *staged) discard() {
	if s != nil {
		os.Remove(s.temp)
	}
}

// writeFile writes a whole file atomically and durably.
func writeFile(dir, name string, data []byte) error {
	s, err := stage(dir, name, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.publish(); err != nil {
		s.discard()
		return fmt.Errorf("write %s: %w", name, explain(dir, err))
	}
	return syncDir(dir)
}

// syncDir makes renames in dir durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("sync %s: %w", dir, explain(dir, err))
	}
	return nil
}

// explain adds what to do to an error of the file system, and takes out the
// temporary name, which means nothing to the reader.
func explain(dir string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) && strings.Contains(path.Path, tempPrefix) {
		err = path.Err
	}
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room for %s and resume the run (%w)", ErrNoSpace, dir, err)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s cannot be written to, choose another folder: %w", dir, err)
	}
	return err
}

// removeTemps removes what a killed process left under temporary names.
func removeTemps(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // whoever needs the folder will say so
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
