package llamacpp

import "os"

// takeStdout returns the standard output; Go code's own prints go to the
// standard error from now on.
func takeStdout() (*os.File, error) {
	own := os.Stdout
	os.Stdout = os.Stderr
	return own, nil
}
