package openai

import (
	"context"
	"errors"

	"olmes/engine"
)

// Start probes the server and returns the engine, an *Engine.
func Start(ctx context.Context, o Options) (engine.Engine, error) {
	if _, err := o.resolved(); err != nil {
		return nil, err
	}
	return nil, errors.New("not built yet")
}
