package task

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"olmes"
	"olmes/dataset"
)

// layout names the columns that a dataset's own rows have.
type layout string

const (
	labelled   layout = "labelled" // id, question, choices {text, label}, answerKey
	stem       layout = "stem"     // the same with question_stem
	yesNo      layout = "yes-no"   // idx, passage, question, label (1 = yes)
	activity   layout = "activity" // ind, activity_label, ctx_a, ctx_b, endings, label (from 0, as text)
	subjectRow layout = "subject"  // question, choices, answer (from 0)
	goal       layout = "goal"     // goal, sol1, sol2, label (from 0)
	social     layout = "social"   // context, question, answerA to answerC, label (from 1, as text)
	sentence   layout = "sentence" // sentence, option1, option2, answer (from 1, as text)
)

// columns reads several columns of one row and keeps the first error.
type columns struct {
	row dataset.Row
	err error
}

func (c *columns) text(name string) string {
	s, err := c.row.String(name)
	c.keep(err)
	return s
}

func (c *columns) number(name string) int {
	n, err := c.row.Int(name)
	c.keep(err)
	return n
}

func (c *columns) texts(name string) []string {
	s, err := c.row.Strings(name)
	c.keep(err)
	return s
}

func (c *columns) under(name string) *columns {
	row, err := c.row.Struct(name)
	c.keep(err)
	return &columns{row: row, err: c.err}
}

func (c *columns) keep(err error) {
	if c.err == nil {
		c.err = err
	}
}

// digit reads a label that is a number as text, counted from first.
func (c *columns) digit(name string, first int) int {
	s := c.text(name)
	n, err := strconv.Atoi(s)
	if c.err == nil && err != nil {
		c.err = c.row.Errorf("column %q: want a number, got %q; splits without public answers cannot be scored", name, s)
	}
	return n - first
}

// instance parses one row of the task's dataset.
func (t Task) instance(row dataset.Row, split string, position int) (olmes.Instance, error) {
	in := olmes.Instance{Task: t.Name, Split: split, DocID: position}
	c := &columns{row: row}
	switch t.layout {
	case labelled, stem:
		in.NativeID = c.text("id")
		if t.layout == stem {
			in.Question = c.text("question_stem")
		} else {
			in.Question = c.text("question")
		}
		choices := c.under("choices")
		in.Choices = choices.texts("text")
		labels, key := choices.texts("label"), c.text("answerKey")
		c.keep(choices.err)
		// Labels are 1 to 4 in some rows: the answer is where its label
		// stands, not what the label says.
		in.Gold = slices.Index(labels, key)
		if c.err == nil && (in.Gold < 0 || len(labels) != len(in.Choices)) {
			c.err = row.Errorf("column \"answerKey\": %q is none of the labels %q of %d choices", key, labels, len(in.Choices))
		}
	case yesNo:
		// The id is the position in the split; one mirror leaves it out.
		in.NativeID = strconv.Itoa(position)
		if row.Has("idx") {
			in.NativeID = strconv.Itoa(c.number("idx"))
		}
		in.Passage, in.Question = c.text("passage"), c.text("question")
		in.Choices = []string{"yes", "no"}
		switch label := c.number("label"); {
		case label == 1:
			in.Gold = 0
		case label == 0:
			in.Gold = 1
		case c.err == nil:
			c.err = row.Errorf("column \"label\": want 0 or 1, got %d", label)
		}
	case activity:
		in.NativeID = strconv.Itoa(c.number("ind"))
		in.Question = c.text("activity_label") + ": " + c.text("ctx_a") + " " + capitalize(c.text("ctx_b"))
		in.Choices = c.texts("endings")
		in.Gold = c.digit("label", 0)
	case subjectRow:
		in.Question, in.Choices, in.Gold = c.text("question"), c.texts("choices"), c.number("answer")
	case goal:
		in.Question, in.Gold = c.text("goal"), c.number("label")
		in.Choices = []string{c.text("sol1"), c.text("sol2")}
	case social:
		in.Question = c.text("context") + " " + c.text("question")
		in.Choices = []string{c.text("answerA"), c.text("answerB"), c.text("answerC")}
		in.Gold = c.digit("label", 1)
	case sentence:
		in.Question = c.text("sentence")
		in.Choices = []string{c.text("option1"), c.text("option2")}
		in.Gold = c.digit("answer", 1)
	}
	if c.err == nil && (in.Gold < 0 || in.Gold >= len(in.Choices)) {
		c.err = row.Errorf("the right answer is choice %d of %d", in.Gold+1, len(in.Choices))
	}
	return in, c.err
}

// capitalize is Python's str.capitalize: the first character in title case,
// the others in lower case, by Unicode's full mappings.
func capitalize(s string) string {
	if s == "" {
		return s
	}
	_, size := utf8.DecodeRuneInString(s)
	first := s[:size]
	lower := cases.Lower(language.Und)
	// The rest is lowered within the whole, since a sigma's small form depends
	// on what stands before it.
	return cases.Title(language.Und, cases.NoLower).String(first) + strings.TrimPrefix(lower.String(s), lower.String(first))
}
