package table

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"olmes"
	"olmes/foreign/results"
)

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const head = "task,formulation,doc_id,choice,gold,logprob\n"

func TestFaults(t *testing.T) {
	good := "t,cf,0,0,1,-2\nt,cf,0,1,1,-1\n"
	for name, c := range map[string]struct{ content, want string }{
		"sound":             {head + good, ""},
		"windows":           {strings.ReplaceAll("\xef\xbb\xbf"+head+good, "\n", "\r\n"), ""},
		"quoted":            {head + "\"t\",\"cf\",0,0,1,-2\nt,cf,0,1,1,-1\n", ""},
		"no rows":           {head, "the table has a header and no rows"},
		"empty":             {"", "the file is empty"},
		"other header":      {"a,b\n1,2\n", "line 1: the header has none of both sets of columns"},
		"semicolons":        {"task;accuracy\nt;0.5\n", "line 1: the header has none"},
		"unknown column":    {"task,accuracy,colour\nt,0.5,red\n", `line 1: unknown column "colour"`},
		"column twice":      {"task,accuracy,task\nt,0.5,t\n", `line 1: the column "task" is there twice`},
		"short row":         {head + good + "t,cf,1\n", "line 4: wrong number of fields"},
		"bare quote":        {head + good + "t\"x,cf,1,0,1,-2\n", "line 4: bare \" in non-quoted-field"},
		"nan":               {head + good + "t,cf,1,0,1,nan\n", "line 4: logprob is NaN; --keep-failed"},
		"above 0":           {head + good + "t,cf,1,0,1,5\n", "line 4: logprob is 5; a log-probability is at most 0"},
		"within rounding":   {head + good + "t,cf,1,0,0,1e-7\n", ""},
		"huge":              {head + good + "t,cf,1,0,1,99999999999999999999\n", "line 4: logprob is 1e+20; a log-probability"},
		"true":              {head + good + "t,cf,1,0,1,true\n", `line 4: logprob is "true", which is no number`},
		"above 0 after":     {"task,doc_id,choice,gold,logprob,unconditional\nt,0,0,0,-1,9\n", "line 2: unconditional is 9; a log-probability is at most 0"},
		"no logprob":        {head + good + "t,cf,1,0,1,\n", "line 4: logprob is missing; --keep-failed"},
		"words":             {head + good + "t,cf,1,0,1,low\n", `line 4: logprob is "low", which is no number`},
		"doc_id":            {head + good + "t,cf,-1,0,1,-1\n", `line 4: doc_id is "-1"; it can be a whole number`},
		"no doc_id":         {head + good + "t,cf,,0,1,-1\n", "line 4: doc_id is empty"},
		"formulation":       {head + good + "t,cloze,1,0,1,-1\n", `line 4: formulation is "cloze"`},
		"no task":           {head + good + ",cf,1,0,1,-1\n", "line 4: task is empty"},
		"choice twice":      {head + good + "t,cf,0,1,1,-1\n", "line 4: choice 1 of doc_id 0 is there twice"},
		"two golds":         {head + good + "t,cf,0,2,0,-1\n", "line 4: gold of doc_id 0 is 0, in line 2 it is 1"},
		"gold outside":      {head + good + "t,cf,1,0,1,-1\n", "line 4: gold of doc_id 1 is 1 of 1 choices"},
		"gap":               {head + good + "t,cf,1,1,1,-1\n", "line 4: doc_id 1 has 1 choices and none with the number 0"},
		"bad UTF-8":         {head + good + "t\xff,cf,1,0,1,-1\n", "line 4: column 1 is not valid UTF-8"},
		"digest":            {"task,doc_id,choice,gold,logprob,request_sha256\nt,0,0,0,-1,XYZ\n", "line 2: request_sha256 is no SHA-256"},
		"digest not of it":  {"task,doc_id,choice,gold,logprob,request_sha256,context,continuation\nt,0,0,0,-1," + strings.Repeat("0", 64) + ",q, a\n", "line 2: request_sha256 is not that of"},
		"percent":           {"task,accuracy\nt,43.5\n", "line 2: accuracy is 43.5; it is a fraction from 0 to 1, so divide percentages by 100"},
		"negative accuracy": {"task,accuracy\nt,-0.5\n", "line 2: accuracy is -0.5"},
		"accuracy nan":      {"task,accuracy\nt,nan\n", "line 2: accuracy is NaN"},
		"normalization":     {"task,accuracy,normalization\nt,0.5,bytes\n", `line 2: normalization is "bytes"`},
		"accuracy twice":    {"task,accuracy,normalization\nt,0.5,none\nt,0.6,none\n", "line 3: the accuracy under none is there twice"},
		"unnamed twice":     {"task,accuracy\nt,0.5\nt,0.6\n", "line 3: another row has the accuracy of this task"},
		"two counts":        {"task,accuracy,normalization,n\nt,0.5,none,10\nt,0.6,character,11\n", "line 3: n is 11, in a row before it is 10"},
		"huge se":           {"task,accuracy,se\nt,0.5,1e308\n", "line 2: se is 1e+308; the standard error of an accuracy is at most 1"},
		"se":                {"task,accuracy,se\nt,0.5,-1\n", "line 2: se is -1"},
	} {
		path := write(t, c.content)
		_, err := Read(context.Background(), path, Options{})
		var at *results.Error
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), path+": "+c.want) || !errors.As(err, &at)) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

func read(t *testing.T, content string) []*results.Run {
	t.Helper()
	runs, err := Read(context.Background(), write(t, content), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// Rows may come in any order; each model is a run; an empty variant is the
// standard's rendering and none at all is unknown.
func TestChoices(t *testing.T) {
	runs := read(t, "model,task,variant,formulation,split,doc_id,native_id,gold,choice,logprob,unconditional,tokens,chars\n"+
		"b,commonsense_qa,,rc,validation,7,n7,0,1,-2,-1,2,5\na,piqa,,mc,validation,3,,1,0,-1,,,\nb,commonsense_qa,,rc,validation,7,n7,0,0,-3,-9,1,6\na,piqa,,mc,validation,3,,1,1,-2,,,\n")
	if len(runs) != 2 || runs[0].Model.Name != "a" || runs[1].Model.Name != "b" || runs[0].Variant != "" {
		t.Fatalf("%+v", runs)
	}
	p := runs[1].Forms[0].Predictions[0]
	if p.Task != "csqa" || p.Formulation != olmes.CF || p.DocID != 7 || p.NativeID != "n7" || *p.Choices[1].LogProb != -2 || p.Choices[0].Chars != 6 {
		t.Errorf("%+v", p)
	}
	if d := cmp.Diff(map[olmes.Normalization]int{"none": 1, "token": 1, "character": 1, "pmi": 0}, p.Predictions); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[olmes.Normalization]int{"none": 0}, runs[0].Forms[0].Predictions[0].Predictions); d != "" {
		t.Error(d)
	}
	if lacks := strings.Join(runs[0].Lacks, "\n"); !strings.Contains(lacks, "but the model's name") {
		t.Errorf("lacks %q", lacks)
	}
	if runs = read(t, head+"t,cf,0,0,0,-1\n"); runs[0].Variant != results.Unknown || strings.Contains(strings.Join(runs[0].Lacks, "\n"), "but the model's name") {
		t.Errorf("variant %q, lacks %q", runs[0].Variant, runs[0].Lacks)
	}
	kept, err := Read(context.Background(), write(t, head+"t,cf,0,0,0,nan\nt,cf,0,1,0,-1\n"), Options{KeepFailed: true})
	if err != nil || kept[0].Forms[0].Predictions[0].Choices[0].Error == "" {
		t.Errorf("%v", err)
	}
}

func TestAccuracies(t *testing.T) {
	runs := read(t, "model,task,formulation,normalization,accuracy,n,split,variant\nm,arc_easy,cf,character,0.5,1000,test,\nm,arc_easy,mcf,none,0.25,1000,test,\nm,sciq,,,0.9,,,\n")
	m, err := runs[0].Metrics()
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Tasks[0].Score; s == nil || s.Formulation != olmes.CF || *s.Correct != 500 || s.SE == nil || !m.Tasks[0].Complete || m.Tasks[1].Values["accuracy"].Value != 0.9 {
		t.Errorf("%+v", m)
	}
}

// FuzzCSV: a table is refused or becomes sound runs, whose rows are written and
// read back as they are.
func FuzzCSV(f *testing.F) {
	f.Add([]byte(head + "t,cf,0,0,1,-2\nt,cf,0,1,1,-1\n"))
	f.Add([]byte("model,task,accuracy,normalization,n\nm,arc_easy,0.5,none,10\n"))
	f.Add([]byte("task,doc_id,choice,gold,logprob,context,continuation\nt,0,0,0,-1,\"q\n\", a\n"))
	path := filepath.Join(f.TempDir(), "fuzz.csv")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		runs, err := Read(context.Background(), path, Options{KeepFailed: true})
		if err != nil {
			return
		}
		if _, err := csv.NewReader(bytes.NewReader(data)).ReadAll(); err != nil && !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) && !bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
			t.Fatalf("read what is no CSV: %v", err)
		}
		for _, r := range runs {
			if _, err := r.Metrics(); err != nil {
				t.Fatal(err)
			}
			if r.Identity().ID() == "" {
				t.Fatal("no id")
			}
			for _, p := range r.Predictions() {
				if p.Gold < 0 || p.Gold >= len(p.Choices) {
					t.Fatalf("gold %d of %d", p.Gold, len(p.Choices))
				}
			}
		}
	})
}
