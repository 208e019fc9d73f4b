package run

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"olmes/model/modeltest"
)

// A run takes the hub's branches as they were; preparing looks them up again.
func TestPrepareRefreshes(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	cache := t.TempDir()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	repo := filepath.Join(cache, "models--org--name")
	file, err := modeltest.Encode(modeltest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"refs/main": []byte(commit), "snapshots/" + commit + "/x.gguf": file} {
		path := filepath.Join(repo, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_HUB_CACHE", cache)
	t.Setenv("HF_HUB_OFFLINE", "")
	t.Setenv("OLMES_OFFLINE", "")
	env := testEnv(t)
	c := Config{Model: "hf:org/name:x.gguf", Tasks: []string{"openbookqa"}}
	r := &Run{config: c, env: env}
	if _, err := r.resolveModel(t.Context(), ""); err != nil || asked > 0 {
		t.Errorf("a run: error %v, %d requests to the hub; want none of either", err, asked)
	}
	if _, err := Prepare(t.Context(), c, env); err == nil || asked == 0 {
		t.Errorf("prepare: error %v, %d requests to the hub; want the branch looked up", err, asked)
	}
}

// A mistake in a name is found before anything is fetched.
func TestStartNamesFirst(t *testing.T) {
	env := testEnv(t)
	for _, c := range []Config{{Model: "no-such-model"}, {Tasks: []string{"no-such-task"}}} {
		quiet := &phases{}
		env.Reporter = quiet
		if _, _, err := start(t.Context(), c, Options{}, env); err == nil || len(quiet.names) > 0 {
			t.Errorf("%+v: error %v after the phases %v", c, err, quiet.names)
		}
	}
}

// phases is a Reporter that keeps the names of the phases.
type phases struct {
	Silent
	names []string
}

func (p *phases) Phase(name, unit string, total int64) Phase {
	p.names = append(p.names, name)
	return p.Silent.Phase(name, unit, total)
}
