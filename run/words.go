package run

import (
	"errors"
	"strings"
)

// words cuts a command line into program and arguments: at white space, except
// within '…' and "…" and after \ (which is itself within '…'). No shell is used,
// so nothing else is special.
func words(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	begun := false
	var quote rune
	escaped := false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteRune(c)
			}
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if begun {
				out = append(out, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quotation mark has no second one")
	case escaped:
		return nil, errors.New(`nothing comes after the last \`)
	}
	if begun {
		out = append(out, word.String())
	}
	if len(out) == 0 || out[0] == "" {
		return nil, errors.New("no command is given")
	}
	return out, nil
}
