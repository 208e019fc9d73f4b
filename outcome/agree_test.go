package outcome_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes/outcome"
	"olmes/outcome/outcometest"
	"olmes/record"
)

// forge edits the metrics of a record and makes every digest right again.
func forge(t *testing.T, dir string, edit func(metrics map[string]any)) {
	t.Helper()
	load := func(name string) (v map[string]any) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(data, &v)
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	store := func(name string, v any) []byte {
		data, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	metrics, manifest := load("metrics.json"), load("manifest.json")
	edit(metrics)
	data := store("metrics.json", metrics)
	results := manifest["results"].(map[string]any)
	var lines strings.Builder
	for _, f := range results["files"].([]any) {
		f := f.(map[string]any)
		if f["name"] == "metrics.json" {
			sum := sha256.Sum256(data)
			f["sha256"], f["bytes"] = hex.EncodeToString(sum[:]), len(data)
		}
		fmt.Fprintf(&lines, "%s  %s\n", f["sha256"], f["name"])
	}
	sum := sha256.Sum256([]byte(lines.String()))
	results["sha256"] = hex.EncodeToString(sum[:])
	store("manifest.json", manifest)
}

// in follows keys and positions into a JSON value.
func in(v any, path ...any) map[string]any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v.(map[string]any)
}

// Metrics that are not those of the instances are damage wherever instances are read.
func TestForgedMetrics(t *testing.T) {
	for name, edit := range map[string]func(m map[string]any){
		"": func(map[string]any) {},
		"accuracy": func(m map[string]any) {
			in(m, "tasks", 0, "formulations", "cf", "accuracy", "character")["accuracy"] = 0.95
		},
		"correct": func(m map[string]any) { in(m, "tasks", 0, "formulations", "mcf", "accuracy", "none")["correct"] = 47 },
		"n":       func(m map[string]any) { in(m, "tasks", 0, "formulations", "cf", "accuracy", "none")["n"] = 49 },
		"absent":  func(m map[string]any) { delete(in(m, "tasks", 0, "formulations", "cf", "accuracy"), "pmi") },
		"score":   func(m map[string]any) { in(m, "tasks", 0, "score")["accuracy"] = 0.95 },
		"task": func(m map[string]any) {
			delete(m, "groups")
			m["tasks"] = m["tasks"].([]any)[:1]
		},
		"another task": func(m map[string]any) {
			task := map[string]any{}
			for k, v := range in(m, "tasks", 0) {
				task[k] = v
			}
			task["task"] = "piqa"
			m["tasks"] = append(m["tasks"].([]any), task)
		},
		"group":       func(m map[string]any) { in(m, "groups", 0, "formulations", "cf", "macro", "none")["accuracy"] = 0.95 },
		"group score": func(m map[string]any) { in(m, "groups", 0, "score")["accuracy"] = 0.95 },
		"suite": func(m map[string]any) {
			m["suite"] = map[string]any{"complete": true, "average": map[string]any{"accuracy": 0.95}}
		},
	} {
		dir := filepath.Join(t.TempDir(), "r")
		outcometest.Write(t, dir, spec("a"))
		forge(t, dir, edit)
		found, problems, err := outcome.Sources([]string{dir})
		if err != nil || len(problems) > 0 {
			t.Fatalf("%s: %v, %v", name, problems, err)
		}
		for d := outcome.Metrics; d <= outcome.Tokens; d++ {
			_, err := outcome.Load(t.Context(), found[0], d)
			if refused := errors.Is(err, record.ErrDamaged); refused != (name != "" && d != outcome.Metrics) {
				t.Errorf("%s at depth %d: %v", name, d, err)
			}
		}
	}
}

// A record whose predictions are missing or cut is a problem, also where metrics
// alone are read.
func TestSourcesSizes(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"missing": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 1000) },
	} {
		dir := filepath.Join(t.TempDir(), "r")
		outcometest.Write(t, dir, spec("a"))
		if err := damage(filepath.Join(dir, "predictions.parquet")); err != nil {
			t.Fatal(err)
		}
		found, problems, err := outcome.Sources([]string{dir})
		if err != nil || len(found) > 0 || len(problems) != 1 || !errors.Is(problems[0], record.ErrDamaged) || !strings.Contains(problems[0].Error(), "predictions.parquet") {
			t.Errorf("%s: %v, %v, %v", name, found, problems, err)
		}
	}
}
