package model

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"olmes/artifact"
)

// hubRef is what hf:ORG/REPO[@REV][:FILE.gguf] says after "hf:".
var hubRef = regexp.MustCompile(`^([^@:]+)(?:@([^:]+))?(?::(.+))?$`)

// commitName is a revision that cannot move.
var commitName = regexp.MustCompile(`^[0-9a-f]{40}$`)

// hubRepo is a repository at one commit.
type hubRepo struct {
	hub       *artifact.Hub
	name, rev string // rev as asked for
	file      string // named by the reference, or ""
	commit    string // "" where file is named and nothing was listed
	files     []string
}

func (r hubRepo) ref() string {
	ref := "hf:" + r.name
	if r.rev != "" {
		ref += "@" + r.rev
	}
	if r.file != "" {
		ref += ":" + r.file
	}
	return ref
}

func parseHub(store *artifact.Store, spec string, opt Options) (hubRepo, error) {
	ref := hubRef.FindStringSubmatch(spec)
	if ref == nil {
		return hubRepo{}, &UnknownError{"hf:" + spec, "it is not of the form hf:ORG/REPO[@REVISION][:FILE.gguf]", "for example hf:ORG/REPO@main, or hf:ORG/REPO@main:model-f16.gguf"}
	}
	r := hubRepo{hub: opt.Hub, name: ref[1], rev: ref[2], file: ref[3]}
	if r.hub == nil {
		r.hub = artifact.NewHub(store)
	}
	return r, nil
}

// listHub lists a repository's files and picks the model's out of them.
func listHub(ctx context.Context, store *artifact.Store, spec string, opt Options) (hubRepo, layout, error) {
	r, err := parseHub(store, spec, opt)
	if err != nil {
		return r, layout{}, err
	}
	if r.file != "" {
		return r, layout{}, &UnknownError{r.ref(), "it names a file", "name the repository alone: hf:" + r.name}
	}
	if r.commit, r.files, err = r.hub.Files(ctx, artifact.ModelRepo, r.name, r.rev); err != nil {
		return r, layout{}, fmt.Errorf("find hf:%s: %w", spec, err)
	}
	return r, choose(r.files), nil
}

func resolveHub(ctx context.Context, store *artifact.Store, spec string, opt Options) (Model, error) {
	r, err := parseHub(store, spec, opt)
	if err != nil {
		return Model{}, err
	}
	if r.file != "" {
		return resolveHubGGUF(ctx, store, r, opt)
	}
	r, l, err := listHub(ctx, store, spec, opt)
	if err != nil {
		return Model{}, err
	}
	switch {
	case opt.TokenizerOnly:
	case len(l.gguf) > 0 && (opt.Format == GGUF || opt.Format == "" && !l.checkpoint() && len(l.adapter) == 0):
		if r.file, err = onlyModel(l.gguf); err != nil {
			return Model{}, &UnknownError{r.ref(), err.Error(), "name the file: hf:" + r.name + ":FILE.gguf"}
		}
		return resolveHubGGUF(ctx, store, r, opt)
	case opt.Format == GGUF:
		return Model{}, &UnknownError{r.ref(), "the repository has no .gguf file, the only kind that the embedded llama.cpp reads",
			"use --engine torch, or a repository that has GGUF files"}
	case !l.checkpoint() && len(l.adapter) > 0:
		a, err := downloadAdapter(ctx, store, r, l)
		if err != nil {
			return Model{}, err
		}
		return resolveBase(ctx, store, a, opt)
	case !l.checkpoint() && len(l.gguf) == 0:
		return Model{}, &UnknownError{r.ref(), "the repository has no .gguf file and is no Hugging Face model (config.json with model.safetensors or pytorch_model.bin)",
			"look at its list of files on the hub"}
	}
	return downloadFolder(ctx, store, r, l, opt)
}

// downloadFolder fetches the files of a Hugging Face model, at one commit.
func downloadFolder(ctx context.Context, store *artifact.Store, r hubRepo, l layout, opt Options) (Model, error) {
	if text, tip := l.problem(opt.TokenizerOnly); text != "" {
		return Model{}, &UnknownError{r.ref(), text, tip}
	}
	if opt.TrustRemoteCode && len(l.code) > 0 && !commitName.MatchString(r.rev) {
		return Model{}, &UnknownError{r.ref(), "its own code is to be trusted, at a revision that can move",
			"read the code, then name the commit that you have read: hf:" + r.name + "@" + r.commit}
	}
	if len(l.gguf) > 0 && !opt.TokenizerOnly {
		opt.note(fmt.Sprintf("%s has %s and GGUF files: the former are taken; hf:%s:FILE.gguf takes one of the latter", r.name, l.format, r.name))
	}
	if opt.TokenizerOnly {
		l.weights, l.index = nil, ""
	}
	if l.index != "" {
		path, err := r.download(ctx, l.index)
		if err != nil {
			return Model{}, err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = l.readIndex(data)
		}
		if err != nil {
			return Model{}, &UnknownError{r.ref(), err.Error(), "name another revision"}
		}
		// Offline and without a list kept, r.files is what was fetched so far:
		// the download says so.
		if missing := l.missing(r.files); len(missing) > 0 && !r.hub.Offline {
			return Model{}, missingParts(r.ref(), missing)
		}
	}
	m := Model{Name: r.name, Origin: r.name, Source: "hf:" + r.name + "@" + r.commit, Format: l.format}
	for _, name := range l.files(opt.TrustRemoteCode) {
		path, err := r.download(ctx, name)
		if err != nil {
			return Model{}, err
		}
		m.Dir = filepath.Dir(path)
	}
	if err := r.hub.Remember(artifact.ModelRepo, r.name, r.rev, r.commit); err != nil {
		return Model{}, fmt.Errorf("fetch %s: %w", r.ref(), err)
	}
	return openFolder(ctx, store, m, l, opt)
}

// downloadAdapter fetches an adapter's files.
func downloadAdapter(ctx context.Context, store *artifact.Store, r hubRepo, l layout) (Adapter, error) {
	a := Adapter{Name: r.name, Source: "hf:" + r.name + "@" + r.commit}
	for _, name := range l.adapter {
		path, err := r.download(ctx, name)
		if err != nil {
			return Adapter{}, err
		}
		a.Dir = filepath.Dir(path)
	}
	return openAdapter(ctx, store, a, l)
}

// download fetches one file of the repository's commit.
func (r hubRepo) download(ctx context.Context, name string) (string, error) {
	path, err := r.hub.Download(ctx, artifact.ModelRepo, r.name, r.commit, name)
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", r.ref(), err)
	}
	return path, nil
}

// resolveHubGGUF fetches the GGUF file r.file, and its other parts.
func resolveHubGGUF(ctx context.Context, store *artifact.Store, r hubRepo, opt Options) (Model, error) {
	if !strings.HasSuffix(r.file, ".gguf") {
		return Model{}, &UnknownError{r.ref(), "the file is no .gguf file", "name a GGUF file of the repository, or for a Hugging Face model the repository alone: hf:" + r.name}
	}
	if opt.TokenizerOnly || opt.Format == Safetensors {
		return Model{}, &UnknownError{r.ref(), "it is a GGUF file, and the files of a Hugging Face model are needed", "name the repository alone: hf:ORG/REPO"}
	}
	dir, base := "", r.file
	if i := strings.LastIndex(r.file, "/"); i >= 0 {
		dir, base = r.file[:i+1], r.file[i+1:]
	}
	list, err := splitFiles(base)
	if err != nil {
		return Model{}, &UnknownError{r.ref(), err.Error(), "name another file of the repository"}
	}
	rev := r.rev
	if r.commit != "" {
		rev = r.commit
	}
	m := Model{Origin: r.name, Name: r.name + ":" + r.file}
	for _, name := range list {
		path, err := r.hub.Download(ctx, artifact.ModelRepo, r.name, rev, dir+name)
		if err != nil {
			return Model{}, fmt.Errorf("fetch model %s: %w", r.ref(), err)
		}
		m.Files = append(m.Files, path)
		if commit := artifact.SnapshotCommit(path); commit != "" {
			rev = commit // all files of one commit
		}
	}
	m.Source = "hf:" + r.name + "@" + rev + ":" + r.file
	return open(ctx, store, m)
}

// onlyModel returns the one model among a repository's GGUF files.
func onlyModel(files []string) (string, error) {
	var found []string
	for _, file := range files {
		base := file[strings.LastIndex(file, "/")+1:]
		m := splitName.FindStringSubmatch(base)
		// Of a split model the first file stands for all; projectors of
		// multimodal models are no models by themselves.
		if (m == nil || m[2] == "00001") && !strings.HasPrefix(base, "mmproj") {
			found = append(found, file)
		}
	}
	slices.Sort(found)
	switch len(found) {
	case 0:
		return "", fmt.Errorf("the repository has no .gguf file of a model")
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("the repository has %d models: %s", len(found), strings.Join(found[:min(len(found), 20)], ", "))
}
