package task

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"olmes"
)

// digests.txt holds what the rows of every task must be, a line for each split
// and one for the few-shot examples ("shots"): task, split, count, SHA-256 over
// the rows' digests, and for a split the first two bytes of each row's digest
// in base64 (so that an error can name the first row that differs), for
// examples each one's whole digest in hex. The package's tests rewrite it with
// -update.
//
//go:embed digests.txt
var digestFile string

// shotsPart stands in a split's place where few-shot examples are meant.
const shotsPart = "shots"

// held is one line of digests.txt.
type held struct {
	count    int
	sha256   string
	prefixes []byte   // of rows, two bytes each
	examples []string // of few-shot examples
}

var heldDigests = sync.OnceValues(func() (map[string]held, error) { return parseDigests(strings.NewReader(digestFile)) })

// parseDigests reads digests.txt into a map by "task split".
func parseDigests(r io.Reader) (map[string]held, error) {
	digests := make(map[string]held)
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		f := strings.Fields(scan.Text())
		if len(f) < 5 {
			return nil, fmt.Errorf("digests.txt: line %d: %d fields, want 5 or more", n, len(f))
		}
		count, err := strconv.Atoi(f[2])
		if err != nil {
			return nil, fmt.Errorf("digests.txt: line %d: %w", n, err)
		}
		h := held{count: count, sha256: f[3]}
		if f[1] == shotsPart {
			h.examples = f[4:]
		} else if h.prefixes, err = base64.RawStdEncoding.DecodeString(f[4]); err != nil {
			return nil, fmt.Errorf("digests.txt: line %d: %w", n, err)
		}
		if len(h.examples)+len(h.prefixes)/2 != count {
			return nil, fmt.Errorf("digests.txt: line %d: not the digests of %d rows", n, count)
		}
		digests[f[0]+" "+f[1]] = h
	}
	return digests, scan.Err()
}

// rowDigest is the SHA-256 of one parsed row: each field with its length before
// it. Position, task and split are not in it.
func rowDigest(in *olmes.Instance) [sha256.Size]byte {
	h := sha256.New()
	field(h, in.NativeID)
	field(h, in.Passage)
	field(h, in.Question)
	field(h, strconv.Itoa(len(in.Choices)))
	for _, c := range in.Choices {
		field(h, c)
	}
	field(h, strconv.Itoa(in.Gold))
	return [sha256.Size]byte(h.Sum(nil))
}

func field(h hash.Hash, s string) { fmt.Fprintf(h, "%d:%s,", len(s), s) }

// rowsDigest returns the digest of each row, and of all.
func rowsDigest(rows []olmes.Instance) ([][sha256.Size]byte, string) {
	each := make([][sha256.Size]byte, len(rows))
	all := sha256.New()
	for i := range rows {
		each[i] = rowDigest(&rows[i])
		all.Write(each[i][:])
	}
	return each, hex.EncodeToString(all.Sum(nil))
}

// shotsDigest is rowsDigest without ids, which the pointers give and not the
// source.
func shotsDigest(shots []olmes.Instance) ([][sha256.Size]byte, string) {
	bare := slices.Clone(shots)
	for i := range bare {
		bare[i].NativeID = ""
	}
	return rowsDigest(bare)
}

// digestPointer starts a pointer that is a digest.
const digestPointer = "sha256:"

// byDigest points to few-shot examples that have no ids.
func byDigest(task string) []string {
	digests, err := heldDigests()
	if err != nil {
		return nil // Load reports it
	}
	var pointers []string
	for _, e := range digests[task+" "+shotsPart].examples {
		pointers = append(pointers, digestPointer+e)
	}
	return pointers
}

// DigestError says that rows are not those of the standard.
type DigestError struct {
	Task, Split string // Split is "shots" for few-shot examples
	File        string // where the rows came from
	Count, Want int    // rows read, and rows that should be there
	Row         int    // the first that differs, from 0; -1 where only the count does
	Found       string // that row as it was read, cut short; "" where it is missing
	SHA256      string // of the rows read
	WantSHA256  string
}

func (e *DigestError) Error() string {
	what := "rows of split " + e.Split
	if e.Split == shotsPart {
		what = "few-shot examples"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "task %s: the %s in %s are not the standard's: %d rows with SHA-256 %.12s, want %d with %.12s",
		e.Task, what, e.File, e.Count, e.SHA256, e.Want, e.WantSHA256)
	switch {
	case e.Row < 0:
	case e.Found == "":
		fmt.Fprintf(&b, "; the first difference is row %d, which is missing", e.Row)
	default:
		fmt.Fprintf(&b, "; the first difference is row %d: %s", e.Row, e.Found)
	}
	return b.String()
}

// Hint says what the user can do.
func (e *DigestError) Hint() string {
	return "the dataset was changed or is another one; fetch it again, or take the rows from the other source"
}

// verify compares rows with what the package holds.
func (t Task) verify(split, file string, rows []olmes.Instance) error {
	digests, err := heldDigests()
	if err != nil {
		return err
	}
	want, ok := digests[t.Name+" "+split]
	if !ok {
		return fmt.Errorf("task %s: no digest is held for %s", t.Name, split)
	}
	each, all := rowsDigest(rows)
	if split == shotsPart {
		each, all = shotsDigest(rows)
	}
	if len(rows) == want.count && all == want.sha256 {
		return nil
	}
	e := &DigestError{
		Task: t.Name, Split: split, File: file,
		Count: len(rows), Want: want.count, Row: -1,
		SHA256: all, WantSHA256: want.sha256,
	}
	for i := range min(len(rows), want.count) {
		if !want.matches(i, each[i]) {
			e.Row, e.Found = i, brief(rows[i])
			return e
		}
	}
	if len(rows) < want.count {
		e.Row = len(rows)
	} else if len(rows) > want.count {
		e.Row, e.Found = want.count, brief(rows[want.count])
	}
	return e
}

func (h held) matches(i int, digest [sha256.Size]byte) bool {
	if h.examples != nil {
		return h.examples[i] == hex.EncodeToString(digest[:])
	}
	return h.prefixes[2*i] == digest[0] && h.prefixes[2*i+1] == digest[1]
}

// brief shows a row in at most a few hundred characters, texts quoted so that
// white space is seen.
func brief(in olmes.Instance) string {
	short := func(s string) string {
		if r := []rune(s); len(r) > 60 {
			s = string(r[:30]) + "…" + string(r[len(r)-25:])
		}
		return strconv.Quote(s)
	}
	choices := make([]string, len(in.Choices))
	for i, c := range in.Choices {
		choices[i] = short(c)
	}
	s := fmt.Sprintf("question %s, choices %s, right answer %d", short(in.Question), strings.Join(choices, " "), in.Gold+1)
	if in.NativeID != "" {
		s = "id " + in.NativeID + ", " + s
	}
	return s
}
