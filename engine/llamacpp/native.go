package llamacpp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/jupiterrider/ffi"
)

// binding is llama.cpp, loaded into this process. There can be one.
type binding struct {
	dir      string
	log      *nativeLog
	tokenize ffi.Fun  // yzma's own Tokenize calls it twice a text
	setSink  *ffi.Fun // of a library that sums over the vocabulary by itself, else nil
	version  string
	digest   string // of the shared libraries in use
	variant  string
}

// openLibrary loads llama.cpp from the shared libraries in dir, and the
// compute backends beside them that fit this machine.
func openLibrary(dir string, log *nativeLog) (*binding, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"ggml", "ggml-base", "llama"} {
		file := loader.GetLibraryFilename(dir, name)
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("engine library: no %s in %s: install one with `olmes engine install`", filepath.Base(file), dir)
		}
	}
	if err := llama.Load(dir); err != nil {
		hint := ""
		if text := err.Error(); strings.Contains(text, "libstdc++") || strings.Contains(text, "libgomp") {
			hint = ": install the system package that holds it (Debian: libstdc++6, libgomp1)"
		}
		return nil, fmt.Errorf("engine library in %s cannot be loaded%s: %w", dir, hint, err)
	}
	llama.LogSet(log.callback())
	llama.Init()
	if llama.GGMLBackendDeviceCount() == 0 {
		return nil, log.explain(fmt.Errorf("engine library in %s has no compute backend for this machine (%s/%s)", dir, runtime.GOOS, runtime.GOARCH))
	}
	l := &binding{dir: dir, log: log}
	lib, err := loader.LoadLibrary(dir, "llama")
	if err != nil {
		return nil, err
	}
	l.tokenize, err = lib.Prep("llama_tokenize", &ffi.TypeSint32, &ffi.TypePointer, &ffi.TypePointer, &ffi.TypeSint32,
		&ffi.TypePointer, &ffi.TypeSint32, &ffi.TypeUint8, &ffi.TypeUint8)
	if err != nil {
		return nil, fmt.Errorf("engine library in %s: %w", dir, err)
	}
	if version, err := lib.Prep("llama_version", &ffi.TypePointer); err == nil { // older ones have none
		var text unsafe.Pointer
		version.Call(unsafe.Pointer(&text))
		l.version = cString(text)
	}
	if lib, err := loader.LoadLibrary(dir, "ggml-blas"); err == nil {
		l.setSink = sinkSetter(lib)
	}
	return l, l.identify()
}

// identify finds out which shared libraries are in use, and their digest: the
// SHA-256 of lines "digest  name", sorted by name.
func (l *binding) identify() error {
	files, err := mappedFiles(l.dir)
	if err != nil {
		return fmt.Errorf("find the engine libraries in use: %w", err)
	}
	var lines []string
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("engine library: %w", err)
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("engine library: %w", err)
		}
		name := filepath.Base(file)
		if name == blasLibrary {
			core, err := blasCore(file)
			if err != nil {
				return err
			}
			l.variant = strings.TrimPrefix(l.variant+"+"+core, "+")
		}
		lines = append(lines, hex.EncodeToString(sum.Sum(nil))+"  "+name+"\n")
		if _, kind, ok := strings.Cut(name, "ggml-"); ok && !strings.HasPrefix(kind, "base.") {
			kind, _, _ = strings.Cut(kind, ".")
			l.variant = strings.TrimPrefix(l.variant+"+"+kind, "+")
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	l.digest = hex.EncodeToString(sum[:])
	return nil
}

// blasLibrary is the OpenBLAS that a native build stands on.
const blasLibrary = "libscipy_openblas.so"

// blasCore names the CPU generation whose kernels OpenBLAS has chosen, which
// decides the order of its sums: "skylakex".
func blasCore(file string) (string, error) {
	lib, err := loader.LoadLibrary(filepath.Dir(file), "scipy_openblas")
	if err != nil {
		return "", fmt.Errorf("load %s: %w", blasLibrary, err)
	}
	core, err := lib.Prep("scipy_openblas_get_corename", &ffi.TypePointer)
	if err != nil {
		return "", fmt.Errorf("find the kernels of %s: %w", blasLibrary, err)
	}
	var name unsafe.Pointer
	core.Call(unsafe.Pointer(&name))
	return strings.ToLower(cString(name)), nil
}

// mappedFiles returns the files below dir that are loaded into this process,
// or, where the system does not tell, every shared library in dir.
func mappedFiles(dir string) ([]string, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	var files []string
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		for line := range strings.Lines(string(maps)) {
			if i := strings.IndexByte(line, '/'); i >= 0 {
				file := strings.TrimSuffix(line[i:], "\n")
				if isLibrary(file) && filepath.Dir(file) == dir {
					files = append(files, file)
				}
			}
		}
	}
	if files == nil {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			file, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
			if err == nil && isLibrary(file) {
				files = append(files, file)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func isLibrary(file string) bool {
	name := filepath.Base(file)
	return strings.Contains(name, ".so") || strings.HasSuffix(name, ".dylib") || strings.HasSuffix(name, ".dll")
}

// nativeLog takes llama.cpp's messages: all of them to w, a line each with the
// level's letter before it, and the last warnings and errors kept.
type nativeLog struct {
	mu   sync.Mutex
	w    io.Writer
	line strings.Builder
	kind llama.LogLevel
	last []string
}

// lastLines is how many warnings and errors are kept.
const lastLines = 6

// callback makes the function that llama.cpp calls. Each takes one of the
// process's 2,000 callbacks for good.
func (l *nativeLog) callback() uintptr {
	return purego.NewCallback(func(level int32, text unsafe.Pointer, _ uintptr) uintptr {
		l.add(llama.LogLevel(level), cString(text))
		return 0
	})
}

func (l *nativeLog) add(level llama.LogLevel, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if level != llama.LogLevelContinue {
		l.kind = level
	}
	for part := range strings.Lines(text) {
		l.line.WriteString(part)
		if !strings.HasSuffix(part, "\n") {
			continue
		}
		line := strings.TrimSpace(l.line.String())
		l.line.Reset()
		if line == "" || l.kind == llama.LogLevelDebug {
			continue
		}
		if l.kind == llama.LogLevelWarn || l.kind == llama.LogLevelError {
			l.last = append(l.last, line)
			l.last = l.last[max(0, len(l.last)-lastLines):]
		}
		fmt.Fprintf(l.w, "%c %s\n", "IDIWEI"[min(max(l.kind, 0), 5)], line)
	}
}

// reset forgets the lines kept.
func (l *nativeLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = nil
}

// explain adds the last warnings and errors to err.
func (l *nativeLog) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || len(l.last) == 0 {
		return err
	}
	return fmt.Errorf("%w; llama.cpp says: %s", err, strings.Join(l.last, " | "))
}

// cString copies a C string; a nil pointer gives "".
func cString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// nativeCache is the cache of a llama.cpp context.
type nativeCache struct {
	lctx    llama.Context
	mem     llama.Memory
	batch   llama.Batch
	size    int // of batch
	vocab   int
	log     *nativeLog
	setSink *ffi.Fun                        // see binding
	current atomic.Pointer[context.Context] // its end stops a running decode
	ids     []llama.SeqId
}

func newNativeCache(lctx llama.Context, size, sequences, vocab int, lib *binding) (*nativeCache, error) {
	mem, err := llama.GetMemory(lctx)
	if err != nil || mem == 0 {
		return nil, errors.New("the model has no cache of tokens: it is no decoder of the kind this engine scores")
	}
	c := &nativeCache{lctx: lctx, mem: mem, size: size, vocab: vocab, log: lib.log, setSink: lib.setSink}
	c.batch = llama.BatchInit(int32(size), 0, int32(sequences))
	// Set once: each takes one of the process's 2,000 callbacks, and taking it
	// back would crash the next decode.
	llama.SetAbortCallback(lctx, func() bool {
		ctx := c.current.Load()
		return ctx != nil && (*ctx).Err() != nil
	})
	return c, nil
}

func (c *nativeCache) clear(data bool) error { return llama.MemoryClear(c.mem, data) }

func (c *nativeCache) keep(seq int32) error { return llama.MemorySeqKeep(c.mem, llama.SeqId(seq)) }

func (c *nativeCache) copy(src, dst, n int32) error {
	return llama.MemorySeqCp(c.mem, llama.SeqId(src), llama.SeqId(dst), 0, llama.Pos(n))
}

func (c *nativeCache) remove(seq, from int32) error {
	ok, err := llama.MemorySeqRm(c.mem, llama.SeqId(seq), llama.Pos(from), -1)
	if err == nil && !ok {
		err = fmt.Errorf("the model's cache cannot forget a part of a sequence")
	}
	return err
}

func (c *nativeCache) decode(slots []slot) error {
	if len(slots) == 0 || len(slots) > c.size { // llama.cpp would abort the process
		return fmt.Errorf("batch of %d tokens, from 1 to %d are possible", len(slots), c.size)
	}
	c.batch.Clear()
	for _, s := range slots {
		c.ids = c.ids[:0]
		for _, q := range s.seqs {
			c.ids = append(c.ids, llama.SeqId(q))
		}
		if err := c.batch.Add(llama.Token(s.token), llama.Pos(s.pos), c.ids, s.output); err != nil {
			return fmt.Errorf("fill batch: %w", err)
		}
	}
	c.log.reset()
	code, err := llama.Decode(c.lctx, c.batch)
	if err == nil && code == 0 {
		err = llama.Synchronize(c.lctx)
	}
	switch {
	case err != nil:
		return fmt.Errorf("decode: %w", err)
	case code == 2:
		return context.Canceled
	case code != 0:
		return c.log.explain(fmt.Errorf("llama_decode failed with code %d", code))
	}
	return nil
}

func (c *nativeCache) logits(i int) ([]float32, error) {
	x, err := llama.GetLogitsIth(c.lctx, int32(i), c.vocab)
	if err == nil && x == nil {
		err = fmt.Errorf("llama.cpp gave no logits for token %d of the batch", i)
	}
	return x, err
}
