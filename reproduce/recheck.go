package reproduce

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"olmes"
	"olmes/outcome"
	"olmes/record"
	"olmes/score"
	"olmes/stat"
)

// Stratum is the predictions of one task or group in one formulation and variant.
type Stratum struct {
	Name        string            `json:"name"`
	Variant     string            `json:"variant"`
	Formulation olmes.Formulation `json:"formulation"`
	Size        int               `json:"size"`  // predictions in the record
	Drawn       int               `json:"drawn"` // of them scored anew

	keys []olmes.Key
}

// Draw draws n of a run's predictions, read at depth outcome.Answers or deeper: of
// each task and formulation about its share, at least one as far as n goes, and
// within it each set of predictions as likely as any other. The same run and seed
// give the same draw.
func Draw(r *outcome.Run, n int, seed string) ([]olmes.Key, []Stratum) {
	var strata []*Stratum
	total := 0
	for _, t := range r.Tasks {
		name := t.Group
		if name == "" {
			name = t.Name
		}
		for _, f := range formulations(t) {
			i := slices.IndexFunc(strata, func(s *Stratum) bool { return s.Name == name && s.Variant == t.Variant && s.Formulation == f })
			if i < 0 {
				strata = append(strata, &Stratum{Name: name, Variant: t.Variant, Formulation: f})
				i = len(strata) - 1
			}
			for _, doc := range t.Forms[f].DocID {
				strata[i].keys = append(strata[i].keys, olmes.Key{Task: t.Name, Split: t.Split, DocID: int(doc), Formulation: f, Variant: t.Variant})
				strata[i].Size++
				total++
			}
		}
	}
	strata = slices.DeleteFunc(strata, func(s *Stratum) bool { return s.Size == 0 })
	share(strata, min(n, total), total)
	sum := sha256.Sum256([]byte("rescore " + seed))
	random := rand.New(rand.NewChaCha8(sum))
	var out []olmes.Key
	made := []Stratum{}
	for _, s := range strata {
		for _, i := range random.Perm(s.Size)[:s.Drawn] {
			out = append(out, s.keys[i])
		}
		made = append(made, *s)
	}
	return out, made
}

// share gives each stratum its part of n: one each as far as n goes, the rest by
// size, and what rounding leaves to the largest remainders.
func share(strata []*Stratum, n, total int) {
	bySize := slices.Clone(strata)
	slices.SortStableFunc(bySize, func(a, b *Stratum) int { return cmp.Compare(b.Size, a.Size) })
	left := n
	for _, s := range bySize {
		if left == 0 {
			return
		}
		s.Drawn = 1
		left--
	}
	exact := func(s *Stratum) float64 { return float64(n) * float64(s.Size) / float64(total) }
	for left > 0 {
		// The stratum that is furthest below its share is next.
		var next *Stratum
		for _, s := range bySize {
			if s.Drawn < s.Size && (next == nil || exact(s)-float64(s.Drawn) > exact(next)-float64(next.Drawn)) {
				next = s
			}
		}
		if next == nil {
			return
		}
		next.Drawn++
		left--
	}
}

// Recheck is one prediction scored anew.
type Recheck struct {
	Task        string            `json:"task"`
	Variant     string            `json:"variant"`
	Formulation olmes.Formulation `json:"formulation"`
	DocID       int               `json:"doc_id"`
	Holds       bool              `json:"holds"`
	// Reason says why it does not hold, or that the decision is another and a
	// near-tie; "" else.
	Reason   string  `json:"reason"`
	Token    float64 `json:"largest_token"`   // difference of a token's log-probability, nats
	Request  float64 `json:"largest_request"` // of a request's, nats
	Decision Answer  `json:"same_decision"`
}

// Tolerance is what rounding may do between a record and its predictions scored
// anew.
type Tolerance struct {
	// Token is how far a token's log-probability may move, in nats: what the
	// arithmetic explains (noise.Arithmetic.Bound), of record and new run the larger.
	Token float64
	// Margin is how far the margin between two choices may move, in the unit of the
	// normalization; false where it was not measured.
	Margin func(f olmes.Formulation, n olmes.Normalization) (float64, bool)
}

// Again compares a recorded prediction with the same one scored anew. n is the
// normalization in force.
func Again(was, is *olmes.Prediction, n olmes.Normalization, tol Tolerance) Recheck {
	r := Recheck{Task: was.Task, Variant: was.Variant, Formulation: was.Formulation, DocID: was.DocID, Decision: Unknown}
	fail := func(format string, args ...any) Recheck {
		r.Reason = fmt.Sprintf(format, args...)
		return r
	}
	if is == nil {
		return fail("it was not scored anew")
	}
	if len(was.Choices) != len(is.Choices) {
		return fail("it has %d choices, the dataset has %d", len(was.Choices), len(is.Choices))
	}
	if was.Gold != is.Gold {
		return fail("its right answer is choice %d, the dataset's is choice %d", was.Gold, is.Gold)
	}
	for i := range was.Choices {
		a, b := &was.Choices[i], &is.Choices[i]
		switch {
		case a.RequestSHA256 != "" && a.RequestSHA256 != b.RequestSHA256:
			return fail("choice %d was asked with another text", i)
		case a.IDsSHA256 != "" && a.IDsSHA256 != b.IDsSHA256:
			return fail("choice %d was asked with other ids (%d + %d, now %d + %d)", i, a.ContextTokens, a.Tokens, b.ContextTokens, b.Tokens)
		case (a.LogProb == nil) != (b.LogProb == nil):
			return fail("choice %d has a log-probability in one of both only", i)
		}
		for _, v := range []struct {
			name         string
			sumA, sumB   *float64
			listA, listB []float64
		}{{"", a.LogProb, b.LogProb, a.TokenLogProbs, b.TokenLogProbs}, {"unconditional ", a.Unconditional, b.Unconditional, a.UnconditionalLogProbs, b.UnconditionalLogProbs}} {
			if v.sumA == nil || v.sumB == nil {
				continue // unconditional requests that only one of both has
			}
			d := math.Abs(*v.sumA - *v.sumB)
			r.Request = max(r.Request, d)
			tokens := max(1, b.Tokens)
			if len(v.listA) == len(v.listB) && len(v.listA) > 0 {
				for k := range v.listA {
					t := math.Abs(v.listA[k] - v.listB[k])
					r.Token = max(r.Token, t)
					if !(t <= tol.Token) {
						return fail("token %d of choice %d has the %slog-probability %.4f, scored anew %.4f", k, i, v.name, v.listA[k], v.listB[k])
					}
				}
			} else {
				r.Token = max(r.Token, d/float64(tokens))
			}
			if !(d <= tol.Token*float64(tokens)) {
				return fail("choice %d has the %slog-probability %.4f, scored anew %.4f", i, v.name, *v.sumA, *v.sumB)
			}
		}
	}
	best, okA := score.Best(was.Choices, n)
	now, okB := score.Best(is.Choices, n)
	if okA != okB {
		return fail("it has a decision under %s in one of both only", n)
	}
	if recorded, ok := was.Predictions[n]; ok && recorded != best {
		return fail("its decision is choice %d, its own log-probabilities say %d", recorded, best)
	}
	r.Holds = true
	if !okA {
		return r
	}
	r.Decision = Yes
	if best == now {
		return r
	}
	r.Decision = No
	value := func(p *olmes.Prediction, i int) float64 { v, _ := score.Value(&p.Choices[i], n); return v }
	margin := min(value(was, best)-value(was, now), value(is, now)-value(is, best))
	noise, measured := tol.Margin(was.Formulation, n)
	if measured && margin <= noise {
		r.Reason = fmt.Sprintf("choice %d, scored anew %d: a near-tie, %.2g apart with noise of %.2g", best, now, margin, noise)
		return r
	}
	r.Holds = false
	if !measured {
		return fail("it decides for choice %d, scored anew for %d, %.2g apart; no noise was measured", best, now, margin)
	}
	return fail("it decides for choice %d, scored anew for %d, %.2g apart with noise of %.2g", best, now, margin, noise)
}

// Audit is the outcome of scoring a draw of a record's predictions anew.
type Audit struct {
	ID        string    `json:"id"`
	Seed      string    `json:"seed"`
	Predicted int       `json:"predictions"` // in the record
	Strata    []Stratum `json:"strata"`
	Checked   []Recheck `json:"checked"`
	Wrong     int       `json:"wrong"`
	NearTies  int       `json:"near_ties"` // decisions that fell the other way, within the noise
	// Most is how many of the record's predictions can be wrong, at 95%
	// confidence, and Share the same as a fraction.
	Most      int     `json:"most_wrong"`
	Share     float64 `json:"most_wrong_share"`
	Bound     string  `json:"bound"` // which bound that is
	Holds     bool    `json:"holds"`
	Tolerance float64 `json:"tolerance"` // of a token's log-probability, nats
	Token     float64 `json:"largest_token"`
	Verdict   string  `json:"verdict"`
	// Notes say what differs between the record's model and engine and those that
	// scored anew.
	Notes []string `json:"notes"`
}

// auditLevel is the confidence of an audit's bound.
const auditLevel = 0.95

// Bounds that an Audit may have.
const (
	boundHypergeometric = "hypergeometric, stratified, at the least favourable spread over the strata"
	boundBinomial       = "Clopper and Pearson's, at the least favourable spread over the strata"
)

// NewAudit sums up what a draw scored anew shows.
func NewAudit(runID, seed string, strata []Stratum, checked []Recheck, tol Tolerance) Audit {
	a := Audit{ID: runID, Seed: seed, Strata: strata, Checked: checked, Tolerance: tol.Token, Notes: []string{}}
	if a.Checked == nil {
		a.Checked = []Recheck{}
	}
	sizes, drawn := make([]int, len(strata)), make([]int, len(strata))
	for i, s := range strata {
		sizes[i], drawn[i] = s.Size, s.Drawn
		a.Predicted += s.Size
	}
	for _, c := range checked {
		a.Token = max(a.Token, c.Token)
		switch {
		case !c.Holds:
			a.Wrong++
		case c.Decision == No:
			a.NearTies++
		}
	}
	if a.Bound = boundHypergeometric; a.Wrong > 0 {
		a.Bound = boundBinomial
	}
	a.Most = stat.MostWrong(sizes, drawn, a.Wrong, auditLevel)
	if a.Predicted > 0 {
		a.Share = float64(a.Most) / float64(a.Predicted)
	}
	a.Holds = a.Wrong == 0 && len(checked) > 0
	near := ""
	if a.NearTies > 0 {
		near = fmt.Sprintf(" (%s fell the other way)", plural(a.NearTies, "near-tie", "near-ties"))
	}
	switch {
	case a.Holds && a.Most == 0:
		a.Verdict = fmt.Sprintf("The record holds: all %d predictions were scored anew and none is wrong%s.", a.Predicted, near)
	case a.Holds:
		a.Verdict = fmt.Sprintf("The record holds: none of %d predictions scored anew is wrong%s, so at most %.1f%% of the record's %d can be wrong, at 95%%.", len(checked), near, roundUp(100*a.Share), a.Predicted)
	default:
		a.Verdict = fmt.Sprintf("The record does not hold: %d of %d predictions scored anew are wrong%s; of the record's %d up to %.1f%% may be, at 95%%.", a.Wrong, len(checked), near, a.Predicted, roundUp(100*a.Share))
	}
	return a
}

// roundUp rounds a bound to a tenth that is not below it.
func roundUp(percent float64) float64 { return math.Ceil(percent*10-1e-9) / 10 }

// Seed is the seed of a draw where none is given: of the run's id and the digest of
// its results, so that it is fixed only when the results are.
func Seed(r *record.Record) string {
	results := ""
	if r.Results != nil {
		results = r.Results.SHA256
	}
	sum := sha256.Sum256([]byte(r.ID + "\n" + results))
	return fmt.Sprintf("%016x", binary.BigEndian.Uint64(sum[:8]))
}

// AuditNotes says where the model, engine and precision that scored anew are not
// those of the record.
func AuditNotes(was, is record.Identity) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case was.Model.SHA256 == "":
		add("the record does not say which weights its model had; these are %.12s", is.Model.SHA256)
	case was.Model.SHA256 != is.Model.SHA256:
		add("the record's weights are %.12s, these are %.12s: what differs may be the model", was.Model.SHA256, is.Model.SHA256)
	}
	part := func(what, x, y string) {
		if x != y && x != "" && y != "" {
			add("%s: the record's is %s, this one is %s", what, x, y)
		}
	}
	part("engine", engine(was), engine(is))
	part("precision", was.Precision.Computed, is.Precision.Computed)
	part("BOS", bosText(was), bosText(is))
	return out
}
