package reproduce

import (
	"olmes"
)

// Options say how two runs are compared.
type Options struct {
	// Instances is how many instances a cause lists at most; 0 means 5, below 0
	// all.
	Instances int
	// Noise is how far rounding may move a log-probability of a request (nats) or
	// the margin between two choices (in the unit of its normalization), in place
	// of what the runs have measured; 0 for what they have measured.
	Noise float64
	// Reference returns the standard's own instances and renderings of a task and
	// split; nil, as a function or returned by it, where they are not at hand.
	Reference func(task, split string) *Reference
}

// Report says where two runs part. Lists are never nil.
type Report struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Models is what proves that the runs are of different models, null where the
	// records do not (absent in JSON). Such runs are compared all the same.
	Models *Cause  `json:"models,omitempty"`
	Shared int     `json:"shared"` // instances that both runs have, each formulation counted
	Stages []Stage `json:"stages"` // all six, in order
	// First is the first cause: Models, else the first by the order of the stages,
	// null where there is none.
	First   *Cause   `json:"first"`
	Flips   []Flip   `json:"flips"`  // decisions that differ, all of them
	Scores  []Score  `json:"scores"` // on the instances that both runs have
	Agree   Answer   `json:"agree"`  // the scores, within error
	Verdict string   `json:"verdict"`
	Unknown []string `json:"unknown"` // what could not be compared, and why
}

// Side is one of the two runs.
type Side struct {
	Label     string `json:"label"`
	ID        string `json:"id"`
	Evidence  string `json:"evidence"`
	Model     string `json:"model"`     // its name; "" where not known
	Weights   string `json:"weights"`   // their types and the precision they are computed in, in words
	Engine    string `json:"engine"`    // in words; "" where not known
	BOS       string `json:"bos"`       // in words
	Instances int    `json:"instances"` // predictions
}

// Answer is yes, no or unknown.
type Answer string

// Answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// StageName names a stage.
type StageName string

// The stages in their order; Models is none, but where a cause of that kind stands.
const (
	Models    StageName = "models"
	Instances StageName = "instances"
	Requests  StageName = "requests"
	IDs       StageName = "ids"
	LogProbs  StageName = "log-probabilities"
	Decisions StageName = "decisions"
	Scores    StageName = "scores"
)

// Stage is the outcome of one comparison.
type Stage struct {
	Name StageName `json:"name"`
	// Same is "unknown" where nothing, or not all, could be compared and what was
	// compared is the same.
	Same      Answer `json:"same"`
	Unit      string `json:"unit"`      // of the counts: "instances", "requests", "decisions", "scores"
	Compared  int    `json:"compared"`  //
	Different int    `json:"different"` // of those compared
	Unknown   int    `json:"unknown"`   // that should have been compared and could not
	Text      string `json:"text"`      // the outcome in a sentence

	Causes      []Cause       `json:"causes"`
	Differences *Distribution `json:"differences,omitempty"` // of log-probabilities, B − A; only there
}

// Code names a kind of cause.
type Code string

// Causes, by stage.
const (
	OtherModel Code = "model" // another model: architecture, parameters or vocabulary
	// Instances.
	TaskMissing    Code = "task-missing"    // a task, formulation or variant is in one run only
	OtherSplit     Code = "split"           // another split of the dataset
	RequestMissing Code = "request-missing" // instances or choices that one run should have and has not
	RequestFailed  Code = "request-failed"  // requests without a log-probability in one run
	Subset         Code = "subset"          // one run took fewer instances
	OtherSample    Code = "sample"          // the runs took different instances
	Numbering      Code = "numbering"       // the same instances under other doc_ids
	GoldLabel      Code = "gold-label"      // another right answer
	ChoiceOrder    Code = "choice-order"    // the same choices at other positions
	// Requests.
	Variant         Code = "variant"           // a known rendering that is not the standard's
	FewShotOrder    Code = "few-shot-order"    // the same examples in another order
	FewShotCount    Code = "few-shot-count"    // fewer of the same examples
	FewShotExamples Code = "few-shot-examples" // other examples
	Description     Code = "description"       // what stands before the examples
	Template        Code = "template"          // the form of question, choices or answers
	Prompt          Code = "prompt"            // the context of all instances; which part is not known
	QuestionText    Code = "question-text"     // the text of single instances
	ChoiceText      Code = "choice-text"       // the text of single choices
	// Ids.
	BOS          Code = "bos"          // a beginning-of-sequence token in one run only
	Tokenization Code = "tokenization" // other ids for the same text
	Boundary     Code = "boundary"     // the same ids, and the continuation begins at another
	Truncation   Code = "truncation"   // cut to another length, or at another place
	// Log-probabilities.
	QuantizedWeights Code = "quantized-weights" // weights of other, fewer bits
	Precision        Code = "precision"         // computed in another precision
	OtherWeights     Code = "weights"           // other weights altogether
	Arithmetic       Code = "arithmetic"        // engine, library, schedule or device
	Shift            Code = "constant-shift"    // all moved by one amount
	Scale            Code = "scale"             // all in one ratio: another base, temperature, or a mean for a sum
	OneChunk         Code = "one-chunk"         // only what one chunk of the run holds
	OneEnvironment   Code = "one-environment"   // only what one machine or library computed
	Unconditional    Code = "unconditional"     // only the requests after the short context of pmi
	Unexplained      Code = "unexplained"       // beyond noise, and nothing in the records accounts for it
)

// Cause is one reason why the runs differ.
type Cause struct {
	Stage StageName `json:"stage"`
	Code  Code      `json:"code"`
	// Run is the side that departs from the standard or from its own record, "a"
	// or "b"; "" where that is not known or both do.
	Run string `json:"run"`
	// Text says in a sentence what differs.
	Text string `json:"text"`
	// Certain is false where the cause is inferred from a pattern and not stated
	// by the records or proved by a digest.
	Certain  bool    `json:"certain"`
	Count    int     `json:"count"`    // instances concerned, an instance in two formulations twice
	Where    []Where `json:"where"`    // task and formulation each
	Examples []At    `json:"examples"` // the first of the instances
}

// Where counts what a cause concerns in one task and formulation.
type Where struct {
	Task        string            `json:"task"`
	Variant     string            `json:"variant"`
	Formulation olmes.Formulation `json:"formulation"` // "" for both
	Instances   int               `json:"instances"`
	Of          int               `json:"of"` // instances compared there
}

// At is an instance, or one choice of it.
type At struct {
	Task        string            `json:"task"`
	Variant     string            `json:"variant"`
	Formulation olmes.Formulation `json:"formulation"`
	DocID       int               `json:"doc_id"`           // in A, or in B where A has it not
	Choice      *int              `json:"choice,omitempty"` // position, from 0; absent where all are meant
	Detail      string            `json:"detail,omitempty"`
}

// Distribution describes differences of log-probabilities, B − A in nats.
type Distribution struct {
	N           int     `json:"n"`
	Equal       int     `json:"equal"` // to the last bit
	Mean        float64 `json:"mean"`
	SD          float64 `json:"sd"` // 0 for n < 2
	Median      float64 `json:"median"`
	MeanAbs     float64 `json:"mean_abs"`
	MedianAbs   float64 `json:"median_abs"`
	P90         float64 `json:"p90_abs"`
	P99         float64 `json:"p99_abs"`
	Largest     float64 `json:"largest_abs"`
	Noise       float64 `json:"noise"` // of a request, both runs' together; 0 where not measured
	Beyond      int     `json:"beyond_noise"`
	Correlation float64 `json:"correlation"` // of A's and B's values; 0 for n < 2
}

// Flip is an instance on which the runs decide differently, under the
// normalization in force.
type Flip struct {
	Task          string              `json:"task"`
	Variant       string              `json:"variant"`
	Formulation   olmes.Formulation   `json:"formulation"`
	Normalization olmes.Normalization `json:"normalization"`
	DocID         int                 `json:"doc_id"`
	A             int                 `json:"a"` // best choice, from 0
	B             int                 `json:"b"`
	Gold          int                 `json:"gold"`     // A's
	MarginA       *float64            `json:"margin_a"` // A's choice before B's in run A, in the normalization's unit; null where B's is not there
	MarginB       *float64            `json:"margin_b"` // B's choice before A's in run B
	Noise         float64             `json:"noise"`    // of a margin, both runs' together; 0 where not measured
	// NearTie is yes where either margin is within the noise.
	NearTie Answer `json:"near_tie"`
	Turn    string `json:"turn"` // "right", "wrong" (B is), or "unchanged"
	// Input says whether both runs fed the model the same ids.
	Input Answer `json:"same_input"`
}

// Score compares one accuracy on the instances that both runs decide.
type Score struct {
	Kind string `json:"kind"` // "task", "group" or "average"
	Name string `json:"name"`
	// Variant of the task; "" is the standard's own rendering.
	Variant string `json:"variant"`
	// Formulations in A and B; "best" where each run's better one counts.
	FormulationA olmes.Formulation `json:"formulation_a"`
	FormulationB olmes.Formulation `json:"formulation_b"`
	N            int               `json:"n"` // shared instances
	A            float64           `json:"a"` // accuracy, a fraction
	B            float64           `json:"b"`
	Difference   float64           `json:"difference"` // B − A
	SE           *float64          `json:"se"`         // of the paired difference; null for n < 2
	// Agree is yes where the difference is 0 or within 1.96 standard errors.
	Agree Answer `json:"agree"`
}
