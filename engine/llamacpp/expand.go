package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hybridgroup/yzma/pkg/llama"

	"olmes/engine"
)

// opExpand is the operation beyond the protocol's own that Expand uses.

type expandArgs struct {
	Library string `json:"library"`
	Source  string `json:"source"`
	Target  string `json:"target"`
	Type    string `json:"type"`
	Threads int    `json:"threads"`
}

var expandTypes = map[string]llama.Ftype{
	"f32":  llama.FtypeAllF32,
	"f16":  llama.FtypeMostlyF16,
	"bf16": llama.FtypeMostlyBF16,
}

// Expand writes a copy of a model with its weights in 16 or 32 bits: type is
// "f16", "bf16" or "f32". src are the model's files in order; the first names
// the others as GGUF splits do. Only o's Executable, Library, Threads and Log
// are used. It runs in a child process. dst appears when it is complete and on
// disk; when ctx is cancelled or anything fails, nothing is left.
func Expand(ctx context.Context, o Options, src []string, dst, to string) error {
	if _, ok := expandTypes[to]; !ok {
		return engine.InputError(fmt.Errorf("expand model: type is %q, must be f16, bf16 or f32", to))
	}
	if len(src) == 0 {
		return engine.InputError(errors.New("expand model: no file is given"))
	}
	o, err := o.resolved()
	if err != nil {
		return fmt.Errorf("expand model: %w", err)
	}
	if src, err = absolute(src); err != nil {
		return fmt.Errorf("expand model: %w", err)
	}
	if dst, err = filepath.Abs(dst); err != nil {
		return fmt.Errorf("expand model: %w", err)
	}
	temp := dst + ".part-" + strconv.Itoa(os.Getpid())
	defer os.Remove(temp)
	e, err := o.helper(ctx) // a quantization cannot be told to stop
	if err != nil {
		return fmt.Errorf("expand model: %w", err)
	}
	defer e.Close()
	args := expandArgs{Library: o.Library, Source: src[0], Target: temp, Type: to, Threads: o.Threads}
	if _, err := e.Call(ctx, opExpand, args, nil, nil); err != nil {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("expand model %s: %w", src[0], err)
		}
		return fmt.Errorf("expand model %s to %s: %w", src[0], dst, err)
	}
	if err := syncFile(temp); err != nil {
		return fmt.Errorf("expand model: %w", err)
	}
	if err := os.Rename(temp, dst); err != nil {
		return fmt.Errorf("expand model: %w", err)
	}
	return nil
}

func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// expand runs in the child.
func expand(lib *binding, args expandArgs) error {
	if _, err := os.Stat(args.Source); err != nil {
		return engine.InputError(err)
	}
	// llama.cpp may find a full disk only by a short file.
	f, err := os.OpenFile(args.Target, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	f.Close()
	qp := llama.ModelQuantizeDefaultParams()
	qp.Ftype = expandTypes[args.Type]
	qp.AllowRequantize = 1
	qp.NThread = int32(args.Threads)
	if qp.NThread < 1 {
		qp.NThread = llama.Threads()
	}
	lib.log.reset()
	if code := llama.ModelQuantize(args.Source, args.Target, &qp); code != 0 {
		return lib.log.explain(fmt.Errorf("llama.cpp failed with code %d", code))
	}
	return nil
}
