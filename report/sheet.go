package report

import (
	"fmt"

	"olmes"
	"olmes/record"
	"olmes/score"
)

// Sheet is what a report shows of records: a row a model, a column a task, as in
// the paper's Tables 4 and 13, and behind each cell all that its records say. It is
// also what `olmes report --format json` prints. Accuracies are fractions from 0 to
// 1; what is not known or not defined is null.
type Sheet struct {
	Format  int    `json:"format"`  // of this object: 1
	Product string `json:"product"` // version of the program that made it
	// Columns lists the tasks that any row has: the standard's ten in its order,
	// then others in the order of the records.
	Columns []Column `json:"columns"`
	// NotRun lists those of the ten tasks that no row has.
	NotRun []string `json:"not_run"`
	// Rows are ordered: by OLMES average, then those with another mean of all ten
	// tasks, by that, then those that lack a task, by the number they have.
	Rows      []*Row     `json:"rows"`
	Footnotes []Footnote `json:"footnotes"`
	Skipped   []Skipped  `json:"skipped"` // records that were meant and could not be read

	training []Figure
}

// Column is a task as a column.
type Column struct {
	Task string `json:"task"` // "arc_challenge", "mmlu"
	Head string `json:"head"` // short, as in the paper's tables
	Name string `json:"name"` // in full
}

// Skipped is a record that could not be read.
type Skipped struct {
	Record string `json:"record"` // its folder, as given
	Reason string `json:"reason"`
}

// Row is a model in one variant of the prompts: what one record says, or several
// of one model and one setting that have different tasks.
type Row struct {
	Label    string   `json:"label"`
	Standard string   `json:"standard"` // version
	Variant  string   `json:"variant"`  // "" is the standard's own rendering
	Model    Model    `json:"model"`
	Runs     []Source `json:"runs"`
	// Average is null unless all ten tasks have a score.
	Average *Average `json:"average"`
	Scored  int      `json:"scored"` // of the ten tasks, those with a score
	Units   []*Unit  `json:"tasks"`
	// Deviations are all of its records': what makes it off-standard, and notes.
	Deviations  []record.Deviation `json:"deviations"`
	OffStandard bool               `json:"off_standard"`
	Marks       []string           `json:"marks"` // footnotes that concern the whole row
	// Calibrations are there where instances were read, one a formulation.
	Calibrations []Calibration `json:"calibrations"`
	// Noise is the largest measured change of a request's log-probability, nats.
	Noise *float64 `json:"noise"`

	key string // rows of one key are of one model and setting
}

// Model is what a row's records say of the model and how it was computed.
type Model struct {
	Name         string           `json:"name"`
	SHA256       string           `json:"sha256,omitempty"`
	Architecture string           `json:"architecture,omitempty"`
	Parameters   int64            `json:"parameters,omitempty"`
	License      string           `json:"license,omitempty"`
	Precision    record.Precision `json:"precision"`
	Engine       record.Engine    `json:"engine"`
	Says         string           `json:"says"` // model and precision in one line
	Computed     string           `json:"computed"`
}

// Source is a record behind a row.
type Source struct {
	ID       string          `json:"id"`
	Product  string          `json:"product"`
	Evidence record.Evidence `json:"evidence"`
	Import   *record.Import  `json:"import"` // null where this program computed it
	Command  []string        `json:"command"`
	Claim    string          `json:"claim"` // one line that `olmes verify` checks; "" where none was made
}

// Average is the plain mean of ten task scores.
type Average struct {
	Accuracy float64  `json:"accuracy"`
	SE       *float64 `json:"se"`
	// OLMES says that it is the OLMES average; else some of the scores are of other
	// instances than the standard's, or of a variant.
	OLMES    bool         `json:"olmes"`
	Chance   *float64     `json:"chance"`
	Majority *float64     `json:"majority"`
	Range    *score.Range `json:"range"` // by near-ties; null where not counted
}

// Unit is a task of a row, or a group of tasks (mmlu) or a part of one.
type Unit struct {
	Task      string `json:"task"`
	Split     string `json:"split"`
	Instances int    `json:"instances"` // a formulation; 0 where not known
	Standard  int    `json:"standard_instances"`
	Complete  bool   `json:"complete"` // the very instances of the standard, none failed
	Size      int    `json:"group_size"`
	// Score is null unless both formulations are there, whole and without an error.
	Score      *Score            `json:"score"`
	Forms      []Form            `json:"formulations"`
	Difference *score.Difference `json:"difference"` // MCF − CF
	Chance     *float64          `json:"chance"`
	Majority   *float64          `json:"majority"`
	NearTies   *int              `json:"near_ties"` // CF and MCF; null where not counted
	Range      *score.Range      `json:"range"`     // of the score by near-ties
	// Apart lists why the cell cannot be compared with the others of its column.
	Apart []string `json:"not_comparable"`
	Marks []string `json:"marks"` // footnotes
	Parts []*Unit  `json:"parts"` // of a group: its tasks

	standardSplit string
	ids           string // digest of the instances, "" where not known
}

// Score is the score of a unit: the better formulation, CF on a tie.
type Score struct {
	Accuracy      float64             `json:"accuracy"`
	SE            *float64            `json:"se"`
	Formulation   olmes.Formulation   `json:"formulation"`
	Normalization olmes.Normalization `json:"normalization"`
	Low           *float64            `json:"low"` // 95% bootstrap interval of the better of the two
	High          *float64            `json:"high"`
}

// Form is a unit in one formulation.
type Form struct {
	Formulation   olmes.Formulation   `json:"formulation"`
	Normalization olmes.Normalization `json:"normalization"` // that counts for the score
	Instances     int                 `json:"instances"`
	Errors        int                 `json:"errors"`
	Missing       int                 `json:"missing"`
	Accuracies    []Accuracy          `json:"accuracies"` // of a group: plain means over its tasks
	Micro         []Accuracy          `json:"micro"`      // of a group: over all instances; else empty
	Ties          int                 `json:"structural_ties"`
	Truncated     int                 `json:"truncated_requests"`
	Gold          []int               `json:"gold_labels"`      // instances by position of the right answer; empty for groups
	Predicted     []int               `json:"predicted_labels"` // by position of the prediction
}

// Accuracy is an accuracy under one normalization.
type Accuracy struct {
	Normalization olmes.Normalization `json:"normalization"`
	Accuracy      float64             `json:"accuracy"`
	SE            *float64            `json:"se"`
	Correct       *int                `json:"correct"`
	N             int                 `json:"n"`
}

// Footnote explains a mark.
type Footnote struct {
	Mark        string `json:"mark"`
	Code        string `json:"code"` // of the deviation; see record.Deviation
	Title       string `json:"title"`
	OffStandard bool   `json:"off_standard"`
	Notes       []Note `json:"notes"`
}

// Note is one text of a footnote, with the rows that it is true of.
type Note struct {
	Text   string   `json:"text"`
	Labels []string `json:"labels"`
}

// form returns a formulation of a unit, or nil.
func (u *Unit) form(f olmes.Formulation) *Form {
	for i := range u.Forms {
		if u.Forms[i].Formulation == f {
			return &u.Forms[i]
		}
	}
	return nil
}

// accuracy returns a form's accuracy under a normalization, or nil.
func (f *Form) accuracy(n olmes.Normalization) *Accuracy {
	if f == nil {
		return nil
	}
	for i := range f.Accuracies {
		if f.Accuracies[i].Normalization == n {
			return &f.Accuracies[i]
		}
	}
	return nil
}

// counts returns the accuracy that counts for the score, or nil.
func (f *Form) counts() *Accuracy {
	if f == nil {
		return nil
	}
	return f.accuracy(f.Normalization)
}

// only returns the accuracy of a unit that has one formulation, or nil.
func (u *Unit) only() (*Accuracy, olmes.Formulation) {
	cf, mcf := u.form(olmes.CF).counts(), u.form(olmes.MCF).counts()
	switch {
	case u.Score != nil:
	case cf != nil && mcf == nil:
		return cf, olmes.CF
	case mcf != nil && cf == nil:
		return mcf, olmes.MCF
	}
	return nil, ""
}

// lacking says how much of a group there is, as "2 of 57 subjects", where that is not
// all of it; "" else. Its mean is no score of the standard's.
func (u *Unit) lacking() string {
	if u.Size <= len(u.Parts) {
		return ""
	}
	return fmt.Sprintf("%d of %d subjects", len(u.Parts), u.Size)
}

// unit returns the cell of a column: the task in the standard's split where the
// row has it in several.
func (r *Row) unit(task string) *Unit {
	var found *Unit
	for _, u := range r.Units {
		if u.Task == task && (found == nil || found.Split != found.standardSplit && u.Split == u.standardSplit) {
			found = u
		}
	}
	return found
}

// columns are the ten tasks with the names that papers give them.
func columns() []Column {
	return []Column{
		{"arc_challenge", "ARC-C", "ARC-Challenge"},
		{"arc_easy", "ARC-E", "ARC-Easy"},
		{"boolq", "BoolQ", "BoolQ"},
		{"csqa", "CSQA", "CommonsenseQA"},
		{"hellaswag", "HSwag", "HellaSwag"},
		{"mmlu", "MMLU", "MMLU"},
		{"openbookqa", "OBQA", "OpenBookQA"},
		{"piqa", "PIQA", "PIQA"},
		{"socialiqa", "SIQA", "Social IQa"},
		{"winogrande", "WinoG", "WinoGrande"},
	}
}
