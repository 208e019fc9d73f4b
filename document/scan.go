package document

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// level is an open level of block style: the column at which its entries start.
type level struct{ column, fields int }

// bracket is an open level of flow style.
type bracket struct {
	braces bool
	key    bool // the entry has a colon
	begun  bool // the entry has anything
}

// scan refuses, by the parser's own tokens and before it sees them, what would
// cost it much or is not read here.
func (d *source) scan(tokens token.Tokens) error {
	var flow []bracket
	var block []level
	bare := 0
	ended, content, header, directive := false, false, false, false
	for i, t := range tokens {
		fault := func(format string, args ...any) error {
			return d.fault(t.Position.Line, t.Position.Column, fmt.Sprintf(format, args...))
		}
		switch t.Type {
		case token.CommentType:
			continue
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType:
			return fault("anchors, aliases and tags are not read here; write the value itself, or a text that begins with &, * or ! in quotes")
		case token.MappingKeyType:
			return fault("a key after ? is not read here; write KEY: VALUE")
		case token.DirectiveType:
			directive = true
			continue
		case token.DocumentEndType:
			ended = true
			continue
		case token.DocumentHeaderType:
			if ended || header || content && !directive {
				return fault("a second document begins here; only one is read")
			}
			header, content = true, false
			continue
		}
		if ended {
			return fault("a second document begins here; only one is read")
		}
		content = true
		next := following(tokens, i)
		if len(flow) > 0 {
			top := &flow[len(flow)-1]
			switch t.Type {
			case token.MappingValueType:
				top.key = true
				if next == nil || next.Type == token.CollectEntryType || closes(next) {
					bare++
				}
			case token.CollectEntryType, token.MappingEndType, token.SequenceEndType:
				if top.braces && top.begun && !top.key {
					bare++
				}
				top.key, top.begun = false, false
			default:
				top.begun = true
			}
		}
		switch {
		case t.Type == token.SequenceStartType, t.Type == token.MappingStartType:
			flow = append(flow, bracket{braces: t.Type == token.MappingStartType})
		case closes(t):
			flow = flow[:max(0, len(flow)-1)]
		case len(flow) == 0:
			column := t.Position.Column
			for len(block) > 0 && block[len(block)-1].column > column {
				block = block[:len(block)-1]
			}
			key := next != nil && next.Type == token.MappingValueType
			if key || t.Type == token.SequenceEntryType {
				if len(block) == 0 || block[len(block)-1].column < column {
					block = append(block, level{column: column})
				}
			}
			if key {
				top := &block[len(block)-1]
				if top.fields++; top.fields > MaxFields {
					return fault("more than %d fields in one place", MaxFields)
				}
			}
			if t.Type == token.MappingValueType && len(block) > 0 {
				column = block[len(block)-1].column
			}
			if (t.Type == token.MappingValueType || t.Type == token.SequenceEntryType) && (next == nil || next.Position.Line > t.Position.Line &&
				(next.Position.Column < column || next.Position.Column == column && (next.Type != token.SequenceEntryType || t.Type == token.SequenceEntryType))) {
				bare++
			}
		}
		if bare > maxBare {
			return fault("more than %d fields or entries without a value", maxBare)
		}
		if len(flow)+len(block) > MaxDepth {
			return fault("nested deeper than %d levels", MaxDepth)
		}
	}
	return nil
}

// following is the next token that is no comment, or nil.
func following(tokens token.Tokens, i int) *token.Token {
	for _, t := range tokens[i+1:] {
		if t.Type != token.CommentType {
			return t
		}
	}
	return nil
}

func closes(t *token.Token) bool {
	return t.Type == token.SequenceEndType || t.Type == token.MappingEndType
}
