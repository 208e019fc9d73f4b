package artifact

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	endpointTip = "check HF_ENDPOINT: the server there does not answer as a Hugging Face Hub does"
	jsonLimit   = 64 << 20         // bytes of a listing
	idleTime    = 60 * time.Second // longest silence of the server
)

// remote is what the server says about a file before it is fetched.
type remote struct {
	commit, etag, url string
	size              int64 // -1 where unknown
}

// http returns the client. Redirects are followed with the token only on the
// endpoint's own host: the file servers it points to have signed addresses.
func (h *Hub) http(follow bool) *http.Client {
	h.once.Do(func() {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.ResponseHeaderTimeout = idleTime
		h.client = &http.Client{Transport: transport}
	})
	c := *h.client
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > 10 {
			return errors.New("too many redirects")
		}
		if !h.ours(req.URL) {
			if !follow {
				return http.ErrUseLastResponse
			}
			req.Header.Del("Authorization")
		}
		return nil
	}
	return &c
}

func (h *Hub) ours(u *url.URL) bool {
	own, err := url.Parse(h.endpoint())
	return err == nil && own.Scheme == u.Scheme && own.Host == u.Host
}

func (h *Hub) request(ctx context.Context, method, address string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "olmes")
	req.Header.Set("Accept-Encoding", "identity")
	if h.Token != "" && h.ours(req.URL) {
		req.Header.Set("Authorization", "Bearer "+h.Token)
	}
	return req, nil
}

// send sends the request and tries again after passing failures. Answers that
// are no success become errors.
func (h *Hub) send(ctx context.Context, step string, follow bool, build func() (*http.Request, error)) (*http.Response, error) {
	for try := 0; ; try++ {
		req, err := build()
		if err != nil {
			return nil, &Error{Kind: Failed, Step: step, Text: h.redact(err.Error()), Tip: endpointTip}
		}
		resp, err := h.http(follow).Do(req)
		if err != nil {
			if ctx.Err() == nil && try < retries-1 {
				if err := pause(ctx, time.Duration(try+1)*300*time.Millisecond); err != nil {
					return nil, h.networkError(step, err)
				}
				continue
			}
			return nil, h.networkError(step, err)
		}
		if resp.StatusCode < 400 {
			return resp, nil
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		resp.Body.Close()
		wait, again := retryAfter(resp, try)
		if again && try < retries-1 {
			if err := pause(ctx, wait); err != nil {
				return nil, h.networkError(step, err)
			}
			continue
		}
		return nil, h.statusError(step, resp, body)
	}
}

// retryAfter says how long to wait before the next try, and whether to try:
// not where the server wants more than ten seconds.
func retryAfter(resp *http.Response, try int) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500 {
		return 0, false
	}
	wait := time.Duration(try+1) * 300 * time.Millisecond
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		wait = time.Duration(s) * time.Second
	}
	return wait, wait <= 10*time.Second
}

func (h *Hub) networkError(step string, err error) error {
	e := &Error{Kind: NoNetwork, Step: step, Text: "the hub cannot be reached: " + h.redact(err.Error()), err: contextError(err),
		Tip: "check the network and the proxy variables, or set HF_ENDPOINT to a mirror; HF_HUB_OFFLINE=1 uses only what is in the cache"}
	if e.err != nil {
		e.Kind, e.Text, e.Tip = Failed, e.err.Error(), ""
	}
	return e
}

func (h *Hub) statusError(step string, resp *http.Response, body []byte) error {
	code, said := resp.Header.Get("X-Error-Code"), resp.Header.Get("X-Error-Message")
	if said == "" {
		var answer struct{ Error string }
		if json.Unmarshal(body, &answer) == nil {
			said = answer.Error
		}
	}
	e := &Error{Kind: Failed, Step: step, Text: "the hub answered " + resp.Status}
	if said != "" {
		e.Text += ": " + h.redact(said)
	}
	page := "the repository's page"
	switch {
	case code == "GatedRepo":
		e.Kind = Denied
		e.Tip = "the repository is gated: ask for access on " + page + ", then set HF_TOKEN to a token of the account that has it"
	case resp.StatusCode == http.StatusUnauthorized && h.Token == "":
		e.Kind = Denied
		e.Tip = "there is no such repository, or it is private or gated: check the name, or set HF_TOKEN (or log in with `hf auth login`)"
	case resp.StatusCode == http.StatusUnauthorized:
		e.Kind = Denied
		e.Tip = "the hub does not take the token: check HF_TOKEN, and the name of the repository"
	case resp.StatusCode == http.StatusForbidden:
		e.Kind = Denied
		e.Tip = "the token has no right to this repository: look at " + page + " and at the token's scopes"
	case code == "RevisionNotFound":
		e.Kind, e.Tip = NotFound, "check the revision after @: a branch, a tag or a commit"
	case code == "EntryNotFound":
		e.Kind, e.Tip = NotFound, "check the file's name: it is given by its path within the repository"
	case resp.StatusCode == http.StatusNotFound:
		e.Kind, e.Tip = NotFound, "check the name ORG/REPO, the revision and the file"
	case resp.StatusCode == http.StatusTooManyRequests:
		e.Kind, e.Tip = Busy, "the hub limits the rate of requests: wait a little, or set HF_TOKEN"
		if after := resp.Header.Get("Retry-After"); after != "" {
			e.Tip += "; it says to wait " + h.redact(after) + " s"
		}
	case resp.StatusCode >= 500:
		e.Kind, e.Tip = Busy, "the hub has a fault of its own: try again later, or set HF_ENDPOINT to a mirror"
	}
	return e
}

func (h *Hub) getJSON(ctx context.Context, step, address string, into any) error {
	resp, err := h.send(ctx, step, true, func() (*http.Request, error) { return h.request(ctx, http.MethodGet, address) })
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, jsonLimit)).Decode(into); err != nil {
		return &Error{Kind: Failed, Step: step, Text: "the answer is no listing: " + h.redact(err.Error()), Tip: endpointTip, err: contextError(err)}
	}
	return nil
}

// look asks for a file's commit, digest, size and address.
func (h *Hub) look(ctx context.Context, r repo, rev, file string) (remote, error) {
	step := "find " + r.name + "@" + rev + ":" + file + " on the hub"
	address := r.url(h.endpoint(), rev, file)
	resp, err := h.send(ctx, step, false, func() (*http.Request, error) { return h.request(ctx, http.MethodHead, address) })
	if err != nil {
		return remote{}, err
	}
	resp.Body.Close()
	// A redirect within the host (a renamed repository) was followed; the last
	// answer of the host itself has the headers.
	found := remote{commit: resp.Header.Get("X-Repo-Commit"), etag: resp.Header.Get("X-Linked-Etag"), url: resp.Request.URL.String(), size: -1}
	if found.etag == "" {
		found.etag = resp.Header.Get("ETag")
	}
	found.etag = strings.Trim(strings.TrimPrefix(found.etag, "W/"), `"`)
	size := resp.Header.Get("X-Linked-Size")
	if size == "" && resp.StatusCode == http.StatusOK {
		size = resp.Header.Get("Content-Length")
	}
	if n, err := strconv.ParseInt(size, 10, 64); err == nil && n >= 0 {
		found.size = n
	}
	if !commitName.MatchString(found.commit) {
		return remote{}, &Error{Kind: Failed, Step: step, Text: "the server names no commit (X-Repo-Commit)", Tip: endpointTip}
	}
	if !etagName.MatchString(found.etag) {
		return remote{}, &Error{Kind: Failed, Step: step, Text: "the server names no digest of the file (ETag), so that it could not be checked", Tip: endpointTip}
	}
	if commitName.MatchString(rev) && rev != found.commit {
		return remote{}, &Error{Kind: Failed, Step: step, Text: "the server answered with commit " + found.commit, Tip: endpointTip}
	}
	return found, nil
}

// fetch fetches a file into the cache and links it into its snapshot.
func (h *Hub) fetch(ctx context.Context, r repo, rev, file string) (string, error) {
	step := "fetch " + r.name + ":" + file + " from the hub"
	found, err := h.look(ctx, r, rev, file)
	if err != nil {
		return "", err
	}
	// huggingface_hub locks the same file.
	locks := filepath.Join(filepath.Dir(r.dir), ".locks", filepath.Base(r.dir))
	for _, dir := range []string{filepath.Join(r.dir, "blobs"), locks} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", h.fileError(step, err)
		}
	}
	unlock, err := h.Store.lock(ctx, filepath.Join(locks, found.etag+".lock"), r.name+":"+file)
	if err != nil {
		return "", h.fileError(step, err)
	}
	defer unlock()
	blob := filepath.Join(r.dir, "blobs", found.etag)
	have, err := exists(blob)
	if err != nil {
		return "", h.fileError(step, err)
	}
	if !have {
		if err := h.fill(ctx, step, found, blob, r.name+":"+file); err != nil {
			return "", err
		}
	}
	if err := r.link(found.commit, file, blob); err != nil {
		return "", h.fileError(step, err)
	}
	if rev != found.commit {
		if err := writeRef(filepath.Join(r.dir, "refs", filepath.FromSlash(rev)), found.commit); err != nil {
			return "", h.fileError(step, err)
		}
	}
	return r.snapshot(found.commit, file), nil
}

// fill downloads the blob into blob.incomplete, going on where an earlier
// download stopped, checks its digest and renames it.
func (h *Hub) fill(ctx context.Context, step string, found remote, blob, name string) error {
	partial := blob + ".incomplete"
	var last error
	for try := range retries {
		if last != nil {
			if err := pause(ctx, time.Duration(try)*300*time.Millisecond); err != nil {
				return h.networkError(step, err)
			}
		}
		var broken bool
		broken, last = h.stream(ctx, step, found, partial, name)
		if !broken {
			break
		}
	}
	if last != nil {
		return last
	}
	if err := h.checkBlob(ctx, step, found, partial, name); err != nil {
		os.Remove(partial)
		return err
	}
	return h.fileError(step, os.Rename(partial, blob))
}

// stream appends what the server still has to the partial file. broken tells
// a failure of the connection, after which it is worth going on.
func (h *Hub) stream(ctx context.Context, step string, found remote, partial, name string) (broken bool, err error) {
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return false, h.fileError(step, err)
	}
	defer func() {
		if closing := out.Close(); err == nil && closing != nil {
			err = h.fileError(step, closing)
		}
	}()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return false, h.fileError(step, err)
	}
	if found.size >= 0 && have == found.size {
		return false, nil
	}
	if found.size >= 0 && have > found.size {
		have = 0
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := h.send(ctx, step, true, func() (*http.Request, error) {
		req, err := h.request(ctx, http.MethodGet, found.url)
		if err == nil && have > 0 {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		}
		return req, err
	})
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent || !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)) {
		if resp.StatusCode != http.StatusOK {
			os.Remove(partial)
			return false, &Error{Kind: Failed, Step: step, Text: "the hub answered " + resp.Status + " to a request for the rest of the file", Tip: "run again: the download starts anew"}
		}
		have = 0 // the server sends all of it
	}
	if err := out.Truncate(have); err != nil {
		return false, h.fileError(step, err)
	}
	if _, err := out.Seek(have, io.SeekStart); err != nil {
		return false, h.fileError(step, err)
	}
	idle := time.AfterFunc(idleTime, func() { cancel(errStalled) })
	defer idle.Stop()
	body := &meter{ctx: ctx, r: &restless{resp.Body, idle}, store: h.Store, event: Event{Name: "fetch " + name, Done: have, Total: max(found.size, 0)}}
	n, err := io.CopyBuffer(struct{ io.Writer }{&diskWriter{out}}, body, make([]byte, 1<<18))
	var disk *diskError
	switch {
	case errors.As(err, &disk):
		return false, h.fileError(step, disk.err)
	case err != nil:
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return contextError(err) == nil, h.networkError(step, err)
	case found.size >= 0 && have+n != found.size:
		return true, h.networkError(step, fmt.Errorf("the connection ended after %d of %d bytes", have+n, found.size))
	}
	return false, nil
}

// restless restarts a timer at each read.
type restless struct {
	r    io.Reader
	idle *time.Timer
}

func (r *restless) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.idle.Reset(idleTime)
	return n, err
}

// diskWriter marks its errors, to tell them from the connection's.
type diskWriter struct{ f *os.File }

type diskError struct{ err error }

func (e *diskError) Error() string { return e.err.Error() }

func (w *diskWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		return n, &diskError{err}
	}
	return n, nil
}

// checkBlob compares a file with the digest in its ETag: SHA-256, or the
// SHA-1 of a git blob for files that are not stored as large ones.
func (h *Hub) checkBlob(ctx context.Context, step string, found remote, path, name string) error {
	info, err := os.Stat(path)
	if err != nil {
		return h.fileError(step, err)
	}
	var sum hash.Hash = sha256.New()
	algorithm := "SHA-256"
	if len(found.etag) == 40 {
		sum, algorithm = sha1.New(), "git digest"
		fmt.Fprintf(sum, "blob %d\x00", info.Size())
	}
	got, err := h.Store.sum(ctx, path, sum, info.Size())
	if err != nil {
		return h.fileError(step, err)
	}
	if hex.EncodeToString(got) != found.etag {
		return &DigestError{Name: name, Algorithm: algorithm, Want: found.etag, Got: hex.EncodeToString(got),
			Tip: "the download was damaged or the server holds another file: it was removed; run again, or check HF_ENDPOINT"}
	}
	return nil
}

// link makes the snapshot's entry for a blob: a relative link, or where the
// system has none, the bytes themselves.
func (r repo) link(commit, file, blob string) error {
	path := r.snapshot(commit, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(path), blob)
	if err != nil {
		return err
	}
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	os.Remove(tmp)
	if err := os.Symlink(target, tmp); err != nil {
		return os.Rename(blob, path)
	}
	return os.Rename(tmp, path)
}

func writeRef(path, commit string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return replace(path, []byte(commit))
}

// replace writes a small file so that no reader sees half of it.
func replace(path string, data []byte) error {
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		os.Remove(tmp)
		return err
	}
	return os.Rename(tmp, path)
}
