package score

import (
	"olmes"
	"olmes/stat"
)

// Facts is what Summarize must know about one task of a run, beyond its
// predictions.
type Facts struct {
	Task      string              // "arc_easy", "mmlu_anatomy"
	Group     string              // "mmlu" for its subjects, "" elsewhere
	GroupSize int                 // tasks the whole group has: 57 for mmlu
	Split     string              // split that was evaluated
	Variant   string              // "" is the standard's own rendering
	Standard  olmes.Normalization // the standard's normalization for CF
	// Complete says that the run was to evaluate exactly the instances that
	// the standard evaluates.
	Complete       bool
	Instances      int                   // instances per formulation that the run was to evaluate
	Formulations   []olmes.Formulation   // formulations that the run was to evaluate
	Normalizations []olmes.Normalization // normalizations scored; nil means all that are defined
}

// Metrics is all that the predictions of one run say together. Accuracies are
// fractions, 0 to 1; a number that is not defined is null or absent.
type Metrics struct {
	Tasks  []Task  `json:"tasks"`            // in the run's order
	Groups []Group `json:"groups,omitempty"` // in the order of their first tasks
	Suite  *Suite  `json:"suite,omitempty"`  // present where all ten tasks of the standard have a score
}

// Task is the outcome of one task in one split and variant.
type Task struct {
	Task      string              `json:"task"`
	Group     string              `json:"group,omitempty"`
	Split     string              `json:"split"`
	Variant   string              `json:"variant"`
	Standard  olmes.Normalization `json:"standard_normalization,omitempty"` // for CF
	Complete  bool                `json:"complete"`                         // all instances the standard evaluates, none failed or missing
	Instances int                 `json:"instances,omitempty"`              // that the run was to evaluate, per formulation
	// Formulations holds what was evaluated, by "cf" and "mcf"; a prediction
	// without a formulation counts under its kind ("generate", "rolling").
	Formulations map[olmes.Formulation]Formulation `json:"formulations,omitempty"`
	// Score is absent unless both formulations are there without an error or
	// a missing instance. A run of one formulation has its accuracy above.
	Score    *Score   `json:"score,omitempty"`
	Chance   *float64 `json:"chance,omitempty"`   // mean of 1/choices over the instances
	Majority *float64 `json:"majority,omitempty"` // share of the most frequent gold position
	// Values holds other measures by name, as imported results bring them.
	Values map[string]Measure `json:"values,omitempty"`
}

// Measure is a number that is not an accuracy; its name says the unit.
type Measure struct {
	Value float64  `json:"value"`
	SE    *float64 `json:"se,omitempty"`
	N     int      `json:"n,omitempty"`
}

// Formulation is the outcome of one task in one formulation. Its counts are
// absent from JSON where they are zero; where Instances and Missing are both
// absent, as in imported aggregates, none of them is known.
type Formulation struct {
	Instances int `json:"instances,omitempty"` // predictions there are
	Errors    int `json:"errors,omitempty"`    // of them failed, in no accuracy
	Missing   int `json:"missing,omitempty"`   // instances without a prediction
	// Normalization is the one that counts for the score: the table's for CF, none for MCF.
	Normalization olmes.Normalization              `json:"normalization,omitempty"`
	Accuracy      map[olmes.Normalization]Estimate `json:"accuracy,omitempty"`
	Ties          Ties                             `json:"structural_ties,omitzero"`
	Gold          []int                            `json:"gold_labels,omitempty"`      // instances by position of the gold answer
	Predicted     []int                            `json:"predicted_labels,omitempty"` // instances by position of the prediction under Normalization
	Truncated     Truncated                        `json:"truncated,omitzero"`
}

// Estimate is an accuracy with its standard error and the counts behind it.
type Estimate struct {
	Accuracy float64  `json:"accuracy"`
	SE       *float64 `json:"se"`                // standard error; null for fewer than two instances
	Correct  *int     `json:"correct,omitempty"` // absent for means of means
	N        int      `json:"n,omitempty"`       // instances; absent where not known
}

// Ties counts instances some of whose choices are the very same request, so
// that their scores are bit-equal.
type Ties struct {
	Instances int `json:"instances"`
	WithGold  int `json:"with_gold"` // the gold choice is one of the equal ones
}

// Truncated counts what the window cut from the left.
type Truncated struct {
	Instances int `json:"instances"`
	Requests  int `json:"requests"`
}

// Score is the score of a task or group: the better formulation, CF on a tie.
type Score struct {
	Formulation   olmes.Formulation   `json:"formulation"`
	Normalization olmes.Normalization `json:"normalization"`
	Estimate                          // of the formulation chosen
	// Interval is the central 95% bootstrap interval of the better of the
	// two (paired by instance): the better of two is biased upward.
	Interval   *stat.Interval `json:"interval"`
	Difference *Difference    `json:"difference,omitempty"`
}

// Difference compares the formulations over the same instances.
type Difference struct {
	Value float64  `json:"value"` // MCF − CF
	SE    *float64 `json:"se"`    // standard error of the paired difference
	// NearNoise says that |Value| is below 1.96 standard errors, so that
	// another draw of instances may well have chosen the other formulation.
	// It is true where there is no standard error.
	NearNoise bool `json:"near_noise"`
}

// Group is the outcome of tasks that count as one (mmlu).
type Group struct {
	Group    string `json:"group"`
	Split    string `json:"split"`
	Variant  string `json:"variant"`
	Tasks    int    `json:"tasks"`    // in the run
	Size     int    `json:"size"`     // in the whole group
	Complete bool   `json:"complete"` // all tasks of the group, each complete
	// Formulations holds a formulation where every task of the group in the
	// run has it without an error or a missing instance.
	Formulations map[olmes.Formulation]GroupFormulation `json:"formulations,omitempty"`
	Score        *Score                                 `json:"score,omitempty"`    // of the macro mean
	Chance       *float64                               `json:"chance,omitempty"`   // plain mean over the tasks
	Majority     *float64                               `json:"majority,omitempty"` // macro accuracy of the best constant position
}

// GroupFormulation holds a group's two means under each normalization that all
// of its tasks have.
type GroupFormulation struct {
	Macro     map[olmes.Normalization]Estimate `json:"macro"` // plain mean over the tasks
	Micro     map[olmes.Normalization]Estimate `json:"micro"` // over all instances
	Ties      Ties                             `json:"structural_ties,omitzero"`
	Truncated Truncated                        `json:"truncated,omitzero"`
}

// Suite is the mean over the ten tasks of the standard.
type Suite struct {
	Complete bool `json:"complete"` // every task complete
	// Average is the OLMES average, present only where Complete.
	Average *Estimate `json:"average,omitempty"`
	// SubsetMean is the same mean where some task is not complete (a limit,
	// another split): it is not the OLMES average.
	SubsetMean *Estimate `json:"subset_mean,omitempty"`
	Chance     float64   `json:"chance"`   // plain mean over the ten
	Majority   float64   `json:"majority"` // plain mean over the ten
}

// SuiteTasks names the ten tasks of the standard in its order; "mmlu" is a group.
func SuiteTasks() []string {
	return []string{"arc_challenge", "arc_easy", "boolq", "csqa", "hellaswag",
		"mmlu", "openbookqa", "piqa", "socialiqa", "winogrande"}
}
