package engine

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Bounds in bytes: of what Line returns, and of what CheckName accepts.
const (
	maxLine = 4000
	maxName = 1000
)

// Line makes one line to show and keep out of a text that comes from an engine:
// line breaks become " | ", other characters that a terminal takes for more than
// text are written as Go writes them ("\x1b"), and so are bytes that are no UTF-8.
// It is at most 4000 bytes long.
func Line(text string) string {
	var b strings.Builder
	for i, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if i > 0 {
			b.WriteString(" | ")
		}
		for j, r := range line {
			switch {
			case r == '\t':
				b.WriteByte(' ')
			case r == unicode.ReplacementChar && line[j] != "\uFFFD"[0]:
				fmt.Fprintf(&b, `\x%02x`, line[j])
			case unseen(r):
				q := strconv.QuoteRune(r)
				b.WriteString(q[1 : len(q)-1])
			default:
				b.WriteRune(r)
			}
			if b.Len() > maxLine-16 {
				return b.String() + "…"
			}
		}
	}
	return b.String()
}

// unseen tells the characters that move a terminal's cursor, end its line or turn
// the direction of what stands behind them.
func unseen(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// CheckName returns what is wrong with a name or word that an engine gives of
// itself or of its model, or nil: it is one line of at most 1000 bytes without
// characters that a terminal takes for more than text.
func CheckName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("it is %d bytes long, at most %d are allowed", len(name), maxName)
	}
	for i, r := range name {
		switch {
		case r == unicode.ReplacementChar && name[i] != "\uFFFD"[0]:
			return fmt.Errorf("it is not UTF-8 at byte %d", i)
		case unseen(r):
			return fmt.Errorf("it has the character %U at byte %d, which does not belong into a name", r, i)
		}
	}
	return nil
}

// Check returns what is wrong with the words of a description, which become part of
// records and are shown: those that identify must be names (CheckName), System is
// made a Line, and so are the Notes.
func (d *Description) Check() error {
	for _, f := range []struct{ key, value string }{
		{"engine", d.Engine}, {"version", d.Version}, {"variant", d.Variant}, {"library_sha256", d.LibrarySHA256},
		{"architecture", d.Architecture}, {"weight_type", d.WeightType}, {"tokenizer_sha256", d.TokenizerSHA256},
		{"packing", d.Packing}, {"dtype", d.DType}, {"quantization", d.Quantization}, {"adapter", d.Adapter},
	} {
		if err := CheckName(f.value); err != nil {
			return fmt.Errorf("the engine's description: %s: %w", f.key, err)
		}
	}
	d.System = Line(d.System)
	for i, note := range d.Notes {
		d.Notes[i] = Line(note)
	}
	return nil
}
