package artifact

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needTool skips a test that needs a program, except in CI.
func needTool(t *testing.T, argv ...string) {
	t.Helper()
	if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is needed: %v", strings.Join(argv, " "), err)
		}
		t.Skipf("%s is needed: %v", strings.Join(argv, " "), err)
	}
}

// links makes pip look for files in dir alone.
func links(t *testing.T, dir string) {
	t.Helper()
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "PIP_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("PIP_CONFIG_FILE", os.DevNull)
	t.Setenv("PIP_NO_INDEX", "1")
	t.Setenv("PIP_FIND_LINKS", dir)
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func wheel(t *testing.T, dir string) Wheel {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for name, body := range map[string]string{
		"tiny_data/x.bin":                    "x",
		"tiny_data-1.0.dist-info/METADATA":   "Metadata-Version: 2.1\nName: tiny-data\nVersion: 1.0\n",
		"tiny_data-1.0.dist-info/WHEEL":      "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"tiny_data-1.0.dist-info/RECORD":     "",
		"tiny_data-1.0.dist-info/wants.json": "{}",
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(body))
	}
	z.Close()
	w := Wheel{Name: "tiny-data", Version: "1.0", File: "tiny_data-1.0-py3-none-any.whl", SHA256: sha(buf.Bytes())}
	if err := os.WriteFile(filepath.Join(dir, w.File), buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestPip(t *testing.T) {
	needTool(t, "python3", "-m", "pip", "--version")
	dir := t.TempDir()
	w := wheel(t, dir)
	links(t, dir)
	s := testStore(t)
	var last Event
	s.Progress = func(e Event) { last = e }
	path, err := s.Pip(t.Context(), w)
	if err != nil {
		t.Fatal(err, Hint(err))
	}
	if info, err := os.Stat(path); err != nil || last != (Event{Name: "fetch tiny-data 1.0", Done: info.Size(), Total: info.Size()}) {
		t.Errorf("the last report was %+v", last)
	}
	if left := leftovers(t, s); len(left) != 1 || left[0] != path {
		t.Errorf("the cache holds %q", left)
	}
	// Once there, it needs no pip.
	t.Setenv("PATH", t.TempDir())
	if again, err := s.Pip(t.Context(), w); err != nil || again != path {
		t.Errorf("got %s, %v", again, err)
	}
	// One changed byte.
	data, _ := os.ReadFile(path)
	data[len(data)/2] ^= 1
	os.WriteFile(path, data, 0o644)
	var d *DigestError
	if _, err := s.Pip(t.Context(), w); !errors.As(err, &d) || !strings.Contains(err.Error(), path) || d.Want != w.SHA256 {
		t.Errorf("changed: %v", err)
	}
}

func TestPipWrongDigest(t *testing.T) {
	needTool(t, "python3", "-m", "pip", "--version")
	dir := t.TempDir()
	w := wheel(t, dir)
	links(t, dir)
	right := w.SHA256
	w.SHA256 = strings.Repeat("0", 64)
	s := testStore(t)
	_, err := s.Pip(t.Context(), w)
	var d *DigestError
	if !errors.As(err, &d) || d.Name != w.File || d.Want != w.SHA256 || d.Got != right || d.Hint() == "" {
		t.Errorf("got %v", err)
	}
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// sdists are source distributions that leave a mark when their code runs: in
// setup.py, through setuptools named as backend, and in a backend of their own.
func sdist(t *testing.T, dir, kind, mark string) Wheel {
	t.Helper()
	evil := fmt.Sprintf("open(%q, 'w').close()\n", mark)
	member := func(name, body string) tar.Header {
		return tar.Header{Name: "evil-1.0/" + name, Typeflag: tar.TypeReg, Linkname: body, Mode: 0o644}
	}
	info := member("PKG-INFO", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
	setup := member("setup.py", evil+"from setuptools import setup\nsetup(name='evil', version='1.0')\n")
	var data []byte
	switch kind {
	case "legacy":
		data = tarball(t, info, setup)
	case "setuptools":
		data = tarball(t, info, setup, member("pyproject.toml", "[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n"))
	case "own":
		data = tarball(t, info, member("backend.py", evil), member("pyproject.toml", "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n"))
	}
	w := Wheel{Name: "evil", Version: "1.0", File: "evil-1.0.tar.gz", SHA256: sha(data), Sdist: true}
	if err := os.WriteFile(filepath.Join(dir, w.File), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestPipRunsNoCode(t *testing.T) {
	needTool(t, "python3", "-m", "pip", "--version")
	for _, kind := range []string{"legacy", "setuptools", "own"} {
		for _, wrong := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s wrong=%v", kind, wrong), func(t *testing.T) {
				dir, mark := t.TempDir(), filepath.Join(t.TempDir(), "mark")
				w := sdist(t, dir, kind, mark)
				links(t, dir)
				s := testStore(t)
				if wrong {
					w.SHA256 = strings.Repeat("0", 64)
				}
				path, err := s.Pip(t.Context(), w)
				var d *DigestError
				switch {
				case wrong && (!errors.As(err, &d) || d.Got == d.Want):
					t.Errorf("got %v", err)
				case !wrong && kind != "own" && (err != nil || s.Check(t.Context(), path, w.SHA256) != nil):
					t.Errorf("got %s, %v", path, err)
				}
				// Only a verified file with a backend of its own may run it.
				if ran, _ := exists(mark); ran && (wrong || kind != "own") {
					t.Error("its code ran")
				}
				if left := leftovers(t, s); wrong && len(left) > 0 {
					t.Errorf("left %q", left)
				}
			})
		}
	}
}

func TestPipErrors(t *testing.T) {
	needTool(t, "python3", "-m", "pip", "--version")
	w := Wheel{Name: "tiny-data", Version: "1.0", File: "tiny_data-1.0-py3-none-any.whl", SHA256: strings.Repeat("0", 64)}
	check := func(name string, kind Kind, tip string) {
		t.Helper()
		s, err := Open(filepath.Join(t.TempDir(), "cache"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Pip(t.Context(), w)
		var e *Error
		if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(e.Hint(), tip) || !strings.Contains(err.Error(), "tiny-data 1.0") {
			t.Errorf("%s: got %v; hint %s", name, err, Hint(err))
		}
		if err != nil && strings.Contains(err.Error()+Hint(err), "planted") {
			t.Errorf("%s: a secret is in %q", name, err)
		}
		if left := leftovers(t, s); len(left) > 0 {
			t.Errorf("%s: left %q", name, left)
		}
	}
	links(t, t.TempDir())
	check("nothing there", NotFound, "pip config list")

	os.Unsetenv("PIP_NO_INDEX")
	os.Unsetenv("PIP_FIND_LINKS")
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	t.Setenv("PIP_INDEX_URL", strings.Replace(dead.URL, "://", "://user:planted-password@", 1)+"/simple?token=planted-token")
	check("dead network", NoNetwork, "network")

	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "go away, user:planted-password", http.StatusForbidden)
	}))
	defer closed.Close()
	t.Setenv("PIP_INDEX_URL", strings.Replace(closed.URL, "://", "://user:planted-password@", 1)+"/simple")
	check("refused", NotFound, "pip config list")

	t.Setenv("PATH", t.TempDir())
	check("no pip", NoPip, "apt-get install python3-pip")

	// A Python without pip, and a pip that runs out of disk.
	bin := t.TempDir()
	t.Setenv("PATH", bin+string(os.PathListSeparator)+"/bin")
	script := func(name, body string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"python3", "python", "pip3", "pip"} {
		script(name, "echo 'python3: No module named pip' >&2; exit 1")
	}
	check("python without pip", NoPip, "apt-get")
	script("pip", "echo 'ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device' >&2; exit 1")
	check("disk full", DiskFull, "free some space")
	script("pip", "exit 0")
	check("nothing left", Failed, "")
}
func TestConnectionReason(t *testing.T) {
	const retry = "note\nWARNING: Retrying (Retry(total=0)) after connection broken by '"
	for in, want := range map[string]string{
		"ERROR: odd\n": "ERROR: odd",
		retry + "NewConnectionError('<x.HTTPSConnection object at 0x1>: Failed to connect: [Errno -3] Temporary failure')': /simple/x\nERROR: No matching\n": "Failed to connect: [Errno -3] Temporary failure",
		retry + "ReadTimeoutError(\"Pool(host='h', port=443): Read timed out. (read timeout=15)\")': /simple/\n":                                             "Pool(host='h', port=443): Read timed out. (read timeout=15",
		retry + "ProxyError('Cannot connect to proxy.', OSError('403'))'\n":                                                                                  "Cannot connect to proxy.', OSError('403",
	} {
		if got := connectionReason(in); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
