package prompt

import (
	"regexp"
	"strings"
	"unicode"

	"olmes"
)

var (
	title   = regexp.MustCompile(`\.? \[title\]`)
	bracket = regexp.MustCompile(`\[.*?\]`)
)

// Clean applies a template's clean-up to a text. WikiHow trims it, makes a title
// mark a full stop, drops what else stands in brackets on one line, and turns
// two spaces into one in a single pass from left to right.
func Clean(c olmes.Cleaning, s string) string {
	if c != olmes.WikiHow {
		return s
	}
	s = Trim(s)
	if strings.Contains(s, "[") {
		s = title.ReplaceAllLiteralString(s, ". ")
		s = bracket.ReplaceAllLiteralString(s, "")
	}
	return strings.ReplaceAll(s, "  ", " ")
}

// Trim cuts leading and trailing white space as Python's str.strip does: what
// Unicode calls white space, and the four separators U+001C to U+001F.
func Trim(s string) string { return strings.TrimFunc(s, isSpace) }

func isSpace(r rune) bool {
	return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f)
}
