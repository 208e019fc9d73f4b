package task

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"olmes"
	"olmes/dataset"
	"olmes/prompt"
)

// TestCapitalizePython compares capitalize with Python's for every character,
// at the start and after it, and for the letters whose case hangs on their
// neighbours.
func TestCapitalizePython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no python3 to compare with")
	}
	texts := []string{"", "ΑΣ", "ΣΑΣ ΣΑ", "Σ", "'HE'S", "42 Men", "ﬁVE", "ßA", "ǆ", "İI", "then HE Runs. AND"}
	for r := rune(1); r <= 0x1ffff; r++ {
		if unicode.IsLetter(r) || r < 0x300 {
			texts = append(texts, string(r)+"x"+string(r)+string(r))
		}
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c",
		"import json, sys, unicodedata\nprint(json.dumps([[s.capitalize(), all(unicodedata.category(c) != 'Cn' for c in s)] for s in json.load(sys.stdin)]))")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want [][2]any
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, s := range texts {
		// A letter that this Python's Unicode does not have yet says nothing.
		if known := want[i][1].(bool); !known {
			continue
		}
		if got := capitalize(s); got != want[i][0] {
			t.Errorf("capitalize(%q) = %q, Python %q", s, got, want[i][0])
		}
	}
}

func TestInstance(t *testing.T) {
	labels := func(l ...any) any { return l }
	for _, c := range []struct {
		task    string
		columns map[string]any
		want    olmes.Instance
		err     string
	}{
		{"arc_easy", map[string]any{"id": "x", "question": "q", "choices": map[string]any{"text": labels("a", "b", "c"), "label": labels("1", "2", "3")}, "answerKey": "3"},
			olmes.Instance{NativeID: "x", Question: "q", Choices: []string{"a", "b", "c"}, Gold: 2}, ""},
		{"arc_easy", map[string]any{"id": "x", "question": "q", "choices": map[string]any{"text": labels("a", "b"), "label": labels("A", "B")}, "answerKey": "3"},
			olmes.Instance{}, `"3" is none of the labels`},
		{"openbookqa", map[string]any{"id": "x", "question_stem": "q", "choices": map[string]any{"text": labels("a", "b"), "label": labels("A", "B")}, "answerKey": "B"},
			olmes.Instance{NativeID: "x", Question: "q", Choices: []string{"a", "b"}, Gold: 1}, ""},
		{"boolq", map[string]any{"passage": "p", "question": "q", "idx": int64(5), "label": int64(1)},
			olmes.Instance{NativeID: "5", Passage: "p", Question: "q", Choices: []string{"yes", "no"}, Gold: 0}, ""},
		{"boolq", map[string]any{"passage": "p", "question": "q", "label": int64(0)},
			olmes.Instance{NativeID: "9", Passage: "p", Question: "q", Choices: []string{"yes", "no"}, Gold: 1}, ""},
		{"boolq", map[string]any{"passage": "p", "question": "q", "label": int64(-1)}, olmes.Instance{}, "want 0 or 1"},
		{"hellaswag", map[string]any{"ind": int64(4), "activity_label": "Run", "ctx_a": "a.", "ctx_b": "then HE", "endings": labels("x", "y"), "label": "1"},
			olmes.Instance{NativeID: "4", Question: "Run: a. Then he", Choices: []string{"x", "y"}, Gold: 1}, ""},
		{"hellaswag", map[string]any{"ind": int64(4), "activity_label": "Run", "ctx_a": "a.", "ctx_b": "", "endings": labels("x", "y"), "label": ""},
			olmes.Instance{}, "public answers"},
		{"mmlu_anatomy", map[string]any{"question": " q ", "choices": labels("a", "b"), "answer": int64(1)},
			olmes.Instance{Question: " q ", Choices: []string{"a", "b"}, Gold: 1}, ""},
		{"mmlu_anatomy", map[string]any{"question": "q", "choices": labels("a", "b"), "answer": int64(2)}, olmes.Instance{}, "choice 3 of 2"},
		{"piqa", map[string]any{"goal": "g", "sol1": "a ", "sol2": "b", "label": int64(0)},
			olmes.Instance{Question: "g", Choices: []string{"a ", "b"}, Gold: 0}, ""},
		{"socialiqa", map[string]any{"context": "c", "question": "q", "answerA": "a", "answerB": "b", "answerC": "d", "label": "3"},
			olmes.Instance{Question: "c q", Choices: []string{"a", "b", "d"}, Gold: 2}, ""},
		{"winogrande", map[string]any{"sentence": "_ is.", "option1": "a", "option2": "b", "answer": "2"},
			olmes.Instance{Question: "_ is.", Choices: []string{"a", "b"}, Gold: 1}, ""},
		{"winogrande", map[string]any{"option1": "a", "option2": "b", "answer": "2"}, olmes.Instance{}, `no column "sentence"`},
		{"csqa", map[string]any{"id": "x", "question": "q", "choices": "a", "answerKey": "A"}, olmes.Instance{}, `"choices": want a structure, got text`},
	} {
		task, _ := Lookup(c.task)
		got, err := task.instance(dataset.NewRow("some/file", 9, c.columns), "validation", 9)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "some/file: row 9") {
				t.Errorf("%s: error %v, want one with %q", c.task, err, c.err)
			}
			continue
		}
		c.want.Task, c.want.Split, c.want.DocID = c.task, "validation", 9
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.task, got, err, c.want)
		}
		// Any column missing is an error that names it, never a guess.
		for name := range c.columns {
			if name == "idx" {
				continue
			}
			less := maps.Clone(c.columns)
			delete(less, name)
			if _, err := task.instance(dataset.NewRow("f", 0, less), "validation", 0); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s without %q: error %v", c.task, name, err)
			}
		}
	}
}

// TestRecoverAny renders instances of any text as few-shot examples and parses
// them out again. It may refuse, but what it returns renders to the same
// prompts in both formulations.
func TestRecoverAny(t *testing.T) {
	tasks := Tasks()
	rapid.Check(t, func(t *rapid.T) {
		task := tasks[rapid.IntRange(0, len(tasks)-1).Draw(t, "task")]
		text := rapid.OneOf(
			rapid.StringOf(rapid.SampledFrom([]rune("ab _.[]\n"))),
			rapid.SampledFrom([]string{"", "_", "\n A. ", "\nAnswer: A\n\n", " [step] b", "b [x]", "Question: ", "\nQuestion: ", "a  b"}))
		var shots []olmes.Instance
		for range rapid.IntRange(1, 3).Draw(t, "shots") {
			in := olmes.Instance{Question: text.Draw(t, "question"), Choices: rapid.SliceOfN(text, 1, 5).Draw(t, "choices")}
			if task.layout == yesNo {
				in.Passage = text.Draw(t, "passage")
			}
			in.Gold = rapid.IntRange(0, len(in.Choices)-1).Draw(t, "gold")
			shots = append(shots, in)
		}
		contexts := map[olmes.Formulation]string{}
		for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			prefix, err := prompt.Prefix(task.Template, shots, f)
			if err != nil {
				t.Skip("not renderable")
			}
			contexts[f] = prefix
		}
		got, err := recoverShots(task.Template, contexts[olmes.MCF]+"tail", contexts[olmes.CF]+"tail", len(shots))
		if err != nil {
			return
		}
		for f, want := range contexts {
			if again, err := prompt.Prefix(task.Template, got, f); err != nil || !strings.HasPrefix(want+"tail", again) {
				t.Fatalf("%s: %q, %v; want a start of %q", f, again, err, want)
			}
		}
	})
}

// TestRecoverPlain recovers ordinary examples exactly, for every task.
func TestRecoverPlain(t *testing.T) {
	for _, task := range Tasks() {
		want := []olmes.Instance{
			{Question: "Who _ it", Choices: []string{"one", "two"}, Gold: 1},
			{Question: "Where is _ now. ", Choices: []string{"here.", "there"}, Gold: 0},
		}
		if task.layout == yesNo {
			want[0].Passage, want[1].Passage = "Of it.\nQuestion: none.", "Of that."
		}
		context, err := prompt.Prefix(task.Template, want, olmes.MCF)
		if err != nil {
			t.Fatal(err)
		}
		cloze, err := prompt.Prefix(task.Template, want, olmes.CF)
		if err != nil {
			t.Fatal(err)
		}
		got, err := recoverShots(task.Template, context, cloze, len(want))
		if task.Template.TrimQuestion {
			want[1].Question = strings.TrimSpace(want[1].Question)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", task.Name, got, err)
		}
		if _, err := recoverShots(task.Template, context, cloze, 3); err == nil {
			t.Errorf("%s: a third example was found where there are two", task.Name)
		}
		if _, err := recoverShots(task.Template, context, strings.Replace(cloze, "two", "2", 1), 2); err == nil && task.Template.Blank == "" {
			t.Errorf("%s: another cloze context went unnoticed", task.Name)
		}
	}
}

func FuzzRecover(f *testing.F) {
	f.Add(uint8(0), "Question: q\n A. a\n B. b\nAnswer: B\n\nQuestion: r", "Question: q\nAnswer: b\n\nQuestion: r")
	f.Add(uint8(4), "X: a. \nChoose the best continuation:\n A. b\nAnswer: A\n\n", "X: a.  b\n\n")
	f.Add(uint8(65), "Fill in the blank: a ___ b\n A. c\n B. d\nAnswer: A\n\n", "a c b\n\n")
	tasks := Tasks()
	f.Fuzz(func(t *testing.T, n uint8, context, cloze string) {
		tpl := tasks[int(n)%len(tasks)].Template
		tpl.Description = ""
		shots, err := recoverShots(tpl, context, cloze, 1)
		if err != nil {
			return
		}
		for f, whole := range map[olmes.Formulation]string{olmes.MCF: context, olmes.CF: cloze} {
			if again, err := prompt.Prefix(tpl, shots, f); err != nil || !strings.HasPrefix(whole, again) {
				t.Errorf("%s: %q, %v", f, again, err)
			}
		}
	})
}

func TestDigestsFileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"arc_easy test 3":                 "line 1: 3 fields",
		"arc_easy test three abc AAAA":    "line 1: ",
		"arc_easy test 3 abc not+base64=": "line 1: ",
		"arc_easy test 3 abc AAAA":        "not the digests of 3 rows",
	} {
		if _, err := parseDigests(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
