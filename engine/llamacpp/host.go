package llamacpp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"olmes/engine"
	"olmes/engine/wire"
)

// Operations beside those of the protocol.
const (
	opExpand = "expand"
	opLimit  = "limit"
)

// Host serves llama.cpp on the two streams, as the child process that Start
// makes does, until r ends. Where w is the standard output, llama.cpp's and
// anyone's own prints go to the standard error from then on. A process can
// host once.
func Host(ctx context.Context, r io.Reader, w io.Writer) error {
	if f, ok := w.(*os.File); ok && f == os.Stdout {
		own, err := takeStdout()
		if err != nil {
			return fmt.Errorf("set the standard output aside: %w", err)
		}
		w = own
	}
	log := &nativeLog{w: os.Stderr}
	var lib *binding
	var model atomic.Pointer[loaded]
	get := func(dir string) (*binding, error) {
		if lib != nil {
			return nil, errors.New("this process has loaded llama.cpp already")
		}
		var err error
		lib, err = openLibrary(dir, log)
		return lib, err
	}
	return wire.Serve(ctx, r, w, wire.Server{
		Name: "llamacpp",
		Load: func(_ context.Context, raw json.RawMessage) (engine.Engine, error) {
			var args loadArgs
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, fmt.Errorf("load request: %w", err)
			}
			lib, err := get(args.Library)
			if err != nil {
				return nil, err
			}
			m, err := open(lib, args)
			if err != nil {
				return nil, err
			}
			model.Store(m)
			return m, nil
		},
		Ops: map[string]func(context.Context, json.RawMessage) (any, error){
			opExpand: func(_ context.Context, raw json.RawMessage) (any, error) {
				var args expandArgs
				if err := json.Unmarshal(raw, &args); err != nil {
					return nil, fmt.Errorf("expand request: %w", err)
				}
				lib, err := get(args.Library)
				if err != nil {
					return nil, err
				}
				return nil, expand(lib, args)
			},
			opLimit: func(ctx context.Context, raw json.RawMessage) (any, error) {
				var q LimitRequest
				if err := json.Unmarshal(raw, &q); err != nil {
					return nil, fmt.Errorf("limit request: %w", err)
				}
				m := model.Load()
				if m == nil {
					return nil, errors.New("no model is loaded")
				}
				return m.limit(ctx, q)
			},
			opDevices: func(_ context.Context, raw json.RawMessage) (any, error) {
				var args devicesArgs
				if err := json.Unmarshal(raw, &args); err != nil {
					return nil, fmt.Errorf("devices request: %w", err)
				}
				if _, err := get(args.Library); err != nil {
					return nil, err
				}
				all, _ := devices()
				return all, nil
			},
		},
	})
}
