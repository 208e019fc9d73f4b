package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"olmes"
)

// plain is the standard's general form, written out here so that these tests do
// not depend on the table of tasks.
func plain() olmes.Template {
	form := olmes.Form{Prefix: "Question: ", Cue: "\nAnswer:"}
	return olmes.Template{
		Separator: "\n\n", PassageEnd: "\n", CF: form, MCF: form,
		Labels: "ABCDE", LabelStart: "\n ", LabelEnd: ". ", Gap: " ", Unconditional: "Answer:",
	}
}

func instance(question string, gold int, choices ...string) olmes.Instance {
	return olmes.Instance{Task: "toy", Split: "test", DocID: 7, NativeID: "n7", Question: question, Choices: choices, Gold: gold}
}

// show writes requests as context, bar, continuation.
func show(requests []olmes.Request) string {
	var lines []string
	for _, r := range requests {
		lines = append(lines, r.Prompt.Text+"|"+r.Continuation)
	}
	return strings.Join(lines, "\n---\n")
}

func TestRequests(t *testing.T) {
	question := plain()
	passage := plain()
	passage.CF.Suffix, passage.MCF.Suffix = "?", "?"
	story := plain()
	story.CF = olmes.Form{}
	story.MCF = olmes.Form{Suffix: "\nChoose the best continuation:", Cue: "\nAnswer:"}
	story.Cleaning = olmes.WikiHow
	blank := plain()
	blank.CF = olmes.Form{}
	blank.MCF.Prefix = "Fill in the blank: "
	blank.Blank = "___"
	subject := plain()
	subject.Description = "About toys.\n\n"
	subject.TrimQuestion = true
	brackets := plain()
	brackets.Labels, brackets.LabelStart, brackets.LabelEnd, brackets.Separator = "12345", "\n(", ") ", "\n###\n"

	yes := instance("is it", 0, "yes", "no")
	yes.Passage = "Title -- Text."
	for _, c := range []struct {
		name  string
		tpl   olmes.Template
		shots []olmes.Instance
		in    olmes.Instance
		f     olmes.Formulation
		want  string
	}{
		{"cloze", question, []olmes.Instance{instance("One?", 1, "a", "b")}, instance("Two?", 0, "c", "d "), olmes.CF,
			"Question: One?\nAnswer: b\n\nQuestion: Two?\nAnswer:| c\n---\nQuestion: One?\nAnswer: b\n\nQuestion: Two?\nAnswer:| d "},
		{"multiple choice", question, []olmes.Instance{instance("One?", 1, "a", "b")}, instance("Two?", 0, "c", "d "), olmes.MCF,
			"Question: One?\n A. a\n B. b\nAnswer: B\n\nQuestion: Two?\n A. c\n B. d \nAnswer:| A\n---\nQuestion: One?\n A. a\n B. b\nAnswer: B\n\nQuestion: Two?\n A. c\n B. d \nAnswer:| B"},
		{"passage", passage, nil, yes, olmes.MCF,
			"Title -- Text.\nQuestion: is it?\n A. yes\n B. no\nAnswer:| A\n---\nTitle -- Text.\nQuestion: is it?\n A. yes\n B. no\nAnswer:| B"},
		{"description", subject, nil, instance(" Two? ", 0, "c"), olmes.CF, "About toys.\n\nQuestion: Two?\nAnswer:| c"},
		{"cleaned cloze", story, nil, instance(" Run: Go [title] on. [step] Then  it ", 0, " he [substeps] ran"), olmes.CF,
			"Run: Go. on. Then it| he ran"},
		{"cleaned multiple choice", story, nil, instance("Run: Go on. ", 0, "[step] he  ran"), olmes.MCF,
			"Run: Go on. \nChoose the best continuation:\n A. he ran\nAnswer:| A"},
		{"blank", blank, []olmes.Instance{instance("A _ is.", 1, "cat", "dog")}, instance("Of _ and _'s cup.", 0, "x", "y"), olmes.CF,
			"A dog is.\n\nOf x| and _'s cup.\n---\nA dog is.\n\nOf y| and _'s cup."},
		{"blank before an apostrophe", blank, nil, instance("It hit _'s cup.  ", 0, "x"), olmes.CF, "It hit x| 's cup."},
		{"blanks in multiple choice", blank, nil, instance("Of _ and _.", 0, "x", "y"), olmes.MCF,
			"Fill in the blank: Of ___ and ___.\n A. x\n B. y\nAnswer:| A\n---\nFill in the blank: Of ___ and ___.\n A. x\n B. y\nAnswer:| B"},
		{"other labels", brackets, []olmes.Instance{instance("One?", 1, "a", "b")}, instance("Two?", 0, "c"), olmes.MCF,
			"Question: One?\n(1) a\n(2) b\nAnswer: 2\n###\nQuestion: Two?\n(1) c\nAnswer:| 1"},
	} {
		got, err := Requests(c.tpl, c.shots, c.in, c.f)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if show(got) != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, show(got), c.want)
		}
		for i, r := range got {
			if r.Choice != i || r.Gold != c.in.Gold || r.DocID != 7 || r.NativeID != "n7" || r.Kind != olmes.KindScore || r.Formulation != c.f ||
				r.Label != string(c.tpl.Labels[i]) || r.Unconditional {
				t.Errorf("%s: request %d is %+v", c.name, i, r)
			}
		}
	}
}

func TestUnconditional(t *testing.T) {
	got, err := Unconditional(plain(), instance("Two?", 1, "c", "d "))
	if err != nil {
		t.Fatal(err)
	}
	if want := "Answer:| c\n---\nAnswer:| d "; show(got) != want || !got[0].Unconditional || got[1].Gold != 1 {
		t.Errorf("%+v, want %s", got, want)
	}
	blank := plain()
	blank.Blank = "___"
	if got, err := Unconditional(blank, instance("A _ is.", 1, "cat", "dog")); err != nil || got != nil {
		t.Errorf("one continuation for all choices: %v, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	blank := plain()
	blank.Blank = "___"
	good := instance("Two?", 0, "c", "d")
	for _, c := range []struct {
		tpl   olmes.Template
		shots []olmes.Instance
		in    olmes.Instance
		f     olmes.Formulation
		want  string
	}{
		{plain(), nil, instance("Two?", 0), olmes.CF, "no choices"},
		{plain(), nil, instance("Two?", 2, "c", "d"), olmes.CF, "choice 3 of 2"},
		{plain(), nil, instance("Two?", -1, "c", "d"), olmes.CF, "has no right answer"},
		{plain(), nil, instance("Two?", 0, "a", "b", "c", "d", "e", "f"), olmes.MCF, "5 labels"},
		{blank, nil, good, olmes.CF, "blank"},
		{plain(), nil, good, "chat", "formulation"},
		{plain(), []olmes.Instance{good, instance("One?", 3, "a")}, good, olmes.CF, "few-shot example 2"},
	} {
		if _, err := Requests(c.tpl, c.shots, c.in, c.f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.in, err, c.want)
		}
	}
}

func TestDigest(t *testing.T) {
	r := olmes.Request{Prompt: olmes.Prompt{Text: "a"}, Continuation: " b"}
	sum := sha256.Sum256([]byte("a\x00 b"))
	if got, want := Digest(r), hex.EncodeToString(sum[:]); got != want {
		t.Errorf("Digest = %s, want %s", got, want)
	}
	sum = sha256.Sum256([]byte("a\x00 b\x00a\x00 b\x00"))
	if got, want := DigestAll([]olmes.Request{r, r}), hex.EncodeToString(sum[:]); got != want {
		t.Errorf("DigestAll = %s, want %s", got, want)
	}
}

// TestShapes holds for any text: all requests of an instance share what they
// should, and a few-shot example is a query with its answer.
func TestShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab _.[]\n\u00a0é")))
		tpl := plain()
		tpl.Description = text.Draw(t, "description")
		if rapid.Bool().Draw(t, "clean") {
			tpl.Cleaning = olmes.WikiHow
		}
		choices := rapid.SliceOfN(text, 1, 5).Draw(t, "choices")
		in := instance(text.Draw(t, "question"), rapid.IntRange(0, len(choices)-1).Draw(t, "gold"), choices...)
		for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
			alone, err := Requests(tpl, nil, in, f)
			if err != nil {
				t.Fatal(err)
			}
			prefix, err := Prefix(tpl, []olmes.Instance{in}, f)
			if err != nil {
				t.Fatal(err)
			}
			gold := alone[in.Gold]
			if want := gold.Prompt.Text + gold.Continuation + tpl.Separator; prefix != want {
				t.Fatalf("%s: example %q, want %q", f, prefix, want)
			}
			after, err := Requests(tpl, []olmes.Instance{in}, in, f)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range after {
				if want := prefix + strings.TrimPrefix(alone[i].Prompt.Text, tpl.Description); r.Prompt.Text != want || r.Continuation != alone[i].Continuation {
					t.Fatalf("%s: request %d is %q|%q, want %q", f, i, r.Prompt.Text, r.Continuation, want)
				}
				if !strings.HasPrefix(r.Continuation, " ") {
					t.Fatalf("continuation %q does not start with a space", r.Continuation)
				}
			}
		}
	})
}

func ExampleRequests() {
	form := olmes.Form{Prefix: "Question: ", Cue: "\nAnswer:"}
	tpl := olmes.Template{MCF: form, Labels: "AB", LabelStart: "\n ", LabelEnd: ". ", Gap: " "}
	in := olmes.Instance{Question: "Is water wet?", Choices: []string{"yes", "no"}}
	requests, err := Requests(tpl, nil, in, olmes.MCF)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s|%s\n", requests[1].Prompt.Text, requests[1].Continuation)
	// Output:
	// Question: Is water wet?
	//  A. yes
	//  B. no
	// Answer:| B
}
