// Package trie turns token id sequences into trees in which every token that
// several sequences share stands once, counts what that saves, and cuts the
// work into chunks.
//
// Steps of use: give Cut the sequences of all instances (one group an
// instance), hand each Chunk's Tree to an engine, and read the log-probability
// of each continuation token at the places that Chunk.Index names. The package
// is pure: the same ids and limits give the same chunks, whatever else is so.
package trie

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// Sequence is a request as token ids. IDs[Start:] is the continuation, whose
// log-probabilities are wanted, each after all ids before it. The last id is
// only predicted, so it becomes no node of a tree (unless another sequence
// goes on from it).
type Sequence struct {
	IDs   []int32
	Start int // 1 <= Start < len(IDs)
}

// Want asks for the log-probability of Token right after node Node.
type Want struct {
	Node, Token int32
}

// Tree is a trie of token ids in depth-first order: Parent[i] < i is the node
// before node i, -1 for a first token, and the nodes under a node follow it
// without a gap. The first Prefix nodes are a path from a first token; chunks
// of one Cut share them, so an engine may keep what it computed for them.
// Wants are sorted by node, then token, and differ from each other.
type Tree struct {
	Token, Parent []int32
	Prefix        int
	Wants         []Want
}

// Validate returns an error that says what is wrong with the tree, if
// anything is. Token ids are only checked to be at least 0: the vocabulary is
// the engine's to know.
func (t *Tree) Validate() error {
	if len(t.Token) != len(t.Parent) {
		return fmt.Errorf("tree has %d tokens but %d parents", len(t.Token), len(t.Parent))
	}
	if t.Prefix < 0 || t.Prefix > len(t.Token) {
		return fmt.Errorf("tree of %d nodes has a prefix of %d", len(t.Token), t.Prefix)
	}
	var path []int32 // of the node before
	for i, p := range t.Parent {
		if t.Token[i] < 0 {
			return fmt.Errorf("tree node %d has token %d", i, t.Token[i])
		}
		if i < t.Prefix && int(p) != i-1 {
			return fmt.Errorf("tree node %d is in the prefix of %d but its parent is %d", i, t.Prefix, p)
		}
		for len(path) > 0 && path[len(path)-1] != p {
			path = path[:len(path)-1]
		}
		if len(path) == 0 && p != -1 {
			return fmt.Errorf("tree node %d has parent %d, which is not on the path of the node before: not in depth-first order", i, p)
		}
		path = append(path, int32(i))
	}
	for i, w := range t.Wants {
		if w.Node < 0 || int(w.Node) >= len(t.Token) {
			return fmt.Errorf("want %d is at node %d of %d", i, w.Node, len(t.Token))
		}
		if w.Token < 0 {
			return fmt.Errorf("want %d is of token %d", i, w.Token)
		}
		if i > 0 {
			if v := t.Wants[i-1]; v.Node > w.Node || v.Node == w.Node && v.Token >= w.Token {
				return fmt.Errorf("want %d is not after want %d in order of node and token", i, i-1)
			}
		}
	}
	return nil
}

// Depths returns the number of nodes on the path to each node, itself
// included, and the largest. The tree must be valid.
func (t *Tree) Depths() (depth []int32, deepest int) {
	depth = make([]int32, len(t.Parent))
	for i, p := range t.Parent {
		depth[i] = 1
		if p >= 0 {
			depth[i] += depth[p]
		}
		deepest = max(deepest, int(depth[i]))
	}
	return depth, deepest
}

// Path returns the token ids from the root to node i, which are i's own last.
// The tree must be valid; -1 gives an empty path.
func (t *Tree) Path(i int32) []int32 {
	var ids []int32
	for ; i >= 0; i = t.Parent[i] {
		ids = append(ids, t.Token[i])
	}
	for a, b := 0, len(ids)-1; a < b; a, b = a+1, b-1 {
		ids[a], ids[b] = ids[b], ids[a]
	}
	return ids
}

// treeMagic starts the canonical bytes of a tree.
const treeMagic = "olmes tree 1\n"

// ID returns the SHA-256, in hex, of the tree's canonical bytes: a magic line,
// the numbers of nodes, prefix nodes and wants, then tokens, parents and wants
// (node, token), all as 32-bit little-endian integers.
func (t *Tree) ID() string {
	b := make([]byte, 0, len(treeMagic)+12+8*len(t.Token)+8*len(t.Wants))
	b = append(b, treeMagic...)
	le := binary.LittleEndian
	for _, n := range []int{len(t.Token), t.Prefix, len(t.Wants)} {
		b = le.AppendUint32(b, uint32(n))
	}
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
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Chunk is a tree with the groups whose sequences it holds, whole.
type Chunk struct {
	ID     string      // Tree.ID
	Groups []int       // indices of the groups held, ascending
	Tree   Tree        // what an engine scores
	Index  [][][]int32 // per group held, per sequence, per continuation token: index into Tree.Wants
}

// Limits bound a chunk.
type Limits struct {
	Tokens int // most nodes outside the prefix, from 1; a larger group stands alone
}

var errLimit = errors.New("chunk limit must be at least 1 token")

func (s Sequence) validate() error {
	if s.Start < 1 {
		return fmt.Errorf("starts its continuation at %d: an empty context needs a token that conditions it", s.Start)
	}
	if s.Start >= len(s.IDs) {
		return fmt.Errorf("has no continuation: starts at %d of %d ids", s.Start, len(s.IDs))
	}
	for i, id := range s.IDs {
		if id < 0 {
			return fmt.Errorf("has id %d at %d", id, i)
		}
	}
	return nil
}
