package library

import (
	"context"
	"strings"

	"olmes/artifact"
)

// UnpackSource puts llama.cpp's pinned source into dir: the files for whose
// names, below its root, keep is true; all of them where keep is nil.
func UnpackSource(ctx context.Context, store *artifact.Store, dir string, keep func(name string) bool) error {
	sdist, err := store.Pip(ctx, sources())
	if err != nil {
		return err
	}
	const root = "/vendor/llama.cpp/"
	return store.Untar(ctx, sdist, dir, func(member string) string {
		top, name, ok := strings.Cut(member, root)
		if !ok || strings.Contains(top, "/") || keep != nil && !keep(name) {
			return ""
		}
		return name
	})
}
