package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes"
	"olmes/audit"
	"olmes/outcome/outcometest"
	"olmes/record"
)

// An audit says of runs how many instances a score has, which scores are
// off-standard and why, that a group is a part, and whose scores they are.
func TestAuditRuns(t *testing.T) {
	dir := t.TempDir()
	ledger := filepath.Join(dir, "ledger.yaml")
	if err := os.WriteFile(ledger, []byte(`ledger: 1
title: t
claims:
  - {by: A, model: claimed, task: boolq, value: 60}
  - {by: A, model: claimed, task: openbookqa, value: 60}
  - {by: A, model: claimed, task: mmlu, value: 60}
  - {by: A, model: named, task: boolq, value: 60}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	forms := map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: 0.6}, olmes.MCF: {Accuracy: 0.2}}
	spec := func(model string) outcometest.Spec {
		return outcometest.Spec{Model: model, Seed: 2, Change: func(id *record.Identity) { id.Standard = "olmes-v0.1" }, Tasks: []outcometest.Task{
			{Name: "boolq", N: 30, Forms: forms, Normalization: olmes.None},
			{Name: "boolq", Variant: "var1", N: 30, Forms: forms, Normalization: olmes.None},
			{Name: "openbookqa", N: 10, Incomplete: true, Forms: forms, Normalization: olmes.PMI},
			{Name: "mmlu_anatomy", Group: "mmlu", GroupSize: 57, N: 12, Forms: forms, Normalization: olmes.Character},
			{Name: "mmlu_virology", Group: "mmlu", GroupSize: 57, N: 13, Forms: forms, Normalization: olmes.Character},
		}}
	}
	outcometest.Write(t, filepath.Join(dir, "a"), spec("llama-9b"))
	outcometest.Write(t, filepath.Join(dir, "b"), spec("Named"))
	one := spec("cf-only")
	one.Tasks = one.Tasks[:1]
	one.Tasks[0].Forms = map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: 0.6}}
	outcometest.Write(t, filepath.Join(dir, "c"), one)

	args := []string{"audit", ledger, "claimed=" + filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")}
	code, text, stderr := said(args...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, want := range []string{"CF n 30\n", "CF n 25, 2 of 57 subjects", "CF n 10\n", "* off-standard, claimed: openbookqa: ", "* off-standard, claimed: mmlu: 2 of 57 subjects\n",
		"The run claimed is of the model llama-9b, which the ledger calls otherwise: it is held against the claims of claimed.\n", "note: cf-only has no score in the standard's rendering"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "is of the model Named") || strings.Contains(text, "* off-standard, claimed: boolq") {
		t.Errorf("too much is said:\n%s", text)
	}
	_, stdout, _ := said(append(args, "--json")...)
	var a struct {
		Tables []struct {
			Task   string
			Models []struct{ Own []audit.Own }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &a); err != nil {
		t.Fatal(err)
	}
	of := func(task string) audit.Own {
		for _, k := range a.Tables {
			if k.Task == task {
				return k.Models[0].Own[0]
			}
		}
		t.Fatalf("no table of %s\n%s", task, stdout)
		return audit.Own{}
	}
	if b := of("boolq"); !b.Standard || len(b.Off) > 0 || b.N != 30 || b.RunModel != "llama-9b" {
		t.Errorf("boolq: %+v", b)
	}
	if o := of("openbookqa"); o.Standard || len(o.Off) != 1 || o.N != 10 {
		t.Errorf("openbookqa: %+v", o)
	}
	if m := of("mmlu"); m.Standard || m.Part != "2 of 57" || m.N != 25 {
		t.Errorf("mmlu: %+v", m)
	}
}
