package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"olmes/trie"
)

// Operations. cancel has no answer of its own; its id is that of the request
// to stop.
const (
	opHello    = "hello"
	opLoad     = "load"
	opDescribe = "describe"
	opTokenize = "tokenize"
	opPieces   = "pieces"
	opScore    = "score"
	opStats    = "stats"
	opCancel   = "cancel"
	opClose    = "close"
)

// Hello is the answer to the first request.
type Hello struct {
	Name string   `json:"name"` // of the program that serves
	Ops  []string `json:"ops"`
}

type scoreArgs struct {
	Nodes  int `json:"nodes"`
	Prefix int `json:"prefix"`
	Wants  int `json:"wants"`
}

type scoreAnswer struct {
	Computed int `json:"computed"`
}

// countArgs tells how many texts, id lists or pieces a body holds.
type countArgs struct {
	Count int `json:"count"`
}

func encodeTree(t *trie.Tree) (scoreArgs, []byte) {
	le := binary.LittleEndian
	b := make([]byte, 0, 8*len(t.Token)+8*len(t.Wants))
	for _, v := range t.Token {
		b = le.AppendUint32(b, uint32(v))
	}
	for _, v := range t.Parent {
		b = le.AppendUint32(b, uint32(v))
	}
	for _, w := range t.Wants {
		b = le.AppendUint32(b, uint32(w.Node))
		b = le.AppendUint32(b, uint32(w.Token))
	}
	return scoreArgs{len(t.Token), t.Prefix, len(t.Wants)}, b
}

// decodeTree checks sizes only; the engine validates the tree.
func decodeTree(a scoreArgs, b []byte) (*trie.Tree, error) {
	if a.Nodes < 0 || a.Wants < 0 || a.Nodes > MaxBody || a.Wants > MaxBody || 8*(a.Nodes+a.Wants) != len(b) {
		return nil, fmt.Errorf("tree of %d nodes and %d wants does not fill a body of %d bytes", a.Nodes, a.Wants, len(b))
	}
	le := binary.LittleEndian
	next := func() int32 {
		v := int32(le.Uint32(b))
		b = b[4:]
		return v
	}
	t := &trie.Tree{Token: make([]int32, a.Nodes), Parent: make([]int32, a.Nodes), Prefix: a.Prefix, Wants: make([]trie.Want, a.Wants)}
	for i := range t.Token {
		t.Token[i] = next()
	}
	for i := range t.Parent {
		t.Parent[i] = next()
	}
	for i := range t.Wants {
		t.Wants[i].Node = next()
		t.Wants[i].Token = next()
	}
	return t, nil
}

func encodeFloats(x []float64) []byte {
	b := make([]byte, 0, 8*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func decodeFloats(b []byte, n int) ([]float64, error) {
	if len(b) != 8*n {
		return nil, fmt.Errorf("%d log-probabilities do not fill a body of %d bytes", n, len(b))
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return x, nil
}

// encodeStrings writes all lengths, then all bytes.
func encodeStrings[T ~string | ~[]byte](texts []T) []byte {
	size := 4 * len(texts)
	for _, s := range texts {
		size += len(s)
	}
	b := make([]byte, 0, size)
	for _, s := range texts {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	}
	for _, s := range texts {
		b = append(b, s...)
	}
	return b
}

func decodeStrings[T ~string | ~[]byte](b []byte, n int) ([]T, error) {
	lengths, rest, err := decodeLengths(b, n, 1)
	if err != nil {
		return nil, err
	}
	texts := make([]T, n)
	for i, l := range lengths {
		texts[i] = T(rest[:l:l])
		rest = rest[l:]
	}
	return texts, nil
}

func encodeIDs(lists [][]int32) []byte {
	size := 4 * len(lists)
	for _, ids := range lists {
		size += 4 * len(ids)
	}
	b := make([]byte, 0, size)
	for _, ids := range lists {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(ids)))
	}
	for _, ids := range lists {
		for _, id := range ids {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
	}
	return b
}

func decodeIDs(b []byte, n int) ([][]int32, error) {
	lengths, rest, err := decodeLengths(b, n, 4)
	if err != nil {
		return nil, err
	}
	all := make([]int32, len(rest)/4)
	for i := range all {
		all[i] = int32(binary.LittleEndian.Uint32(rest[4*i:]))
	}
	lists := make([][]int32, n)
	for i, l := range lengths {
		lists[i] = all[:l:l]
		all = all[l:]
	}
	return lists, nil
}

// decodeLengths reads n lengths and checks that items of that many times size
// bytes fill the rest of b.
func decodeLengths(b []byte, n, size int) (lengths []int, rest []byte, err error) {
	if n < 0 || n > len(b)/4 {
		return nil, nil, fmt.Errorf("%d items do not fit a body of %d bytes", n, len(b))
	}
	rest = b[4*n:]
	lengths = make([]int, n)
	sum := 0
	for i := range lengths {
		lengths[i] = int(binary.LittleEndian.Uint32(b[4*i:]))
		sum += lengths[i]
	}
	if sum*size != len(rest) {
		return nil, nil, fmt.Errorf("%d items of %d bytes in all do not fill the %d bytes after their lengths", n, sum*size, len(rest))
	}
	return lengths, rest, nil
}
