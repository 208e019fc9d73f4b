package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"olmes/folder/foldertest"
	"olmes/score"
)

// workerDir names the folder in which this test binary, started again, writes
// the test run instead of testing.
const workerDir = "OLMES_TEST_RECORD_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(workerDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := work(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// work writes or resumes the test run and seals it, slowly.
func work(dir string) error {
	id, preds, chunks := testRun()
	w, err := Create(dir, id, testProvenance())
	if errors.Is(err, ErrExists) {
		w, _, err = Resume(dir, id)
	}
	if errors.Is(err, ErrSealed) {
		return nil
	}
	if err != nil {
		return err
	}
	defer w.Close()
	for _, c := range chunks {
		if err := w.Append(c); err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	m, err := score.Summarize(id.Facts(), score.Seq(preds))
	if err != nil {
		return err
	}
	return w.Seal(preds, m, Provenance{})
}

func worker(t *testing.T, dir string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), workerDir+"="+dir)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &log
}

// Killed at any moment, a run can be resumed, and ends as an unbroken one.
func TestKilled(t *testing.T) {
	id, preds, chunks := testRun()
	whole := filepath.Join(t.TempDir(), "whole")
	seal(t, whole, id, preds, chunks)
	want := must[*Record](t)(Open(whole)).Results
	rng := rand.New(rand.NewPCG(7, 7))
	killed := 0
	for round := range 6 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint("run", round))
		for range 3 {
			cmd, _ := worker(t, dir)
			time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
			if err := cmd.Process.Kill(); err == nil {
				killed++
			}
			cmd.Wait()
			// Whatever is there reads as what it is.
			r, err := Open(dir)
			if err != nil && !errors.Is(err, ErrNotRecord) {
				t.Fatal(err)
			}
			if err == nil {
				if rep := must[*Report](t)(r.Verify()); rep.Damaged() {
					t.Fatalf("after a kill: %v", rep.Damage)
				}
			}
		}
		cmd, log := worker(t, dir)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("resume: %v: %s", err, log)
		}
		got := must[*Record](t)(Open(dir))
		if got.Results == nil || got.Results.SHA256 != want.SHA256 || got.ID != id.ID() {
			t.Errorf("round %d: results %+v, want %+v", round, got.Results, want)
		}
	}
	if killed == 0 {
		t.Error("no worker was killed")
	}
}

// A crash between any two steps of Seal leaves what Resume takes up.
func TestSealInSteps(t *testing.T) {
	id, preds, chunks := testRun()
	done := filepath.Join(t.TempDir(), "done")
	seal(t, done, id, preds, chunks)
	for steps, files := range [][]string{{}, {predictionsName}, {predictionsName, metricsName}} {
		dir := filepath.Join(t.TempDir(), "run")
		w := must[*Writer](t)(Create(dir, id, testProvenance()))
		for _, c := range chunks {
			if err := w.Append(c); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		for _, f := range files {
			write(t, dir, f, read(t, done, f))
		}
		w, finished, err := Resume(dir, id)
		if err != nil || len(finished) != len(chunks) {
			t.Fatalf("step %d: %d chunks, %v", steps, len(finished), err)
		}
		finish(t, w, id, preds, nil)
		if rep := verify(t, dir); !rep.Compliant() {
			t.Errorf("step %d: %+v", steps, rep)
		}
	}
	// After the last step the record is complete, journal or not.
	write(t, done, journalName, []byte("left behind\n"))
	if rep := verify(t, done); !rep.Compliant() {
		t.Errorf("a journal left behind: %+v", rep)
	}
}

// A failure between two renames takes the first one back.
func TestSealTakesBack(t *testing.T) {
	id, preds, chunks := testRun()
	dir := filepath.Join(t.TempDir(), "run")
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	defer w.Close()
	for _, c := range chunks {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, metricsName, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := must[score.Metrics](t)(score.Summarize(id.Facts(), score.Seq(preds)))
	if err := w.Seal(preds, m, Provenance{}); err == nil {
		t.Error("sealed over a folder")
	}
	if got := names(t, dir); !slices.Equal(got, []string{journalName, lockName, manifestName, metricsName}) {
		t.Errorf("files %v", got)
	}
}

func TestTwoProcesses(t *testing.T) {
	id, _, _ := testRun()
	dir := filepath.Join(t.TempDir(), "run")
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	defer w.Close()
	cmd, log := worker(t, dir)
	if err := cmd.Wait(); err == nil || !strings.Contains(log.String(), fmt.Sprint("in use by process ", os.Getpid())) {
		t.Errorf("a second process: %v: %s", err, log)
	}
}

// A full disk is one clear error, and leaves nothing under final names.
func TestFullDisk(t *testing.T) {
	mount, _ := foldertest.SmallDisk(t, "64k")
	fill := func(leave int) {
		f, err := os.Create(filepath.Join(mount, "fill"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for {
			if _, err := f.Write(make([]byte, 4096)); err != nil {
				break
			}
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(info.Size() - int64(leave)); err != nil {
			t.Fatal(err)
		}
	}
	id, preds, chunks := testRun()
	dir := filepath.Join(mount, "run")
	fill(0)
	if _, err := Create(dir, id, testProvenance()); !errors.Is(err, ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") || strings.Contains(err.Error(), tempPrefix) {
		t.Errorf("create: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("create left %v", names(t, dir))
	}
	os.Remove(filepath.Join(mount, "fill"))
	w := must[*Writer](t)(Create(dir, id, testProvenance()))
	defer w.Close()
	for _, c := range chunks {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	before := read(t, dir, journalName)
	fill(0)
	long := ChunkScores{Chunk: "long", LogProbs: make([]float64, 4096)}
	if err := w.Append(long); !errors.Is(err, ErrNoSpace) {
		t.Errorf("append: %v", err)
	}
	if !bytes.Equal(read(t, dir, journalName), before) {
		t.Error("the journal holds half a line")
	}
	m := must[score.Metrics](t)(score.Summarize(id.Facts(), score.Seq(preds)))
	unsealed := []string{journalName, lockName, manifestName}
	for _, room := range []int{0, 8192, 16384} {
		fill(room)
		if err := w.Seal(preds, m, Provenance{}); !errors.Is(err, ErrNoSpace) {
			t.Errorf("seal with %d bytes left: %v", room, err)
		}
		if got := names(t, dir); !slices.Equal(got, unsealed) {
			t.Errorf("seal with %d bytes left leaves %v", room, got)
		}
	}
	os.Remove(filepath.Join(mount, "fill"))
	if err := w.Seal(preds, m, Provenance{}); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, dir); !rep.Compliant() {
		t.Errorf("after making room: %+v", rep)
	}
}

// Planted secrets are found in no file of a record and in no error.
func TestSecretsStayOut(t *testing.T) {
	const secret, flagged = "planted-9f8e7d6c5b", "only-behind-a-flag"
	t.Setenv("SOME_TOKEN", secret)
	t.Setenv("HOME", "/home/someone")
	id, preds, chunks := testRun()
	id.Model.Source = "https://me:" + secret + "@host.example/model.gguf?token=" + secret
	prov := testProvenance()
	prov.Command = []string{"olmes", "run", "--token", secret, "--api-key=" + secret, "--hf-token", flagged}
	prov.Notes = []string{"Authorization: Bearer " + secret, "bare " + secret, "/home/someone/models/x"}
	prov.Resolved = []byte(`{"header":"X-Api-Key: ` + secret + `","deep":[{"url":"http://u:` + secret + `@h/"}]}`)
	prov.Environments[0].System = "SOME_TOKEN=" + secret
	dir := filepath.Join(t.TempDir(), "run")
	w := must[*Writer](t)(Create(dir, id, prov))
	look := func() {
		t.Helper()
		for _, name := range names(t, dir) {
			if data := read(t, dir, name); bytes.Contains(data, []byte(secret)) || bytes.Contains(data, []byte(flagged)) || bytes.Contains(data, []byte("/home/someone")) {
				t.Errorf("%s holds a secret or the home folder", name)
			}
		}
	}
	look()
	failed := slices.Clone(preds)
	failed[0].Choices = slices.Clone(failed[0].Choices)
	failed[0].Choices[0].LogProb = nil
	failed[0].Choices[0].TokenLogProbs = nil
	failed[0].Choices[0].ContinuationIDs = nil
	failed[0].Choices[0].Error = "GET http://u:" + secret + "@h/: 401"
	failed[0].Predictions = nil
	for _, c := range chunks {
		if err := w.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	m := must[score.Metrics](t)(score.Summarize(id.Facts(), score.Seq(failed)))
	if err := w.Seal(failed, m, prov); err != nil {
		t.Fatal(err)
	}
	look()
	r := must[*Record](t)(Open(dir))
	for p, err := range r.Predictions() {
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Choices {
			if strings.Contains(c.Error, secret) {
				t.Errorf("error text %q", c.Error)
			}
		}
	}
	other := id
	other.Model.Source = "https://me:" + secret + "@other.example/"
	if _, err := Create(dir, other, prov); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v", err)
	}
	if rep := verify(t, dir); rep.Damaged() {
		t.Errorf("damage: %v", rep.Damage)
	}
}
