package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"olmes"
	"olmes/prompt"
)

// recoverShots parses the first n examples out of a multiple-choice context
// that was rendered by the template. cloze is a context of the same task in the
// other formulation, which shows what cleaning hides in the first. The examples
// rendered again must be what both contexts start with, byte for byte.
func recoverShots(tpl olmes.Template, context, cloze string, n int) ([]olmes.Instance, error) {
	rest, ok := strings.CutPrefix(context, tpl.Description)
	if !ok {
		return nil, errors.New("the context does not start with the template's description")
	}
	clozeRest, ok := strings.CutPrefix(cloze, tpl.Description)
	if !ok {
		return nil, errors.New("the cloze context does not start with the template's description")
	}
	tpl.Description = ""
	shots := make([]olmes.Instance, n)
	for i := range shots {
		text, gold, after, ok := cutExample(&tpl, rest)
		if !ok {
			return nil, fmt.Errorf("example %d of %d has no end: want %q, a label and %q", i+1, n, tpl.MCF.Cue+tpl.Gap, tpl.Separator)
		}
		shot, ok := parseExample(&tpl, text)
		if !ok || gold >= len(shot.Choices) {
			return nil, fmt.Errorf("example %d of %d does not have the template's form", i+1, n)
		}
		shot.Gold = gold
		shown := rest[:len(rest)-len(after)]
		if shots[i], clozeRest, ok = fit(tpl, shot, shown, clozeRest); !ok {
			return nil, fmt.Errorf("example %d of %d, rendered again, is not what the contexts show", i+1, n)
		}
		rest = after
	}
	return shots, nil
}

// removed is a mark that cleaning takes out of a text.
const removed = "[]"

// fit finds the example that renders to shown in MCF and starts rest in CF, and
// cuts it off rest. Mostly that is the shot as it was parsed. A space that only
// CF shows stood beside a mark that was taken out after trimming; such a mark
// is put there again.
func fit(tpl olmes.Template, shot olmes.Instance, shown, rest string) (olmes.Instance, string, bool) {
	candidates := []olmes.Instance{shot}
	if tpl.Cleaning == olmes.WikiHow {
		answer, question := shot, shot
		answer.Choices = slices.Clone(shot.Choices)
		answer.Choices[shot.Gold] = removed + " " + shot.Choices[shot.Gold]
		question.Question = shot.Question + removed
		both := answer
		both.Question = question.Question
		candidates = append(candidates, answer, question, both)
	}
	for _, c := range candidates {
		mcf, err := prompt.Prefix(tpl, []olmes.Instance{c}, olmes.MCF)
		if err != nil || mcf != shown {
			continue
		}
		cf, err := prompt.Prefix(tpl, []olmes.Instance{c}, olmes.CF)
		if err != nil {
			continue
		}
		if after, ok := strings.CutPrefix(rest, cf); ok {
			return c, after, true
		}
	}
	return shot, rest, false
}

// cutExample cuts the first example off s: its text without cue and answer, and
// the index of its answer's label.
func cutExample(tpl *olmes.Template, s string) (text string, gold int, rest string, ok bool) {
	cue := tpl.MCF.Cue + tpl.Gap
	for at := 0; ; at += len(cue) {
		next := strings.Index(s[at:], cue)
		if next < 0 {
			return "", 0, "", false
		}
		at += next
		after := s[at+len(cue):]
		gold = 0
		for _, label := range tpl.Labels {
			if rest, ok := strings.CutPrefix(after, string(label)+tpl.Separator); ok {
				return s[:at], gold, rest, true
			}
			gold++
		}
	}
}

// parseExample parses a query without its cue.
func parseExample(tpl *olmes.Template, text string) (olmes.Instance, bool) {
	// The list is the last thing in the query, so its first label is the last
	// one of its kind.
	var starts []string
	for _, label := range tpl.Labels {
		starts = append(starts, tpl.LabelStart+string(label)+tpl.LabelEnd)
	}
	at := strings.LastIndex(text, starts[0])
	if at < 0 {
		return olmes.Instance{}, false
	}
	var in olmes.Instance
	var ok bool
	if in.Passage, in.Question, ok = parseQuestion(tpl, tpl.MCF, text[:at]); !ok {
		return olmes.Instance{}, false
	}
	if tpl.Blank != "" {
		in.Question = strings.ReplaceAll(in.Question, tpl.Blank, "_")
	}
	list := text[at+len(starts[0]):]
	for _, start := range starts[1:] {
		choice, after, found := strings.Cut(list, start)
		in.Choices = append(in.Choices, choice)
		if !found {
			return in, true
		}
		list = after
	}
	in.Choices = append(in.Choices, list)
	return in, true
}

// parseQuestion parses what a form puts around a question, the passage before
// it included.
func parseQuestion(tpl *olmes.Template, form olmes.Form, text string) (passage, question string, ok bool) {
	if text, ok = strings.CutSuffix(text, form.Suffix); !ok {
		return "", "", false
	}
	if question, ok = strings.CutPrefix(text, form.Prefix); ok {
		return "", question, true
	}
	if tpl.PassageEnd == "" {
		return "", "", false
	}
	start := tpl.PassageEnd + form.Prefix
	at := strings.LastIndex(text, start)
	if at < 0 {
		return "", "", false
	}
	return text[:at], text[at+len(start):], true
}

// shotForm brings a row to the form in which a few-shot example is recovered
// from prompts: hellaswag's text cleaned, the others' as it is. It reports
// whether the row can be shown at all.
func shotForm(tpl olmes.Template, in olmes.Instance) (olmes.Instance, bool) {
	tpl.Description = ""
	var contexts [2]string
	for i, f := range []olmes.Formulation{olmes.MCF, olmes.CF} {
		var err error
		if contexts[i], err = prompt.Prefix(tpl, []olmes.Instance{in}, f); err != nil {
			return in, false
		}
	}
	shots, err := recoverShots(tpl, contexts[0], contexts[1], 1)
	if err != nil {
		return in, false
	}
	in.Passage, in.Question, in.Choices, in.Gold = shots[0].Passage, shots[0].Question, shots[0].Choices, shots[0].Gold
	return in, true
}
