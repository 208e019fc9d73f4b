package engine

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain, grüße, 模型":              "plain, grüße, 模型",
		"a\nb\r\nc\n":                   "a | b | c",
		"\x1b[31mred\x1b[0m\a\tx":       `\x1b[31mred\x1b[0m\a x`,
		"turn \u202eback\u2028next\x9b": `turn \u202eback\u2028next\x9b`,
		"\u009bm":                       `\u009bm`,
		"a real \uFFFD":                 "a real \uFFFD",
		"":                              "",
		"\n\n":                          "",
	} {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
	if n := len(Line(strings.Repeat("\u202e", 1<<20))); n > maxLine {
		t.Errorf("a long text is left %d bytes long", n)
	}
}

func TestDescriptionCheck(t *testing.T) {
	d := Description{Engine: "e", System: "a\nb", Notes: []string{"x\x1b[1my"}}
	if err := d.Check(); err != nil || d.System != "a | b" || d.Notes[0] != `x\x1b[1my` {
		t.Errorf("%+v, %v", d, err)
	}
	for _, bad := range []string{"x\ny", "\x1b[31mred", "a\u202eb", "\xff", strings.Repeat("x", 1001), "a\x00"} {
		d := Description{Engine: "e", Architecture: bad}
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), "architecture") || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
