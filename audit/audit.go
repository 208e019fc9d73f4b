package audit

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"olmes/stat"
)

// Own is a score of one's own for a claim to be held against.
type Own struct {
	Model    string  `json:"model"`     // as the ledger calls it
	RunModel string  `json:"run_model"` // as the run calls it; "" is not known
	Label    string  `json:"label"`     // of the run
	Task     string  `json:"task"`      // "average" for the mean of all tasks
	Setup    Setup   `json:"setup"`
	Score    float64 `json:"score"`    // percent
	SE       float64 `json:"se"`       // points; 0 is not known
	N        int     `json:"n"`        // instances; 0 is not known
	Standard bool    `json:"standard"` // nothing of it is off-standard
	// Off says what is off-standard of the score, in words.
	Off []string `json:"off_standard"`
	// Part says that some tasks of its group were not run ("2 of 57"), so that it is
	// of no line; "" else.
	Part string `json:"part"`
}

// Table is what all references say about one task (paper, Tables 1 and 14).
type Table struct {
	Task       string      `json:"task"`
	References []Reference `json:"references"` // columns
	Models     []Row       `json:"models"`
	Flips      []Flip      `json:"rank_flips"`
	// OwnSetup is the setup that all own scores share; null without one.
	OwnSetup *Setup `json:"own_setup"`
}

// Reference is a source of scores of a task, with what it says of their setup: the
// value that all its claims share, "?" where none says it, "mixed" else.
type Reference struct {
	Name  string `json:"name"`
	Setup Setup  `json:"setup"`
}

// Row is one model's scores of a task.
type Row struct {
	Model string   `json:"model"`
	Cells [][]Cell `json:"cells"` // by reference; several where one gives several
	Own   []Own    `json:"own"`   // in the order of the runs
	// Spread is the largest minus the smallest score over the references, in
	// points; null for fewer than two. A reference that gives several (both
	// formulations, say) counts with the largest.
	Spread *float64 `json:"spread"`
	// Differs and Unknown name the parts of the setup in which the references
	// differ, and those that some do not document.
	Differs []string `json:"setup_differs"`
	Unknown []string `json:"setup_unknown"`
}

// Cell is one claim.
type Cell struct {
	Value Number `json:"value"`
	Bound Bound  `json:"bound,omitempty"`
	Setup Setup  `json:"setup"`
}

// Flip is a pair of models that two references order differently.
type Flip struct {
	A     string `json:"a"` // ahead for One
	B     string `json:"b"` // ahead for Other
	One   string `json:"one"`
	Other string `json:"other"`
}

// Audit is all that can be said about a ledger.
type Audit struct {
	Title          string          `json:"title"`
	Source         string          `json:"source,omitempty"`
	Tables         []Table         `json:"tables"`
	Fits           []Fit           `json:"fits"`
	NoFits         []NoFit         `json:"no_fits"`
	Verdicts       []Verdict       `json:"checks"`
	Contradictions []Contradiction `json:"contradictions"`
	Unmatched      []string        `json:"unmatched_runs"` // labels of runs of which no claim speaks
	Renamed        []Renamed       `json:"renamed_runs"`
	// Notes are what else must be known of the runs, in words.
	Notes []string `json:"notes"`
}

// Renamed is a run whose model has another name than the ledger's that it is held
// against.
type Renamed struct {
	Label    string `json:"label"`
	RunModel string `json:"run_model"`
	Model    string `json:"model"`
}

// Make holds a ledger against itself and against own scores.
func Make(l *Ledger, own []Own) Audit {
	a := Audit{Title: l.Title, Source: l.Source, Verdicts: l.Verify(), Tables: []Table{}, Contradictions: append([]Contradiction{}, l.Contradictions...), Unmatched: []string{}, Renamed: []Renamed{}, Notes: []string{}}
	var tasks []string
	byTask := map[string][]*Claim{}
	models := map[string]bool{}
	for i := range l.Claims {
		c := &l.Claims[i]
		if !c.compared() {
			continue
		}
		if byTask[c.Task] == nil {
			tasks = append(tasks, c.Task)
		}
		byTask[c.Task] = append(byTask[c.Task], c)
		models[c.Model] = true
	}
	for _, t := range tasks {
		a.Tables = append(a.Tables, table(t, byTask[t], own))
	}
	for _, o := range own {
		if !models[o.Model] {
			if !slices.Contains(a.Unmatched, o.Label) {
				a.Unmatched = append(a.Unmatched, o.Label)
			}
			continue
		}
		if r := (Renamed{o.Label, o.RunModel, o.Model}); o.RunModel != "" && !strings.EqualFold(o.RunModel, o.Model) && !slices.Contains(a.Renamed, r) {
			a.Renamed = append(a.Renamed, r)
		}
	}
	a.Fits, a.NoFits = fits(a.Tables)
	return a
}

// compared reports whether a claim is a model's score on a task.
func (c *Claim) compared() bool {
	return c.Kind == Score && c.Model != "" && c.Task != "" && (c.Unit == "" || c.Unit == "percent")
}

func table(task string, claims []*Claim, own []Own) Table {
	t := Table{Task: task, Flips: []Flip{}}
	var models []string
	for _, c := range claims {
		if !slices.ContainsFunc(t.References, func(r Reference) bool { return r.Name == c.Reference() }) {
			t.References = append(t.References, Reference{Name: c.Reference()})
		}
		if !slices.Contains(models, c.Model) {
			models = append(models, c.Model)
		}
	}
	for i := range t.References {
		var setups []Setup
		for _, c := range claims {
			if c.Reference() == t.References[i].Name {
				setups = append(setups, c.Setup)
			}
		}
		t.References[i].Setup = shared(setups)
	}
	var ownSetups []Setup
	for _, m := range models {
		row := Row{Model: m, Cells: make([][]Cell, len(t.References)), Own: []Own{}}
		var setups []Setup
		var values []float64
		for _, c := range claims {
			if c.Model != m {
				continue
			}
			at := slices.IndexFunc(t.References, func(r Reference) bool { return r.Name == c.Reference() })
			row.Cells[at] = append(row.Cells[at], Cell{c.Value, c.Bound, c.Setup})
			setups = append(setups, c.Setup)
		}
		for _, cells := range row.Cells {
			if v, ok := best(cells); ok {
				values = append(values, v)
			}
		}
		if len(values) > 1 {
			spread := slices.Max(values) - slices.Min(values)
			row.Spread = &spread
		}
		row.Differs, row.Unknown = differences(setups)
		for _, o := range own {
			if o.Model == m && o.Task == task {
				row.Own = append(row.Own, o)
			}
		}
		for i := range row.Own {
			if row.Own[i].Off == nil {
				row.Own[i].Off = []string{}
			}
			ownSetups = append(ownSetups, row.Own[i].Setup)
		}
		t.Models = append(t.Models, row)
	}
	if len(ownSetups) > 0 {
		setup := shared(ownSetups)
		t.OwnSetup = &setup
	}
	t.flips()
	return t
}

// shared is the setup that several have in common.
func shared(setups []Setup) Setup {
	one := func(part func(Setup) string) string {
		out := "?"
		for _, s := range setups {
			switch v := part(s); {
			case !known(v) || v == out:
			case out == "?":
				out = v
			default:
				return "mixed"
			}
		}
		return out
	}
	return Setup{
		Formulation:   one(func(s Setup) string { return s.Formulation }),
		Normalization: one(func(s Setup) string { return s.Normalization }),
		Shots:         one(func(s Setup) string { return s.Shots }),
		Split:         one(func(s Setup) string { return s.Split }),
		Examples:      one(func(s Setup) string { return s.Examples }),
	}
}

// differences names the parts in which setups differ, and those that some do
// not document.
func differences(setups []Setup) (differs, unknown []string) {
	differs, unknown = []string{}, []string{}
	for i, f := range (Setup{}).Fields() {
		seen := map[string]bool{}
		missing := false
		for _, s := range setups {
			if v := s.Fields()[i].Value; known(v) {
				seen[v] = true
			} else {
				missing = true
			}
		}
		if len(seen) > 1 {
			differs = append(differs, f.Name)
		}
		if missing {
			unknown = append(unknown, f.Name)
		}
	}
	return differs, unknown
}

// flips finds the pairs of models that two references order differently. A
// reference that gives a model several scores orders by the largest.
func (t *Table) flips() {
	for i := range t.Models {
		for j := i + 1; j < len(t.Models); j++ {
			a, b := &t.Models[i], &t.Models[j]
			ahead, behind := -1, -1 // first references that put a before b, and b before a
			for r := range t.References {
				x, okX := best(a.Cells[r])
				y, okY := best(b.Cells[r])
				switch {
				case !okX || !okY:
				case x > y && ahead < 0:
					ahead = r
				case y > x && behind < 0:
					behind = r
				}
			}
			if ahead >= 0 && behind >= 0 {
				t.Flips = append(t.Flips, Flip{a.Model, b.Model, t.References[ahead].Name, t.References[behind].Name})
			}
		}
	}
}

func best(cells []Cell) (float64, bool) {
	out := math.Inf(-1)
	for _, c := range cells {
		if c.Bound == "" {
			out = max(out, c.Value.Value)
		}
	}
	return out, !math.IsInf(out, -1)
}

// Fit is how claims lie above own scores (paper, Figure 4): a line through
// claimed minus own by claimed.
type Fit struct {
	Task   string   `json:"task"` // "" for all tasks together, averages left out
	Points []Point  `json:"points"`
	Line   stat.Fit `json:"line"`
}

// Point is a claim with its own counterpart.
type Point struct {
	Task      string  `json:"task"`
	Model     string  `json:"model"`
	Reference string  `json:"reference"`
	Label     string  `json:"label"`
	Claimed   float64 `json:"claimed"`    // percent
	Own       float64 `json:"own"`        // percent
	Above     float64 `json:"difference"` // claimed minus own, points
	Outlier   bool    `json:"outlier"`
}

// outlying is the studentized residual beyond which a point is called an
// outlier.
const outlying = 3

// LinePoints is how many points a line needs, and how many different own scores
// among them: by one own score alone claimed minus own rises by 1 with each point
// claimed, whatever is claimed.
const LinePoints = 3

// NoFit is a task with points enough for a line and too few different own scores.
type NoFit struct {
	Task   string `json:"task"` // "" for all tasks together
	Points int    `json:"points"`
	Own    int    `json:"own_scores"` // different ones
}

func fits(tables []Table) ([]Fit, []NoFit) {
	out, none := []Fit{}, []NoFit{}
	var all []Point
	for _, t := range tables {
		var points []Point
		for _, m := range t.Models {
			for r, cells := range m.Cells {
				for _, c := range cells {
					for _, o := range m.Own {
						if c.Bound == "" && o.Part == "" {
							points = append(points, Point{Task: t.Task, Model: m.Model, Reference: t.References[r].Name, Label: o.Label, Claimed: c.Value.Value, Own: o.Score, Above: c.Value.Value - o.Score})
						}
					}
				}
			}
		}
		if len(points) >= LinePoints {
			if f, n, ok := fit(t.Task, points); ok {
				out = append(out, f)
			} else {
				none = append(none, n)
			}
		}
		if t.Task != "average" {
			all = append(all, points...)
		}
	}
	if f, _, ok := fit("", all); ok && len(out) > 1 {
		out = append(out, f)
	}
	return out, none
}

// fit draws the line where there are three points of three different own scores at
// least; else it says what there is.
func fit(task string, points []Point) (Fit, NoFit, bool) {
	var own []float64
	for _, p := range points {
		if !slices.Contains(own, p.Own) {
			own = append(own, p.Own)
		}
	}
	none := NoFit{task, len(points), len(own)}
	if len(own) < LinePoints {
		return Fit{}, none, false
	}
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.Claimed, b.Claimed) })
	var x, y []float64
	for _, p := range points {
		x, y = append(x, p.Claimed), append(y, p.Above)
	}
	line, ok := stat.Line(x, y, 0.95)
	if !ok {
		return Fit{}, none, false
	}
	for i, r := range line.Studentized {
		points[i].Outlier = r != nil && math.Abs(*r) > outlying
	}
	return Fit{Task: task, Points: points, Line: line}, none, true
}
