package child

import (
	"os/exec"
	"syscall"
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
