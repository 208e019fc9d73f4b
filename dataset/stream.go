package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// checkStream walks the messages of an Arrow stream and reports whether all of
// them lie within it and the end mark follows the last one. arrow-go believes
// the lengths that it finds, and takes a cut between messages for the end.
func checkStream(data []byte) error {
	const mark = 0xffffffff
	for at := 0; ; {
		if len(data)-at < 8 {
			return fmt.Errorf("cut at byte %d: the end mark is missing", len(data))
		}
		if binary.LittleEndian.Uint32(data[at:]) != mark {
			return fmt.Errorf("no message at byte %d: not an Arrow stream, or damaged", at)
		}
		size := int64(int32(binary.LittleEndian.Uint32(data[at+4:])))
		at += 8
		if size == 0 {
			if at != len(data) {
				return fmt.Errorf("%d bytes follow the end mark", len(data)-at)
			}
			return nil
		}
		if size < 0 || size > int64(len(data)-at) {
			return fmt.Errorf("cut in the message at byte %d", at-8)
		}
		body, err := checkMessage(data[at : at+int(size)])
		if err != nil {
			return fmt.Errorf("message at byte %d: %w", at-8, err)
		}
		at += int(size)
		if body < 0 || body > int64(len(data)-at) {
			return fmt.Errorf("cut in the body at byte %d", at)
		}
		at += int(body)
	}
}

// Fields of the tables in Arrow's format, by their place in the definition.
const (
	messageType, messageHeader, messageBody = 1, 2, 3
	schemaFields, schemaMetadata            = 1, 2
	fieldChildren, fieldMetadata            = 5, 6
)

// schemaMessage is the type of the message that holds the columns' types.
const schemaMessage = 1

// checkMessage checks the header of a message and returns the length of its
// body. In a schema it also checks the lengths of lists, for which arrow-go
// would make room before it reads them.
func checkMessage(message []byte) (body int64, err error) {
	// Reads outside the message panic; that is the check.
	defer func() {
		if recover() != nil {
			body, err = 0, errors.New("damaged header")
		}
	}()
	m := buffer(message)
	root := m.offset(0)
	if at := m.field(root, messageBody); at != 0 {
		body = int64(binary.LittleEndian.Uint64(m[at:]))
	}
	if at := m.field(root, messageType); at != 0 && m[at] == schemaMessage {
		schema := m.table(root, messageHeader)
		budget := len(message) // more lists than bytes are a cycle
		m.checkLists(schema, schemaFields, schemaMetadata, &budget)
	}
	return body, nil
}

// buffer is a flatbuffer.
type buffer []byte

// offset follows the reference at a place.
func (b buffer) offset(at int) int { return at + int(binary.LittleEndian.Uint32(b[at:])) }

// field returns the place of a table's field, 0 where it is absent.
func (b buffer) field(table, field int) int {
	v := table - int(int32(binary.LittleEndian.Uint32(b[table:])))
	at := 4 + 2*field
	if at >= int(binary.LittleEndian.Uint16(b[v:])) {
		return 0
	}
	if offset := int(binary.LittleEndian.Uint16(b[v+at:])); offset != 0 {
		return table + offset
	}
	return 0
}

// table returns the table that a field refers to. It panics where it is absent.
func (b buffer) table(table, field int) int {
	at := b.field(table, field)
	if at == 0 {
		panic("absent")
	}
	return b.offset(at)
}

// checkLists panics where a table's lists of fields and of metadata, or those
// of its fields, do not lie within the buffer.
func (b buffer) checkLists(table, fields, metadata int, budget *int) {
	if *budget--; *budget < 0 {
		panic("cycle")
	}
	b.list(table, metadata)
	start, n := b.list(table, fields)
	for i := range n {
		b.checkLists(b.offset(start+4*i), fieldChildren, fieldMetadata, budget)
	}
}

// list returns the place and length of a list of references.
func (b buffer) list(table, field int) (start, n int) {
	at := b.field(table, field)
	if at == 0 {
		return 0, 0
	}
	at = b.offset(at)
	n = int(binary.LittleEndian.Uint32(b[at:]))
	if n > (len(b)-at)/4 {
		panic("long list")
	}
	return at + 4, n
}
