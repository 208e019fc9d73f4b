package document

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// unseen reports whether a character does something on a terminal other than being
// shown or ending a line.
func unseen(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// reader is a type that reads its own text.
type reader interface{ UnmarshalYAML([]byte) error }

// set puts a node into a value. The parser's own decoder is not asked: it cuts
// 512.5 to 512, and takes the square of the tokens for types that read their own
// text. A node without a value changes nothing.
func (d *source) set(node ast.Node, to reflect.Value) error {
	if node == nil || node.Type() == ast.NullType {
		return nil
	}
	if to.Kind() == reflect.Pointer {
		value := reflect.New(to.Type().Elem())
		if err := d.set(node, value.Elem()); err != nil {
			return err
		}
		to.Set(value)
		return nil
	}
	text, scalar := written(node)
	if own, ok := to.Addr().Interface().(reader); ok {
		if !scalar {
			return d.at(node, noun(node)+" where one value is wanted")
		}
		if err := own.UnmarshalYAML([]byte(text)); err != nil {
			return d.at(node, short(err.Error()))
		}
		return nil
	}
	switch to.Kind() {
	case reflect.Struct:
		return d.setFields(node, to)
	case reflect.Slice:
		list, ok := node.(*ast.SequenceNode)
		if !ok {
			return d.at(node, noun(node)+" where a list is wanted")
		}
		values := reflect.MakeSlice(to.Type(), len(list.Values), len(list.Values))
		for i, v := range list.Values {
			if err := d.set(v, values.Index(i)); err != nil {
				return err
			}
		}
		to.Set(values)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := node.(*ast.IntegerNode)
		if !ok {
			return d.at(node, noun(node)+" where a whole number is wanted")
		}
		v, ok := new(big.Int).SetString(fmt.Sprint(n.Value), 10)
		if !ok || !v.IsInt64() || to.OverflowInt(v.Int64()) {
			return d.at(node, "this number is too large")
		}
		to.SetInt(v.Int64())
	case reflect.Bool:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			return d.at(node, noun(node)+" where true or false is wanted")
		}
		to.SetBool(b.Value)
	case reflect.String:
		if !scalar {
			return d.at(node, noun(node)+" where a text is wanted")
		}
		if i := strings.IndexFunc(text, unseen); i >= 0 {
			r, _ := utf8.DecodeRuneInString(text[i:])
			return d.at(node, fmt.Sprintf("this text has the character %U, which a terminal takes for more than text", r))
		}
		to.SetString(text)
	default:
		return fmt.Errorf("a value of type %s cannot be read out of a document", to.Type())
	}
	return nil
}

// setFields puts a mapping into a struct.
func (d *source) setFields(node ast.Node, to reflect.Value) error {
	var values []*ast.MappingValueNode
	switch m := node.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		return d.at(node, noun(node)+" where fields are wanted, as NAME: VALUE")
	}
	fields := map[string]reflect.Value{}
	named(to, fields)
	seen := map[string]bool{}
	for _, v := range values {
		name := v.Key.GetToken().Value
		field, ok := fields[name]
		switch {
		case !ok:
			return d.at(v.Key, fmt.Sprintf("unknown field %q", short(name)))
		case seen[name]:
			return d.at(v.Key, fmt.Sprintf("the field %q stands twice", name))
		}
		seen[name] = true
		if err := d.set(v.Value, field); err != nil {
			return err
		}
	}
	return nil
}

// named puts the fields of a struct into a map by their names in a document.
func named(v reflect.Value, fields map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case strings.Contains(options, "inline"):
			named(v.Field(i), fields)
		case name == "":
			fields[strings.ToLower(f.Name)] = v.Field(i)
		default:
			fields[name] = v.Field(i)
		}
	}
}

// written is the text of a scalar: of a number, what its digits are in the file.
func written(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.BoolNode:
		return strings.TrimSpace(n.GetToken().Value), true
	}
	return "", false
}

// noun says what a node is.
func noun(node ast.Node) string {
	switch node.Type() {
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number that is not whole"
	case ast.IntegerType:
		return "a number"
	case ast.BoolType:
		return "true or false"
	}
	if t := node.GetToken(); t != nil && t.Type == token.StringType {
		return fmt.Sprintf("%q", short(t.Value))
	}
	return "a text"
}

// at is a fault of a node.
func (d *source) at(node ast.Node, what string) error {
	t := node.GetToken()
	if t == nil || t.Position == nil {
		return errors.New(what)
	}
	return d.fault(t.Position.Line, t.Position.Column, what)
}
