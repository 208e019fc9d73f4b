package artifact

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// stallTime is how long a package manager may make no progress. pip and npm
// have timeouts of their own, but npm's do not work behind a silent proxy.
const stallTime = 2 * time.Minute

var errStalled = errors.New("nothing arrived for two minutes")

// command is one run of a package manager.
type command struct {
	name  string // for reports
	argv  []string
	dir   string // working folder, whose growth is the progress
	env   []string
	total int64 // bytes expected; 0 where unknown
	stall time.Duration
}

// run runs the command and returns its outputs, of each the last 64 KiB. The
// process dies with its whole group when ctx ends, when it stalls, or (on
// Linux) when this process dies.
func (s *Store) run(ctx context.Context, c command) (stdout, stderr string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir = c.dir
	cmd.Env = c.env
	cmd.WaitDelay = 5 * time.Second
	var out, errs ring
	cmd.Stdout, cmd.Stderr = &out, &errs
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(c, done, cancel) })
	err = RunGroup(cmd)
	close(done)
	watch.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.String(), errs.String(), err
}

// RunGroup runs a command as cmd.Run does, in a process group of its own that
// is killed as a whole when the command's context ends, and on Linux when this
// process dies, so that no child of a child lives on.
func RunGroup(cmd *exec.Cmd) error {
	group(cmd)
	// Linux kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// watch reports the growth of the command's folder and stops a stalled command.
func (s *Store) watch(c command, done <-chan struct{}, cancel context.CancelCauseFunc) {
	stall := c.stall
	if stall == 0 {
		stall = stallTime
	}
	tick := time.NewTicker(min(300*time.Millisecond, stall))
	defer tick.Stop()
	var last, most int64 = -1, 0
	since := time.Now()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		size := treeSize(c.dir)
		if size != last {
			last, since = size, time.Now()
		} else if time.Since(since) > stall {
			cancel(errStalled)
			return
		}
		if size > most { // the tools hold a file twice while they move it
			most = size
			if c.total > 0 {
				most = min(most, c.total)
			}
			s.Report(Event{Name: c.name, Done: most, Total: c.total})
		}
	}
}

// treeSize returns the bytes in all files below dir. Files come and go
// meanwhile, so errors are passed over.
func treeSize(dir string) int64 {
	var size int64
	filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}

// ring keeps the end of what is written to it.
type ring struct{ data []byte }

func (r *ring) Write(p []byte) (int, error) {
	r.data = append(r.data, p...)
	if len(r.data) > 128<<10 {
		r.data = append(r.data[:0], r.data[len(r.data)-(64<<10):]...)
	}
	return len(p), nil
}

func (r *ring) String() string { return string(r.data) }
