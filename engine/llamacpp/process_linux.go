package llamacpp

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts the child into a process group of its own, so that
// Ctrl-C reaches the parent alone, and has it killed when the parent dies (or
// the thread that started it, which Go keeps unless it was locked).
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// takeStdout returns the standard output as another file and makes the
// standard error its stand-in.
func takeStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "engine output"), nil
}
