// Package prompt renders instances into requests. It is pure: the same template,
// examples and instance give the same bytes, and nothing else is read.
//
// Rules and wording come from the standard (arXiv 2406.08446, sections 3.1 and
// 3.2, appendix H) and were checked byte for byte against the requests that its
// authors released.
package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"olmes"
)

// blank is the mark of the missing word in a sentence of winogrande.
const blank = "_"

// Requests renders one instance in formulation f: one request per choice, in
// order. It fails where the instance, or one of the examples, does not fit the
// template: no choices, more choices than labels, a right answer that is not
// among the choices, a sentence without its blank.
func Requests(tpl olmes.Template, shots []olmes.Instance, in olmes.Instance, f olmes.Formulation) ([]olmes.Request, error) {
	labels, err := check(&tpl, &in, f)
	if err != nil {
		return nil, err
	}
	prefix, err := Prefix(tpl, shots, f)
	if err != nil {
		return nil, err
	}
	requests := make([]olmes.Request, len(in.Choices))
	var context string
	for i := range in.Choices {
		// Only a blank makes the query depend on the choice; elsewhere all
		// requests of the instance share one string.
		if i == 0 || (f == olmes.CF && tpl.Blank != "") {
			context = prefix + query(&tpl, &in, f, i, labels)
		}
		requests[i] = request(&in, f, i, labels)
		requests[i].Prompt.Text = context
		requests[i].Continuation = answer(&tpl, &in, f, i, labels)
	}
	return requests, nil
}

// Unconditional renders the second half of pmi: the CF continuations after the
// template's short context alone, one request per choice, in order. It returns
// none where the choices differ in the context and not in the continuation
// (winogrande), since their pmi equals the plain score.
func Unconditional(tpl olmes.Template, in olmes.Instance) ([]olmes.Request, error) {
	labels, err := check(&tpl, &in, olmes.CF)
	if err != nil {
		return nil, err
	}
	if tpl.Blank != "" {
		return nil, nil
	}
	requests := make([]olmes.Request, len(in.Choices))
	for i := range in.Choices {
		requests[i] = request(&in, olmes.CF, i, labels)
		requests[i].Unconditional = true
		requests[i].Prompt.Text = tpl.Unconditional
		requests[i].Continuation = answer(&tpl, &in, olmes.CF, i, labels)
	}
	return requests, nil
}

// Prefix renders what stands before the query: the description and the
// examples, each followed by the separator.
func Prefix(tpl olmes.Template, shots []olmes.Instance, f olmes.Formulation) (string, error) {
	var b strings.Builder
	b.WriteString(tpl.Description)
	for i := range shots {
		shot := &shots[i]
		labels, err := check(&tpl, shot, f)
		if err != nil {
			return "", fmt.Errorf("few-shot example %d: %w", i+1, err)
		}
		b.WriteString(query(&tpl, shot, f, shot.Gold, labels))
		b.WriteString(answer(&tpl, shot, f, shot.Gold, labels))
		b.WriteString(tpl.Separator)
	}
	return b.String(), nil
}

// Digest returns the SHA-256 in hex of a request's context, a NUL byte and its
// continuation.
func Digest(r olmes.Request) string {
	h := sha256.New()
	io.WriteString(h, r.Prompt.Text)
	h.Write([]byte{0})
	io.WriteString(h, r.Continuation)
	return hex.EncodeToString(h.Sum(nil))
}

// DigestAll returns the SHA-256 in hex of all requests in order: of each its
// context, a NUL byte, its continuation and another NUL byte.
func DigestAll(requests []olmes.Request) string {
	h := sha256.New()
	for i := range requests {
		io.WriteString(h, requests[i].Prompt.Text)
		h.Write([]byte{0})
		io.WriteString(h, requests[i].Continuation)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// check reports whether the instance can be rendered and returns the labels of
// its choices.
func check(tpl *olmes.Template, in *olmes.Instance, f olmes.Formulation) ([]string, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("render %s %s %d as %s: %w", in.Task, in.Split, in.DocID, f, fmt.Errorf(format, args...))
	}
	if f != olmes.CF && f != olmes.MCF {
		return nil, fail("no such formulation; use %q or %q", olmes.CF, olmes.MCF)
	}
	if len(in.Choices) == 0 {
		return nil, fail("the instance has no choices")
	}
	if in.Gold < 0 {
		return nil, fail("the instance has no right answer")
	}
	if in.Gold >= len(in.Choices) {
		return nil, fail("the right answer is choice %d of %d", in.Gold+1, len(in.Choices))
	}
	labels := make([]string, 0, len(in.Choices))
	for _, r := range tpl.Labels {
		if len(labels) == len(in.Choices) {
			break
		}
		labels = append(labels, string(r))
	}
	if len(labels) < len(in.Choices) {
		return nil, fail("%d choices, but the template has %d labels", len(in.Choices), len(labels))
	}
	if tpl.Blank != "" && !strings.Contains(in.Question, blank) {
		return nil, fail("the sentence has no blank %q", blank)
	}
	return labels, nil
}

func request(in *olmes.Instance, f olmes.Formulation, i int, labels []string) olmes.Request {
	return olmes.Request{
		Key:      olmes.Key{Task: in.Task, Split: in.Split, DocID: in.DocID, Formulation: f},
		Kind:     olmes.KindScore,
		NativeID: in.NativeID,
		Choice:   i,
		Label:    labels[i],
		Gold:     in.Gold,
	}
}

// query renders the instance without its answer. Choice i only matters where
// it fills the sentence's blank.
func query(tpl *olmes.Template, in *olmes.Instance, f olmes.Formulation, i int, labels []string) string {
	question := in.Question
	if tpl.TrimQuestion {
		question = Trim(question)
	}
	if tpl.Blank != "" {
		if f == olmes.CF {
			before, _, _ := strings.Cut(question, blank)
			question = before + in.Choices[i]
		} else {
			question = strings.ReplaceAll(question, blank, tpl.Blank)
		}
	}
	form := tpl.Form(f)
	var b strings.Builder
	if in.Passage != "" {
		b.WriteString(in.Passage)
		b.WriteString(tpl.PassageEnd)
	}
	b.WriteString(form.Prefix)
	b.WriteString(question)
	b.WriteString(form.Suffix)
	if f == olmes.MCF {
		for j, c := range in.Choices {
			b.WriteString(tpl.LabelStart)
			b.WriteString(labels[j])
			b.WriteString(tpl.LabelEnd)
			b.WriteString(c)
		}
	}
	b.WriteString(form.Cue)
	return Clean(tpl.Cleaning, b.String())
}

// answer renders the continuation of choice i.
func answer(tpl *olmes.Template, in *olmes.Instance, f olmes.Formulation, i int, labels []string) string {
	switch {
	case f == olmes.MCF:
		return tpl.Gap + labels[i]
	case tpl.Blank != "":
		_, after, _ := strings.Cut(in.Question, blank)
		return tpl.Gap + Trim(after)
	default:
		return tpl.Gap + Clean(tpl.Cleaning, in.Choices[i])
	}
}
