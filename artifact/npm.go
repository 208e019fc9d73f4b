package artifact

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// errNoSpace stands for a tool's own report of a full disk.
var errNoSpace error = syscall.ENOSPC

// Package is one pinned package of the npm registry.
type Package struct {
	Name      string // "@node-llama-cpp/linux-x64"
	Version   string
	Integrity string // "sha512-" and the base64 of the tarball's SHA-512
	Size      int64  // bytes of the tarball, for progress; 0 where unknown
}

func (p Package) String() string { return p.Name + " " + p.Version }

// Path returns where the cache keeps the tarball, relative to Store.Dir.
func (p Package) Path() string {
	name := strings.NewReplacer("@", "", "/", "-").Replace(p.Name)
	return filepath.Join("npm", name+"-"+p.Version+".tgz")
}

// Npm returns the path of the package's tarball in the cache, where need be
// fetched by `npm pack --ignore-scripts`, which uses the user's registry,
// proxies and credentials. Its SHA-512 is checked at every call; npm's own
// check only compares with what the registry says.
func (s *Store) Npm(ctx context.Context, p Package) (string, error) {
	path, err := s.Ensure(ctx, p.Path(), func(ctx context.Context, tmp string) (string, error) {
		return s.pack(ctx, p, tmp)
	})
	if err != nil {
		return "", err
	}
	return path, s.checkIntegrity(ctx, path, p.Integrity)
}

func (s *Store) pack(ctx context.Context, p Package, tmp string) (string, error) {
	step := "fetch " + p.String() + " with npm"
	s.Report(Event{Name: "fetch " + p.String(), Total: p.Size})
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", &Error{Kind: NoNpm, Step: step, Text: "npm cannot be found",
			Tip: "install npm (Debian: apt-get install npm), or build the library from source: olmes engine install --variant native"}
	}
	files := filepath.Join(tmp, "files")
	if err := os.Mkdir(files, 0o755); err != nil {
		return "", err
	}
	_, stderr, err := s.run(ctx, command{name: "fetch " + p.String(), dir: tmp, env: append(os.Environ(), "TMPDIR="+tmp), total: p.Size,
		// npm's default retries take 70 s on a dead network.
		argv: []string{npm, "pack", p.Name + "@" + p.Version, "--ignore-scripts", "--loglevel=error", "--no-update-notifier",
			"--no-progress", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000",
			"--fetch-timeout=60000", "--logs-max=0", "--cache", filepath.Join(tmp, "cache"), "--pack-destination", files}})
	if err != nil {
		return "", s.npmError(step, p, stderr, err)
	}
	entries, err := os.ReadDir(files)
	if err != nil || len(entries) != 1 {
		return "", &Error{Kind: Failed, Step: step, Text: "npm ended well but left no file"}
	}
	path := filepath.Join(files, entries[0].Name())
	s.reportWhole("fetch "+p.String(), path)
	if err := s.checkIntegrity(ctx, path, p.Integrity); err != nil {
		var digest *DigestError
		if errors.As(err, &digest) {
			digest.Name, digest.Tip = p.String(), wrongFileTip
		}
		return "", err
	}
	return path, nil
}

var npmNetwork = regexp.MustCompile(`ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|network timeout|network request to`)

func (s *Store) npmError(step string, p Package, output string, err error) error {
	e := &Error{Kind: Failed, Step: step, Text: s.Redact(tail(output)), err: sentinel(err)}
	switch {
	case contextError(err) != nil:
		e.Text = err.Error()
	case errors.Is(err, errStalled):
		e.Kind, e.Text, e.Tip = NoNetwork, err.Error(), networkTip("npm")
	case strings.Contains(output, "EINTEGRITY"):
		e.Tip = wrongFileTip
	case noSpace.MatchString(output):
		e.Kind, e.Tip, e.err = DiskFull, s.diskTip(), sentinel(errNoSpace)
	case npmNetwork.MatchString(output):
		e.Kind, e.Tip = NoNetwork, networkTip("npm")
		e.Text = "the registry cannot be reached: " + e.Text
	case strings.Contains(output, "E404"), strings.Contains(output, "ETARGET"):
		e.Kind, e.Tip = NotFound, "the registry that npm is set to use has no such package: look at `npm config get registry`"
	case strings.Contains(output, "E401"), strings.Contains(output, "E403"):
		e.Kind, e.Tip = Denied, "the registry wants other credentials: look at `npm config list`"
	}
	return e
}
