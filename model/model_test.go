package model_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"olmes/artifact"
	"olmes/model"
	"olmes/model/gguf"
	"olmes/model/modeltest"
)

func store(t *testing.T) *artifact.Store {
	t.Helper()
	s, err := artifact.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Offline = true
	return s
}

func write(t *testing.T, path string, o modeltest.Options) {
	t.Helper()
	if err := modeltest.Write(path, o); err != nil {
		t.Fatal(err)
	}
}

func TestResolvePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	yes := true
	write(t, path, modeltest.Options{Weights: modeltest.BF16, AddBOS: &yes, License: "mit", Context: 512})
	m, err := model.Resolve(t.Context(), store(t), path, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	sum := sha256.Sum256(data)
	if m.Name != "tiny" || m.Source != "file" || m.License != "mit" || m.SHA256 != hex.EncodeToString(sum[:]) || len(m.Files) != 1 || m.Sizes[0] != int64(len(data)) {
		t.Errorf("got %+v", m)
	}
	if m.Architecture != "llama" || m.Quantized || m.WeightType != "BF16" || m.WeightTypes["F32"] != 5 || m.WeightTypes["BF16"] != 16 ||
		m.Context != 512 || m.Vocab != 258 || m.BOS != 0 || m.EOS != 1 || m.AddBOS == nil || !*m.AddBOS || m.Shape.Layers != 2 || m.Shape.KeyLength != 32 {
		t.Errorf("got %+v", m.Facts)
	}
	var want int64 = 2*258*64 + 5*64 + 2*(4*64*64+3*64*128)
	if m.Parameters != want {
		t.Errorf("%d parameters, want %d", m.Parameters, want)
	}
}

// A device, or a pipe, which would be waited for without end.
func TestResolveDevice(t *testing.T) {
	_, err := model.Resolve(t.Context(), store(t), os.DevNull, model.Options{})
	if err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("got %v", err)
	}
}

func TestResolveErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole, err := modeltest.Encode(modeltest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	empty := append([]byte("GGUF"), make([]byte, 20)...)
	empty[4] = 3
	for _, tt := range []struct{ ref, text, hint string }{
		{"smollm2-135m", "neither", "did you mean smollm2-135m-instruct?"},
		{"smollm2", "neither", "did you mean smollm2-135m-instruct?"},
		{"gemma-3-270", "neither", "did you mean gemma-3-270m?"},
		{"Smollm-135M-instruct", "neither", "did you mean smollm2-135m-instruct?"},
		{"something-else", "neither", "registered names are smollm2-135m-instruct, gemma-3-270m"},
		{filepath.Join(dir, "none.gguf"), "no such file", "path"},
		{dir, "folder", ".gguf"},
		{file("text.gguf", []byte("this is no model")), "not a GGUF file", "get the file again"},
		{file("empty.gguf", nil), "not a GGUF file", "get the file again"},
		{file("cut.gguf", whole[:len(whole)*2/3]), "truncated", "get the file again"},
		{file("bare.gguf", empty), "no architecture", "get the file again"},
		{file("x-00001-of-00003.gguf", whole), "2 of its files are missing: x-00002-of-00003.gguf, x-00003-of-00003.gguf", "one folder"},
		{file("y-00004-of-00003.gguf", whole), "file 4 of 3", "names"},
		{file("z-00001-of-00001.gguf", whole), "", ""},
		{"hf:", "not of the form", "hf:ORG"},
		{"hf:org/name:model.bin", "no .gguf", "GGUF"},
	} {
		_, err := model.Resolve(t.Context(), store(t), tt.ref, model.Options{})
		if tt.text == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.ref, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.text) || !strings.Contains(artifact.Hint(err), tt.hint) {
			t.Errorf("%s: got %v; hint %q", tt.ref, err, artifact.Hint(err))
		}
	}
}

// split rewrites a model as two files, as llama.cpp's gguf-split does: the
// first has all metadata, each has its own tensors.
func split(t *testing.T, dir, name string) []string {
	t.Helper()
	var paths []string
	for no := range 2 {
		data, err := modeltest.Encode(modeltest.Options{Seed: uint64(no)})
		if err != nil {
			t.Fatal(err)
		}
		count := binary.LittleEndian.Uint64(data[16:])
		binary.LittleEndian.PutUint64(data[16:], count+2)
		var extra []byte
		for key, v := range map[string]uint32{"split.no": uint32(no), "split.count": 2} {
			extra = binary.LittleEndian.AppendUint64(extra, uint64(len(key)))
			extra = append(extra, key...)
			extra = binary.LittleEndian.AppendUint32(extra, 4)
			extra = binary.LittleEndian.AppendUint32(extra, v)
		}
		path := filepath.Join(dir, fmt.Sprintf("%s-%05d-of-00002.gguf", name, no+1))
		// The header grows, so the data is aligned anew.
		infos := headerLength(t, no)
		out := append(append(append([]byte{}, data[:24]...), extra...), data[24:infos]...)
		for len(out)%32 != 0 {
			out = append(out, 0)
		}
		out = append(out, data[(infos+31)/32*32:]...)
		if err := os.WriteFile(path, out, 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// headerLength finds the end of the tensor list: the data starts at the next
// multiple of 32, so it is searched from there for the last offset's bytes.
func headerLength(t *testing.T, seed int) int {
	t.Helper()
	data, err := modeltest.Encode(modeltest.Options{Seed: uint64(seed)})
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	last := binary.LittleEndian.AppendUint64(nil, uint64(h.Tensors[len(h.Tensors)-1].Offset))
	return bytes.LastIndex(data[:h.Data], last) + 8
}

func TestSplit(t *testing.T) {
	dir := t.TempDir()
	paths := split(t, dir, "big")
	one := filepath.Join(dir, "one.gguf")
	write(t, one, modeltest.Options{})
	single, err := model.Resolve(t.Context(), store(t), one, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sums []string
	for _, path := range paths {
		m, err := model.Resolve(t.Context(), store(t), path, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if m.Name != "big" || len(m.Files) != 2 || m.Files[0] != paths[0] || m.Parameters != 2*single.Parameters || len(m.Sizes) != 2 {
			t.Errorf("got %+v", m)
		}
		if m.TokenizerSHA256 != single.TokenizerSHA256 {
			t.Error("the tokenizer's digest differs")
		}
		sums = append(sums, m.SHA256)
	}
	if sums[0] != sums[1] {
		t.Errorf("digests %q", sums)
	}
	// Files of one name that are not of one model.
	if err := os.Rename(paths[0], paths[1]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths[0], mustRead(t, one), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := model.Resolve(t.Context(), store(t), paths[0], model.Options{}); err == nil || !strings.Contains(err.Error(), "its name says") {
		t.Errorf("got %v", err)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTokenizerDigest(t *testing.T) {
	digest := func(o modeltest.Options) string {
		path := filepath.Join(t.TempDir(), "m.gguf")
		write(t, path, o)
		f, err := model.Read([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		return f.TokenizerSHA256
	}
	yes := true
	base := digest(modeltest.Options{Merges: []string{"A n", "A s"}})
	if base != digest(modeltest.Options{Merges: []string{"A n", "A s"}, Weights: modeltest.Q8, Seed: 3, Context: 100, AddBOS: &yes}) {
		t.Error("weights, context or flags change the tokenizer's digest")
	}
	for name, o := range map[string]modeltest.Options{
		"merges": {Merges: []string{"A s", "A n"}},
		"tokens": {Merges: []string{"A n"}},
		"kind":   {Tokenizer: modeltest.SentencePiece},
	} {
		if digest(o) == base {
			t.Errorf("%s: the same digest", name)
		}
	}
}

func TestLicense(t *testing.T) {
	s := store(t)
	var shown []string
	opt := model.Options{Notice: func(text string) { shown = append(shown, text) }}
	_, err := model.Resolve(t.Context(), s, "gemma-3-270m", opt)
	var license *model.LicenseError
	if !errors.As(err, &license) || !strings.Contains(err.Error(), "google/gemma-3-270m") || !strings.Contains(license.Hint(), "--accept-license gemma") {
		t.Fatalf("got %v", err)
	}
	opt.AcceptLicense = []string{"other"}
	if _, err := model.Resolve(t.Context(), s, "gemma-3-270m", opt); !errors.As(err, &license) {
		t.Fatalf("got %v", err)
	}
	opt.AcceptLicense = []string{"Gemma"}
	var absent *artifact.Error
	if _, err := model.Resolve(t.Context(), s, "gemma-3-270m", opt); !errors.As(err, &absent) || absent.Kind != artifact.Absent {
		t.Errorf("offline: %v", err)
	}
	if len(shown) != 1 || !strings.Contains(shown[0], "Gemma Terms of Use") || !strings.Contains(shown[0], "google/gemma-3-270m") {
		t.Errorf("shown %q", shown)
	}
	opt.AcceptLicense = nil // remembered
	if _, err := model.Resolve(t.Context(), s, "gemma-3-270m", opt); errors.As(err, &license) || len(shown) != 1 {
		t.Errorf("got %v, shown %q", err, shown)
	}
	if model.Registered()[0].Name != model.Default || model.Registered()[0].License != "Apache-2.0" {
		t.Error("the default model is another")
	}
}

// hub serves files as the Hugging Face Hub does.
func hub(t *testing.T, files map[string][]byte) *artifact.Hub {
	t.Helper()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/models/org/name/revision/") {
			var siblings []map[string]string
			for name := range files {
				siblings = append(siblings, map[string]string{"rfilename": name})
			}
			json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings})
			return
		}
		rest, _ := strings.CutPrefix(r.URL.Path, "/org/name/resolve/")
		_, name, _ := strings.Cut(rest, "/")
		data, ok := files[name]
		if !ok {
			w.Header().Set("X-Error-Code", "EntryNotFound")
			w.WriteHeader(http.StatusNotFound)
			return
		}
		sum := sha256.Sum256(data)
		w.Header().Set("X-Repo-Commit", commit)
		w.Header().Set("X-Linked-Etag", `"`+hex.EncodeToString(sum[:])+`"`)
		w.Write(data)
	}))
	t.Cleanup(server.Close)
	return &artifact.Hub{Endpoint: server.URL, Home: t.TempDir()}
}

func TestResolveHub(t *testing.T) {
	dir := t.TempDir()
	one := filepath.Join(dir, "one.gguf")
	write(t, one, modeltest.Options{})
	parts := split(t, dir, "big")
	files := map[string][]byte{"README.md": []byte("x"), "sub/one.gguf": mustRead(t, one), "mmproj-x.gguf": []byte("x")}
	resolve := func(ref string) (model.Model, error) {
		return model.Resolve(t.Context(), store(t), ref, model.Options{Hub: hub(t, files)})
	}
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, ref := range []string{"hf:org/name", "hf:org/name:sub/one.gguf", "hf:org/name@main:sub/one.gguf", "hf:org/name@" + commit} {
		m, err := resolve(ref)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if m.Source != "hf:org/name@"+commit+":sub/one.gguf" || m.Name != "org/name:sub/one.gguf" || m.Origin != "org/name" || m.Vocab == 0 {
			t.Errorf("%s: got %+v", ref, m)
		}
	}
	if _, err := resolve("hf:org/name:none.gguf"); err == nil || !strings.Contains(artifact.Hint(err), "file's name") {
		t.Errorf("got %v", err)
	}
	delete(files, "sub/one.gguf")
	if _, err := resolve("hf:org/name"); err == nil || !strings.Contains(err.Error(), "no .gguf file") {
		t.Errorf("got %v", err)
	}
	for _, path := range parts {
		files[filepath.Base(path)] = mustRead(t, path)
	}
	for _, ref := range []string{"hf:org/name", "hf:org/name:big-00002-of-00002.gguf"} {
		if m, err := resolve(ref); err != nil || len(m.Files) != 2 {
			t.Errorf("%s: %+v, %v", ref, m, err)
		}
	}
	files["other.gguf"] = []byte("x")
	if _, err := resolve("hf:org/name"); err == nil || !strings.Contains(err.Error(), "big-00001-of-00002.gguf, other.gguf") || !strings.Contains(artifact.Hint(err), "hf:org/name:FILE.gguf") {
		t.Errorf("got %v", err)
	}
}

// TestRegistered fetches the registered models, in the user's cache.
func TestRegistered(t *testing.T) {
	s, err := artifact.Open("")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range model.Registered() {
		if testing.Short() && !s.Have(filepath.Join("models", r.Name, r.File)) {
			continue
		}
		m, err := model.Resolve(t.Context(), s, strings.ToUpper(r.Name), model.Options{AcceptLicense: []string{"gemma"}})
		var e *artifact.Error
		if errors.As(err, &e) && e.Kind != artifact.Failed && os.Getenv("CI") != "true" {
			t.Skipf("%s cannot be fetched: %v", r.Name, err)
		}
		if err != nil {
			t.Fatal(err, artifact.Hint(err))
		}
		if m.Name != r.Name || m.SHA256 != r.SHA256 || m.Sizes[0] != r.Size || !m.Quantized || !strings.EqualFold(m.StatedLicense, r.License) || m.Origin == "" {
			t.Errorf("got %+v", m)
		}
	}
}
