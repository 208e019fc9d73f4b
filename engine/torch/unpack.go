package torch

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed worker
var workerCode embed.FS

// unpack writes the worker's code into a new folder that only this user can
// write to, and returns its path.
func unpack() (string, error) {
	code, err := fs.Sub(workerCode, "worker")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "olmes-torch-")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, code); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return filepath.Abs(dir)
}
