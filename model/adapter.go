package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"olmes/artifact"
	"olmes/model/safetensors"
)

// Adapter is what a PEFT adapter's files say. It is loaded on top of a model.
type Adapter struct {
	Name       string   `json:"name"`       // folder or ORG/REPO
	Source     string   `json:"source"`     // "folder", "hf:ORG/REPO@COMMIT"
	Kind       string   `json:"kind"`       // "LORA"
	Base       string   `json:"base"`       // the model it was made for, in its own words
	Revision   string   `json:"revision"`   // of Base; "" where it names none
	Parameters int64    `json:"parameters"` // elements of its tensors; 0 where only unpickling would tell
	Format     string   `json:"format"`     // Safetensors or Pickle
	Dir        string   `json:"-"`          // folder to load
	Files      []string `json:"-"`          // absolute paths
	SHA256     string   `json:"sha256"`     // hex, of lines "digest  name" of its files
}

// WithAdapter returns the model with an adapter on top. Its digest covers both.
func (m Model) WithAdapter(a Adapter) Model {
	m.Adapter = &a
	m.Name += "+" + a.Name
	sum := sha256.Sum256([]byte(m.SHA256 + "\n" + a.SHA256 + "\n"))
	m.SHA256 = hex.EncodeToString(sum[:])
	return m
}

// ResolveAdapter finds the adapter that ref names: a local folder, or
// hf:ORG/REPO[@REVISION].
func ResolveAdapter(ctx context.Context, store *artifact.Store, ref string, opt Options) (Adapter, error) {
	none := func(problem string) (Adapter, error) {
		return Adapter{}, &UnknownError{ref, problem, "an adapter is a folder, or hf:ORG/REPO, with " + adapterConfig + " and adapter_model.safetensors, as PEFT saves it"}
	}
	if spec, ok := strings.CutPrefix(ref, "hf:"); ok {
		r, l, err := listHub(ctx, store, spec, opt)
		if err != nil {
			return Adapter{}, err
		}
		if len(l.adapter) == 0 {
			return none("the repository has no adapter")
		}
		return downloadAdapter(ctx, store, r, l)
	}
	info, err := os.Stat(ref)
	if err != nil || !info.IsDir() {
		return none("there is no such folder")
	}
	dir, err := filepath.Abs(ref)
	if err != nil {
		return Adapter{}, fmt.Errorf("find adapter: %w", err)
	}
	names, err := listFolder(dir)
	if err != nil {
		return Adapter{}, fmt.Errorf("find adapter: %w", err)
	}
	l := choose(names)
	if len(l.adapter) == 0 {
		return none("the folder has no adapter")
	}
	return openAdapter(ctx, store, Adapter{Source: "folder", Dir: dir}, l)
}

// openAdapter reads facts and digest of the adapter in a.Dir.
func openAdapter(ctx context.Context, store *artifact.Store, a Adapter, l layout) (Adapter, error) {
	if a.Name == "" {
		a.Name, _ = folderName(a.Dir)
	}
	path := filepath.Join(a.Dir, adapterConfig)
	var config map[string]any
	if err := readJSON(path, &config); err != nil {
		return Adapter{}, fmt.Errorf("read adapter: %w", err)
	}
	word := func(key string) string { v, _ := config[key].(string); return v }
	a.Kind, a.Base, a.Revision = word("peft_type"), word("base_model_name_or_path"), word("revision")
	if a.Kind == "" {
		return Adapter{}, &UnknownError{path, "it names no kind of adapter (peft_type)", "save the adapter with PEFT"}
	}
	if len(l.adapter) < 2 {
		return Adapter{}, &UnknownError{a.Dir, "the adapter has no weights (adapter_model.safetensors or adapter_model.bin)", "get the folder again"}
	}
	a.Format = Pickle
	if weights := filepath.Join(a.Dir, l.adapter[1]); strings.HasSuffix(weights, ".safetensors") {
		a.Format = Safetensors
		h, err := safetensors.Open(weights)
		if err != nil {
			return Adapter{}, fmt.Errorf("read adapter: %w", err)
		}
		for _, t := range h.Tensors {
			a.Parameters += t.Elements
		}
	}
	for _, name := range slices.Sorted(slices.Values(l.adapter)) {
		a.Files = append(a.Files, filepath.Join(a.Dir, name))
	}
	sum, _, err := digestNamed(ctx, store, a.Files)
	if err != nil {
		return Adapter{}, fmt.Errorf("read adapter: %w", err)
	}
	a.SHA256 = sum
	return a, nil
}

// resolveBase finds the model that an adapter was made for: a path where it is
// written as one, or else a repository of the hub.
func resolveBase(ctx context.Context, store *artifact.Store, a Adapter, opt Options) (Model, error) {
	tip := "give the model and the adapter apart: -m MODEL --adapter " + a.Name
	if a.Base == "" {
		return Model{}, &UnknownError{a.Name, "it is an adapter that does not name its model (base_model_name_or_path)", tip}
	}
	ref := "hf:" + a.Base
	if a.Revision != "" {
		ref += "@" + a.Revision
	}
	switch {
	case filepath.IsAbs(a.Base):
		ref = a.Base
	case strings.HasPrefix(a.Base, "./"), strings.HasPrefix(a.Base, "../"):
		ref = filepath.Join(a.Dir, a.Base)
	}
	base, err := Resolve(ctx, store, ref, opt)
	var unknown *UnknownError
	if errors.As(err, &unknown) {
		return Model{}, &UnknownError{a.Name, "it is an adapter, and its model cannot be found: " + err.Error(), tip}
	}
	if err != nil {
		return Model{}, fmt.Errorf("find the model of adapter %s: %w", a.Name, err)
	}
	if base.Adapter != nil {
		return Model{}, &UnknownError{a.Name, "it is an adapter on top of another adapter", "merge them into a model first"}
	}
	return base.WithAdapter(a), nil
}
