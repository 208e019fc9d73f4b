package server

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// spawn starts a child that Ctrl-C does not reach. On Windows no watchdog looks
// after it when this process is killed.
func spawn(argv, env []string, output io.Writer) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Dir = os.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	p.cmd.WaitDelay = 2 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.state = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) stop(time.Duration) { p.kill() }

func (p *process) kill() {
	p.once.Do(func() { p.cmd.Process.Kill() })
	<-p.ended
}
