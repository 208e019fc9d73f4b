package reproduce

import (
	"fmt"
	"math"
	"strings"

	"olmes/record"
)

// How far counts may differ between files of one model.
const (
	paddedMost = 1024  // tokens that one format pads a vocabulary by and another does not
	countsMost = 0.001 // of the parameters: tables of rotary frequencies and the like
	storedMost = 0.25  // of the parameters, between formats: masks and buffers that only some store
)

// differentModels says what proves that two runs are of different models. One
// model in another file, format or precision is not another model.
func differentModels(a, b record.Identity) (Cause, bool) {
	m, n := a.Model, b.Model
	if m.SHA256 != "" && m.SHA256 == n.SHA256 {
		return Cause{}, false
	}
	architecture, vocab, parameters := otherArchitecture(m, n), otherVocab(m, n), otherParameters(m, n)
	if !architecture && !vocab && !parameters {
		return Cause{}, false
	}
	var parts []string
	if canonical(m.Architecture) != canonical(n.Architecture) && m.Architecture != "" && n.Architecture != "" {
		parts = append(parts, fmt.Sprintf("architecture %s in A, %s in B", m.Architecture, n.Architecture))
	}
	if m.Parameters != n.Parameters && m.Parameters > 0 && n.Parameters > 0 {
		parts = append(parts, fmt.Sprintf("%d parameters in A, %d in B", m.Parameters, n.Parameters))
	}
	if m.Vocab != n.Vocab && m.Vocab > 0 && n.Vocab > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens in A's vocabulary, %d in B's", m.Vocab, n.Vocab))
	}
	names := ""
	if m.Name != n.Name {
		names = fmt.Sprintf(" (%s and %s)", named(m), named(n))
	}
	return Cause{Stage: Models, Code: OtherModel, Certain: true, Text: fmt.Sprintf("these are different models%s: %s", names, strings.Join(parts, "; "))}, true
}

func named(m record.Model) string {
	if m.Name == "" {
		return "one without a name"
	}
	return m.Name
}

// doubtful notes facts of the models that differ and prove nothing, as between
// two formats.
func (c *comparison) doubtful() {
	m, n := c.a.Record.Identity.Model, c.b.Record.Identity.Model
	if m.SHA256 != "" && m.SHA256 == n.SHA256 {
		return
	}
	var parts []string
	part := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if x, y := canonical(m.Architecture), canonical(n.Architecture); x != y && x != "" && y != "" {
		part("their files name the architectures %s and %s", m.Architecture, n.Architecture)
	}
	if more(m.Parameters, n.Parameters) > countsMost {
		part("their files count %d and %d parameters", m.Parameters, n.Parameters)
	}
	if m.Vocab > 0 && n.Vocab > 0 && m.Vocab != n.Vocab {
		part("their files count %d and %d tokens", m.Vocab, n.Vocab)
	}
	if len(parts) > 0 {
		c.doubt("whether A's and B's models are the same: %s, which can also be one model in two formats", strings.Join(parts, "; "))
	}
}

// otherFiles notes weights of other digests where no log-probabilities show what
// that comes to.
func (c *comparison) otherFiles(values Stage) {
	m, n := c.a.Record.Identity.Model, c.b.Record.Identity.Model
	if c.different || values.Compared > 0 || m.SHA256 == "" || n.SHA256 == "" || m.SHA256 == n.SHA256 {
		return
	}
	c.doubt("whether A's and B's models are the same: the weights are other files (%s, %.12s and %s, %.12s), and no log-probabilities of the same ids can be compared", named(m), m.SHA256, named(n), n.SHA256)
}

// format is that of a model's files, "" where they were not seen.
func format(m record.Model) string {
	switch {
	case m.SHA256 == "":
		return ""
	case m.Format == "":
		return "gguf"
	}
	return m.Format
}

// sameFormat reports whether two models' files count alike.
func sameFormat(m, n record.Model) bool { return format(m) != "" && format(m) == format(n) }

// canonical is an architecture by one name, whoever names it.
func canonical(architecture string) string {
	name := strings.ToLower(architecture)
	name = strings.TrimSuffix(strings.TrimSuffix(name, "_text"), "forcausallm")
	return strings.NewReplacer("_", "", "-", "").Replace(name)
}

// otherArchitecture reports architectures that are not two names of one: files of
// one format use one name, while GGUF has llama for mistral and others.
func otherArchitecture(m, n record.Model) bool {
	x, y := canonical(m.Architecture), canonical(n.Architecture)
	if x == "" || y == "" || x == y {
		return false
	}
	// The same counts under another name are one model that was renamed.
	counts := m.Parameters > 0 && m.Parameters == n.Parameters && m.Vocab == n.Vocab
	return sameFormat(m, n) && !counts
}

// otherVocab reports vocabularies that no padding makes equal.
func otherVocab(m, n record.Model) bool {
	if m.Vocab <= 0 || n.Vocab <= 0 {
		return false
	}
	most := paddedMost
	if sameFormat(m, n) {
		most = 0
	}
	return max(m.Vocab, n.Vocab)-min(m.Vocab, n.Vocab) > most
}

// otherParameters reports counts of parameters that no way of storing one model
// explains.
func otherParameters(m, n record.Model) bool {
	share := more(m.Parameters, n.Parameters)
	most := storedMost
	if format(m) == "gguf" && format(n) == "gguf" {
		most = countsMost
	}
	fewer := m
	if n.Parameters < m.Parameters {
		fewer = n
	}
	if share <= most || packed(fewer) {
		return false
	}
	// An output matrix that equals the embeddings is stored, and counted, once or
	// twice.
	if share <= 1 {
		vocab := int64(max(m.Vocab, n.Vocab))
		if difference := m.Parameters - n.Parameters; vocab == 0 || difference%vocab == 0 {
			return false
		}
	}
	return true
}

// more is by which share the larger count exceeds the other, 0 where one is not
// known.
func more(m, n int64) float64 {
	if m <= 0 || n <= 0 {
		return 0
	}
	return float64(max(m, n))/math.Max(1, float64(min(m, n))) - 1
}

// packed reports whether a count may be of numbers that hold several parameters
// each, as quantized checkpoints have them.
func packed(m record.Model) bool {
	return format(m) != "gguf" && (m.Quantized || m.Quantization != "" || m.SHA256 == "")
}
