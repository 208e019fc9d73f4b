package record

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// writeJournal makes a run with a journal of a few chunks and returns its
// folder, closed.
func writeJournal(t *testing.T) (string, Identity, []ChunkScores, []byte) {
	t.Helper()
	id, _, chunks := testRun()
	chunks = chunks[:3]
	for i := range chunks {
		chunks[i].LogProbs = chunks[i].LogProbs[:2] // short, since every byte is tried
	}
	dir := filepath.Join(t.TempDir(), "run")
	prov := testProvenance()
	prov.Environments = []Environment{{OS: "x"}}
	w := must[*Writer](t)(Create(dir, id, prov))
	for _, c := range chunks {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return dir, id, chunks, read(t, dir, journalName)
}

// Cut off anywhere, the journal gives the chunks before the cut, and goes on.
func TestJournalCutAnywhere(t *testing.T) {
	dir, id, chunks, whole := writeJournal(t)
	var ends []int // of the lines
	for i, c := range whole {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	for n := 0; n <= len(whole); n++ {
		lines := 0
		for _, e := range ends {
			if e <= n {
				lines++
			}
		}
		j, err := parseJournal(whole[:n], id.ID())
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		want := chunks[:max(0, lines-2)] // after header and environment
		if len(j.chunks) != len(want) || len(want) > 0 && cmp.Diff(want, j.chunks) != "" {
			t.Fatalf("cut at %d: %d chunks, want %d", n, len(j.chunks), len(want))
		}
		if n%16 != 0 && !slices.Contains(ends, n) && !slices.Contains(ends, n+1) {
			continue // syncing is slow
		}
		write(t, dir, journalName, whole[:n])
		w, done, err := Resume(dir, id)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if len(done) != len(want) {
			t.Fatalf("cut at %d: resumed with %d chunks, want %d", n, len(done), len(want))
		}
		env := must[int](t)(w.Environment(Environment{OS: "x"}))
		for _, c := range chunks {
			c.Env = env
			if err := w.Append(c); err != nil {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
		w.Close()
		if now := read(t, dir, journalName); !bytes.Equal(now, whole) {
			t.Fatalf("cut at %d: the journal went on otherwise than unbroken", n)
		}
	}
}

// A line whose newline reached the disk before its text is torn as well.
func TestJournalTornWithNewline(t *testing.T) {
	_, id, chunks, whole := writeJournal(t)
	torn := slices.Clone(whole)
	for i := len(torn) - 40; i < len(torn)-1; i++ {
		torn[i] = 0
	}
	j, err := parseJournal(torn, id.ID())
	if err != nil || len(j.chunks) != len(chunks)-1 {
		t.Errorf("%d chunks, %v", len(j.chunks), err)
	}
}

// A changed bit before the last line is damage and is said, never skipped.
func TestJournalDamage(t *testing.T) {
	_, id, _, whole := writeJournal(t)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n')
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, last-1).Draw(t, "at")
		bit := rapid.IntRange(0, 7).Draw(t, "bit")
		broken := slices.Clone(whole)
		broken[at] ^= 1 << bit
		if _, err := parseJournal(broken, id.ID()); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d, bit %d: %v", at, bit, err)
		}
	})
	if _, err := parseJournal(whole, digest(nil)); !errors.Is(err, ErrDamaged) {
		t.Errorf("the journal of another run: %v", err)
	}
	line, _ := encodeLine(journalLine{Journal: Format + 1, ID: id.ID()})
	if _, err := parseJournal(append(line, line...), id.ID()); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer journal: %v", err)
	}
}

func TestResumeWithoutJournal(t *testing.T) {
	dir, id, chunks, _ := writeJournal(t)
	if err := os.Remove(filepath.Join(dir, journalName)); err != nil {
		t.Fatal(err)
	}
	write(t, dir, tempPrefix+predictionsName+"-1", []byte("left by a crash"))
	w, done, err := Resume(dir, id)
	if err != nil || len(done) != 0 {
		t.Fatalf("%d chunks, %v", len(done), err)
	}
	defer w.Close()
	must[int](t)(w.Environment(Environment{OS: "x"}))
	if err := w.Append(chunks[0]); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{journalName, lockName, manifestName}) {
		t.Errorf("files %v", got)
	}
}

func FuzzJournal(f *testing.F) {
	id, _, chunks := testRun()
	var seed []byte
	for _, l := range []journalLine{{Journal: Format, ID: id.ID()}, {Environment: &Environment{OS: "x"}},
		{Chunk: chunks[0].Chunk, LogProbs: encodeFloats(chunks[0].LogProbs)}} {
		line, err := encodeLine(l)
		if err != nil {
			f.Fatal(err)
		}
		seed = append(seed, line...)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)-3])
	f.Add([]byte("{\"sum\":\"\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := parseJournal(data, id.ID())
		if err != nil {
			return
		}
		if j.good > int64(len(data)) {
			t.Fatalf("good up to %d of %d", j.good, len(data))
		}
		again, err := parseJournal(data[:j.good], id.ID())
		if err != nil || len(again.chunks) != len(j.chunks) || again.good != j.good {
			t.Fatalf("the good part reads otherwise: %v", err)
		}
	})
}

func TestFloats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOf(anyFloat()).Draw(t, "values")
		back, err := decodeFloats(encodeFloats(v))
		if err != nil || len(back) != len(v) {
			t.Fatal(err)
		}
		for i := range v {
			if math.Float64bits(v[i]) != math.Float64bits(back[i]) {
				t.Fatalf("%v became %v", v[i], back[i])
			}
		}
	})
}
