package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"olmes/secret"
)

// Kinds of repositories on the hub.
const (
	ModelRepo   = "model"
	DatasetRepo = "dataset"
)

// hubEndpoint is where the hub is unless HF_ENDPOINT says otherwise.
const hubEndpoint = "https://huggingface.co"

// Hub fetches files of the Hugging Face Hub, or of a server that speaks its
// API, into the cache layout that huggingface_hub uses, so that both share
// what they fetched:
//
//	models--ORG--NAME/refs/REVISION            the commit that the revision stood for
//	models--ORG--NAME/snapshots/COMMIT/FILE    a link into blobs
//	models--ORG--NAME/blobs/ETAG               the bytes
//
// A revision that the cache knows is not looked up again (an evaluation should
// not change because a branch moved) unless Refresh is set.
type Hub struct {
	Endpoint string // "" is the public hub
	Token    string // sent to the endpoint's host only; "" sends none
	Home     string // HF_HOME; "" is the user's
	Cache    string // HF_HUB_CACHE; "" is the folder hub of Home
	Offline  bool   // no socket is opened
	Refresh  bool   // look up revisions again
	Store    *Store // for progress and redaction; may be nil

	once   sync.Once
	client *http.Client
}

// NewHub returns a hub client set by HF_ENDPOINT, HF_HOME, HF_HUB_CACHE,
// HF_TOKEN (or the token file, HF_TOKEN_PATH) and HF_HUB_OFFLINE.
func NewHub(store *Store) *Hub {
	h := &Hub{
		Endpoint: os.Getenv("HF_ENDPOINT"), Home: os.Getenv("HF_HOME"), Cache: os.Getenv("HF_HUB_CACHE"),
		Offline: truth(os.Getenv("HF_HUB_OFFLINE")) || store != nil && store.Offline, Store: store,
	}
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if h.Token == "" {
			h.Token = strings.TrimSpace(os.Getenv(name))
		}
	}
	if h.Token == "" {
		file := os.Getenv("HF_TOKEN_PATH")
		if home, err := h.home(); file == "" && err == nil {
			file = filepath.Join(home, "token")
		}
		if data, err := os.ReadFile(file); err == nil {
			h.Token = strings.TrimSpace(string(data))
		}
	}
	return h
}

func (h *Hub) home() (string, error) {
	if h.Home != "" {
		return h.Home, nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "huggingface"), nil
	}
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, ".cache", "huggingface"), err
}

var (
	repoName   = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)
	commitName = regexp.MustCompile(`^[0-9a-f]{40}$`)
	etagName   = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// repo is one repository and its place in the cache.
type repo struct {
	kind, name, dir string
}

func (h *Hub) repo(kind, name string) (repo, error) {
	if !repoName.MatchString(name) || strings.Contains(name, "--") || strings.Contains(name, "..") || kind != ModelRepo && kind != DatasetRepo {
		return repo{}, &Error{Kind: NotFound, Step: "find " + h.redact(name) + " on the hub", Text: "that is no name of a repository",
			Tip: "name it ORG/REPO, as its page does"}
	}
	cache := h.Cache
	if cache == "" {
		home, err := h.home()
		if err != nil {
			return repo{}, &Error{Kind: Unwritable, Step: "find the hub's cache", Text: err.Error(), Tip: "set HF_HOME"}
		}
		cache = filepath.Join(home, "hub")
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		return repo{}, h.fileError("find the hub's cache", err)
	}
	return repo{kind, name, filepath.Join(cache, kind+"s--"+strings.ReplaceAll(name, "/", "--"))}, nil
}

// url returns the address of a file of the repository.
func (r repo) url(endpoint, rev, file string) string {
	parts := []string{endpoint}
	if r.kind == DatasetRepo {
		parts = append(parts, "datasets")
	}
	var names []string
	for name := range strings.SplitSeq(file, "/") {
		names = append(names, url.PathEscape(name))
	}
	return strings.Join(append(parts, r.name, "resolve", url.PathEscape(rev), strings.Join(names, "/")), "/")
}

// commit returns the commit that the cache knows for a revision, or "".
func (r repo) commit(rev string) string {
	if commitName.MatchString(rev) {
		return rev
	}
	data, err := os.ReadFile(filepath.Join(r.dir, "refs", filepath.FromSlash(rev)))
	commit := strings.TrimSpace(string(data))
	if err != nil || !commitName.MatchString(commit) {
		return ""
	}
	return commit
}

func (r repo) snapshot(commit, file string) string {
	return filepath.Join(r.dir, "snapshots", commit, filepath.FromSlash(file))
}

// SnapshotCommit returns the commit in the path of a file that Download
// returned, or "".
func SnapshotCommit(path string) string {
	parts := strings.Split(filepath.ToSlash(path), "/")
	for i := len(parts) - 2; i > 0; i-- {
		if parts[i-1] == "snapshots" && commitName.MatchString(parts[i]) {
			return parts[i]
		}
	}
	return ""
}

func (h *Hub) redact(text string) string {
	if h.Token != "" {
		text = strings.ReplaceAll(text, h.Token, secret.Mask)
	}
	return h.Store.Redact(text)
}

// listing is the server's list of a repository's files.
type listing struct {
	SHA      string `json:"sha"`
	Siblings []struct {
		Name string `json:"rfilename"`
	} `json:"siblings"`
}

// Files lists the files of a repository at a revision ("" is main) and the
// commit it stands for. The list is kept in the store, if there is one, and
// asked for again only with Refresh. Offline and without such a list it tells
// of the files in the cache.
func (h *Hub) Files(ctx context.Context, kind, name, rev string) (commit string, files []string, err error) {
	r, err := h.repo(kind, name)
	if err != nil {
		return "", nil, err
	}
	rev, err = h.revision(rev)
	if err != nil {
		return "", nil, err
	}
	step := "list " + name + " on the hub"
	var list listing
	kept := h.listingPath(r, rev)
	if data, err := os.ReadFile(kept); err == nil && (h.Offline || !h.Refresh) && json.Unmarshal(data, &list) == nil && commitName.MatchString(list.SHA) {
		return list.SHA, list.names(), nil
	}
	if h.Offline {
		commit = r.commit(rev)
		files = localFiles(filepath.Join(r.dir, "snapshots", commit))
		if commit == "" || len(files) == 0 {
			return "", nil, h.absent(r, rev, "")
		}
		return commit, files, nil
	}
	if err := h.getJSON(ctx, step, h.endpoint()+"/api/"+kind+"s/"+name+"/revision/"+url.PathEscape(rev), &list); err != nil {
		return "", nil, err
	}
	if !commitName.MatchString(list.SHA) {
		return "", nil, &Error{Kind: Failed, Step: step, Text: "the server names no commit", Tip: endpointTip}
	}
	if data, err := json.Marshal(list); err == nil && kept != "" && os.MkdirAll(filepath.Dir(kept), 0o755) == nil {
		replace(kept, data) // only saves a request
	}
	return list.SHA, list.names(), nil
}

// Remember notes in the cache that the revision stands for commit, for when
// the hub is off, as Download does for each file that it fetches by a branch.
func (h *Hub) Remember(kind, name, rev, commit string) error {
	r, err := h.repo(kind, name)
	if err != nil {
		return err
	}
	if rev, err = h.revision(rev); err != nil {
		return err
	}
	if !commitName.MatchString(commit) || commitName.MatchString(rev) || h.Offline || r.commit(rev) == commit {
		return nil
	}
	return h.fileError("note the commit of "+name, writeRef(filepath.Join(r.dir, "refs", filepath.FromSlash(rev)), commit))
}

func (l listing) names() []string {
	var files []string
	for _, s := range l.Siblings {
		if validFile(s.Name) {
			files = append(files, s.Name)
		}
	}
	slices.Sort(files)
	return files
}

func (h *Hub) listingPath(r repo, rev string) string {
	if h.Store == nil {
		return ""
	}
	return filepath.Join(h.Store.Dir, "hub", filepath.Base(r.dir)+"@"+url.PathEscape(rev)+".json")
}

func localFiles(root string) []string {
	var files []string
	filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if rel, err := filepath.Rel(root, path); err == nil {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files
}

func validFile(name string) bool {
	return name != "" && name == path.Clean(name) && filepath.IsLocal(filepath.FromSlash(name)) && !strings.ContainsAny(name, "\\\x00")
}

func (h *Hub) revision(rev string) (string, error) {
	if rev == "" {
		return "main", nil
	}
	if !validFile(rev) {
		return "", &Error{Kind: NotFound, Step: "find revision " + h.redact(rev), Text: "that is no name of a revision", Tip: "name a branch, a tag or a commit"}
	}
	return rev, nil
}

// Download returns the path of a file in the hub's cache, where need be
// fetched. rev is a branch, tag or commit ("" is main). The bytes are compared
// with the digest that the server names for the file: SHA-256, or git's own
// for small files. An interrupted download is continued.
func (h *Hub) Download(ctx context.Context, kind, name, rev, file string) (string, error) {
	r, err := h.repo(kind, name)
	if err != nil {
		return "", err
	}
	if rev, err = h.revision(rev); err != nil {
		return "", err
	}
	if !validFile(file) {
		return "", &Error{Kind: NotFound, Step: "find " + h.redact(file) + " in " + name, Text: "that is no name of a file", Tip: "give its path within the repository"}
	}
	if commit := r.commit(rev); commit != "" && (h.Offline || !h.Refresh || commit == rev) {
		if found, err := targetExists(r.snapshot(commit, file)); found || err != nil {
			return r.snapshot(commit, file), h.fileError("find "+file, err)
		}
	}
	if h.Offline {
		return "", h.absent(r, rev, file)
	}
	return h.fetch(ctx, r, rev, file)
}

// targetExists tells whether path, or what it links to, is there.
func targetExists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (h *Hub) absent(r repo, rev, file string) error {
	what := r.name + "@" + rev
	if file != "" {
		what += ":" + file
	}
	return &Error{Kind: Absent, Step: "find " + what, Text: "it is not in the hub's cache " + filepath.Dir(r.dir) + ", and the hub is off (HF_HUB_OFFLINE)",
		Tip: "run `olmes prepare` without HF_HUB_OFFLINE first", err: fs.ErrNotExist}
}

func (h *Hub) endpoint() string {
	if h.Endpoint == "" {
		return hubEndpoint
	}
	return strings.TrimRight(h.Endpoint, "/")
}

func (h *Hub) fileError(step string, err error) error {
	if err == nil {
		return nil
	}
	wrapped := h.Store.ioError(step, err)
	var e *Error
	if errors.As(wrapped, &e) && (e.Kind == DiskFull || e.Kind == Unwritable) {
		e.Tip = "free or unlock the hub's cache folder, or set HF_HOME to another"
	}
	return wrapped
}

// retries is how often a request is tried again after a passing failure.
const retries = 3

// pause waits before the next try, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
