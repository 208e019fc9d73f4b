package openai

import (
	"slices"

	"olmes/trie"
)

// job is what is asked of the server about one path of a tree: the
// log-probabilities of some of its last ids, and of tokens after it.
type job struct {
	ids    []int32 // the prompt
	from   int     // first index of ids whose log-probability is wanted, from 1; len(ids) for none
	at     []int   // for each of ids[from:] the want it answers, or -1
	tokens []int32 // wanted after ids
	wants  []int   // for each of tokens the want it answers
}

// answer is what the server says to a job, in nats.
type answer struct {
	path []float64 // of job.ids[from:]
	last []float64 // of job.tokens
}

// stepJobs asks at every node that has wants for all of them, at most most
// tokens a job.
func stepJobs(t *trie.Tree, most int) []*job {
	var jobs []*job
	for i := 0; i < len(t.Wants); {
		node := t.Wants[i].Node
		ids := t.Path(node)
		for i < len(t.Wants) && t.Wants[i].Node == node {
			j := &job{ids: ids, from: len(ids)}
			for i < len(t.Wants) && t.Wants[i].Node == node && len(j.tokens) < most {
				j.tokens = append(j.tokens, t.Wants[i].Token)
				j.wants = append(j.wants, i)
				i++
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// echoJobs covers all wants with prompts that end in a wanted token.
func echoJobs(t *trie.Tree) []*job {
	return pathJobs(t, func(ids []int32, open []int) []*job {
		var jobs []*job
		for _, w := range open {
			full := append(slices.Clip(ids), t.Wants[w].Token)
			jobs = append(jobs, &job{ids: full, from: len(ids), at: []int{w}})
		}
		return jobs
	})
}

// nativeJobs covers all wants with prompts that end before the last wanted
// tokens, which are asked for by name, at most most a job.
func nativeJobs(t *trie.Tree, most int) []*job {
	return pathJobs(t, func(ids []int32, open []int) []*job {
		var jobs []*job
		for part := range slices.Chunk(open, most) {
			j := &job{ids: ids, from: len(ids), wants: slices.Clone(part)}
			for _, w := range part {
				j.tokens = append(j.tokens, t.Wants[w].Token)
			}
			jobs = append(jobs, j)
		}
		return jobs
	})
}

// pathJobs makes jobs at every node with wants that no longer path answers, and
// has the first job through a node answer the want for that node.
func pathJobs(t *trie.Tree, make func(ids []int32, open []int) []*job) []*job {
	// wanted[n]: the want that asks for node n's token after its parent, where
	// something is wanted below n, so that some job goes through it.
	below := wantedBelow(t)
	type edge struct{ parent, token int32 }
	child := map[edge]int32{}
	for n := range t.Token {
		if below[n] {
			child[edge{t.Parent[n], t.Token[n]}] = int32(n)
		}
	}
	through := map[int32]int{} // node: want, not answered yet
	open := map[int32][]int{}  // node: wants that no path answers
	var nodes []int32
	for i, w := range t.Wants {
		if n, ok := child[edge{w.Node, w.Token}]; ok {
			through[n] = i
			continue
		}
		if len(open[w.Node]) == 0 {
			nodes = append(nodes, w.Node)
		}
		open[w.Node] = append(open[w.Node], i)
	}
	var jobs []*job
	for _, node := range nodes {
		ids := t.Path(node)
		made := make(ids, open[node])
		j := made[0]
		at := len(ids) - 1 // index of node in ids
		for n := node; n >= 0; n, at = t.Parent[n], at-1 {
			w, ok := through[n]
			if !ok {
				continue
			}
			delete(through, n)
			lead := slices.Repeat([]int{-1}, j.from-at)
			lead[0] = w
			j.at = append(lead, j.at...)
			j.from = at
		}
		jobs = append(jobs, made...)
	}
	return jobs
}

// wantedBelow tells for each node whether it or a node below it has wants.
func wantedBelow(t *trie.Tree) []bool {
	below := make([]bool, len(t.Token))
	for _, w := range t.Wants {
		for n := w.Node; n >= 0 && !below[n]; n = t.Parent[n] {
			below[n] = true
		}
	}
	return below
}

// callCost is what a prompt costs beside its tokens, in tokens: parsing,
// scheduling, the answer.
const callCost = 16

// stepCost estimates how many tokens a server computes for jobs whose prompts'
// whole blocks are in its cache once one of them was computed.
func stepCost(t *trie.Tree, jobs []*job, block int) int {
	cost := len(t.Token) - t.Prefix
	for _, j := range jobs {
		cost += callCost + len(j.ids) - (len(j.ids)-1)/block*block
	}
	return cost
}

// echoCost is the same for prompts that are computed whole.
func echoCost(jobs []*job) int {
	cost := 0
	for _, j := range jobs {
		cost += callCost + len(j.ids)
	}
	return cost
}
