package model

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"olmes/artifact"
)

// hubRef is what hf:ORG/REPO[@REV][:FILE.gguf] says after "hf:".
var hubRef = regexp.MustCompile(`^([^@:]+)(?:@([^:]+))?(?::(.+))?$`)

func resolveHub(ctx context.Context, store *artifact.Store, spec string, opt Options) (Model, error) {
	ref := hubRef.FindStringSubmatch(spec)
	if ref == nil {
		return Model{}, &UnknownError{"hf:" + spec, "it is not of the form hf:ORG/REPO[@REVISION][:FILE.gguf]", "for example hf:ORG/REPO@main:model-f16.gguf"}
	}
	repo, rev, file := ref[1], ref[2], ref[3]
	hub := opt.Hub
	if hub == nil {
		hub = artifact.NewHub(store)
	}
	if file == "" {
		commit, files, err := hub.Files(ctx, artifact.ModelRepo, repo, rev)
		if err != nil {
			return Model{}, fmt.Errorf("find model hf:%s: %w", spec, err)
		}
		if file, err = onlyModel(files); err != nil {
			return Model{}, &UnknownError{"hf:" + spec, err.Error(), "name the file: hf:" + repo + ":FILE.gguf"}
		}
		rev = commit
	}
	if !strings.HasSuffix(file, ".gguf") {
		return Model{}, &UnknownError{"hf:" + spec, "the file is no .gguf file", "name a GGUF file of the repository"}
	}
	dir, base := "", file
	if i := strings.LastIndex(file, "/"); i >= 0 {
		dir, base = file[:i+1], file[i+1:]
	}
	list, err := splitFiles(base)
	if err != nil {
		return Model{}, &UnknownError{"hf:" + spec, err.Error(), "name another file of the repository"}
	}
	m := Model{Origin: repo, Name: repo + ":" + file}
	for _, name := range list {
		path, err := hub.Download(ctx, artifact.ModelRepo, repo, rev, dir+name)
		if err != nil {
			return Model{}, fmt.Errorf("fetch model hf:%s: %w", spec, err)
		}
		m.Files = append(m.Files, path)
		if commit := artifact.SnapshotCommit(path); commit != "" {
			rev = commit // all files of one commit
		}
	}
	m.Source = "hf:" + repo + "@" + rev + ":" + file
	return open(ctx, store, m)
}

// onlyModel returns the one model among a repository's files.
func onlyModel(files []string) (string, error) {
	var found []string
	for _, file := range files {
		base := file[strings.LastIndex(file, "/")+1:]
		m := splitName.FindStringSubmatch(base)
		// Of a split model the first file stands for all; projectors of
		// multimodal models are no models by themselves.
		if strings.HasSuffix(base, ".gguf") && (m == nil || m[2] == "00001") && !strings.HasPrefix(base, "mmproj") {
			found = append(found, file)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("the repository has no .gguf file")
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("the repository has %d models: %s", len(found), strings.Join(found[:min(len(found), 20)], ", "))
}
