package record

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		`{ "b" : 1 , "a" : [ true, null, "x" ] }`: `{"a":[true,null,"x"],"b":1}`,
		// From RFC 8785, section 3.2.3: keys by UTF-16 code units.
		`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`: "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		// Section 3.2.2.
		`[333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001, -0, 1e21, 0.000001, 1e-7]`: `[333333333.3333333,1e+30,4.5,0.002,1e-27,0,1e+21,0.000001,1e-7]`,
		`"\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\/<&>"`:                                              `"€$\u000f\nA'B\"\\\\\"/<&>"`,
		`9007199254740992`: `9007199254740992`,
	} {
		got, err := Canonical([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("Canonical(%s)\n got %s, %v\nwant %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "{", "1 2", `"` + "\xff" + `"`, "9007199254740993", "1e999", "nope"} {
		if got, err := Canonical([]byte(in)); err == nil {
			t.Errorf("Canonical(%q) = %s", in, got)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1,2.5e3,"\u00e4"],"a":{"c":null}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := Canonical(in)
		if err != nil {
			return
		}
		twice, err := Canonical(once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%s becomes %s, %v", once, twice, err)
		}
	})
}

// encoding/json writes floats as RFC 8785 wants them.
func TestCanonicalFloats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "v")
		if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) > 1<<53 {
			return
		}
		doc, _ := json.Marshal(v)
		out, err := Canonical(doc)
		if err != nil {
			t.Fatal(err)
		}
		var back float64
		if err := json.Unmarshal(out, &back); err != nil || back != v {
			t.Fatalf("%v became %s", v, out)
		}
	})
}

func TestID(t *testing.T) {
	id, _, _ := testRun()
	if len(id.ID()) != 64 {
		t.Fatalf("id %q", id.ID())
	}
	doc, err := id.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	var back Identity
	if err := json.Unmarshal(doc, &back); err != nil {
		t.Fatal(err)
	}
	if back.ID() != id.ID() {
		t.Error("the id changes when the identity is stored")
	}
	spaced := id
	spaced.Plan = json.RawMessage("{\"batch\":512,\n\"cells\":4096}")
	if spaced.ID() != id.ID() {
		t.Error("the id depends on white space or order in the plan")
	}
	// Whatever determines results changes the id.
	for name, change := range map[string]func(*Identity){
		"plan":      func(id *Identity) { id.Plan = json.RawMessage(`{"batch":256,"cells":4096}`) },
		"model":     func(id *Identity) { id.Model.SHA256 = digest(nil) },
		"tokenizer": func(id *Identity) { id.Model.TokenizerSHA256 = digest(nil) },
		"bos":       func(id *Identity) { id.BOS.Added = true },
		"rows":      func(id *Identity) { id.Tasks[0].Dataset.RowsSHA256 = digest(nil) },
		"limit":     func(id *Identity) { id.Tasks[0].Instances = 2 },
		"library":   func(id *Identity) { id.Engine.LibrarySHA256 = digest(nil) },
		"program":   func(id *Identity) { id.Product = "0.2.0" },
		"exact":     func(id *Identity) { id.Precision.Exact = false },
	} {
		other, _, _ := testRun()
		change(&other)
		if other.ID() == id.ID() {
			t.Errorf("%s does not change the id", name)
		}
		if diffs, err := Differences(id, other); err != nil || len(diffs) != 1 {
			t.Errorf("%s: differences %v, %v", name, diffs, err)
		}
	}
	bad := id
	bad.Plan = json.RawMessage("{")
	if _, err := Create(t.TempDir(), bad, Provenance{}); bad.ID() != "" || err == nil {
		t.Error("an identity that cannot be encoded was accepted")
	}
}

func TestDigests(t *testing.T) {
	if DigestDocIDs([]int{2, 10, 1}) != DigestDocIDs([]int{10, 1, 2}) || DigestDocIDs([]int{1, 2}) == DigestDocIDs([]int{12}) {
		t.Error("doc_ids are a set")
	}
	if got, want := DigestDocIDs([]int{10, 2}), digest([]byte("2\n10\n")); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	if got, want := DigestRequests(map[int][]string{10: {"x"}, 2: {"y", "z"}}), digest([]byte("2 0 y\n2 1 z\n10 0 x\n")); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func FuzzManifest(f *testing.F) {
	id, _, _ := testRun()
	doc, err := id.Canonical()
	if err != nil {
		f.Fatal(err)
	}
	m := manifest{Format: Format, ID: id.ID(), Identity: doc, Results: newResults([]File{{Name: metricsName}}), Provenance: testProvenance()}
	seed, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"format":1,"identity":{"plan":[]}}`))
	f.Add([]byte(strings.Replace(string(seed), `"format": 1`, `"format": 9`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		_ = m.checkID()
		if m.Results != nil {
			_ = m.Results.sum()
		}
	})
}
