package llamacpp

import (
	"os"
	"os/exec"
	"syscall"
)

// childAttributes keeps Ctrl-C from the child. It ends with its parent when its
// input does.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }

// takeStdout returns the standard output; Go code's own prints go to the
// standard error from now on.
func takeStdout() (*os.File, error) {
	own := os.Stdout
	os.Stdout = os.Stderr
	return own, nil
}
