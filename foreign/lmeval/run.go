package lmeval

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"olmes"
	"olmes/foreign/results"
	"olmes/foreign/taskfile"
	"olmes/record"
	"olmes/score"
	"olmes/task"
)

// Tool is the program's name in records.
const Tool = "lm-eval"

// Variant is that of requests which are not shown to be the standard's.
const Variant = "lm-eval"

// Run puts the files of one run of the harness together: samples of tasks, a
// results file (nil where there is none), or a results file alone.
func Run(samples []*Samples, res *Results) (*results.Run, error) {
	run := &results.Run{Tool: Tool, Variant: Variant}
	var kept []*Samples
	for _, s := range samples {
		if s.Skipped != "" {
			run.Note("%s is left out: %s", filepath.Base(s.File.Name), s.Skipped)
			continue
		}
		kept = append(kept, s)
	}
	if len(kept) == 0 && (res == nil || len(samples) > 0) {
		return nil, errors.New("none of the files holds multiple-choice instances")
	}
	if res != nil {
		run.Files = append(append(run.Files, res.File), res.more...)
		res.describe(run)
	} else {
		run.Lack("everything but the instances: the results file (results_*.json) is not given")
	}
	if standard(kept) {
		run.Variant, run.Standard = "", task.Standard
	}
	for _, s := range kept {
		run.Files = append(run.Files, s.File)
		f, err := s.form(run, res)
		if err != nil {
			return nil, err
		}
		run.Forms = append(run.Forms, f)
	}
	if res != nil {
		res.aggregates(run, kept)
		res.printGroups(run)
	}
	run.NoteUnequal()
	lacks(run, kept)
	if err := run.Settle(); err != nil {
		return nil, err
	}
	return run, nil
}

// standard reports whether every request is byte for byte one that was exported.
func standard(samples []*Samples) bool {
	for _, s := range samples {
		if !s.exported || s.changed > 0 || s.row.Standard != task.Standard {
			return false
		}
	}
	return len(samples) > 0
}

// lacks lists what such files do not tell.
func lacks(run *results.Run, kept []*Samples) {
	run.Lack("a digest of the weights, their published precision, and the tokenizer's")
	if run.BOS.Policy == "" {
		run.Lack("whether a BOS token was added (the harness goes by the tokenizer unless add_bos_token is given)")
	}
	if run.Window == 0 {
		run.Lack("the length of the context")
	}
	if len(kept) == 0 {
		run.Lack("the instances: no samples are given (--log_samples), so nothing can be compared by instance or computed again")
		return
	}
	run.Lack("%s", perRequest(kept))
	for _, s := range kept {
		if s.empty > 0 {
			run.Lack("%s: log-probabilities after \"Answer:\" alone; the harness's own unconditional requests have an empty context", s.Task)
		}
		if s.textless > 0 {
			run.Lack("%s: the requests' texts", s.Task)
		}
	}
}

// perRequest lists what not all requests have. Samples that olmes export wrote
// have lengths and digests of ids, as far as the record had them.
func perRequest(kept []*Samples) string {
	counts, ids := true, true
	for _, s := range kept {
		for i := range s.instances {
			for _, c := range s.instances[i].choices {
				counts = counts && c.Tokens > 0 && c.ContextTokens > 0
				ids = ids && c.IDsSHA256 != ""
			}
		}
	}
	var parts []string
	if !counts {
		parts = append(parts, "token counts of continuations and contexts, so accuracies per token and truncation")
	}
	if ids {
		parts = append(parts, "ids themselves (their digests are there)")
	} else {
		parts = append(parts, "ids")
	}
	return strings.Join(append(parts, "log-probabilities of single tokens"), "; ")
}

// name is how a record names the task of samples or results, with the formulation
// where the name tells it.
func name(foreign string) (string, olmes.Formulation) {
	if t, f, ok := taskfile.ParseName(foreign); ok {
		return t, f
	}
	if t, ok := results.Lookup(foreign); ok {
		return t.Name, ""
	}
	return foreign, ""
}

// form makes a form of a task's samples and compares its numbers with the
// printed ones.
func (s *Samples) form(run *results.Run, res *Results) (*results.Form, error) {
	f := &results.Form{Foreign: s.Task}
	f.Task, f.Formulation = name(s.Task)
	if s.exported && s.row.Standard == RecordMark {
		f.Task, f.Formulation = s.row.Task, olmes.Formulation(s.row.Formulation)
	} else if f.Formulation == "" {
		f.Formulation = s.formulation()
	}
	if f.Formulation == "" {
		run.Lack("%s: the formulation; some continuations are labels and some are not", s.Task)
	}
	facts, known := res.facts(s.Task)
	f.Split = facts.split()
	if s.exported {
		f.Split = s.instances[0].split
		for i := range s.instances {
			if s.instances[i].split != f.Split {
				return nil, results.At(s.File.Name, s.instances[i].line, "the instance is of split %q, others are of %q", s.instances[i].split, f.Split)
			}
		}
		if s.changed > 0 {
			run.Note("%s: %d requests are not those that were exported: the task files or their rows were changed, or the harness renders differently", s.Task, s.changed)
		}
	}
	if f.Split == "" {
		run.Lack("%s: the split; doc_ids count within the one that was evaluated", s.Task)
	}
	golds, err := s.resolve(run)
	if err != nil {
		return nil, err
	}
	for i := range s.instances {
		in := &s.instances[i]
		f.Predictions = append(f.Predictions, olmes.Prediction{DocID: in.docID, NativeID: in.native, Gold: golds[i], Choices: in.choices})
	}
	if s.failed > 0 {
		run.Note("%s: %d choices have no usable log-probability; their instances are kept as failed", s.Task, s.failed)
	}
	for filter, n := range s.others {
		run.Note("%s: %d lines of the filter %q are left out", s.Task, n, filter)
	}
	if res == nil {
		return f, nil
	}
	s.compare(run, res, f, facts, known, golds)
	return f, nil
}

// formulation tells by the continuations: labels are MCF, anything else is CF.
func (s *Samples) formulation() olmes.Formulation {
	labelled := 0
	for i := range s.instances {
		if s.instances[i].labelled {
			labelled++
		}
	}
	switch {
	case s.textless > 0:
		return ""
	case labelled == len(s.instances):
		return olmes.MCF
	case labelled == 0:
		return olmes.CF
	}
	return ""
}

// ways are how the right choice can be told, in order of trust.
var ways = [...]string{"the exported row", "the target as a position", "the target as a choice's text", "the harness's own mark of two choices"}

// resolve tells the right choice of every instance: by the first way that tells
// all of them and agrees with all of the harness's marks, else by the first that
// tells all of them.
func (s *Samples) resolve(run *results.Run) ([]int, error) {
	var fallback []int
	conflicts := 0
	outside, unknown := 0, 0 // lines
	for way := range ways {
		if way == len(ways)-1 && fallback != nil {
			break // marks do not overrule what is told
		}
		golds := make([]int, len(s.instances))
		bad, all := 0, true
		for i := range s.instances {
			in := &s.instances[i]
			g := in.goldBy(way)
			if g < 0 || g >= len(in.choices) {
				if g >= len(in.choices) && outside == 0 {
					outside = in.line
				}
				if g < 0 && unknown == 0 && way > 0 {
					unknown = in.line
				}
				all = false
				break
			}
			golds[i] = g
			if mark := in.marks[markAcc]; mark >= 0 && in.loglikely() && (in.best(nil) == g) != (mark == 1) {
				bad++
			}
		}
		if all && bad == 0 {
			return golds, nil
		}
		if all && fallback == nil {
			fallback, conflicts = golds, bad
		}
	}
	switch {
	case fallback != nil:
		run.Note("%s: on %d instances the harness's mark (acc) is not what its own log-probabilities and right answer give", s.Task, conflicts)
		return fallback, nil
	case outside > 0:
		return nil, results.At(s.File.Name, outside, "the right answer is none of the choices (target)")
	}
	return nil, results.At(s.File.Name, max(unknown, s.instances[0].line), "which choice is right cannot be told: the target is neither the position nor the text of a choice")
}

// goldBy tells the right choice by a way, -1 where that does not tell it.
func (in *instance) goldBy(way int) int {
	if way < len(in.gold) {
		return in.gold[way]
	}
	if len(in.choices) != 2 || in.marks[markAcc] < 0 || !in.loglikely() {
		return -1
	}
	if best := in.best(nil); in.marks[markAcc] == 1 {
		return best
	} else {
		return 1 - best
	}
}

// loglikely reports whether all log-probabilities are there.
func (in *instance) loglikely() bool {
	for i := range in.choices {
		if in.choices[i].LogProb == nil {
			return false
		}
	}
	return true
}

// best is the choice with the highest value, the first on a tie: each
// log-probability as value changes it, nil as it is.
func (in *instance) best(value func(i int, logprob float64) float64) int {
	best, at := math.Inf(-1), 0
	for i := range in.choices {
		v := *in.choices[i].LogProb
		if value != nil {
			v = value(i, v)
		}
		if v > best {
			best, at = v, i
		}
	}
	return at
}

// compare computes a task's accuracies again and sets them beside the printed ones.
func (s *Samples) compare(run *results.Run, res *Results, f *results.Form, facts taskFacts, known bool, golds []int) {
	printed, odd := numbers(res.doc.Results[s.Task])
	if odd > 0 {
		run.Note("%s: %d printed numbers are not finite and are left out", s.Task, odd)
	}
	if len(printed) == 0 {
		run.Note("%s: %s has no numbers of it", s.Task, filepath.Base(res.File.Name))
	}
	if n := res.count(s.Task); n > 0 && n != len(s.instances) {
		run.Note("%s: the results are of %d instances, the samples hold %d", s.Task, n, len(s.instances))
	}
	if want := res.doc.TaskHashes[s.Task]; want != "" && s.taskHash != "" && want != s.taskHash {
		run.Note("%s: the samples are not those that the results were made of (task_hashes)", s.Task)
	}
	for _, p := range printed {
		out := record.Printed{Task: s.Task, Formulation: f.Formulation, Metric: p.metric, Value: p.value, SE: p.se, N: res.count(s.Task)}
		if again, ok := s.again(p.name, facts, known, golds); ok {
			out = results.Compare(out, again, record.FromLogProbs)
		} else if again, ok := s.marked(p.name); ok {
			out = results.Compare(out, again, record.FromMarks)
		}
		run.Printed = append(run.Printed, out)
	}
}

// again computes an accuracy from the log-probabilities as the harness defines it.
func (s *Samples) again(metric string, facts taskFacts, known bool, golds []int) (float64, bool) {
	delimiter := " " // the harness's default
	if facts.TargetDelimiter != nil {
		delimiter = *facts.TargetDelimiter
	}
	right := 0
	for i := range s.instances {
		in := &s.instances[i]
		if !in.loglikely() {
			return 0, false
		}
		var value func(int, float64) float64
		switch metric {
		case "acc":
		case "acc_norm", "acc_bytes":
			// The choice's own length: its continuation without the delimiter.
			// Where contexts differ the harness divides by lengths of contexts.
			if !known || s.textless > 0 || in.several {
				return 0, false
			}
			value = func(i int, v float64) float64 {
				if metric == "acc_bytes" {
					return v / float64(in.choices[i].Bytes-len(delimiter))
				}
				return v / float64(in.choices[i].Chars-len([]rune(delimiter)))
			}
		case "acc_mutual_info", "acc_pmi":
			if len(in.alone) != len(in.choices) {
				return 0, false
			}
			value = func(i int, v float64) float64 { return v - in.alone[i] }
		default:
			return 0, false
		}
		if in.best(value) == golds[i] {
			right++
		}
	}
	return float64(right) / float64(len(s.instances)), true
}

// marked is the mean of the harness's own marks.
func (s *Samples) marked(metric string) (float64, bool) {
	for k, name := range markNames {
		if name != metric {
			continue
		}
		sum := 0
		for i := range s.instances {
			m := s.instances[i].marks[k]
			if m < 0 {
				return 0, false
			}
			sum += int(m)
		}
		return float64(sum) / float64(len(s.instances)), true
	}
	return 0, false
}

// aggregates takes the tasks of which no samples are there: as forms where there
// are none at all, else as printed numbers only.
func (r *Results) aggregates(run *results.Run, kept []*Samples) {
	have := map[string]bool{}
	for _, s := range kept {
		have[s.Task] = true
	}
	var alone []string
	for _, foreign := range r.names() {
		if have[foreign] {
			continue
		}
		printed, odd := numbers(r.doc.Results[foreign])
		if odd > 0 {
			run.Note("%s: %d printed numbers are not finite and are left out", foreign, odd)
		}
		if len(printed) == 0 {
			continue
		}
		facts, known := r.facts(foreign)
		f := &results.Form{Foreign: foreign, Split: facts.split(), N: r.count(foreign),
			Accuracy: map[olmes.Normalization]score.Estimate{}, Values: map[string]score.Measure{}}
		f.Task, f.Formulation = name(foreign)
		for _, p := range printed {
			run.Printed = append(run.Printed, record.Printed{Task: foreign, Formulation: f.Formulation, Metric: p.metric, Value: p.value, SE: p.se, N: f.N})
			f.Values[p.metric] = score.Measure{Value: p.value, SE: p.se, N: f.N}
			if n, ok := accuracyOf(p, f.Formulation, facts, known); ok && p.value >= 0 && p.value <= 1 {
				f.Accuracy[n] = results.Estimate(p.value, f.N, p.se)
			}
		}
		if len(kept) > 0 {
			alone = append(alone, foreign)
			continue
		}
		run.Forms = append(run.Forms, f)
		if f.Formulation == "" {
			run.Lack("%s: the formulation", foreign)
		}
	}
	if len(alone) > 0 {
		run.Note("no samples of %s are given: what the harness printed of it is kept in the provenance, and no instances", results.Names(alone))
	}
}

// accuracyOf tells which normalization a printed accuracy is under: acc is the
// plain log-probability's, acc_norm is per character with the leading space only
// where the choices bring it, acc_pmi is that of exported tasks.
func accuracyOf(p number, f olmes.Formulation, facts taskFacts, known bool) (olmes.Normalization, bool) {
	multiple := facts.OutputType == "multiple_choice" || !known
	switch {
	case !multiple || strings.Contains(p.metric, ",") && !strings.HasSuffix(p.metric, ",none"):
		return "", false
	case p.name == "acc":
		return olmes.None, true
	case p.name == "acc_norm" && f != olmes.MCF && known && facts.TargetDelimiter != nil && *facts.TargetDelimiter == "":
		return olmes.Character, true
	case p.name == "acc_pmi" && f == olmes.CF:
		return olmes.PMI, true
	}
	return "", false
}

// printGroups keeps the numbers of groups, computed again where they are plain
// means over tasks whose accuracies were.
func (r *Results) printGroups(run *results.Run) {
	again := map[string]record.Printed{}
	for _, p := range run.Printed {
		again[p.Task+"\x00"+p.Metric] = p
	}
	for _, group := range r.groupNames() {
		printed, _ := numbers(r.doc.Results[group])
		for _, p := range printed {
			out := record.Printed{Task: group, Metric: p.metric, Value: p.value, SE: p.se}
			var plain, weighted, total float64
			members := r.doc.Subtasks[group]
			ok := len(members) > 0
			for _, m := range members {
				q, is := again[m+"\x00"+p.metric]
				n := float64(r.count(m))
				if !is || q.Again == nil || n == 0 {
					ok = false
					break
				}
				plain += *q.Again
				weighted += *q.Again * n
				total += n
				out.N += int(n)
			}
			if ok {
				// Means of means are sums in the harness's own order, which may
				// round otherwise in the last digit.
				mean := plain / float64(len(members))
				if w := weighted / total; math.Abs(w-p.value) < math.Abs(mean-p.value) {
					mean = w
				}
				if math.Abs(mean-p.value) <= 1e-14 {
					mean = p.value
				}
				out = results.Compare(out, mean, record.FromLogProbs)
			}
			run.Printed = append(run.Printed, out)
		}
	}
}

// String describes a samples file in a line.
func (s *Samples) String() string {
	return fmt.Sprintf("%s: %d instances", s.Task, len(s.instances))
}
