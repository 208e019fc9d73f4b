package olmes_test

import (
	"errors"
	"go/build"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers lists every package with the packages of this module it may import:
// those that stand above it in ARCHITECTURE.md. A package that is not listed
// fails the test, so that the table stays whole.
var layers = []struct {
	pkg     string
	imports string // "*" is anything above
}{
	{"olmes", ""},
	{"olmes/pyrandom", ""},
	{"olmes/stat", ""},
	{"olmes/trie", ""},
	{"olmes/spelling", ""},
	{"olmes/secret", ""},
	{"olmes/document", ""},
	{"olmes/folder", ""},
	{"olmes/folder/foldertest", ""},
	{"olmes/artifact", "olmes/secret"},
	{"olmes/artifact/pythontest", "olmes/artifact"},
	{"olmes/dataset", "olmes/artifact"},
	{"olmes/prompt", "olmes"},
	{"olmes/task", "olmes olmes/pyrandom olmes/spelling olmes/artifact olmes/dataset olmes/prompt"},
	{"olmes/model/gguf", ""},
	{"olmes/model/safetensors", ""},
	{"olmes/model", "olmes/spelling olmes/artifact olmes/model/gguf olmes/model/safetensors"},
	{"olmes/model/modeltest", "olmes/model olmes/model/gguf"},
	{"olmes/engine", "olmes olmes/trie"},
	{"olmes/engine/wire", "olmes/trie olmes/engine"},
	{"olmes/engine/child", "olmes/trie olmes/engine olmes/engine/wire"},
	{"olmes/engine/enginetest", "olmes/trie olmes/engine"},
	{"olmes/engine/replay", "olmes/trie olmes/engine"},
	{"olmes/engine/llamacpp/linker", ""},
	{"olmes/engine/llamacpp/library", "olmes/artifact olmes/engine/llamacpp/linker"},
	{"olmes/engine/llamacpp", "olmes/trie olmes/engine olmes/engine/wire olmes/engine/child olmes/engine/llamacpp/library olmes/model"},
	{"olmes/engine/openai/server", "olmes/engine"},
	{"olmes/engine/openai", "olmes/trie olmes/engine olmes/secret"},
	{"olmes/engine/openai/faultproxy", ""},
	{"olmes/engine/openai/servertest", "olmes/artifact/pythontest olmes/engine/llamacpp/library"},
	{"olmes/engine/torch/torchtest", "olmes/artifact/pythontest olmes/model"},
	{"olmes/engine/torch", "olmes/trie olmes/engine olmes/engine/wire olmes/engine/child"},
	{"olmes/engine/tinymodels", "olmes/trie olmes/artifact/pythontest olmes/engine olmes/engine/enginetest olmes/engine/llamacpp/library olmes/engine/torch/torchtest"},
	{"olmes/score", "olmes olmes/stat olmes/pyrandom"},
	{"olmes/record", "olmes olmes/score olmes/secret"},
	{"olmes/outcome", "olmes olmes/score olmes/record"},
	{"olmes/outcome/outcometest", "olmes olmes/score olmes/record"},
	{"olmes/noise", "olmes olmes/trie olmes/engine olmes/score olmes/record"},
	{"olmes/compare", "olmes olmes/stat olmes/task olmes/score olmes/record olmes/outcome"},
	{"olmes/reproduce", "olmes olmes/stat olmes/prompt olmes/task olmes/score olmes/record olmes/outcome"},
	{"olmes/audit", "olmes/stat olmes/document"},
	{"olmes/study", "olmes olmes/pyrandom olmes/stat olmes/task olmes/score olmes/record olmes/outcome"},
	{"olmes/study/studytest", "olmes olmes/score olmes/record olmes/outcome olmes/outcome/outcometest"},
	{"olmes/foreign/taskfile", "olmes olmes/prompt olmes/task"},
	{"olmes/foreign/results", "olmes olmes/stat olmes/prompt olmes/task olmes/score olmes/record"},
	{"olmes/foreign/lmeval", "olmes olmes/folder olmes/task olmes/score olmes/record olmes/foreign/taskfile olmes/foreign/results"},
	{"olmes/foreign/lighteval", "olmes/foreign/taskfile"},
	{"olmes/foreign/ai2", "olmes olmes/folder olmes/pyrandom olmes/task olmes/score olmes/record olmes/foreign/results"},
	{"olmes/foreign/table", "olmes olmes/score olmes/record olmes/foreign/results"},
	{"olmes/foreign", "olmes olmes/prompt olmes/task olmes/score olmes/record olmes/foreign/taskfile olmes/foreign/results olmes/foreign/lmeval olmes/foreign/ai2 olmes/foreign/table"},
	{"olmes/run", "*"},
	{"olmes/figure", ""},
	{"olmes/report", "olmes olmes/stat olmes/task olmes/score olmes/record olmes/outcome olmes/figure olmes/audit olmes/study"},
	{"olmes/cmd/olmes", "*"},
	{"olmes/python", ""},
}

// packages reads the module's packages. It reads the files itself, so that a
// changed file also makes a cached result of this test stale.
func packages(t *testing.T) []*build.Package {
	t.Helper()
	var out []*build.Package
	err := filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); name == "testdata" || len(name) > 1 && strings.HasPrefix(name, ".") {
			return filepath.SkipDir
		}
		p, err := build.ImportDir(dir, 0)
		var none *build.NoGoError
		if errors.As(err, &none) {
			return nil
		}
		if err != nil {
			return err
		}
		p.ImportPath = path.Join("olmes", filepath.ToSlash(dir))
		out = append(out, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestImportDirection holds the table of ARCHITECTURE.md true.
func TestImportDirection(t *testing.T) {
	allowed := map[string][]string{}
	var above []string
	for _, l := range layers {
		allowed[l.pkg] = strings.Fields(l.imports)
		if l.imports == "*" {
			allowed[l.pkg] = slices.Clone(above)
		}
		above = append(above, l.pkg)
	}
	pure := []string{"olmes", "olmes/pyrandom", "olmes/stat", "olmes/trie", "olmes/spelling", "olmes/prompt", "olmes/score"}
	impure := []string{"os", "net", "net/http", "time", "os/exec", "io/fs", "syscall"}
	seen := map[string]bool{}
	for _, p := range packages(t) {
		may, ok := allowed[p.ImportPath]
		if !ok {
			t.Errorf("%s is not in the table of layers; add it here and to ARCHITECTURE.md", p.ImportPath)
			continue
		}
		seen[p.ImportPath] = true
		for _, i := range p.Imports {
			if (i == "olmes" || strings.HasPrefix(i, "olmes/")) && !slices.Contains(may, i) {
				t.Errorf("%s imports %s, which does not stand above it", p.ImportPath, i)
			}
			if slices.Contains(pure, p.ImportPath) && slices.Contains(impure, i) {
				t.Errorf("%s is pure and imports %s", p.ImportPath, i)
			}
		}
		for _, part := range strings.Split(p.ImportPath, "/") {
			if part == "util" || part == "utils" || part == "common" || part == "helpers" {
				t.Errorf("%s: a package is named by its noun", p.ImportPath)
			}
		}
	}
	for _, l := range layers {
		if !seen[l.pkg] {
			t.Errorf("%s is in the table of layers and does not exist", l.pkg)
		}
	}
}
