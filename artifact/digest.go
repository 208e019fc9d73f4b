package artifact

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// memoSize is the file size in bytes from which a digest is remembered by the
// file's stat values. Smaller files are read again each time, which takes less
// than a fifth of a second and trusts nothing.
const memoSize = 256 << 20

// SHA256 returns the hex SHA-256 of the file at path. For files of 256 MiB and
// more the digest is remembered in the cache under the file's path, size,
// modification and change times and inode, so that a large model is read once.
func (s *Store) SHA256(ctx context.Context, path string) (string, error) {
	step := "read " + path
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", s.ioError(step, err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", s.ioError(step, err)
	}
	if info.IsDir() {
		return "", &Error{Kind: Failed, Step: step, Text: "it is a folder, not a file"}
	}
	if !info.Mode().IsRegular() {
		return "", &Error{Kind: Failed, Step: step, Text: "it is not a regular file"}
	}
	stamp := memo{Path: abs, Stat: fingerprint(info)}
	key := sha256.Sum256([]byte(abs))
	memoPath := filepath.Join(s.Dir, "digests", hex.EncodeToString(key[:])+".json")
	if info.Size() >= memoSize {
		var old memo
		data, err := os.ReadFile(memoPath)
		if err == nil && json.Unmarshal(data, &old) == nil && old.Path == stamp.Path && old.Stat == stamp.Stat && len(old.SHA256) == 64 {
			return old.SHA256, nil
		}
	}
	sum, err := s.sum(ctx, abs, sha256.New(), info.Size())
	if err != nil {
		return "", s.ioError(step, err)
	}
	stamp.SHA256 = hex.EncodeToString(sum)
	if info.Size() >= memoSize {
		s.remember(memoPath, stamp) // a cache that cannot be written only costs time
	}
	return stamp.SHA256, nil
}

type memo struct {
	Path   string `json:"path"`
	Stat   string `json:"stat"`
	SHA256 string `json:"sha256"`
}

func (s *Store) remember(path string, m memo) {
	data, err := json.Marshal(m)
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	replace(path, data)
}

func (s *Store) sum(ctx context.Context, path string, h hash.Hash, size int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &meter{ctx: ctx, r: f}
	if size >= memoSize {
		r.event, r.store = Event{Name: "check " + filepath.Base(path), Total: size}, s
	}
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{r}, make([]byte, 1<<20)); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// Check compares the file's SHA-256 (hex) with the pinned one and returns a
// *DigestError where they differ.
func (s *Store) Check(ctx context.Context, path, want string) error {
	got, err := s.SHA256(ctx, path)
	if err != nil {
		return err
	}
	if got != strings.ToLower(want) {
		return &DigestError{Name: path, Algorithm: "SHA-256", Want: want, Got: got, Tip: s.damageTip(path)}
	}
	return nil
}

// checkIntegrity compares a file with npm's integrity string "sha512-<base64>".
func (s *Store) checkIntegrity(ctx context.Context, path, integrity string) error {
	want, ok := strings.CutPrefix(integrity, "sha512-")
	if !ok {
		return &Error{Kind: Failed, Step: "check " + path, Text: "the pinned integrity " + integrity + " is no SHA-512"}
	}
	info, err := os.Stat(path)
	if err != nil {
		return s.ioError("read "+path, err)
	}
	sum, err := s.sum(ctx, path, sha512.New(), info.Size())
	if err != nil {
		return s.ioError("read "+path, err)
	}
	if got := base64.StdEncoding.EncodeToString(sum); got != want {
		return &DigestError{Name: path, Algorithm: "SHA-512", Want: want, Got: got, Tip: s.damageTip(path)}
	}
	return nil
}

func (s *Store) damageTip(path string) string {
	if rel, err := filepath.Rel(s.Dir, path); err == nil && filepath.IsLocal(rel) {
		return "the file in the cache is damaged: delete it and run again, it is then fetched anew"
	}
	return "get the file again: it is not the one that this version of olmes was made for"
}

// meter passes a reader on, stops it with the context and reports progress.
type meter struct {
	ctx   context.Context
	r     io.Reader
	store *Store // nil: no reports
	event Event
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	m.event.Done += int64(n)
	if m.store != nil {
		m.store.Report(m.event)
	}
	return n, err
}
