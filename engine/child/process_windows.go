package child

import (
	"os/exec"
	"syscall"
)

// childAttributes keeps Ctrl-C from the child. It ends with its parent when its
// input does.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }
