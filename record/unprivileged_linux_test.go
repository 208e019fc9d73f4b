package record

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// unprivileged makes the rest of the test obey the permissions of files, even
// where it runs as root. The right is taken from the thread, which Go ends with
// the test's goroutine.
func unprivileged(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	runtime.LockOSThread()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		t.Fatal(err)
	}
	sets[unix.CAP_DAC_OVERRIDE/32].Effective &^= 1 << (unix.CAP_DAC_OVERRIDE % 32)
	if err := unix.Capset(&head, &sets[0]); err != nil {
		t.Fatal(err)
	}
}
