package llamacpp

import (
	"os"

	"golang.org/x/sys/unix"
)

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
