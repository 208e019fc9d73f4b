package record

import (
	"encoding/json"
	"fmt"
	"strings"
)

// DuplicateKey is a key that one object of a JSON document has twice. Which of
// the two values counts is a reader's own choice, so such a document says nothing.
type DuplicateKey struct {
	Key    string
	First  string // the same key as it was written first, where its letters have another case; else ""
	Offset int64  // where the second one stands, in bytes
}

func (e *DuplicateKey) Error() string {
	if e.First != "" {
		return fmt.Sprintf("the keys %q and %q of one object differ in case alone", short80(e.First), short80(e.Key))
	}
	return fmt.Sprintf("the key %q is there twice in one object", short80(e.Key))
}

func short80(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}

// few is the number of keys up to which they are looked through one by one.
const few = 16

// object is an object or a list that a scan is within.
type object struct {
	list bool
	fold bool // keys that differ in case alone are the same
	keys []string
	seen map[string]string // by key, in lower case where fold: as it is written
}

func (o *object) name(key string) string {
	if o.fold {
		return strings.ToLower(key)
	}
	return key
}

// add returns the earlier writing of a key that is there already.
func (o *object) add(key string) (first string, twice bool) {
	if o.seen != nil {
		name := o.name(key)
		first, twice = o.seen[name]
		o.seen[name] = key
		return first, twice
	}
	for _, k := range o.keys {
		if k == key || o.fold && strings.EqualFold(k, key) {
			return k, true
		}
	}
	if o.keys = append(o.keys, key); len(o.keys) > few {
		o.seen = make(map[string]string, 16*few)
		for _, k := range o.keys {
			o.seen[o.name(k)] = k
		}
	}
	return "", false
}

// UniqueKeys returns a *DuplicateKey where an object of a JSON document, at any
// depth, has a key twice. In objects of the first fold levels keys that differ in
// case alone count as the same: the decoder takes either for a field. The document
// must be valid JSON, but for Python's NaN and Infinity.
func UniqueKeys(doc []byte, fold int) error {
	text := string(doc) // keys are pieces of it
	stack := make([]object, 0, 16)
	key := false // a text that comes now is a key
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '{', '[':
			n := len(stack)
			if n < cap(stack) { // the space of an object that has ended
				stack = stack[:n+1]
				stack[n].keys, stack[n].seen = stack[n].keys[:0], nil
			} else {
				stack = append(stack, object{})
			}
			stack[n].list, stack[n].fold = doc[i] == '[', n < fold
			key = doc[i] == '{'
		case '}', ']':
			if len(stack) > 0 {
				stack = stack[:len(stack)-1]
			}
			key = false
		case ',':
			key = len(stack) > 0 && !stack[len(stack)-1].list
		case '"':
			start, escaped := i, false
			for i++; i < len(doc) && doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					escaped = true
					i++
				}
			}
			if !key || i >= len(doc) {
				continue
			}
			key = false
			name := text[start+1 : i]
			if escaped {
				if err := json.Unmarshal(doc[start:i+1], &name); err != nil {
					return fmt.Errorf("key %s: %w", doc[start:i+1], err)
				}
			}
			if first, twice := stack[len(stack)-1].add(name); twice {
				e := &DuplicateKey{Key: strings.Clone(name), Offset: int64(start)}
				if first != name {
					e.First = strings.Clone(first)
				}
				return e
			}
		}
	}
	return nil
}
