package document

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
)

// source is a document's text, for errors.
type source struct{ text []byte }

// shown is how many characters of a document an error shows.
const shown = 72

// fault is an error at a line and column, both from 1, with a piece of the line.
func (d *source) fault(line, column int, what string) error {
	text := fmt.Sprintf("line %d: %s", line, what)
	if piece := d.piece(line, column); piece != "" {
		text += "\n  " + piece
	}
	return errors.New(text)
}

// piece is what stands at a place, and a little before it.
func (d *source) piece(line, column int) string {
	rest := d.text
	for range line - 1 {
		_, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			return ""
		}
		rest = after
	}
	rest, _, _ = bytes.Cut(rest, []byte("\n"))
	runes := []rune(string(rest[:min(len(rest), 4*(max(column, 0)+shown))]))
	if from := min(column-shown/2, len(runes)); from > 0 {
		return "…" + short(string(runes[from:]))
	}
	return short(strings.TrimSpace(string(runes)))
}

// short cuts a text to what an error shows, and takes out what a terminal would
// obey.
func short(text string) string {
	runes := []rune(text[:min(len(text), 4*shown+4)])
	cut := len(runes) > shown
	runes = runes[:min(len(runes), shown)]
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '\ufffd'
		}
	}
	if cut {
		return string(runes) + "…"
	}
	return string(runes)
}

// explain is an error of the parser in few words. Its own text holds whole lines,
// and costs the square of their tokens.
func (d *source) explain(err error) error {
	var placed yaml.Error
	if !errors.As(err, &placed) {
		return errors.New(short(err.Error()))
	}
	what := short(placed.GetMessage())
	t := placed.GetToken()
	if t == nil || t.Position == nil {
		return errors.New(what)
	}
	return d.fault(t.Position.Line, t.Position.Column, what)
}
