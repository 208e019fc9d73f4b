package artifact

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	commitA = "0123456789abcdef0123456789abcdef01234567"
	commitB = "89abcdef0123456789abcdef0123456789abcdef"
	planted = "hf_PlantedSecret123456"
)

// fakeHub speaks the hub's API for one repository; the bytes of large files
// come from a second server, as on the hub.
type fakeHub struct {
	t        *testing.T
	mu       sync.Mutex
	commit   string
	files    map[string][]byte
	small    map[string]bool // stored in git: their ETag is git's digest
	served   map[string][]byte
	cut      int  // the next answers with bytes stop after so many; 0 is never
	cuts     int  // how many answers are cut
	whole    bool // ranges are ignored
	fail     func(w http.ResponseWriter, r *http.Request) bool
	requests []string
	ranges   []string

	hub, cdn *httptest.Server
}

func newFakeHub(t *testing.T) *fakeHub {
	f := &fakeHub{t: t, commit: commitA, files: map[string][]byte{}, small: map[string]bool{}, served: map[string][]byte{}}
	f.hub = httptest.NewServer(http.HandlerFunc(f.serveHub))
	f.cdn = httptest.NewServer(http.HandlerFunc(f.serveCDN))
	t.Cleanup(f.hub.Close)
	t.Cleanup(f.cdn.Close)
	return f
}

// client returns a Hub with an empty cache.
func (f *fakeHub) client() *Hub {
	return &Hub{Endpoint: f.hub.URL, Token: planted, Home: f.t.TempDir(), Store: &Store{Dir: f.t.TempDir()}}
}

func (f *fakeHub) etag(name string) string {
	if f.small[name] {
		sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(f.files[name])), f.files[name]...))
		return hex.EncodeToString(sum[:])
	}
	sum := sha256.Sum256(f.files[name])
	return hex.EncodeToString(sum[:])
}

func (f *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r.Method+" "+r.URL.Path)
	if r.Header.Get("Authorization") != "Bearer "+planted {
		f.t.Errorf("%s: the hub got no token", r.URL.Path)
	}
	if f.fail != nil && f.fail(w, r) {
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/datasets")
	if strings.HasPrefix(path, "/old/name/") {
		http.Redirect(w, r, "/org/name/"+strings.TrimPrefix(path, "/old/name/"), http.StatusTemporaryRedirect)
		return
	}
	if rev, ok := strings.CutPrefix(path, "/api/models/org/name/revision/"); ok && rev != "" {
		var list listing
		list.SHA = f.commit
		for name := range f.files {
			list.Siblings = append(list.Siblings, struct {
				Name string `json:"rfilename"`
			}{name})
		}
		json.NewEncoder(w).Encode(list)
		return
	}
	rest, ok := strings.CutPrefix(path, "/org/name/resolve/")
	if !ok {
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, "Repository not found", http.StatusNotFound)
		return
	}
	_, name, _ := strings.Cut(rest, "/")
	data, ok := f.files[name]
	if !ok {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		http.Error(w, "Entry not found", http.StatusNotFound)
		return
	}
	w.Header().Set("X-Repo-Commit", f.commit)
	if f.small[name] {
		w.Header().Set("ETag", `"`+f.etag(name)+`"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if r.Method == http.MethodGet {
			w.Write(data)
		}
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+f.etag(name)+`"`)
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(data)))
	http.Redirect(w, r, f.cdn.URL+"/blob/"+name+"?X-Amz-Signature=signed", http.StatusFound)
}

func (f *fakeHub) serveCDN(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Header.Get("Authorization") != "" {
		f.t.Error("the token went to another host")
	}
	f.ranges = append(f.ranges, r.Header.Get("Range"))
	name := strings.TrimPrefix(r.URL.Path, "/blob/")
	data := f.files[name]
	if other, ok := f.served[name]; ok {
		data = other
	}
	if f.cuts > 0 {
		f.cuts--
		start := 0
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &start)
		if start > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(data)-1, len(data)))
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)-start))
		if start > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		w.Write(data[start:min(start+f.cut, len(data))])
		panic(http.ErrAbortHandler)
	}
	if f.whole {
		w.Write(data)
		return
	}
	http.ServeContent(w, r, name, fileTime, bytes.NewReader(data))
}

func TestHubDownload(t *testing.T) {
	f := newFakeHub(t)
	f.files["sub/model.gguf"] = bytes.Repeat([]byte("weights "), 10000)
	f.files["README.md"] = []byte("read me")
	f.small["README.md"] = true
	h := f.client()
	for _, name := range []string{"sub/model.gguf", "README.md"} {
		path, err := h.Download(t.Context(), ModelRepo, "org/name", "", name)
		if err != nil {
			t.Fatal(err)
		}
		repo := filepath.Join(h.Home, "hub", "models--org--name")
		if want := filepath.Join(repo, "snapshots", commitA, filepath.FromSlash(name)); path != want {
			t.Errorf("path %s, want %s", path, want)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, f.files[name]) {
			t.Errorf("%s: other bytes (%v)", name, err)
		}
		if ref, _ := os.ReadFile(filepath.Join(repo, "refs", "main")); string(ref) != commitA {
			t.Errorf("ref %q", ref)
		}
		if target, err := filepath.EvalSymlinks(path); err != nil || filepath.Base(target) != f.etag(name) {
			t.Errorf("links to %s (%v)", target, err)
		}
		if SnapshotCommit(path) != commitA {
			t.Errorf("commit of %s", path)
		}
	}
	// What the cache has costs no request, offline or not.
	before := len(f.requests)
	for _, offline := range []bool{false, true} {
		h.Offline = offline
		if _, err := h.Download(t.Context(), ModelRepo, "org/name", "main", "README.md"); err != nil {
			t.Error(err)
		}
	}
	_, err := h.Download(t.Context(), ModelRepo, "org/name", "main", "other")
	var e *Error
	if !errors.As(err, &e) || e.Kind != Absent || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("offline: %v", err)
	}
	if len(f.requests) != before {
		t.Errorf("requests %q", f.requests[before:])
	}
}

func TestHubDataset(t *testing.T) {
	f := newFakeHub(t)
	f.files["data/test.parquet"] = []byte("rows")
	path, err := f.client().Download(t.Context(), DatasetRepo, "org/name", commitA, "data/test.parquet")
	if err != nil || !strings.Contains(path, "datasets--org--name") {
		t.Errorf("%s, %v", path, err)
	}
	if want := "HEAD /datasets/org/name/resolve/" + commitA + "/data/test.parquet"; f.requests[0] != want {
		t.Errorf("asked for %s, want %s", f.requests[0], want)
	}
}

func TestHubFollowsRenamedRepository(t *testing.T) {
	f := newFakeHub(t)
	f.files["m.gguf"] = []byte("m")
	if _, err := f.client().Download(t.Context(), ModelRepo, "old/name", "", "m.gguf"); err != nil {
		t.Error(err)
	}
}

func TestHubRefresh(t *testing.T) {
	f := newFakeHub(t)
	f.files["m.gguf"] = []byte("first")
	h := f.client()
	get := func() string {
		path, err := h.Download(t.Context(), ModelRepo, "org/name", "", "m.gguf")
		if err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(path)
		return string(data)
	}
	get()
	f.files["m.gguf"], f.commit = []byte("second"), commitB
	if got := get(); got != "first" {
		t.Errorf("a moved branch changed the file to %q", got)
	}
	h.Refresh = true
	if got := get(); got != "second" {
		t.Errorf("with Refresh: %q", got)
	}
}

func TestHubResume(t *testing.T) {
	f := newFakeHub(t)
	f.files["m.gguf"] = bytes.Repeat([]byte("0123456789"), 100000)
	f.cut, f.cuts = 300000, 2
	h := f.client()
	path, err := h.Download(t.Context(), ModelRepo, "org/name", "", "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, f.files["m.gguf"]) {
		t.Error("other bytes")
	}
	if len(f.ranges) != 3 || f.ranges[0] != "" || f.ranges[1] == "" || f.ranges[2] == "" {
		t.Errorf("ranges %q", f.ranges)
	}
	// More cuts than tries: an error, and the next call goes on.
	f.files["n.gguf"] = bytes.Repeat([]byte("abcdefghij"), 100000)
	f.cut, f.cuts, f.ranges = 200000, 3, nil
	_, err = h.Download(t.Context(), ModelRepo, "org/name", "", "n.gguf")
	var e *Error
	if !errors.As(err, &e) || e.Kind != NoNetwork {
		t.Fatalf("got %v", err)
	}
	if path, err = h.Download(t.Context(), ModelRepo, "org/name", "", "n.gguf"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, f.files["n.gguf"]) || f.ranges[3] == "" {
		t.Errorf("not continued: %q", f.ranges)
	}
}

// TestHubResumeWithoutRanges starts anew where the server sends all again.
func TestHubResumeWithoutRanges(t *testing.T) {
	f := newFakeHub(t)
	f.files["m.gguf"] = bytes.Repeat([]byte("0123456789"), 100000)
	f.cut, f.cuts, f.whole = 300000, 1, true
	path, err := f.client().Download(t.Context(), ModelRepo, "org/name", "", "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, f.files["m.gguf"]) {
		t.Error("other bytes")
	}
	if len(f.ranges) != 2 {
		t.Errorf("ranges %q", f.ranges)
	}
}

func TestHubWrongBytes(t *testing.T) {
	f := newFakeHub(t)
	f.files["m.gguf"] = []byte("the right bytes")
	f.served["m.gguf"] = []byte("the wrong bytes")
	h := f.client()
	_, err := h.Download(t.Context(), ModelRepo, "org/name", "", "m.gguf")
	var d *DigestError
	if !errors.As(err, &d) || d.Want != f.etag("m.gguf") || d.Got == d.Want || d.Hint() == "" {
		t.Fatalf("got %v", err)
	}
	filepath.WalkDir(h.Home, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) != ".lock" {
			t.Errorf("%s was left", path)
		}
		return nil
	})
}

func TestHubErrors(t *testing.T) {
	answer := func(status int, code, message string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			if code != "" {
				w.Header().Set("X-Error-Code", code)
			}
			w.Header().Set("X-Error-Message", message+" for "+planted)
			if status == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "60")
			}
			w.WriteHeader(status)
			return true
		}
	}
	for _, tt := range []struct {
		status    int
		code      string
		kind      Kind
		text, tip string
	}{
		{401, "RepoNotFound", Denied, "401", "HF_TOKEN"},
		{401, "GatedRepo", Denied, "401", "gated"},
		{403, "GatedRepo", Denied, "403", "ask for access"},
		{403, "", Denied, "403", "scopes"},
		{404, "RepoNotFound", NotFound, "404", "ORG/REPO"},
		{404, "RevisionNotFound", NotFound, "404", "revision"},
		{404, "EntryNotFound", NotFound, "404", "file's name"},
		{429, "", Busy, "429", "60 s"},
		{500, "", Busy, "500", "later"},
		{416, "", Failed, "416", ""},
	} {
		f := newFakeHub(t)
		f.fail = answer(tt.status, tt.code, "said so")
		h := f.client()
		_, err := h.Download(t.Context(), ModelRepo, "org/name", "", "m.gguf")
		var e *Error
		if !errors.As(err, &e) || e.Kind != tt.kind {
			t.Errorf("%d %s: %v", tt.status, tt.code, err)
			continue
		}
		if !strings.Contains(err.Error(), tt.text) || !strings.Contains(Hint(err), tt.tip) {
			t.Errorf("%d %s: %q, hint %q", tt.status, tt.code, err, Hint(err))
		}
		if strings.Contains(err.Error()+Hint(err), planted) {
			t.Errorf("%d: the token is in the error: %q", tt.status, err)
		}
		// HEAD has no body, so the message is in the header; a listing fails alike.
		if _, _, err := h.Files(t.Context(), ModelRepo, "org/name", ""); !errors.As(err, &e) || e.Kind != tt.kind || strings.Contains(err.Error(), planted) {
			t.Errorf("%d %s: listing: %v", tt.status, tt.code, err)
		}
	}
}

func TestHubTriesAgain(t *testing.T) {
	f := newFakeHub(t)
	f.files["m.gguf"] = []byte("m")
	fails := 2
	f.fail = func(w http.ResponseWriter, _ *http.Request) bool {
		if fails == 0 {
			return false
		}
		fails--
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	if _, err := f.client().Download(t.Context(), ModelRepo, "org/name", "", "m.gguf"); err != nil {
		t.Error(err)
	}
}

func TestHubDistrustsAnswers(t *testing.T) {
	header := map[string]string{"X-Repo-Commit": commitA, "X-Linked-Etag": strings.Repeat("a", 64)}
	for name, value := range map[string]string{"X-Repo-Commit": "../../../../etc", "X-Linked-Etag": "../../x"} {
		f := newFakeHub(t)
		f.fail = func(w http.ResponseWriter, _ *http.Request) bool {
			for k, v := range header {
				w.Header().Set(k, v)
			}
			w.Header().Set(name, value)
			return true
		}
		if _, err := f.client().Download(t.Context(), ModelRepo, "org/name", "", "m.gguf"); err == nil {
			t.Errorf("%s: %s was taken", name, value)
		}
	}
	f := newFakeHub(t)
	h := f.client()
	for _, ref := range [][3]string{
		{"org/name", "", "../m.gguf"}, {"org/name", "../../x", "m.gguf"}, {"org/../name", "", "m"}, {"org/name", "", "/etc/passwd"},
		{"a/b/c", "", "m"}, {"", "", "m"}, {"org/name", "", ""},
	} {
		if _, err := h.Download(t.Context(), ModelRepo, ref[0], ref[1], ref[2]); err == nil {
			t.Errorf("%q was taken", ref)
		}
	}
	if len(f.requests) > 0 {
		t.Errorf("requests %q", f.requests)
	}
}

func TestHubUnreachable(t *testing.T) {
	f := newFakeHub(t)
	f.hub.Close()
	h := f.client()
	h.Endpoint = strings.Replace(f.hub.URL, "://", "://user:planted-password@", 1)
	_, err := h.Download(t.Context(), ModelRepo, "org/name", "", "m.gguf")
	var e *Error
	if !errors.As(err, &e) || e.Kind != NoNetwork || !strings.Contains(e.Hint(), "HF_ENDPOINT") {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "planted") || strings.Contains(err.Error(), planted) {
		t.Errorf("a secret is in %q", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Download(ctx, ModelRepo, "org/name", "", "m.gguf"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestHubOneDownloadForMany(t *testing.T) {
	f := newFakeHub(t)
	f.files["m.gguf"] = bytes.Repeat([]byte("x"), 1<<20)
	h := f.client()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if _, err := h.Download(t.Context(), ModelRepo, "org/name", "", "m.gguf"); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if len(f.ranges) != 1 {
		t.Errorf("%d downloads", len(f.ranges))
	}
}

func TestHubFiles(t *testing.T) {
	f := newFakeHub(t)
	f.files["b.gguf"], f.files["a/c.gguf"], f.files["../evil"] = []byte("b"), []byte("c"), []byte("e")
	h := f.client()
	for _, offline := range []bool{false, true} {
		h.Offline = offline
		commit, files, err := h.Files(t.Context(), ModelRepo, "org/name", "main")
		if err != nil || commit != commitA || strings.Join(files, " ") != "a/c.gguf b.gguf" {
			t.Errorf("offline %v: %s %q %v", offline, commit, files, err)
		}
	}
	if len(f.requests) != 1 {
		t.Errorf("requests %q", f.requests)
	}
	h = f.client()
	h.Offline = true
	if _, _, err := h.Files(t.Context(), ModelRepo, "org/name", "main"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty cache: %v", err)
	}
}

func TestHubRemember(t *testing.T) {
	f := newFakeHub(t)
	f.files["m.gguf"] = []byte("m")
	h := f.client()
	if _, err := h.Download(t.Context(), ModelRepo, "org/name", commitA, "m.gguf"); err != nil {
		t.Fatal(err)
	}
	for _, rev := range []string{"", "v1", commitB} {
		if err := h.Remember(ModelRepo, "org/name", rev, commitA); err != nil {
			t.Error(err)
		}
	}
	if refs, err := os.ReadDir(filepath.Join(h.Home, "hub", "models--org--name", "refs")); err != nil || len(refs) != 2 {
		t.Errorf("refs %v, %v", refs, err)
	}
	h.Offline = true
	for _, rev := range []string{"main", "v1"} {
		if _, err := h.Download(t.Context(), ModelRepo, "org/name", rev, "m.gguf"); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.Download(t.Context(), ModelRepo, "org/name", commitB, "m.gguf"); err == nil {
		t.Error("a commit stands for another")
	}
	if err := h.Remember(ModelRepo, "org/name", "../x", commitA); err == nil {
		t.Error("a revision outside was taken")
	}
}

func TestNewHub(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HF_ENDPOINT", "HF_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", home)
	os.WriteFile(filepath.Join(home, "token"), []byte("hf_fromthefile\n"), 0o600)
	h := NewHub(nil)
	if h.Home != home || h.Token != "hf_fromthefile" || h.Offline || h.endpoint() != hubEndpoint {
		t.Errorf("got %+v", h)
	}
	t.Setenv("HF_TOKEN", "hf_fromtheenv")
	t.Setenv("HF_ENDPOINT", "http://mirror/")
	t.Setenv("HF_HUB_CACHE", "/cache")
	t.Setenv("HF_HUB_OFFLINE", "1")
	h = NewHub(nil)
	r, err := h.repo(ModelRepo, "org/name")
	if h.Token != "hf_fromtheenv" || !h.Offline || h.endpoint() != "http://mirror" || err != nil || r.dir != "/cache/models--org--name" {
		t.Errorf("got %+v, %+v, %v", h, r, err)
	}
}

var fileTime = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
