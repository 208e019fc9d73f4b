package record

import (
	"fmt"
	"slices"
	"strings"

	"olmes"
	"olmes/score"
)

// Deviation is one way in which a run differs from the standard.
type Deviation struct {
	Code string `json:"code"` // stable name of the kind, as "quantized"
	Text string `json:"text"` // one line for people
	// OffStandard says that the results are not what the standard gives. The
	// other kinds are footnotes, which belong beside the numbers.
	OffStandard bool `json:"off_standard"`
}

// StandardWindow is the context the standard gives every model that has as
// much, in tokens.
const StandardWindow = 2048

// Rules for what exceeds the window, as Identity.Truncation names them. Only the
// first is the standard's.
const (
	StandardTruncation = "left, per request, to window + 1 ids, BOS kept"
	SharedTruncation   = "left, all choices of an instance at the place that the longest needs, to window + 1 ids, BOS kept"
)

// Deviations lists how a run of this identity differs from the standard, and
// with metrics (nil where there are none yet) what its requests met: failures
// and truncation. The order is fixed. What is not known cannot be shown to
// comply and counts as off-standard.
func Deviations(id Identity, metrics *score.Metrics) []Deviation {
	var out []Deviation
	add := func(off bool, code, format string, args ...any) {
		out = append(out, Deviation{Code: code, Text: fmt.Sprintf(format, args...), OffStandard: off})
	}
	if names := id.variants(); len(names) == 1 {
		add(true, "variant", "requests are rendered by the variant %q, not as the standard has them", names[0])
	} else if len(names) > 1 {
		add(true, "variant", "requests are rendered by the variants %s, not as the standard has them", strings.Join(names, ", "))
	}
	modelDeviations(id, add)
	for _, u := range distinct(units(id)) {
		u.deviations(id, add)
	}
	if metrics != nil {
		outcomeDeviations(metrics, add)
	}
	return out
}

// adder takes one deviation.
type adder = func(off bool, code, format string, args ...any)

func modelDeviations(id Identity, add adder) {
	if m := id.Model; m.Quantized {
		how := "computed as they are"
		if m.Weights != "" && m.Weights != "as-is" {
			how = "expanded to " + m.Weights
		}
		if m.Quantization != "" {
			how = m.Quantization + ", " + how
		}
		add(true, "quantized", "the weights of %s are quantized (%s)", m.Name, how)
	}
	if m := id.Model; m.Adapter != "" {
		add(true, "adapter", "the adapter %s is applied to %s", m.Adapter, m.Name)
	}
	if id.Model.RemoteCode {
		add(false, "remote-code", "code out of the folder of %s computed it (--trust-remote-code)", id.Model.Name)
	}
	if m := id.Model; m.SHA256 == "" && id.Engine.Name != "" {
		add(false, "weights-unknown", "which weights %s has is the engine's word: no digest of them is known", m.Name)
	}
	p := id.Precision
	switch {
	case p.Computed == "" || p.Published == "":
		add(true, "precision-unknown", "the precision of the weights, published or as computed with, is not known")
	case !id.Model.Quantized && !holds(p.Computed, p.Published):
		add(true, "precision", "computed in %s, while the weights were published in %s", p.Computed, p.Published)
	}
	switch b := id.BOS; {
	case b.Policy == "":
		add(true, "bos-unknown", "it is not known whether a BOS token was added")
	case id.Model.Architecture == "" && id.Engine.Name != "":
		add(true, "bos-unknown", "the model's architecture is not known, and so not whether the standard adds a BOS token")
	case b.Added != b.Standard && b.Added:
		add(true, "bos", "a BOS token was added (--bos %s), which the standard does not do for this model", b.Policy)
	case b.Added != b.Standard:
		add(true, "bos", "no BOS token was added (--bos %s), which the standard does for this model", b.Policy)
	}
	switch {
	case id.Window == 0:
		add(true, "window-unknown", "the length of the context is not known")
	case id.Window < StandardWindow:
		add(true, "window", "the context is %d tokens, less than the standard's %d", id.Window, StandardWindow)
	case id.Window > StandardWindow:
		add(true, "window", "the context is %d tokens, more than the standard's %d", id.Window, StandardWindow)
	}
	if id.Truncation == SharedTruncation {
		add(true, "truncation", "what exceeds the context is cut at one place for all choices of an instance (--truncation shared), not for each request by itself")
	}
}

// holds reports whether every number of precision b is one of precision a.
func holds(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return a == b || a == "f32" && b != "f64" || a == "f64"
}

// variants names the variants that tasks are rendered by, the standard's own left
// out, in the order of the tasks.
func (id Identity) variants() []string {
	var names []string
	for _, t := range id.Tasks {
		if v := id.VariantOf(t); v != "" && !slices.Contains(names, v) {
			names = append(names, v)
		}
	}
	if len(names) == 0 && id.Variant != "" {
		names = append(names, id.Variant)
	}
	return names
}

// unit is a task, or the tasks of one group in one split, in one variant.
type unit struct {
	name, variant string
	tasks         []Task
}

func units(id Identity) []unit {
	var out []unit
	for _, t := range id.Tasks {
		name, variant := t.Name, id.VariantOf(t)
		if t.Group != "" {
			name = t.Group
		}
		i := slices.IndexFunc(out, func(u unit) bool { return u.name == name && u.variant == variant && u.tasks[0].Split == t.Split })
		if i < 0 || t.Group == "" {
			out = append(out, unit{name: name, variant: variant})
			i = len(out) - 1
		}
		out[i].tasks = append(out[i].tasks, t)
	}
	return out
}

// distinct leaves of a task's variants the one with most instances: all are made of
// the same choice of tasks, splits and limits.
func distinct(all []unit) []unit {
	var out []unit
	for _, u := range all {
		i := slices.IndexFunc(out, func(o unit) bool {
			return o.name == u.name && o.tasks[0].Split == u.tasks[0].Split && o.variant != u.variant
		})
		if i < 0 {
			out = append(out, u)
			continue
		}
		n, _, _ := u.instances()
		if most, _, _ := out[i].instances(); n > most {
			out[i] = u
		}
	}
	return out
}

func (u unit) deviations(id Identity, add adder) {
	first := u.tasks[0]
	if first.StandardSplit == "" || first.StandardSplit != first.Split {
		if first.StandardSplit == "" {
			add(true, "task", "%s is not a task of the standard", u.name)
		} else if first.Split == "" {
			add(true, "split-unknown", "%s: the split is not known", u.name)
		} else {
			part := ""
			if strings.HasPrefix(first.Selection, "limit") {
				part = ", " + first.Selection
			}
			add(true, "split", "%s: split %s%s instead of the standard's %s", u.name, first.Split, part, first.StandardSplit)
		}
	} else if n, want, ok := u.instances(); !ok && n < want {
		add(true, "subset", "%s: %d of the standard's %d instances", u.name, n, want)
	} else if !ok {
		add(true, "instances", "%s: other instances (%d) than the standard's %d", u.name, n, want)
	}
	if size := first.GroupSize; size > len(u.tasks) {
		add(false, "partial-group", "%s: %d of its %d subjects", u.name, len(u.tasks), size)
	}
	for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
		missing := 0
		for _, t := range u.tasks {
			if _, ok := t.Formulations[f]; !ok {
				missing++
			}
		}
		if missing > 0 {
			add(true, "formulation", "%s: not evaluated as %s, so there is no OLMES score", u.name, strings.ToUpper(string(f)))
		}
	}
	if n := first.Normalization; n != "" && id.Normalizations != nil && !slices.Contains(id.Normalizations, n) {
		add(true, "normalization", "%s: the standard's normalization, %s, was not scored", u.name, n)
	}
}

// instances counts the unit's instances and the standard's, and reports
// whether they are the very same ones.
func (u unit) instances() (n, want int, same bool) {
	same = true
	for _, t := range u.tasks {
		n, want = n+t.Instances, want+t.StandardInstances
		same = same && t.Complete
	}
	return n, want, same
}

// outcomeDeviations lists failures and truncation, a task a line.
func outcomeDeviations(m *score.Metrics, add adder) {
	forms := []olmes.Formulation{olmes.CF, olmes.MCF}
	for _, t := range m.Tasks {
		for _, name := range forms {
			if f := t.Formulations[name]; f.Errors > 0 || f.Missing > 0 {
				add(true, "failed", "%s %s: of %d instances %d failed and %d are missing, so there is no score",
					olmes.Label(t.Task, t.Variant), strings.ToUpper(string(name)), t.Instances, f.Errors, f.Missing)
			}
		}
	}
	for _, t := range m.Tasks {
		var parts []string
		for _, name := range forms {
			if tr := t.Formulations[name].Truncated; tr.Requests > 0 {
				parts = append(parts, fmt.Sprintf("%d requests of %d instances (%s)", tr.Requests, tr.Instances, strings.ToUpper(string(name))))
			}
		}
		if parts != nil {
			add(false, "truncated", "%s: %s cut from the left to fit the context, so not 5-shot", olmes.Label(t.Task, t.Variant), strings.Join(parts, " and "))
		}
	}
}
