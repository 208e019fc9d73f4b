package reproduce

import (
	"fmt"
	"maps"
	"slices"

	"olmes/outcome"
	"olmes/record"
)

// bosMost is the share of requests that are fed other ids from which on one token
// more before all of them is taken for a BOS.
const bosMost = 0.99

// ids asks, where the texts are the same or not known, whether the model was fed
// the same ids.
func (c *comparison) ids() Stage {
	s := Stage{Name: IDs, Unit: "requests"}
	lacking := map[string]int{}
	shift := map[int]int{} // tokens that B has more before a continuation of which nothing was cut
	for _, p := range c.pairs {
		if !p.comparable {
			continue
		}
		unknown := 0
		p.eachText(func(x outcome.Pair, ka, kb, k int) {
			switch p.sameIDs(ka, kb) {
			case Unknown:
				unknown++
				return
			case No:
				s.Different++
				if p.a.Choice.Dropped[ka] == 0 && p.b.Choice.Dropped[kb] == 0 && p.sameContinuation(ka, kb) != No {
					shift[int(p.b.Choice.Context[kb]-p.a.Choice.Context[ka])]++
				}
			default:
				if p.moved(ka, kb) {
					s.Different++
				}
			}
			s.Compared++
		})
		s.Unknown += unknown
		if unknown > 0 {
			lacking[c.without(func(k int, f *outcome.Form) bool { return known(f.Choice.IDs[k]) }, p)] += unknown
		}
	}
	for _, who := range slices.Sorted(maps.Keys(lacking)) {
		c.doubt("whether the model was fed the same ids is not known for %d requests (%s no digests of them), so BOS, tokenization and truncation may differ unseen", lacking[who], who)
	}
	bos := c.bosShift(shift)
	for _, p := range c.pairs {
		if p.comparable {
			s.Causes = c.idCauses(s.Causes, p, bos)
		}
	}
	order := []Code{BOS, Tokenization, Boundary, Truncation}
	slices.SortStableFunc(s.Causes, func(x, y Cause) int { return slices.Index(order, x.Code) - slices.Index(order, y.Code) })
	s.Same = outcomeOf(s.Different, s.Unknown, s.Compared)
	switch {
	case s.Same == Yes:
		s.Text = fmt.Sprintf("the same ids, all %s", plural(s.Compared, "request", "requests"))
	case s.Same == No:
		s.Text = fmt.Sprintf("%d of %s of the same text were fed as other ids, or divided otherwise", s.Different, plural(s.Compared, "request", "requests"))
	case s.Compared > 0:
		s.Text = fmt.Sprintf("%s have the same ids, of %d it is not known", plural(s.Compared, "request", "requests"), s.Unknown)
	case s.Unknown > 0:
		s.Text = "not known: no digests of the ids to compare"
	case c.apart():
		s.Text = "no requests to compare: " + noneShared
	default:
		s.Text = "no requests of the same text to compare"
	}
	return s
}

// eachText calls f with the choices of matched instances whose requests are the
// same or not known: positions in a's and b's columns, and in the instance.
func (p *pair) eachText(f func(x outcome.Pair, ka, kb, k int)) {
	for i, x := range p.both {
		if !p.ordered[i] {
			continue
		}
		ka, kb, n := p.choices(x)
		for k := range n {
			if p.sameText(ka+k, kb+k) != No {
				f(x, ka+k, kb+k, k)
			}
		}
	}
}

// sameContinuation compares the ids of two continuations, by their number where
// they are not known.
func (p *pair) sameContinuation(ka, kb int) Answer {
	a, b := p.a.Choice.TokenID[ka], p.b.Choice.TokenID[kb]
	switch {
	case a != nil && b != nil && slices.Equal(a, b):
		return Yes
	case a != nil && b != nil, p.a.Choice.Tokens[ka] != p.b.Choice.Tokens[kb]:
		return No
	}
	return Unknown
}

// moved reports whether a continuation begins at another of the same ids.
func (p *pair) moved(ka, kb int) bool {
	a, b := p.a.Choice, p.b.Choice
	return a.Context[ka] > 0 && b.Context[kb] > 0 && a.Context[ka] != b.Context[kb]
}

// bosShift is 1 where B begins every request with one token more than A, −1 where
// A does, 0 else.
func (c *comparison) bosShift(shift map[int]int) int {
	total := 0
	for _, n := range shift {
		total += n
	}
	added := map[bool]int{true: 1}
	said := added[c.b.Record.Identity.BOS.Added] - added[c.a.Record.Identity.BOS.Added]
	for _, d := range []int{1, -1} {
		n := shift[d]
		if n > 0 && float64(n) >= bosMost*float64(total) {
			return d
		}
		// Tokenization may differ besides: what the records say then counts.
		if n > 0 && 2*n >= total && said == d {
			return d
		}
	}
	return 0
}

// idCauses names why requests of a pair were fed as other ids.
func (c *comparison) idCauses(causes []Cause, p *pair, bos int) []Cause {
	at := map[Code][]At{}
	p.eachText(func(x outcome.Pair, ka, kb, k int) {
		same := p.sameIDs(ka, kb)
		var code Code
		a, b := &p.a.Choice, &p.b.Choice
		// Tokens before the continuation if nothing had been cut.
		full := int(b.Context[kb]+b.Dropped[kb]) - int(a.Context[ka]+a.Dropped[ka])
		cut := a.Dropped[ka] > 0 || b.Dropped[kb] > 0
		switch {
		case same == Yes && p.moved(ka, kb):
			code = Boundary
		case same != No:
			return
		case p.sameContinuation(ka, kb) == No:
			code = Tokenization
		case bos != 0 && full == bos:
			code = BOS
		case cut && full == 0:
			code = Truncation
		default:
			code = Tokenization
		}
		if list := at[code]; len(list) > 0 && list[len(list)-1].DocID == int(p.a.DocID[x.A]) {
			return // one choice shows it
		}
		choice := k
		at[code] = append(at[code], p.at(x.A, &choice, "%s", p.lengths(ka, kb)))
	})
	for _, code := range []Code{BOS, Tokenization, Boundary, Truncation} {
		if len(at[code]) > 0 {
			causes = found(causes, c.idCause(code, bos), p, at[code]...)
		}
	}
	return causes
}

func (p *pair) lengths(ka, kb int) string {
	a, b := &p.a.Choice, &p.b.Choice
	text := fmt.Sprintf("%d + %d ids in A, %d + %d in B", a.Context[ka], a.Tokens[ka], b.Context[kb], b.Tokens[kb])
	if a.Dropped[ka] > 0 || b.Dropped[kb] > 0 {
		text += fmt.Sprintf("; %d cut in A, %d in B", a.Dropped[ka], b.Dropped[kb])
	}
	return text
}

// idCause says what a kind of difference between ids is, and what the records say
// of it.
func (c *comparison) idCause(code Code, bos int) Cause {
	a, b := c.a.Record.Identity, c.b.Record.Identity
	cause := Cause{Stage: IDs, Code: code}
	switch code {
	case BOS:
		with, without, more := b, a, "b"
		if bos < 0 {
			with, without, more = a, b, "a"
		}
		says := fmt.Sprintf("A adds %s, B %s", bosText(a), bosText(b))
		switch cause.Certain = with.BOS.Added && !without.BOS.Added && without.BOS.Policy != ""; {
		case !cause.Certain:
			cause.Text = fmt.Sprintf("%s has one token more before every continuation, as a BOS is; by the records %s", upper(more), says)
		case with.Model.Architecture != "" && with.BOS.Standard:
			cause.Run = map[string]string{"a": "b", "b": "a"}[more]
			cause.Text = fmt.Sprintf("%s lacks the BOS token that the standard adds for this model: %s", upper(cause.Run), says)
		default:
			cause.Run = more
			cause.Text = fmt.Sprintf("%s begins every request with a BOS token: %s", upper(more), says)
			if with.Model.Architecture != "" {
				cause.Text += "; the standard adds none for this model"
			}
		}
	case Tokenization:
		cause.Text = "the same texts became other ids"
		switch {
		case a.Model.TokenizerSHA256 != "" && b.Model.TokenizerSHA256 != "" && a.Model.TokenizerSHA256 != b.Model.TokenizerSHA256:
			cause.Certain = true
			cause.Text += ": the models' tokenizers are not the same"
		case a.Tokenization != b.Tokenization && a.Tokenization != "" && b.Tokenization != "":
			cause.Certain = true
			cause.Text += fmt.Sprintf(": A tokenizes by the rule %q, B by %q", a.Tokenization, b.Tokenization)
		case a.Model.TokenizerSHA256 != "" && a.Model.TokenizerSHA256 == b.Model.TokenizerSHA256:
			cause.Text += ", though the tokenizers are the same: special tokens, normalization or white space are treated otherwise"
		default:
			cause.Text += "; whether the tokenizers are the same is not known"
		}
	case Boundary:
		cause.Text = "the ids are the same, and the continuation begins at another of them: context and continuation are divided by another rule"
	case Truncation:
		cause.Text = "what exceeds the window is cut otherwise"
		switch {
		case a.Window != b.Window && a.Window > 0 && b.Window > 0:
			cause.Certain = true
			cause.Text += fmt.Sprintf(": A's window is %d tokens, B's %d", a.Window, b.Window)
			cause.Run = off(a.Window == record.StandardWindow, b.Window == record.StandardWindow)
		case a.Truncation != b.Truncation && a.Truncation != "" && b.Truncation != "":
			cause.Certain = true
			cause.Text += fmt.Sprintf(": A cuts %s; B %s", a.Truncation, b.Truncation)
			cause.Run = off(a.Truncation == record.StandardTruncation, b.Truncation == record.StandardTruncation)
		default:
			cause.Text += "; by which rule and window the records do not tell apart"
		}
	}
	return cause
}

// off is the run that departs from the standard, where one alone does.
func off(a, b bool) string {
	switch {
	case a && !b:
		return "b"
	case b && !a:
		return "a"
	}
	return ""
}
