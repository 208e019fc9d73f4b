package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"olmes"
	"olmes/outcome/outcometest"
)

// command runs the program in this process.
func command(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = execute(args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

func tamperedRecord(t *testing.T, dir string) {
	t.Helper()
	os.RemoveAll(dir)
	forms := map[olmes.Formulation]outcometest.Form{olmes.CF: {Accuracy: 0.4}, olmes.MCF: {Accuracy: 0.3}}
	outcometest.Write(t, dir, outcometest.Spec{Model: "m", Seed: 5, Noise: 1e-6, Tasks: []outcometest.Task{
		{Name: "arc_easy", N: 40, Normalization: olmes.Character, Forms: forms},
	}})
}

// forgeAccuracies sets all accuracies of a record and makes every digest right again.
func forgeAccuracies(t *testing.T, dir string) {
	t.Helper()
	edit := func(name string, change func([]byte) []byte) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			data = change(data)
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	metrics := edit("metrics.json", func(data []byte) []byte {
		data = regexp.MustCompile(`"accuracy": [0-9][0-9.]*`).ReplaceAll(data, []byte(`"accuracy": 0.95`))
		return regexp.MustCompile(`"correct": [0-9]+`).ReplaceAll(data, []byte(`"correct": 38`))
	})
	edit("manifest.json", func(data []byte) []byte {
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		results := m["results"].(map[string]any)
		var lines strings.Builder
		for _, f := range results["files"].([]any) {
			f := f.(map[string]any)
			if f["name"] == "metrics.json" {
				sum := sha256.Sum256(metrics)
				f["sha256"], f["bytes"] = hex.EncodeToString(sum[:]), len(metrics)
			}
			fmt.Fprintf(&lines, "%s  %s\n", f["sha256"], f["name"])
		}
		sum := sha256.Sum256([]byte(lines.String()))
		results["sha256"] = hex.EncodeToString(sum[:])
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	})
}

// A record that was tampered with gives no claim, and no command prints its scores
// that could have seen it.
func TestTampered(t *testing.T) {
	t.Chdir(t.TempDir())
	tamperedRecord(t, "a")
	predictions := filepath.Join("b", "predictions.parquet")
	all := []string{"claim b", "claim b --json", "show b", "show b --json", "rescore b", "compare a b", "study formulation b", "report b", "audit paper Pythia-1B=b"}
	for name, c := range map[string]struct {
		damage func() error
		say    string
		blind  []string // what reads metrics alone, and does not see it
	}{
		"nothing": {func() error { return nil }, "", all},
		"missing": {func() error { return os.Remove(predictions) }, "predictions.parquet", nil},
		"cut":     {func() error { return os.Truncate(predictions, 3000) }, "predictions.parquet", nil},
		"flipped": {func() error {
			data, err := os.ReadFile(predictions)
			if err != nil {
				return err
			}
			data[2000] ^= 1
			return os.WriteFile(predictions, data, 0o644)
		}, "predictions.parquet", []string{"report b", "audit paper Pythia-1B=b"}},
		"forged": {func() error { forgeAccuracies(t, "b"); return nil }, "metrics.json", []string{"report b", "audit paper Pythia-1B=b"}},
		"twice": {func() error {
			path := filepath.Join("b", "manifest.json")
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, bytes.Replace(data, []byte("{"), []byte(`{"provenance": {}, `), 1), 0o644)
		}, `the key "provenance" is there twice`, nil},
	} {
		tamperedRecord(t, "b")
		if err := c.damage(); err != nil {
			t.Fatal(err)
		}
		for _, line := range all {
			code, stdout, stderr := command(strings.Fields(line)...)
			seen := code == exitDamaged && stdout == "" && strings.Contains(stderr, c.say)
			blind := false
			for _, b := range c.blind {
				blind = blind || b == line
			}
			if name == "nothing" && code != exitDone && code != exitOffStandard || !seen && !blind {
				t.Errorf("%s: olmes %s: exit %d, prints %.100q, says %q", name, line, code, stdout, stderr)
			}
		}
	}
}

// One record under several labels is there under each.
func TestLabels(t *testing.T) {
	t.Chdir(t.TempDir())
	tamperedRecord(t, "a")
	for _, line := range []string{"compare A=a B=a", "report A=a B=a", "study formulation A=a B=a"} {
		code, stdout, stderr := command(strings.Fields(line)...)
		if code != exitDone && code != exitOffStandard || !regexp.MustCompile(`(?m)^A .*(\n.*)*\nB `).MatchString(stdout) {
			t.Errorf("olmes %s: exit %d, %s%s", line, code, stdout, stderr)
		}
	}
	code, _, stderr := command("report", "x/y=a")
	if code != exitUsage || !strings.Contains(stderr, `the label "x/y" of "x/y=a" has a "/"`) {
		t.Errorf("exit %d, %s", code, stderr)
	}
}
