package reproduce

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"olmes"
	"olmes/outcome"
)

// readingsMost is how many ways of rendering one task's requests are looked for.
const readingsMost = 4

// requests asks whether both runs sent the same texts.
func (c *comparison) requests() Stage {
	s := Stage{Name: Requests, Unit: "requests"}
	lacking := map[string]int{}
	for _, p := range c.pairs {
		if !p.comparable {
			continue
		}
		t := p.texts(c)
		s.Compared += t.compared
		s.Different += t.different
		s.Unknown += t.unknown
		if t.unknown > 0 {
			lacking[c.without(func(k int, f *outcome.Form) bool { return known(f.Choice.Request[k]) }, p)] += t.unknown
		}
		if len(t.instances) > 0 {
			s.Causes = c.explain(s.Causes, p, t)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(lacking)) {
		c.doubt("whether the texts are the same is not known for %d requests: %s no digests of them", lacking[who], who)
	}
	s.Same = outcomeOf(s.Different, s.Unknown, s.Compared)
	switch {
	case s.Same == Yes:
		s.Text = fmt.Sprintf("the same texts, all %s", plural(s.Compared, "request", "requests"))
	case s.Same == No:
		s.Text = fmt.Sprintf("%d of %s have another text", s.Different, plural(s.Compared, "request", "requests"))
	case s.Compared > 0:
		s.Text = fmt.Sprintf("%s have the same text, of %d it is not known", plural(s.Compared, "request", "requests"), s.Unknown)
	case s.Unknown > 0:
		s.Text = "not known: no digests of the requests to compare"
	case c.apart():
		s.Text = "no requests to compare: " + noneShared
	default:
		s.Text = "no requests of the same choices to compare"
	}
	return s
}

func (p *pair) name() string { return name(p.ta, p.formulation) }

// without says which runs have something not of all choices of a pair.
func (c *comparison) without(has func(k int, f *outcome.Form) bool, p *pair) string {
	lacks := func(f *outcome.Form) bool {
		for k := range f.Choice.LogProb {
			if !has(k, f) {
				return true
			}
		}
		return false
	}
	a, b := lacks(p.a), lacks(p.b)
	switch {
	case a && b:
		return "both runs hold"
	case a:
		return c.a.Label + " holds"
	}
	return c.b.Label + " holds"
}

// texts is how the requests of a pair differ.
type texts struct {
	compared, different, unknown int // requests
	comparable                   int // instances all of whose requests are known
	instances                    []otherText
}

// otherText is an instance with other texts.
type otherText struct {
	outcome.Pair
	doc     int   // in the dataset
	choices []int // positions that differ
	of      int   // choices
}

func (t *otherText) whole() bool { return len(t.choices) == t.of }

func (p *pair) texts(c *comparison) texts {
	var t texts
	// Of runs that number instances otherwise, the one that does not count from 0
	// on has the dataset's positions.
	bs := p.renumbered && p.a.Len() > 0 && int(p.a.DocID[p.a.Len()-1]) == p.a.Len()-1
	for i, x := range p.both {
		ka, kb, n := p.choices(x)
		if !p.ordered[i] {
			continue
		}
		o := otherText{Pair: x, doc: int(p.a.DocID[x.A]), of: n}
		if bs {
			o.doc = int(p.b.DocID[x.B])
		}
		all := true
		for k := range n {
			switch p.sameText(ka+k, kb+k) {
			case Unknown:
				t.unknown++
				all = false
				continue
			case No:
				t.different++
				o.choices = append(o.choices, k)
			}
			t.compared++
		}
		if all && n > 0 {
			t.comparable++
		}
		if len(o.choices) > 0 {
			t.instances = append(t.instances, o)
		}
	}
	return t
}

// digests returns the digests of an instance's requests in a run.
func digests(f *outcome.Form, i int) [][32]byte { return f.Choice.Request[f.Start[i]:f.Start[i+1]] }

// explain names why requests of a pair have other texts.
func (c *comparison) explain(causes []Cause, p *pair, t texts) []Cause {
	ref := c.reference(p.ta)
	left := t.instances
	var a, b reading // how the runs' requests are rendered, as far as it is known
	if ref != nil {
		a = reading{tpl: ref.Template, shots: ref.Shots}
		b = a
		for range readingsMost {
			i := slices.IndexFunc(left, func(o otherText) bool { return o.whole() })
			if i < 0 {
				break
			}
			x := left[i]
			ra, okA := ref.explain(x.doc, p.formulation, digests(p.a, x.A))
			rb, okB := ref.explain(x.doc, p.formulation, digests(p.b, x.B))
			if okA {
				a = ra
			}
			if okB {
				b = rb
			}
			if !okA || !okB {
				break
			}
			var fit, rest []otherText
			for _, o := range left {
				in := ref.instance(o.doc)
				if a.gives(in, p.formulation, digests(p.a, o.A)) && b.gives(in, p.formulation, digests(p.b, o.B)) {
					fit = append(fit, o)
				} else {
					rest = append(rest, o)
				}
			}
			causes = c.rendered(causes, p, a, b, fit)
			left = rest
		}
	}
	if len(left) == 0 {
		return causes
	}
	if len(left) == t.comparable && !slices.ContainsFunc(left, func(o otherText) bool { return !o.whole() }) {
		return found(causes, c.prompt(p, ref, a, b, left), p, atAll(p, left)...)
	}
	return c.single(causes, p, ref, a, b, left)
}

func atAll(p *pair, left []otherText) []At {
	out := make([]At, len(left))
	for i, o := range left {
		out[i] = p.at(o.A, nil, "")
	}
	return out
}

// rendered names the readings of two runs, where they are known.
func (c *comparison) rendered(causes []Cause, p *pair, a, b reading, at []otherText) []Cause {
	for _, side := range []struct {
		run            string
		reading, other reading
	}{{"a", a, b}, {"b", b, a}} {
		if side.reading.standard() {
			continue
		}
		text := fmt.Sprintf("%s's prompts have %s", upper(side.run), side.reading.run)
		if side.other.standard() {
			text += fmt.Sprintf("; %s's are the standard's", otherRun(side.run))
		}
		causes = found(causes, Cause{Stage: Requests, Code: side.reading.code, Run: side.run, Certain: true, Text: text}, p, atAll(p, at)...)
	}
	return causes
}

func otherRun(run string) string {
	if run == "a" {
		return "B"
	}
	return "A"
}

// prompt says what the records tell of prompts that all differ, where no digest
// shows how they were rendered.
func (c *comparison) prompt(p *pair, ref *Reference, a, b reading, left []otherText) Cause {
	cause := Cause{Stage: Requests, Code: Prompt}
	// Which run's prompts are the standard's, at least.
	whose := ""
	if ref != nil {
		in := ref.instance(left[0].doc)
		sa, sb := a.gives(in, p.formulation, digests(p.a, left[0].A)), b.gives(in, p.formulation, digests(p.b, left[0].B))
		switch {
		case sa && !sb:
			cause.Run, whose = "b", "; A's are "+ofReading(a)+", B's are none that is known here"
		case sb && !sa:
			cause.Run, whose = "a", "; B's are "+ofReading(b)+", A's are none that is known here"
		default:
			whose = "; neither run's are known here"
		}
	}
	fa, fb := p.ta.FewShot, p.tb.FewShot
	ra, rb := p.ta.Formulations[p.formulation], p.tb.Formulations[p.formulation]
	switch {
	case p.ta.Variant != p.tb.Variant:
		cause.Code, cause.Certain = Variant, true
		cause.Text = fmt.Sprintf("the prompts are of other variants: A's of %s, B's of %s", variantName(p.ta.Variant), variantName(p.tb.Variant))
	case ra.PrefixSHA256 != "" && ra.PrefixSHA256 == rb.PrefixSHA256:
		cause.Code = Template
		cause.Text = "what stands before the questions is the same, the form of the questions or answers is not"
	case len(fa) > 0 && len(fb) > 0 && !slices.Equal(fa, fb):
		cause.Certain = true
		switch {
		case sameElements(fa, fb):
			cause.Code, cause.Text = FewShotOrder, fmt.Sprintf("the records name the same few-shot examples in another order: B has A's %s", positions(fa, fb))
		case isPrefix(fa, fb) || isPrefix(fb, fa):
			cause.Code, cause.Text = FewShotCount, fmt.Sprintf("A has %d few-shot examples, B %d", len(fa), len(fb))
		default:
			cause.Code, cause.Text = FewShotExamples, fmt.Sprintf("the records name other few-shot examples: %d of A's %d are not B's", lacking(fa, fb), len(fa))
		}
	case p.ta.ShotsSHA256 != "" && p.tb.ShotsSHA256 != "" && p.ta.ShotsSHA256 != p.tb.ShotsSHA256:
		cause.Code, cause.Certain = FewShotExamples, true
		cause.Text = "the few-shot examples have another text or order"
	case ra.PrefixSHA256 != "" && rb.PrefixSHA256 != "":
		cause.Text = "what stands before the questions differs: examples, description or their form"
	default:
		cause.Text = "all prompts differ; whether in examples, description or form the records do not say"
	}
	if d, ok := p.chars(left); ok && d != 0 {
		cause.Text += fmt.Sprintf("; every continuation is %s in B", longer(d))
	}
	if ref == nil && !cause.Certain {
		c.doubt("%s: what differs in the prompts could be told with the dataset at hand (olmes prepare)", p.name())
	}
	cause.Text += whose
	return cause
}

func ofReading(r reading) string {
	if r.standard() {
		return "the standard's"
	}
	return "those with " + r.run
}

func variantName(v string) string {
	if v == "" {
		return "the standard"
	}
	return v
}

func longer(d int) string {
	if d < 0 {
		return plural(-d, "character", "characters") + " shorter"
	}
	return plural(d, "character", "characters") + " longer"
}

// chars returns by how many characters all continuations differ, where it is one
// number.
func (p *pair) chars(left []otherText) (d int, ok bool) {
	for i, o := range left {
		ka, kb, n := p.choices(o.Pair)
		for k := range n {
			e := int(p.b.Choice.Chars[kb+k] - p.a.Choice.Chars[ka+k])
			if i+k > 0 && e != d {
				return 0, false
			}
			d = e
		}
	}
	return d, len(left) > 0
}

func sameElements(a, b []string) bool {
	x, y := slices.Clone(a), slices.Clone(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func isPrefix(a, b []string) bool { return len(a) <= len(b) && slices.Equal(a, b[:len(a)]) }

func lacking(a, b []string) (n int) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			n++
		}
	}
	return n
}

// positions lists where the elements of b stand in a, from 1.
func positions(a, b []string) string {
	out := ""
	for _, x := range b {
		out += fmt.Sprintf(" %d", slices.Index(a, x)+1)
	}
	return out[1:]
}

// single names instances whose own texts differ.
func (c *comparison) single(causes []Cause, p *pair, ref *Reference, a, b reading, left []otherText) []Cause {
	type part struct {
		code Code
		run  string
		list bool // MCF's list of choices alone shows it
	}
	at := map[part][]At{}
	for _, o := range left {
		key := docOf{p.ta.Name, p.ta.Variant, p.a.DocID[o.A]}
		k := part{code: QuestionText, list: p.formulation == olmes.MCF}
		if p.formulation != olmes.MCF && !o.whole() {
			k.code, c.reworded[key] = ChoiceText, true
		} else if c.reworded[key] {
			k.code, k.list = ChoiceText, false
		}
		detail := ""
		if ref != nil {
			in := ref.instance(o.doc)
			sa := a.gives(in, p.formulation, digests(p.a, o.A))
			sb := b.gives(in, p.formulation, digests(p.b, o.B))
			h, other := b, digests(p.b, o.B)
			if sb && !sa {
				h, other = a, digests(p.a, o.A)
			}
			switch {
			case sa && !sb:
				k.run = "b"
			case sb && !sa:
				k.run = "a"
			}
			if k.run != "" {
				choice := ""
				if choice, detail = c.how(ref, h, o, p.formulation, other); choice == "choice" {
					k.code, k.list = ChoiceText, false
				}
			}
		}
		if k.code == ChoiceText && !k.list && !o.whole() {
			for i := range o.choices {
				at[k] = append(at[k], p.at(o.A, &o.choices[i], "%s", detail))
			}
			continue
		}
		at[k] = append(at[k], p.at(o.A, nil, "%s", detail))
	}
	keys := make([]part, 0, len(at))
	for k := range at {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y part) int { return cmp.Or(cmp.Compare(x.code, y.code), cmp.Compare(x.run, y.run)) })
	for _, k := range keys {
		text := "the text of single questions differs"
		switch {
		case k.code == ChoiceText:
			text = "the text of single choices differs"
		case k.list:
			text = "the text of single questions, or of a choice in their lists, differs"
		}
		if k.run != "" {
			text += fmt.Sprintf(": %s's is not the dataset's, %s's is", upper(k.run), otherRun(k.run))
		}
		causes = found(causes, Cause{Stage: Requests, Code: k.code, Run: k.run, Certain: true, Text: text}, p, at[k]...)
	}
	return causes
}

// how finds the usual change that gives an instance's digests, of a choice or of
// the question.
func (c *comparison) how(ref *Reference, h reading, o otherText, f olmes.Formulation, digests [][32]byte) (what, detail string) {
	if f == olmes.MCF || o.whole() {
		if name := ref.reworded(h, o.doc, -1, f, digests); name != "" {
			return "question", "question with " + name
		}
	}
	for k := range o.of {
		if f != olmes.MCF && !slices.Contains(o.choices, k) {
			continue
		}
		if name := ref.reworded(h, o.doc, k, f, digests); name != "" {
			return "choice", fmt.Sprintf("choice %d with %s", k, name)
		}
	}
	return "", ""
}
