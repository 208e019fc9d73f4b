package llamacpp

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"olmes/engine"
)

// Footprint is what a model takes of memory under a plan, in bytes, estimated
// rather too high than too low.
type Footprint struct {
	Weights int64 // mapped from their files, shared by all lanes
	Process int64 // the program, the library and the vocabulary
	Cache   int64 // keys and values, of a lane
	Rows    int64 // wanted logits of a batch, as computed and as handed out, of a lane
	Scratch int64 // the library's other intermediate results, of a lane
}

// Lane returns what each lane takes.
func (f Footprint) Lane() int64 { return f.Cache + f.Rows + f.Scratch }

// Total returns what the process takes with so many lanes.
func (f Footprint) Total(lanes int) int64 { return f.Weights + f.Process + int64(lanes)*f.Lane() }

// What the native library's sums are of: so many numbers of the vocabulary at a
// time, in batches of at least so many rows.
const (
	sumBlock = 2048
	minBLAS  = 32
)

// typeBytes are the bytes of a number in the cache.
var typeBytes = map[string]int64{"f32": 4, "f16": 2, "bf16": 2}

// Memory estimates what a model of this shape takes under a plan. Numbers of
// the shape that are not known count as small. With a GPU it is what the model
// takes at most of the machine's memory and of the GPU's together.
func Memory(s Shape, p engine.Plan) Footprint {
	n := func(x int) int64 { return int64(x) }
	rows := p.Rows
	if rows == 0 {
		rows = p.Batch
	}
	f := Footprint{
		Weights: s.WeightBytes,
		Process: 32<<20 + 256*n(s.Vocab),
		Cache:   n(p.Cells) * n(s.Layers) * 2 * n(s.KVHeads) * n(s.KeyLength) * typeBytes[p.KVType],
		Rows:    4 * n(s.Vocab) * n(max(rows, p.Sequences)+rows),
	}
	if s.Summed {
		// A block of the vocabulary, and the logits of a batch that is too small
		// to be summed.
		f.Rows = 4 * (sumBlock*n(rows) + n(min(rows, minBLAS))*n(s.Vocab))
	}
	// A token's intermediate results: the masks of two kinds of attention, in 32
	// bits and in 16; embeddings, queries and a block's widest layer; without
	// fused attention a number for each cell and head.
	token := 2*6*n(p.Cells) + 4*(4*n(s.Embedding)+2*n(s.FeedForward)+2*n(s.Heads)*n(s.KeyLength))
	if !p.FlashAttention {
		token += 4 * n(p.Cells) * n(s.Heads)
	}
	f.Scratch = 8<<20 + n(p.MicroBatch)*token
	if s.Widened {
		f.Scratch += 4 * n(s.Embedding) * n(max(s.Vocab, s.FeedForward))
	}
	return f
}

// minBatch is the smallest batch that Fit makes of a larger one.
const minBatch = 64

// usableOf is the part of the free memory that a process may plan to take.
func usableOf(free int64) int64 { return free - free/16 }

// Fit returns the plan with which a model of this shape fits into free bytes of
// memory (0: not known, which fits everything): p itself, or one with no more
// cells than Need and then with smaller batches. Precision is never changed.
// The error is a *MemoryError.
func Fit(s Shape, p engine.Plan, free int64) (engine.Plan, error) {
	if free <= 0 || s.GPU {
		return p, nil
	}
	fits := func(p engine.Plan) bool { return Memory(s, p).Total(1) <= usableOf(free) }
	q := p
	if !fits(q) {
		q.Cells = min(q.Cells, Need(s, q.Batch))
	}
	for !fits(q) && q.Batch/2 >= minBatch {
		small := Resize(s, q, q.Batch/2)
		if q.Rows > 0 {
			small.Rows = min(small.Rows, q.Rows)
		}
		small.Sequences = min(small.Rows, q.Sequences)
		q = small
	}
	if !fits(q) {
		return p, &MemoryError{Need: Memory(s, q), Free: free}
	}
	return q, nil
}

// MemoryError says that a model does not fit into memory under any plan.
type MemoryError struct {
	Need Footprint // of the smallest plan
	Free int64     // bytes
}

func (e *MemoryError) Error() string {
	mb := func(n int64) int64 { return (n + 999_999) / 1_000_000 }
	return fmt.Sprintf("the model needs %d MB of memory (weights %d, cache %d, all else %d), of which %d MB are free",
		mb(e.Need.Total(1)), mb(e.Need.Weights), mb(e.Need.Cache), mb(e.Need.Total(1)-e.Need.Weights-e.Need.Cache), e.Free/1_000_000)
}

// Hint says what the user can do.
func (e *MemoryError) Hint() string {
	return "free some memory, take a smaller model, or --weights as-is or f16 where they are expanded to more"
}

// maxLanes is the most lanes of a process.
const maxLanes = 16

// Lanes returns how many lanes of perLane bytes each to make: one a thread, as
// long as they fit into three quarters of the free memory, and at most 16. It
// is at least 1. free and perLane are 0 or less where they are not known. A model
// on a GPU has one lane, which is the caller's to know.
func Lanes(threads int, perLane, free int64) (lanes int) {
	lanes = min(threads, maxLanes)
	if free > 0 && perLane > 0 {
		lanes = int(min(int64(lanes), free/4*3/perLane))
	}
	return max(1, lanes)
}

// FreeMemory returns the bytes that can still be taken, by the machine and by
// the process's control groups, or 0 where the system does not tell.
func FreeMemory() int64 { return freeMemory(os.ReadFile) }

func freeMemory(read func(file string) ([]byte, error)) int64 {
	free := values(read, "/proc/meminfo")["MemAvailable:"] << 10
	if free == 0 {
		return 0
	}
	for _, g := range groups(read) {
		number := func(file string) int64 {
			b, err := read(path.Join(g.dir, file))
			if err != nil {
				return -1
			}
			n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			if err != nil { // "max"
				return -1
			}
			return n
		}
		limit, used := number(g.limit), number(g.used)
		if limit <= 0 {
			continue
		}
		// What the group holds of files is given up when memory is short, but for
		// those that are in memory alone.
		stat := values(read, path.Join(g.dir, "memory.stat"))
		free = min(free, max(1, limit-used+stat[g.files]-stat[g.shared]))
	}
	return free
}

// controlGroup is one that bounds memory, and the names of its files and of
// the numbers in its memory.stat.
type controlGroup struct{ dir, limit, used, files, shared string }

// groups are those that the process is in, with all around them, in both forms
// that Linux has.
func groups(read func(file string) ([]byte, error)) []controlGroup {
	second := controlGroup{"/sys/fs/cgroup", "memory.max", "memory.current", "file", "shmem"}
	first := controlGroup{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem"}
	out := []controlGroup{second, first}
	own, err := read("/proc/self/cgroup")
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(own)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) < 3 {
			continue
		}
		g := second
		if slices.Contains(strings.Split(part[1], ","), "memory") {
			g = first
		} else if part[1] != "" {
			continue
		}
		root := g.dir
		for dir := path.Join("/", part[2]); dir != "/"; dir = path.Dir(dir) {
			g.dir = path.Join(root, dir)
			out = append(out, g)
		}
	}
	return out
}

// values reads a file of lines that begin with a name and a number.
func values(read func(file string) ([]byte, error), file string) map[string]int64 {
	out := map[string]int64{}
	text, err := read(file)
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				out[f[0]] = n
			}
		}
	}
	return out
}
