package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"olmes"
	"olmes/score"
)

// Report is the outcome of Verify.
type Report struct {
	Dir         string
	ID          string
	Evidence    Evidence
	Complete    bool // the run is sealed
	Predictions int  // predictions read
	// Damage lists what does not hold together. A record without any says
	// what it said when it was sealed.
	Damage     []Finding
	Deviations []Deviation // from the standard, footnotes included
}

// Finding is one fault of a record.
type Finding struct {
	Where string // file, and what in it
	What  string
}

func (f Finding) String() string { return f.Where + ": " + f.What }

// Damaged reports whether anything does not hold together.
func (r *Report) Damaged() bool { return len(r.Damage) > 0 }

// Compliant reports whether the record is complete, undamaged and not
// off-standard in any way.
func (r *Report) Compliant() bool {
	off := slices.ContainsFunc(r.Deviations, func(d Deviation) bool { return d.OffStandard })
	return r.Complete && !r.Damaged() && !off
}

// maxFindings bounds the findings of one kind that a report lists.
const maxFindings = 20

// Verify checks all of a record: the id against the identity, every digest, the
// predictions against the identity and their own parts, and every metric,
// computed again from the predictions. It needs neither model nor dataset. Its
// error is for what cannot be read at all; damage is in the report.
func (r *Record) Verify() (*Report, error) {
	rep := &Report{Dir: r.Dir, ID: r.ID, Evidence: r.Provenance.Evidence, Complete: r.Complete()}
	if err := r.manifest.checkID(); err != nil {
		rep.add(manifestName, "%v", err)
	}
	switch r.Provenance.Evidence {
	case Scored, ImportedInstances, ImportedAggregates:
	default:
		rep.add(manifestName, "its evidence is %q; it can be %s, %s or %s", r.Provenance.Evidence, Scored, ImportedInstances, ImportedAggregates)
	}
	r.checkCounts(rep)
	if !r.Complete() {
		rep.Deviations = Deviations(r.Identity, nil)
		data, err := os.ReadFile(filepath.Join(r.Dir, journalName))
		if err == nil {
			_, err = parseJournal(data, r.ID)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			rep.add(journalName, "%v", err)
		}
		return rep, nil
	}
	if sum := r.Results.sum(); sum != r.Results.SHA256 {
		rep.add(manifestName, "the digest of the results is %s, it says %s", short(sum), short(r.Results.SHA256))
	}
	for _, f := range r.Results.Files {
		if f.Name != filepath.Base(f.Name) {
			rep.add(manifestName, "the file name %q leads out of the folder", f.Name)
			return rep, nil
		}
		info, err := os.Stat(filepath.Join(r.Dir, f.Name))
		if err != nil {
			rep.add(f.Name, "%v", err)
		} else if info.Size() != f.Bytes {
			rep.add(f.Name, "it has %d bytes, the manifest says %d", info.Size(), f.Bytes)
		}
	}
	stored, err := r.Metrics()
	if err != nil {
		rep.add(metricsName, "%v", err)
		rep.Deviations = Deviations(r.Identity, nil)
	} else {
		rep.Deviations = Deviations(r.Identity, &stored)
	}
	if !r.HasPredictions() {
		if r.Provenance.Evidence != ImportedAggregates {
			rep.add(manifestName, "it names no predictions, though the evidence is %s", r.Provenance.Evidence)
		}
		return rep, nil
	}
	preds, ok := r.readAll(rep)
	if !ok {
		return rep, nil
	}
	r.checkPredictions(rep, preds)
	if err == nil {
		r.checkMetrics(rep, preds, stored)
	}
	return rep, nil
}

// checkCounts refuses what a run cannot have counted or measured.
func (r *Record) checkCounts(rep *Report) {
	add := rep.limited(manifestName)
	if n := r.Provenance.Noise; n != nil {
		for _, what := range n.wrong() {
			add("its noise: %s", what)
		}
	}
	negative := func(name string, t Tokens) {
		if t.Naive < 0 || t.Distinct < 0 || t.Computed < 0 {
			add("%s: %d naive, %d distinct, %d computed", name, t.Naive, t.Distinct, t.Computed)
		}
	}
	negative("its tokens", r.Provenance.Tokens)
	for _, t := range r.Provenance.TaskTokens {
		negative(fmt.Sprintf("its tokens of %s %s", t.Task, t.Formulation), t.Tokens)
	}
}

func (r *Report) add(where, format string, args ...any) {
	r.Damage = append(r.Damage, Finding{where, fmt.Sprintf(format, args...)})
}

// limited returns an add that says once that there is more and then is silent.
func (r *Report) limited(where string) func(format string, args ...any) {
	n := 0
	return func(format string, args ...any) {
		switch n++; {
		case n <= maxFindings:
			r.add(where, format, args...)
		case n == maxFindings+1:
			r.add(where, "and more of this kind")
		}
	}
}

func (r *Record) readAll(rep *Report) ([]olmes.Prediction, bool) {
	var preds []olmes.Prediction
	for p, err := range r.Predictions() {
		if err != nil {
			rep.add(predictionsName, "%v", err)
			return nil, false
		}
		preds = append(preds, p)
	}
	rep.Predictions = len(preds)
	if rows := r.Results.file(predictionsName).Rows; rows != nil && *rows != int64(len(preds)) {
		rep.add(predictionsName, "it has %d rows, the manifest says %d", len(preds), *rows)
	}
	return preds, true
}

// checkPredictions compares the predictions with the identity and with what
// their own choices say.
func (r *Record) checkPredictions(rep *Report, preds []olmes.Prediction) {
	set := rep.limited(predictionsName)
	for _, finding := range checkKeys(r.Identity, r.Provenance.Evidence, preds) {
		set("%s", finding)
	}
	type part struct {
		task, split, variant string
		f                    olmes.Formulation
	}
	requests := map[part]map[int][]string{}
	rows := rep.limited(predictionsName)
	for i := range preds {
		p := &preds[i]
		name := fmt.Sprintf("%s %s, doc_id %d", olmes.Label(p.Task, p.Variant), formulationOf(p), p.DocID)
		for _, what := range checkPrediction(p, r.Identity.Normalizations) {
			rows("%s: %s", name, what)
		}
		if env, ok := r.Provenance.Chunks[p.Chunk]; len(r.Provenance.Chunks) > 0 && !ok {
			rows("%s: the manifest does not have its chunk %s", name, short(p.Chunk))
		} else if ok && (env < 0 || env >= len(r.Provenance.Environments)) {
			rows("%s: its chunk names environment %d of %d", name, env, len(r.Provenance.Environments))
		}
		k := part{p.Task, p.Split, p.Variant, formulationOf(p)}
		if requests[k] == nil {
			requests[k] = map[int][]string{}
		}
		for j := range p.Choices {
			requests[k][p.DocID] = append(requests[k][p.DocID], p.Choices[j].RequestSHA256)
		}
	}
	for _, t := range r.Identity.Tasks {
		for _, f := range slices.Sorted(maps.Keys(t.Formulations)) {
			name, asked, got := olmes.Label(t.Name, r.Identity.VariantOf(t)), t.Formulations[f], requests[part{t.Name, t.Split, r.Identity.VariantOf(t), f}]
			if sum := DigestDocIDs(slices.Collect(maps.Keys(got))); t.DocIDsSHA256 != "" && sum != t.DocIDsSHA256 {
				set("%s %s: the doc_ids have the digest %s, the identity says %s", name, f, short(sum), short(t.DocIDsSHA256))
			}
			if sum := DigestRequests(got); asked.RequestsSHA256 != "" && sum != asked.RequestsSHA256 {
				set("%s %s: the requests have the digest %s, the identity says %s", name, f, short(sum), short(asked.RequestsSHA256))
			}
			n := 0
			for _, choices := range got {
				n += len(choices)
			}
			if asked.RequestsSHA256 != "" && n != asked.Requests {
				set("%s %s: %d requests, the identity says %d", name, f, n, asked.Requests)
			}
		}
	}
}

// checkPrediction returns what is wrong within one prediction.
func checkPrediction(p *olmes.Prediction, norms []olmes.Normalization) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i := range p.Choices {
		c := &p.Choices[i]
		switch {
		case (c.LogProb == nil) != (c.Error != ""):
			add("choice %d has both a log-probability and an error, or neither", i)
		case c.LogProb != nil && (math.IsNaN(*c.LogProb) || math.IsInf(*c.LogProb, 0)):
			add("choice %d has the log-probability %v", i, *c.LogProb)
		case c.LogProb != nil && *c.LogProb > olmes.LogProbRounding || c.Unconditional != nil && *c.Unconditional > olmes.LogProbRounding:
			add("choice %d has a log-probability above 0", i)
		case c.LogProb != nil && c.TokenLogProbs != nil && !sums(c.TokenLogProbs, *c.LogProb):
			add("choice %d: its tokens do not sum to its log-probability %v", i, *c.LogProb)
		case c.Unconditional != nil && c.UnconditionalLogProbs != nil && !sums(c.UnconditionalLogProbs, *c.Unconditional):
			add("choice %d: its tokens do not sum to its unconditional log-probability %v", i, *c.Unconditional)
		}
		if c.TokenLogProbs != nil && len(c.TokenLogProbs) != c.Tokens || c.ContinuationIDs != nil && len(c.ContinuationIDs) != c.Tokens {
			add("choice %d has %d tokens, %d log-probabilities and %d ids", i, c.Tokens, len(c.TokenLogProbs), len(c.ContinuationIDs))
		}
	}
	if score.Scores(p) && len(p.Choices) > 0 && (p.Gold < 0 || p.Gold >= len(p.Choices)) {
		add("gold is %d of %d choices", p.Gold, len(p.Choices))
	}
	again := *p
	score.Predict(&again, norms)
	for _, n := range olmes.Normalizations() {
		was, had := p.Predictions[n]
		if is, has := again.Predictions[n]; had != has || was != is {
			add("the prediction under %s is not the best choice", n)
		}
	}
	return out
}

// sums reports whether parts add up to total but for rounding.
func sums(parts []float64, total float64) bool {
	var sum float64
	for _, v := range parts {
		sum += v
	}
	return math.Abs(sum-total) <= 1e-9*(1+math.Abs(total))
}

// checkMetrics computes the metrics again.
func (r *Record) checkMetrics(rep *Report, preds []olmes.Prediction, stored score.Metrics) {
	again, err := score.Summarize(r.Identity.Facts(), score.Seq(preds))
	if err != nil {
		rep.add(predictionsName, "%v", err)
		return
	}
	was, err := json.Marshal(stored)
	if err != nil {
		rep.add(metricsName, "%v", err)
		return
	}
	is, err := json.Marshal(again)
	if err != nil {
		rep.add(predictionsName, "%v", err)
		return
	}
	diffs, err := differences(was, is)
	if err != nil {
		rep.add(metricsName, "%v", err)
		return
	}
	add := rep.limited(metricsName)
	for _, d := range diffs {
		add("%s (by the predictions)", d)
	}
}
