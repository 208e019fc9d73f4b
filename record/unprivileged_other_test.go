//go:build !linux

package record

import (
	"os"
	"testing"
)

// unprivileged skips the rest of the test as root, who may write anywhere.
func unprivileged(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
}
