package server

import (
	"io"
	"strings"
	"testing"
)

// The first exception of a log is said, not only the one that follows from it.
func TestTail(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"a cause and what follows": {
			"starting\n(Core pid=7) ERROR 11-30 12:00:00 [core.py:9] Traceback (most recent call last):\n" +
				"(Core pid=7) ERROR 11-30 12:00:00 [core.py:9]     raise ValueError(\n" +
				"(Core pid=7) ERROR 11-30 12:00:00 [core.py:9] ValueError: 20 of 23 GiB are free, less than desired\n" +
				strings.Repeat("a line of a traceback\n", 150) +
				"ValueError: 20 of 23 GiB are free, less than desired\nRuntimeError: Initialization failed. See root cause above.\n",
			"ValueError: 20 of 23 GiB are free, less than desired | RuntimeError: Initialization failed. See root cause above.",
		},
		"many": {"AError: 1\nx.BError: 2\nCException: 3\nDError: 4\n", "AError: 1 | x.BError: 2 | DError: 4"},
		"pydantic": {
			"a.ValidationError: 1 validation error for Config\n  Value error, no such thing. [type=value_error, input_value=x]\n    For more\n",
			"a.ValidationError: 1 validation error for Config: Value error, no such thing.",
		},
		"pydantic, a field": {
			"ValidationError: 2 validation errors for Config\nname\n  Input should be a string [type=string_type]\n",
			"ValidationError: 2 validation errors for Config: name Input should be a string",
		},
		"pydantic, cut off": {"ValidationError: 1 validation error for Config\n", "ValidationError: 1 validation error for Config"},
		"no exception":      {"fine\nerror: cannot bind\nbye\n", "error: cannot bind"},
		"nothing":           {"one\ntwo\nthree\nfour\n", "two | three | four"},
	} {
		log := &tail{w: io.Discard}
		io.WriteString(log, c.log)
		if got := joined(log.last()); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
