package study

import (
	"fmt"
	"slices"
	"strings"

	"olmes/record"
)

// Note is what must be known beside the numbers of a study.
type Note struct {
	Code string `json:"code"` // stable name of the kind, as "few-models"
	Text string `json:"text"` // one line for people
}

// NoteOtherPrompts is the code of the note that models stand side by side that
// were asked different things, NoteOffStandard of what is not as the standard has
// it.
const (
	NoteOtherPrompts = "other-prompts"
	NoteOffStandard  = "off-standard"
)

// NoteOtherModels is the code of the note that what stands as checkpoints of one
// training are models of different kinds.
const NoteOtherModels = "other-models"

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// notes gathers notes, each once.
type notes struct{ list []Note }

func (n *notes) add(code, format string, args ...any) {
	note := Note{code, fmt.Sprintf(format, args...)}
	if !slices.Contains(n.list, note) {
		n.list = append(n.list, note)
	}
}

// all returns the notes, never nil.
func (n *notes) all() []Note { return append([]Note{}, n.list...) }

// deviations notes how the models' runs differ from the standard, each way once,
// and what must stand beside their numbers. Variants are left out: a study says
// itself which it is of.
func (n *notes) deviations(models []Model) {
	type way struct {
		record.Deviation
		of []string
	}
	var ways []*way
	for _, m := range models {
		for _, r := range m.Runs {
			for _, d := range record.Deviations(r.Record.Identity, &r.Metrics) {
				if d.Code == "variant" {
					continue
				}
				if name := r.Record.Identity.Model.Name; name != "" { // one way, whatever the model is called
					d.Text = strings.ReplaceAll(d.Text, "the weights of "+name+" ", "the weights ")
				}
				at := slices.IndexFunc(ways, func(w *way) bool { return w.Deviation == d })
				if at < 0 {
					at, ways = len(ways), append(ways, &way{Deviation: d})
				}
				if !slices.Contains(ways[at].of, m.Label) {
					ways[at].of = append(ways[at].of, m.Label)
				}
			}
		}
	}
	for _, w := range ways {
		who := strings.Join(w.of, ", ")
		if len(w.of) > 3 {
			who = fmt.Sprintf("%s and %d more", strings.Join(w.of[:2], ", "), len(w.of)-2)
		}
		if w.OffStandard {
			n.add(NoteOffStandard, "%s: off-standard: %s", who, w.Text)
		} else {
			n.add("footnote", "%s: %s", who, w.Text)
		}
	}
}
