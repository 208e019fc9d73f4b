//go:build unix

package child

import (
	"os"
	"testing"

	"olmes/artifact/pythontest"
	"olmes/engine"
	"olmes/engine/enginetest"
)

// The example that docs/engine-protocol.md gives for engines in other languages
// passes the suite that every engine passes.
func TestDocumentedExample(t *testing.T) {
	env := append(os.Environ(), "PYTHONPATH="+pythontest.Numpy(t), "PYTHONNOUSERSITE=1")
	enginetest.Run(t, func(t *testing.T) engine.Engine {
		return start(t, Options{Command: []string{"python3", "../../docs/example_engine.py"}, Env: env})
	})
}
