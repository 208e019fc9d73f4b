package trie

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// genGroups draws groups whose sequences share beginnings often: a common
// lead, a stem a group, endings a sequence, all of few different ids.
func genGroups(t *rapid.T) [][]Sequence {
	ids := func(label string, low, high int) []int32 {
		return rapid.SliceOfN(rapid.Int32Range(0, 2), low, high).Draw(t, label)
	}
	lead := ids("lead", 0, 6)
	groups := make([][]Sequence, rapid.IntRange(0, 12).Draw(t, "groups"))
	for g := range groups {
		stem := ids("stem", 1, 5)
		if rapid.IntRange(0, 3).Draw(t, "led") > 0 {
			stem = slices.Concat(lead, stem)
		}
		for range rapid.IntRange(0, 4).Draw(t, "sequences") {
			end := ids("end", 1, 4)
			s := Sequence{IDs: slices.Concat(stem, end), Start: len(stem)}
			groups[g] = append(groups[g], s)
			if rapid.IntRange(0, 5).Draw(t, "twice") == 0 {
				groups[g] = append(groups[g], s)
			}
		}
	}
	return groups
}

// trimmedPrefixes is the trie of the groups by brute force: every path.
func trimmedPrefixes(groups [][]Sequence) map[string]bool {
	paths := map[string]bool{}
	for _, seqs := range groups {
		for _, s := range seqs {
			for n := 1; n < len(s.IDs); n++ {
				paths[fmt.Sprint(s.IDs[:n])] = true
			}
		}
	}
	return paths
}

func TestCutProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := genGroups(t)
		lim := Limits{Tokens: rapid.IntRange(1, 40).Draw(t, "limit")}
		chunks, err := Cut(groups, lim)
		if err != nil {
			t.Fatal(err)
		}
		shared := sharedPath(groups)
		var held []int
		for ci, c := range chunks {
			held = append(held, c.Groups...)
			if err := c.Tree.Validate(); err != nil {
				t.Fatalf("chunk %d: %v", ci, err)
			}
			if c.ID != c.Tree.ID() {
				t.Fatalf("chunk %d: id differs from its tree's", ci)
			}
			if got := c.Tree.Token[:c.Tree.Prefix]; !slices.Equal(got, shared[:len(got)]) {
				t.Fatalf("chunk %d: prefix %v is not on the shared path %v", ci, got, shared)
			}
			if n := len(c.Tree.Token) - c.Tree.Prefix; n > lim.Tokens && len(c.Groups) > 1 {
				t.Fatalf("chunk %d: %d groups take %d new nodes, limit %d", ci, len(c.Groups), n, lim.Tokens)
			}
			var mine [][]Sequence
			used := make([]bool, len(c.Tree.Wants))
			for gi, g := range c.Groups {
				mine = append(mine, groups[g])
				for si, s := range groups[g] {
					at := c.Index[gi][si]
					if len(at) != len(s.IDs)-s.Start {
						t.Fatalf("chunk %d group %d sequence %d: %d wants for %d continuation tokens", ci, g, si, len(at), len(s.IDs)-s.Start)
					}
					for j, w := range at {
						used[w] = true
						want := c.Tree.Wants[w]
						if got := append(c.Tree.Path(want.Node), want.Token); !slices.Equal(got, s.IDs[:s.Start+j+1]) {
							t.Fatalf("chunk %d group %d sequence %d token %d: tree says %v, sequence is %v", ci, g, si, j, got, s.IDs)
						}
					}
				}
			}
			if slices.Contains(used, false) {
				t.Fatalf("chunk %d asks for what no sequence wants", ci)
			}
			if got, want := len(c.Tree.Token), len(trimmedPrefixes(mine)); got != want {
				t.Fatalf("chunk %d: %d nodes, %d distinct paths", ci, got, want)
			}
		}
		var all []int
		for g, seqs := range groups {
			if len(seqs) > 0 {
				all = append(all, g)
			}
		}
		if !slices.Equal(held, all) {
			t.Fatalf("chunks hold groups %v, want %v", held, all)
		}
		again, err := Cut(groups, lim)
		if err != nil || !reflect.DeepEqual(again, chunks) {
			t.Fatalf("a second Cut differs (%v)", err)
		}
		c := Count(groups)
		if want := len(trimmedPrefixes(groups)); c.Distinct != want {
			t.Fatalf("Count: %d distinct, want %d", c.Distinct, want)
		}
		naive, requests := 0, 0
		for _, seqs := range groups {
			for _, s := range seqs {
				requests++
				naive += len(s.IDs) - 1
			}
		}
		if c.Naive != naive || c.Requests != requests {
			t.Fatalf("Count: %+v, want naive %d, requests %d", c, naive, requests)
		}
	})
}

// Two groups whose contexts end differently, cut apart and together.
func TestCutSmall(t *testing.T) {
	groups := [][]Sequence{
		{{IDs: []int32{1, 2, 3, 4, 5}, Start: 3}, {IDs: []int32{1, 2, 3, 6}, Start: 3}},
		{{IDs: []int32{1, 2, 7, 4}, Start: 3}, {IDs: []int32{1, 2, 7, 4}, Start: 3}},
	}
	chunks, err := Cut(groups, Limits{Tokens: 100})
	if err != nil {
		t.Fatal(err)
	}
	want := Tree{
		Token:  []int32{1, 2, 3, 4, 7},
		Parent: []int32{-1, 0, 1, 2, 1},
		Prefix: 2,
		Wants:  []Want{{2, 4}, {2, 6}, {3, 5}, {4, 4}},
	}
	if len(chunks) != 1 || !reflect.DeepEqual(chunks[0].Tree, want) {
		t.Fatalf("got %+v, want one chunk with %+v", chunks, want)
	}
	index := [][][]int32{{{0, 2}, {1}}, {{3}, {3}}}
	if !reflect.DeepEqual(chunks[0].Index, index) {
		t.Errorf("index %v, want %v", chunks[0].Index, index)
	}
	chunks, err = Cut(groups, Limits{Tokens: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(chunks) != 2 || chunks[0].Tree.Prefix != 2 || chunks[1].Tree.Prefix != 2 {
		t.Fatalf("got %+v, want two chunks with a prefix of 2", chunks)
	}
}

// Most requests were truncated and share nothing; the others' shots are the prefix.
func TestCutTruncated(t *testing.T) {
	var groups [][]Sequence
	shots := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	for g := range int32(10) {
		ids := []int32{100 + g, 3, 4, 9}
		if g%3 == 0 {
			ids = append(slices.Clone(shots), 20+g, 9)
		}
		groups = append(groups, []Sequence{{IDs: ids, Start: len(ids) - 1}})
	}
	chunks, err := Cut(groups, Limits{Tokens: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range chunks {
		led := slices.ContainsFunc(c.Groups, func(g int) bool { return g%3 == 0 })
		if want := map[bool]int{true: 8, false: 0}[led]; c.Tree.Prefix != want {
			t.Errorf("groups %v: prefix %d, want %d", c.Groups, c.Tree.Prefix, want)
		}
	}
}

func TestCutErrors(t *testing.T) {
	for _, c := range []struct {
		s    Sequence
		want string
	}{
		{Sequence{IDs: []int32{1, 2}, Start: 0}, "empty context"},
		{Sequence{IDs: []int32{1, 2}, Start: 2}, "no continuation"},
		{Sequence{IDs: []int32{1, -2}, Start: 1}, "id -2"},
	} {
		_, err := Cut([][]Sequence{{c.s}}, Limits{Tokens: 1})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.s, err, c.want)
		}
	}
	if _, err := Cut(nil, Limits{}); err == nil {
		t.Error("a limit of 0 gave no error")
	}
}

func TestValidate(t *testing.T) {
	good := func() *Tree {
		return &Tree{Token: []int32{5, 6, 7}, Parent: []int32{-1, 0, 0}, Prefix: 1, Wants: []Want{{1, 3}, {2, 1}}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Tree){
		"lengths":           func(t *Tree) { t.Parent = t.Parent[:2] },
		"prefix too long":   func(t *Tree) { t.Prefix = 4 },
		"prefix negative":   func(t *Tree) { t.Prefix = -1 },
		"prefix branches":   func(t *Tree) { t.Prefix = 3 },
		"token negative":    func(t *Tree) { t.Token[1] = -1 },
		"parent is itself":  func(t *Tree) { t.Parent[1] = 1 },
		"parent below -1":   func(t *Tree) { t.Parent[1] = -2 },
		"not depth first":   func(t *Tree) { *t = Tree{Token: []int32{1, 2, 3, 4}, Parent: []int32{-1, 0, 0, 1}} },
		"want out of range": func(t *Tree) { t.Wants[1].Node = 3 },
		"want negative":     func(t *Tree) { t.Wants[0].Node = -1 },
		"want token":        func(t *Tree) { t.Wants[0].Token = -1 },
		"wants unsorted":    func(t *Tree) { t.Wants[0], t.Wants[1] = t.Wants[1], t.Wants[0] },
		"wants repeat":      func(t *Tree) { t.Wants[1] = t.Wants[0] },
	} {
		tree := good()
		spoil(tree)
		if tree.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
