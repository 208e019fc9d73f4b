package tinymodels_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"olmes/engine/tinymodels"
)

var update = flag.Bool("update", false, "rewrite testdata/logprobs.json")

// TestFaultsShow proves that the comparisons can see what they are for: each
// fault moves some request by at least 0.1 nats, and by a hundred times the
// bound that the engines are held to.
func TestFaultsShow(t *testing.T) {
	for _, m := range tinymodels.All(t) {
		faults := []string{"shift", "drop", "mask", "bos"}
		if m.Name == "mistral" {
			faults = append(faults, "window")
		}
		for _, fault := range faults {
			if moved := m.Moved[fault]; moved < max(0.1, 100*bound(m)) {
				t.Errorf("%s: %s moves the log-probabilities by %.3g nats at most", m.Name, fault, moved)
			}
		}
		kinds := map[tinymodels.Kind]int{}
		for _, r := range m.Requests {
			kinds[r.Kind]++
			long := len(r.IDs) > 48
			if long != (r.Kind == tinymodels.Long) {
				t.Errorf("%s: a request of kind %s has %d tokens", m.Name, r.Kind, len(r.IDs))
			}
		}
		if kinds[tinymodels.Short] < 5 || kinds[tinymodels.Long] < 10 || kinds[tinymodels.WithBOS] < 5 {
			t.Errorf("%s: requests %v", m.Name, kinds)
		}
		t.Logf("%s: %.3v", m.Name, m.Moved)
	}
}

// TestReference holds the reference to the numbers in testdata, so that another
// version of transformers, or a change of the scripts, is seen.
func TestReference(t *testing.T) {
	path := filepath.Join("testdata", "logprobs.json")
	got := map[string][]float64{}
	for _, m := range tinymodels.All(t) {
		for _, r := range m.Requests {
			got[m.Name] = append(got[m.Name], math.Round(tinymodels.Sum(r.LogProbs)*1e5)/1e5)
		}
	}
	if *update {
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]float64
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != len(got) {
		t.Errorf("%d models, the fixture has %d", len(got), len(want))
	}
	for name, sums := range got {
		if len(want[name]) != len(sums) {
			t.Errorf("%s: %d requests, the fixture has %d", name, len(sums), len(want[name]))
			continue
		}
		for i, sum := range sums {
			if math.Abs(sum-want[name][i]) > 1e-4 {
				t.Errorf("%s, request %d: %.5f, the fixture has %.5f", name, i, sum, want[name][i])
			}
		}
	}
}
