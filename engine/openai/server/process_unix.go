//go:build unix

package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// watchdog waits until its input ends, which happens when the process that
// holds the other end is gone, however it went; then it kills the group. It is
// in no group of the server's or of ours, so that neither's signals reach it.
const watchdog = `read line; kill -TERM -"$1" 2>/dev/null || exit 0
for n in 1 2 3 4 5; do kill -0 -"$1" 2>/dev/null || exit 0; sleep 1; done
kill -KILL -"$1" 2>/dev/null`

// spawn starts a child in a process group of its own, so that Ctrl-C reaches
// this process alone, and a watchdog over the group: vLLM and SGLang start
// processes themselves, which a signal to the child would leave behind.
func spawn(argv, env []string, output io.Writer) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Dir = os.TempDir() // Python looks for modules in the working directory
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = childAttributes()
	p.cmd.WaitDelay = 2 * time.Second // if a grandchild keeps the output open
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.state = p.cmd.Wait()
		if errors.Is(p.state, exec.ErrWaitDelay) {
			p.state = nil
		}
		close(p.ended)
	}()
	group := strconv.Itoa(p.cmd.Process.Pid)
	p.guard = exec.Command("/bin/sh", "-c", watchdog, "olmes-watchdog", group)
	p.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := p.guard.StdinPipe()
	if err == nil {
		err = p.guard.Start()
	}
	if err != nil {
		p.guard = nil
		p.kill()
		return nil, fmt.Errorf("start the watchdog of its processes: %w", err)
	}
	p.pipe = pipe
	return p, nil
}

// stop asks the group to end, and kills what is left of it after the grace.
func (p *process) stop(grace time.Duration) {
	group := p.cmd.Process.Pid
	syscall.Kill(-group, syscall.SIGTERM)
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case <-p.ended:
			if syscall.Kill(-group, 0) != nil { // nobody is left
				p.kill()
				return
			}
		default:
		}
	}
	p.kill()
}

// leave is how long killed processes may take to give their memory back.
const leave = 10 * time.Second

// kill ends the whole group and the watchdog, and waits for the child.
func (p *process) kill() {
	p.once.Do(func() {
		if p.guard != nil {
			p.guard.Process.Kill()
			p.pipe.Close()
			p.guard.Wait()
		}
		group := p.cmd.Process.Pid
		syscall.Kill(-group, syscall.SIGKILL)
		// The others of the group are nobody's to wait for: they are gone when
		// the group is.
		for end := time.Now().Add(leave); syscall.Kill(-group, 0) == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		}
	})
	<-p.ended
}
