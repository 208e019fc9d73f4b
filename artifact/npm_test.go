package artifact

import (
	"archive/tar"
	"crypto/sha1"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// registry serves one package, @tiny/lib 1.0.0, whose scripts leave a mark.
func registry(t *testing.T, mark string) (*httptest.Server, string) {
	t.Helper()
	manifest := `{"name":"@tiny/lib","version":"1.0.0","scripts":{"prepare":"touch ` + mark + `","prepack":"touch ` + mark + `","postpack":"touch ` + mark + `"}}`
	data := tarball(t, tar.Header{Name: "package/package.json", Typeflag: tar.TypeReg, Linkname: manifest, Mode: 0o644})
	sum := sha512.Sum512(data)
	integrity := "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	short := sha1.Sum(data)
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/lib.tgz", func(w http.ResponseWriter, _ *http.Request) { w.Write(data) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/@tiny/lib" {
			http.Error(w, `{"error":"not found"}`, http.StatusNotFound)
			return
		}
		version := map[string]any{"name": "@tiny/lib", "version": "1.0.0", "dist": map[string]string{
			"tarball": server.URL + "/lib.tgz", "integrity": integrity, "shasum": hex.EncodeToString(short[:])}}
		json.NewEncoder(w).Encode(map[string]any{"name": "@tiny/lib", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": version}})
	})
	return server, integrity
}

func TestNpm(t *testing.T) {
	needTool(t, "npm", "--version")
	t.Setenv("HOME", t.TempDir())
	mark := filepath.Join(t.TempDir(), "mark")
	server, integrity := registry(t, mark)
	t.Setenv("npm_config_registry", server.URL)
	p := Package{Name: "@tiny/lib", Version: "1.0.0", Integrity: integrity}
	s := testStore(t)
	var last Event
	s.Progress = func(e Event) { last = e }
	path, err := s.Npm(t.Context(), p)
	if err != nil {
		t.Fatal(err, Hint(err))
	}
	if info, err := os.Stat(path); err != nil || last != (Event{Name: "fetch @tiny/lib 1.0.0", Done: info.Size(), Total: info.Size()}) {
		t.Errorf("the last report was %+v", last)
	}
	if left := leftovers(t, s); len(left) != 1 || left[0] != path {
		t.Errorf("the cache holds %q", left)
	}
	if ran, _ := exists(mark); ran {
		t.Error("a script ran")
	}
	fail := func(name string, p Package, kind Kind, tip string) {
		t.Helper()
		s := testStore(t)
		_, err := s.Npm(t.Context(), p)
		var e *Error
		if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(e.Hint(), tip) || !strings.Contains(err.Error(), p.Name) {
			t.Errorf("%s: got %v; hint %s", name, err, Hint(err))
		}
		if err != nil && strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: a secret is in %q", name, err)
		}
		if left := leftovers(t, s); len(left) > 0 {
			t.Errorf("%s: left %q", name, left)
		}
	}
	wrong := p
	wrong.Integrity = "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64))
	var d *DigestError
	other := testStore(t)
	if _, err := other.Npm(t.Context(), wrong); !errors.As(err, &d) || "sha512-"+d.Got != integrity {
		t.Errorf("got %v", err)
	}
	if left := leftovers(t, other); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	fail("no such version", Package{"@tiny/lib", "2.0.0", integrity, 0}, NotFound, "npm config get registry")
	fail("no such package", Package{"@tiny/other", "1.0.0", integrity, 0}, NotFound, "npm config get registry")
	server.Close()
	t.Setenv("npm_config_registry", strings.Replace(server.URL, "://", "://user:planted-password@", 1))
	fail("dead network", p, NoNetwork, "network")
	t.Setenv("PATH", t.TempDir())
	fail("no npm", p, NoNpm, "apt-get install npm")
	data, _ := os.ReadFile(path)
	data[5] ^= 1
	os.WriteFile(path, data, 0o644)
	if _, err := s.Npm(t.Context(), p); !errors.As(err, &d) || !strings.Contains(err.Error(), path) {
		t.Errorf("changed: %v", err)
	}
}
