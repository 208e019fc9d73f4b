package run

import (
	"slices"
	"testing"
)

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		"python3 engine.py":             {"python3", "engine.py"},
		"  a\tb\n c  ":                  {"a", "b", "c"},
		`a "b c" 'd "e'`:                {"a", "b c", `d "e`},
		`a b\ c \"d\" "e\"f" 'g\h'`:     {"a", "b c", `"d"`, `e"f`, `g\h`},
		`a "" ''`:                       {"a", "", ""},
		`a x"b c"y`:                     {"a", "xb cy"},
		`/opt/my\ engine/run $HOME *.x`: {"/opt/my engine/run", "$HOME", "*.x"},
	} {
		if got, err := words(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"", "  ", `a "b`, `a 'b`, `a \`, `"" b`} {
		if got, err := words(line); err == nil {
			t.Errorf("%q: %q and no error", line, got)
		}
	}
}
