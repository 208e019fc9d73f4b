package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// lock is a held lock on a run folder. The system releases it when the process
// ends in whatever way; the file holds the process id for the message.
type lock struct{ f *os.File }

var errHeld = errors.New("lock is held")

// acquire takes the lock of the folder without waiting.
func acquire(dir string) (*lock, error) {
	path := filepath.Join(dir, lockName)
	for range 10 {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", dir, explain(dir, err))
		}
		if err := lockFile(f); err != nil {
			pid, _ := io.ReadAll(io.LimitReader(f, 32)) // only for the message
			f.Close()
			if !errors.Is(err, errHeld) {
				return nil, fmt.Errorf("lock %s: %w; the file system may not support locks, choose a local folder", dir, err)
			}
			return nil, fmt.Errorf("%w: %s is in use by process %s; wait for it or choose another folder", ErrLocked, dir, strings.TrimSpace(string(pid)))
		}
		// The holder before us may have removed the file after we opened it.
		if here, err := f.Stat(); err == nil {
			if there, err := os.Stat(path); err == nil && os.SameFile(here, there) {
				l := &lock{f}
				if err := l.sign(); err != nil {
					l.release(true)
					return nil, fmt.Errorf("lock %s: %w", dir, explain(dir, err))
				}
				return l, nil
			}
		}
		f.Close()
	}
	return nil, fmt.Errorf("%w: the lock of %s keeps changing hands", ErrLocked, dir)
}

// sign writes this process's id.
func (l *lock) sign() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// release gives the lock up, and removes its file where remove is set.
func (l *lock) release(remove bool) {
	if remove {
		os.Remove(l.f.Name()) // while still held, so that nobody else's goes
	}
	l.f.Close()
	if remove {
		removeAfterClose(l.f.Name())
	}
}
