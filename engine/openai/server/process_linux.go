package server

import "syscall"

// childAttributes also has the child killed when the thread that started it
// ends, which Go keeps as long as the process.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
