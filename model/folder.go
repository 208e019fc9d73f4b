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
	"olmes/model/safetensors"
)

// resolveFolder reads a local folder: a Hugging Face model or an adapter.
func resolveFolder(ctx context.Context, store *artifact.Store, ref string, opt Options) (Model, error) {
	dir, err := filepath.Abs(ref)
	if err != nil {
		return Model{}, fmt.Errorf("find model: %w", err)
	}
	names, err := listFolder(dir)
	if err != nil {
		return Model{}, fmt.Errorf("find model: %w", err)
	}
	l := choose(names)
	if opt.Format == GGUF || !l.checkpoint() && len(l.gguf) > 0 && len(l.adapter) == 0 {
		return Model{}, folderError(ref, l.checkpoint())
	}
	if !l.checkpoint() && len(l.adapter) > 0 && !opt.TokenizerOnly {
		a, err := openAdapter(ctx, store, Adapter{Source: "folder", Dir: dir}, l)
		if err != nil {
			return Model{}, err
		}
		return resolveBase(ctx, store, a, opt)
	}
	if text, tip := l.problem(opt.TokenizerOnly); text != "" {
		return Model{}, &UnknownError{ref, text, tip}
	}
	if len(l.gguf) > 0 && !opt.TokenizerOnly {
		opt.note(fmt.Sprintf("%s has %s and GGUF files: the former are taken; name a GGUF file to take that", ref, l.format))
	}
	if opt.TokenizerOnly {
		l.weights, l.index = nil, ""
	}
	if l.index != "" {
		data, err := os.ReadFile(filepath.Join(dir, l.index))
		if err == nil {
			err = l.readIndex(data)
		}
		if err != nil {
			return Model{}, &UnknownError{ref, err.Error(), "get the folder again"}
		}
	}
	if missing := l.missing(names); len(missing) > 0 {
		return Model{}, missingParts(ref, missing)
	}
	m := Model{Source: "folder", Dir: dir, Format: l.format}
	m.Name, m.Origin = folderName(dir)
	return openFolder(ctx, store, m, l, opt)
}

// listFolder lists the files of a folder that are there: a link counts as what
// it leads to, and one that leads nowhere is an error.
func listFolder(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink != 0 {
			return nil, &UnknownError{filepath.Join(dir, e.Name()), "it is a link that leads nowhere", "fetch the model again"}
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// openFolder reads facts and digests of the files in m.Dir.
func openFolder(ctx context.Context, store *artifact.Store, m Model, l layout, opt Options) (Model, error) {
	var s settings
	if slices.Contains(l.config, "config.json") {
		path := filepath.Join(m.Dir, "config.json")
		var err error
		if s, err = readSettings(path); err != nil {
			return Model{}, fmt.Errorf("read model: %w", err)
		}
		if s.ownString("model_type") == "" {
			return Model{}, &UnknownError{path, "it names no architecture (model_type)", "get the folder again; transformers must know the architecture by that name"}
		}
	}
	t, err := readTokenizer(m.Dir, l.tokenizer)
	if err != nil {
		return Model{}, fmt.Errorf("read model: %w", err)
	}
	modules := autoMaps(s.own["auto_map"], t.config["auto_map"])
	m.RemoteCode = len(modules) > 0 || len(l.code) > 0
	if foreign := foreignCode(modules); opt.TrustRemoteCode && foreign != "" {
		return Model{}, &UnknownError{m.Name, "its code lies in another repository, at no fixed revision: " + foreign,
			"download that repository's Python files into a local copy of the folder, read them, and name them in auto_map without the part up to --"}
	}
	m.describeConfig(s)
	m.describeTokenizer(t)
	if m.TokenizerSHA256, err = folderTokenizerSHA256(m.Dir, l.tokenizer); err != nil {
		return Model{}, fmt.Errorf("read model: %w", err)
	}
	if opt.TokenizerOnly {
		m.Format = ""
	}
	if err := m.describeWeights(m.Dir, l, s); err != nil {
		return Model{}, fmt.Errorf("read model: %w", err)
	}
	m.Quantized = m.Quantized || m.Quantization != ""
	return digestFolder(ctx, store, m, l.files(opt.TrustRemoteCode))
}

// digestFolder fills in m's files, their sizes and their digest.
func digestFolder(ctx context.Context, store *artifact.Store, m Model, names []string) (Model, error) {
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join(m.Dir, name))
	}
	sum, sizes, err := digestNamed(ctx, store, paths)
	if err != nil {
		return Model{}, fmt.Errorf("read model: %w", err)
	}
	m.Files, m.Sizes, m.SHA256 = paths, sizes, sum
	return m, nil
}

// digestNamed is the SHA-256 of lines "digest  name", in the order of the files.
func digestNamed(ctx context.Context, store *artifact.Store, paths []string) (string, []int64, error) {
	var lines strings.Builder
	var sizes []int64
	for _, path := range paths {
		sum, err := store.SHA256(ctx, path)
		if err != nil {
			return "", nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", nil, err
		}
		sizes = append(sizes, info.Size())
		fmt.Fprintf(&lines, "%s  %s\n", sum, filepath.Base(path))
	}
	all := sha256.Sum256([]byte(lines.String()))
	return hex.EncodeToString(all[:]), sizes, nil
}

// describeWeights fills in what the headers of the weights say. PyTorch's
// files have none that could be read without running them: their type is what
// config.json says, and the number of parameters stays unknown.
func (f *Facts) describeWeights(dir string, l layout, s settings) error {
	f.WeightTypes = map[string]int{}
	if l.format != Safetensors {
		f.WeightType = statedType(s)
		return nil
	}
	elements := map[string]int64{}
	for _, name := range l.weights {
		h, err := safetensors.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, t := range h.Tensors {
			if isBuffer(t) {
				continue
			}
			f.WeightTypes[t.Type]++
			f.Parameters += t.Elements
			elements[t.Type] += t.Elements
			// Types of 8 bits and less need no quantization_config to be quantized.
			if strings.HasPrefix(t.Type, "F8_") || strings.HasPrefix(t.Type, "F6_") || strings.HasPrefix(t.Type, "F4") {
				f.Quantized = true
			}
		}
	}
	if len(l.weights) > 0 && f.Parameters == 0 {
		return &safetensors.FormatError{Path: filepath.Join(dir, l.weights[0]), Problem: "it holds no weights"}
	}
	f.WeightType = most(elements)
	return nil
}

// isBuffer tells the tensors that are no weights, but tables which older
// checkpoints store: attention masks and rotary frequencies.
func isBuffer(t safetensors.Tensor) bool {
	switch name := t.Name[strings.LastIndex(t.Name, ".")+1:]; name {
	case "inv_freq", "masked_bias":
		return true
	case "bias":
		return len(t.Shape) == 4 || t.Type == "BOOL"
	}
	return false
}

// most returns the type that most elements have.
func most(elements map[string]int64) string {
	best := ""
	for name, n := range elements {
		if n > elements[best] || n == elements[best] && (best == "" || name < best) {
			best = name
		}
	}
	return best
}
