package report

import (
	"bytes"
	"strings"
	"testing"

	"olmes/audit"
)

const ledger = `
ledger: 1
title: one board
claims:
  - {by: A, model: small, task: arc_easy, value: 60.0}
  - {by: A, model: middle, task: arc_easy, value: 65.0}
  - {by: A, model: "<large> & more", task: arc_easy, value: 71.0}
  - {by: A, model: small, task: piqa, value: 70.0}
  - {by: A, model: middle, task: piqa, value: 74.0}
  - {by: A, model: "<large> & more", task: piqa, value: 75.0}
`

// What the tables say of own scores: instances, what is off-standard, whose they are,
// and why there is no line.
func TestAuditOwn(t *testing.T) {
	l, err := audit.Read(strings.NewReader(ledger + "  - {by: B, model: small, task: arc_easy, value: 61.0}\n  - {by: B, model: middle, task: arc_easy, value: 66.0}\n  - {by: A, model: small, task: csqa, value: 61.0}\n"))
	if err != nil {
		t.Fatal(err)
	}
	a := audit.Make(l, []audit.Own{
		{Model: "small", RunModel: "other-1b", Label: "small", Task: "arc_easy", Score: 59, SE: 1.55, N: 1000, Setup: audit.Setup{Formulation: "cf", Split: "test"}, Off: []string{"the weights are quantized"}},
		{Model: "middle", RunModel: "middle", Label: "middle", Task: "arc_easy", Score: 59, N: 20, Standard: true, Part: "2 of 57", Setup: audit.Setup{Formulation: "mcf", Split: "test"}},
		{Model: "small", RunModel: "other-1b", Label: "small", Task: "piqa", Score: 60, N: 7, Standard: true},
		{Model: "middle", RunModel: "middle", Label: "middle", Task: "piqa", Score: 60, N: 7, Standard: true},
		{Model: "<large> & more", Label: "run", Task: "piqa", Score: 60, N: 7, Standard: true},
	})
	a.Notes = append(a.Notes, "x has no score")
	var b bytes.Buffer
	if err := Audit(&b, a); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"59.0* ± 1.6 CF n 1000", "59.0 MCF n 20, 2 of 57 subjects", "* off-standard, small: the weights are quantized\n",
		"The run small is of the model other-1b, which the ledger calls otherwise: it is held against the claims of small.\n",
		"piqa: no line by 3 points with 1 own score; it takes 3 points with 3 different own scores", "note: x has no score\n", "1 task with one reference and no run is left out."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "slope") {
		t.Errorf("a line of one own score:\n%s", b.String())
	}
}

// TestAuditFigures draws a line for each task and one for all; without own
// scores there is none.
func TestAuditFigures(t *testing.T) {
	l, err := audit.Read(strings.NewReader(ledger))
	if err != nil {
		t.Fatal(err)
	}
	var own []audit.Own
	for i, m := range []string{"small", "middle", "<large> & more"} {
		own = append(own, audit.Own{Model: m, Label: "run", Task: "arc_easy", Score: 59 + 4*float64(i)}, audit.Own{Model: m, Label: "run", Task: "piqa", Score: 70 + float64(i*i)})
	}
	figures, err := AuditFigures(audit.Make(l, own))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range figures {
		names = append(names, f.Task)
		if !bytes.Contains(f.SVG, []byte("fit: slope")) || bytes.Contains(f.SVG, []byte("<large>")) {
			t.Errorf("%s:\n%s", f.Task, f.SVG)
		}
	}
	if strings.Join(names, " ") != "arc_easy piqa all" {
		t.Errorf("figures %q", names)
	}
	if figures, err := AuditFigures(audit.Make(l, nil)); err != nil || len(figures) != 0 {
		t.Errorf("without own scores: %d figures, %v", len(figures), err)
	}
}
