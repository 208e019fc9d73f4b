package openai

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"olmes/trie"
)

// drawTree draws a tree with wants, cut out of groups as a run does.
func drawTree(t *rapid.T) *trie.Tree {
	groups := make([][]trie.Sequence, rapid.IntRange(1, 5).Draw(t, "groups"))
	for g := range groups {
		stem := rapid.SliceOfN(rapid.Int32Range(0, 2), 1, 4).Draw(t, "stem")
		for range rapid.IntRange(1, 4).Draw(t, "choices") {
			end := rapid.SliceOfN(rapid.Int32Range(0, 2), 1, 4).Draw(t, "end")
			groups[g] = append(groups[g], trie.Sequence{IDs: slices.Concat(stem, end), Start: len(stem)})
		}
	}
	chunks, err := trie.Cut(groups, trie.Limits{Tokens: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return &chunks[0].Tree
}

// Every plan answers every want exactly once, with the right ids before it.
func TestJobsCoverWants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		most := rapid.IntRange(1, 3).Draw(t, "most")
		for name, jobs := range map[string][]*job{"step": stepJobs(tree, most), "echo": echoJobs(tree), "native": nativeJobs(tree, most)} {
			seen := make([]int, len(tree.Wants))
			hit := func(w int, before []int32, token int32) {
				seen[w]++
				if want := tree.Wants[w]; want.Token != token || !slices.Equal(tree.Path(want.Node), before) {
					t.Fatalf("%s: want %+v is answered by %d after %v", name, want, token, before)
				}
			}
			for _, j := range jobs {
				if j.from < 1 || j.from > len(j.ids) || len(j.at) != len(j.ids)-j.from || len(j.tokens) != len(j.wants) {
					t.Fatalf("%s: %+v", name, j)
				}
				if len(j.tokens) > most {
					t.Fatalf("%s: %d tokens in a job", name, len(j.tokens))
				}
				for i, w := range j.at {
					if w >= 0 {
						hit(w, j.ids[:j.from+i], j.ids[j.from+i])
					}
				}
				for i, w := range j.wants {
					hit(w, j.ids, j.tokens[i])
				}
			}
			for w, n := range seen {
				if n != 1 {
					t.Fatalf("%s: want %d is answered %d times", name, w, n)
				}
			}
		}
	})
}

// One request an instance for labels, one a choice for texts.
func TestJobCounts(t *testing.T) {
	var labels, texts [][]trie.Sequence
	for q := range int32(3) {
		stem := []int32{1, 2, 3, 10 + q}
		var l, c []trie.Sequence
		for i := range int32(4) {
			l = append(l, trie.Sequence{IDs: append(slices.Clone(stem), 20+i), Start: 4})
			c = append(c, trie.Sequence{IDs: append(slices.Clone(stem), 20+i, 30+i, 40+i), Start: 4})
		}
		labels, texts = append(labels, l), append(texts, c)
	}
	for _, tc := range []struct {
		name               string
		groups             [][]trie.Sequence
		step, echo, native int
	}{{"labels", labels, 3, 12, 3}, {"texts", texts, 3 * 9, 12, 12}} {
		chunks, err := trie.Cut(tc.groups, trie.Limits{Tokens: 1000})
		if err != nil {
			t.Fatal(err)
		}
		tree := &chunks[0].Tree
		if s, e, n := len(stepJobs(tree, 128)), len(echoJobs(tree)), len(nativeJobs(tree, 128)); s != tc.step || e != tc.echo || n != tc.native {
			t.Errorf("%s: %d, %d, %d requests, want %d, %d, %d", tc.name, s, e, n, tc.step, tc.echo, tc.native)
		}
	}
}
