//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// childAttributes puts the child into a process group of its own, so that
// Ctrl-C reaches the parent alone. It ends with its parent when its input does.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func killGroup(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
