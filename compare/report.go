package compare

import (
	"olmes"
	"olmes/record"
	"olmes/score"
	"olmes/stat"
)

// View says which formulations are set against each other.
type View string

const (
	Better View = "better" // each run's better formulation, as the standard scores
	CF     View = "cf"     // both in the cloze formulation
	MCF    View = "mcf"    // both in the multiple-choice formulation
)

// Report is what a comparison says. Accuracies and differences are fractions.
type Report struct {
	Alpha   float64  `json:"alpha"` // of every test
	Level   float64  `json:"level"` // of every interval
	Power   float64  `json:"power"` // that detectable differences are found with
	View    View     `json:"view"`  // that tests and ranks are of
	Models  []Model  `json:"models"`
	Tasks   []Scores `json:"tasks"`   // every run's own scores
	Pairs   []Pair   `json:"pairs"`   // each pair once; none where PairsLeftOut
	Ranking []Rank   `json:"ranking"` // empty where Refused or there is no average to rank by
	// RankedBy names the tasks and groups that the ranking's average is over.
	RankedBy []string `json:"ranking_tasks"`
	// PairsLeftOut says that there are more runs than pairs are listed for.
	PairsLeftOut bool `json:"pairs_left_out"`
	// Refused lists why nothing is ranked and nobody is called better; empty
	// where nothing stands against it.
	Refused  []string  `json:"refused"`
	Anyway   bool      `json:"anyway"`   // ranked all the same
	Findings []Finding `json:"findings"` // how the runs differ in what was asked
	// NothingToRank says that no task has a score in all runs.
	NothingToRank bool `json:"-"`
}

// Model is one of the runs compared.
type Model struct {
	Label      string             `json:"label"`
	ID         string             `json:"id"`
	Dir        string             `json:"dir"`
	Name       string             `json:"model"`
	Evidence   record.Evidence    `json:"evidence"`
	Tool       string             `json:"tool,omitempty"` // that imported results are from
	Standard   bool               `json:"standard"`       // on-standard
	Deviations []record.Deviation `json:"deviations"`
	Average    *score.Estimate    `json:"average"` // the OLMES average; null unless all ten tasks are complete
}

// Scores are the runs' own scores of a task or group, over all instances of
// each.
type Scores struct {
	Task    string  `json:"task"`
	Variant string  `json:"variant"`
	Split   string  `json:"split"`
	Own     []Score `json:"scores"` // in the order of the models
}

// Score is an accuracy in one formulation. Its zero value (no formulation) says
// that there is none.
type Score struct {
	Formulation   olmes.Formulation   `json:"formulation,omitempty"`
	Normalization olmes.Normalization `json:"normalization,omitempty"`
	Accuracy      float64             `json:"accuracy"`
	SE            *float64            `json:"se"`
	ClusteredSE   *float64            `json:"clustered_se,omitempty"`
	Interval      *stat.Interval      `json:"interval"` // Wilson's; of a macro mean accuracy ± z·SE
	N             int                 `json:"n,omitempty"`
	// NearNoise says that this formulation is better than the other one by less
	// than its noise.
	NearNoise bool `json:"near_noise,omitempty"`
}

// Pair sets B against A.
type Pair struct {
	A       string `json:"a"`
	B       string `json:"b"`
	Rows    []Row  `json:"tasks"`   // tasks and groups that both have
	Average *Row   `json:"average"` // null where no task can be compared
}

// Row is one task, group or average of a pair.
type Row struct {
	Task    string `json:"task"` // "average" for the plain mean over Tasks
	Variant string `json:"variant"`
	Split   string `json:"split,omitempty"`
	// Tasks names what an average is of; it is the OLMES average where Olmes.
	Tasks []string `json:"tasks,omitempty"`
	Olmes bool     `json:"olmes_average,omitempty"`
	// Comparisons holds each view that both runs allow, the report's first.
	Comparisons []Comparison `json:"comparisons"`
	// Verdict is "a" or "b" for the run that is better by the report's view and
	// Holm's correction over tasks, "none" where they cannot be told apart, and
	// "" where that is refused or cannot be tested.
	Verdict  string   `json:"verdict"`
	Warnings []string `json:"warnings"`
}

// Comparison sets B against A in one view.
type Comparison struct {
	View   View       `json:"view"`
	A      Score      `json:"a_score"` // over the instances compared
	B      Score      `json:"b_score"`
	N      int        `json:"n"`               // instances compared
	Strata int        `json:"strata"`          // 1, or the tasks of a group or average
	Pairs  *PairCount `json:"pairs,omitempty"` // null where the runs share no instances

	Difference float64        `json:"difference"` // B − A; over strata of their plain mean
	SE         *float64       `json:"se"`         // paired
	Clustered  *Clustered     `json:"clustered"`  // null where the clusters are not known
	Interval   *stat.Interval `json:"interval"`   // of Difference
	Method     Method         `json:"interval_method"`
	// Correlation is that of the two runs' outcomes.
	Correlation *float64   `json:"correlation,omitempty"`
	McNemar     *stat.Test `json:"mcnemar,omitempty"` // exact; over strata of all instances together
	// P is what decides: McNemar's exact test; of strata and averages the normal
	// test, which for fewer than FewDiscordant discordant instances is no smaller
	// than McNemar's over all; where clusters are known no smaller than the normal
	// test with them.
	P    *float64 `json:"p"`
	Holm *float64 `json:"p_holm,omitempty"` // P corrected over the tasks, in the report's view
	// Detectable is the smallest true difference that a sample like this finds
	// with Power; null where none is.
	Detectable *float64 `json:"detectable"`
	Near       *Near    `json:"near_ties,omitempty"`

	alike *alike // nil where outcomes differ
}

// Method names how an interval was made.
type Method string

const (
	ByScore     Method = "tango"     // Tango's score interval
	ByError     Method = "normal"    // difference ± z·SE
	ByClustered Method = "clustered" // difference ± z·clustered SE
	Unpaired    Method = "unpaired"  // difference ± z·√(SE_A² + SE_B²): no shared instances
	// Exact is from Clopper and Pearson's bound on the share of instances that fall
	// otherwise, where all fell alike.
	Exact      Method = "exact"
	NoInterval Method = "none"
)

// PairCount counts the instances compared by who is right.
type PairCount struct {
	Both  int `json:"both"`
	OnlyA int `json:"only_a"`
	OnlyB int `json:"only_b"`
	None  int `json:"none"`
}

// Clustered is the error that takes instances about one text together.
type Clustered struct {
	SE       *float64 `json:"se"`
	Clusters int      `json:"clusters"`
	Shared   string   `json:"shared"` // what the instances of a cluster share
}

// Near says what noise may turn: decisions whose two best choices are closer
// than the noise of the arithmetic.
type Near struct {
	A      int     `json:"a"`      // near-ties of A among the instances compared
	B      int     `json:"b"`      // and of B
	Turns  int     `json:"turns"`  // instances whose outcome for A or B they may turn
	Low    float64 `json:"low"`    // the difference if all fell against B
	High   float64 `json:"high"`   // and if all fell for it
	Stated bool    `json:"stated"` // by a stated margin: the noise of A or B was not measured
}

// Rank is the place of a run. Runs that cannot be told apart share the rank.
type Rank struct {
	Label   string   `json:"label"`
	Average float64  `json:"average"` // over the tasks that all runs have
	SE      *float64 `json:"se"`
	// Rank is 1 and the number of runs that are better, by the test of the
	// average corrected over all pairs; Last is how far down it may belong: the
	// number of runs that it is not better than, itself included.
	Rank int `json:"rank"`
	Last int `json:"last"`
	// CF and MCF count the tasks whose better formulation is the one.
	CF  int `json:"tasks_by_cf"`
	MCF int `json:"tasks_by_mcf"`
}

// Options are the choices of a comparison; zero values are the defaults.
type Options struct {
	Alpha  float64 // stat.Alpha
	View   View    // Better; where no run has both formulations, the one they have
	Anyway bool    // rank whatever stands against it
	// Tasks limits the comparison to tasks and groups of these names.
	Tasks []string
	// Pairs is the number of runs up to which every pair is listed; 40.
	Pairs int
}

// Margin is how close the two best choices of a near-tie are where the noise was
// not measured, in the unit of the normalization in force.
const Margin = 0.001

func (o Options) filled() Options {
	if o.Alpha == 0 {
		o.Alpha = stat.Alpha
	}
	if o.Pairs == 0 {
		o.Pairs = 40
	}
	return o
}

func newScore(f olmes.Formulation, n olmes.Normalization, e score.Estimate) *Score {
	s := &Score{Formulation: f, Normalization: n, Accuracy: e.Accuracy, SE: e.SE, N: e.N}
	if e.Correct != nil {
		s.Interval = stat.Wilson(*e.Correct, e.N, stat.Level)
	} else {
		s.Interval = stat.Normal(e.Accuracy, e.SE, stat.Level)
	}
	return s
}
