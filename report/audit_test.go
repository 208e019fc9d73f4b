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
