package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"olmes/document"
	"olmes/engine"
	"olmes/engine/llamacpp"
	"olmes/engine/llamacpp/library"
)

// Values of Config.Plan that are no file.
const (
	planDefault = "default"
	planAuto    = "auto"
)

// planFile is a plan as a file gives it: engine.Plan, each number optional.
// What is left out follows from the model and from the batch.
type planFile struct {
	Batch          *int    `yaml:"batch"`
	MicroBatch     *int    `yaml:"micro_batch"`
	Cells          *int    `yaml:"cells"`
	Rows           *int    `yaml:"rows"`
	Sequences      *int    `yaml:"sequences"`
	ChunkTokens    *int    `yaml:"chunk_tokens"`
	FlashAttention *bool   `yaml:"flash_attention"`
	KVType         *string `yaml:"kv_type"`
}

// readPlan reads the plan's file, if c names one.
func readPlan(c Config) (planFile, error) {
	var f planFile
	if c.Plan == planDefault || c.Plan == planAuto {
		return f, nil
	}
	switch err := document.ReadFile(c.Plan, &f); {
	case errors.Is(err, fs.ErrNotExist):
		return f, usage("plan is %q; it can be %s, %s or a file, and there is no such file", c.Plan, planDefault, planAuto)
	case err != nil && !errors.Is(err, document.ErrEmpty):
		return f, usage("plan file %s: %w", c.Plan, err)
	}
	for name, n := range map[string]*int{"micro_batch": f.MicroBatch, "cells": f.Cells, "rows": f.Rows, "sequences": f.Sequences, "chunk_tokens": f.ChunkTokens} {
		if n != nil && *n < 1 {
			return f, usage("plan file %s: %s is %d; it must be at least 1", c.Plan, name, *n)
		}
	}
	switch {
	case f.Batch != nil && (*f.Batch < minBatch || *f.Batch > maxBatch):
		return f, usage("plan file %s: batch is %d; it can be from %d to %d", c.Plan, *f.Batch, minBatch, maxBatch)
	case c.Exact && (f.FlashAttention != nil && *f.FlashAttention || f.KVType != nil && *f.KVType != "f32"):
		return f, usage("plan file %s: exact means flash_attention false and kv_type f32; leave out these or exact", c.Plan)
	}
	return f, nil
}

// apply returns p with the file's numbers in it.
func (f planFile) apply(s llamacpp.Shape, p engine.Plan) engine.Plan {
	if f.Batch != nil {
		p = llamacpp.Resize(s, p, *f.Batch)
	}
	if f.Rows != nil {
		p.Sequences = min(p.Sequences, *f.Rows)
	}
	return f.over(p)
}

// over returns p with the file's numbers in it, all but the batch.
func (f planFile) over(p engine.Plan) engine.Plan {
	set := func(field, given *int) {
		if given != nil {
			*field = *given
		}
	}
	set(&p.MicroBatch, f.MicroBatch)
	set(&p.Cells, f.Cells)
	set(&p.Rows, f.Rows)
	set(&p.Sequences, f.Sequences)
	set(&p.ChunkTokens, f.ChunkTokens)
	if f.FlashAttention != nil {
		p.FlashAttention = *f.FlashAttention
	}
	if f.KVType != nil {
		p.KVType = *f.KVType
	}
	return p
}

// shape says what the plan depends on. Model, files, library and layers are
// decided before.
func (r llama) shape() (llamacpp.Shape, error) {
	m, n := r.setup.Model, r.setup.Model.Shape
	s := llamacpp.Shape{
		Parameters: m.Parameters, Context: m.Context, Vocab: m.Vocab, Layers: n.Layers, Embedding: n.Embedding,
		FeedForward: n.FeedForward, Heads: n.Heads, KVHeads: n.KVHeads, KeyLength: n.KeyLength,
		Summed:  r.setup.Library.Variant == library.Native && r.setup.GPULayers == 0 && !n.LogitsChanged,
		Widened: r.setup.Library.Variant == library.Native && r.precision() != "f32",
		GPU:     r.setup.GPULayers != 0,
	}
	for _, file := range r.setup.Files {
		info, err := os.Stat(file)
		if err != nil {
			return s, fmt.Errorf("model file: %w", err)
		}
		s.WeightBytes += info.Size()
	}
	return s, nil
}

// choosePlan decides the run's plan, before anything is loaded: by the model's
// shape, by the user's numbers, by what free bytes of memory can hold (0: not
// known), and last, if asked for, by measuring. A plan that the user gave is
// never changed: where it does not fit it is refused. A run that is taken up
// goes on with the plan it has.
func (r llama) choosePlan(ctx context.Context, free int64) error {
	c := r.config
	s, err := r.shape()
	if err != nil {
		return err
	}
	p := llamacpp.DefaultPlan(s)
	if c.Exact {
		p = llamacpp.ExactPlan(s)
	}
	p = r.planFile.apply(s, p)
	if c.Batch > 0 {
		p = llamacpp.Resize(s, p, c.Batch)
	}
	given := c.Batch > 0 || c.Plan != planDefault && c.Plan != planAuto
	kept, dir, taken := r.kept()
	if taken = taken && c.Batch == 0 && c.Plan == planDefault && llamacpp.CheckPlan(kept) == nil; taken {
		p = kept
	}
	if c.ChunkTokens > 0 {
		p.ChunkTokens = c.ChunkTokens
	}
	if err := llamacpp.CheckPlan(p); err != nil {
		return &UsageError{err}
	}
	if need := llamacpp.Need(s, p.Batch); p.Cells < need {
		return usage("plan: cells is %d; requests of this model's window and batches of %d need %d", p.Cells, p.Batch, need)
	}
	fit, err := llamacpp.Fit(s, p, free)
	if taken && (err != nil || fit != p) {
		r.env.reporter().Note(fmt.Sprintf("memory: %d MB are free, and the run in %s has a plan that may take %d MB: it goes on with it", free/1e6, dir, llamacpp.Memory(s, p).Total(1)/1e6))
		fit, err = p, nil
	}
	if err != nil {
		return fmt.Errorf("load %s: %w", r.setup.Model.Label(), err)
	}
	if fit != p {
		if given {
			need := llamacpp.Memory(s, p)
			return &hinted{fmt.Errorf("the plan of batch %d and %d cells takes %d MB of memory, of which %d MB are free", p.Batch, p.Cells, need.Total(1)/1e6, free/1e6),
				fmt.Sprintf("batch %d and %d cells would fit; or leave the plan to the program", fit.Batch, fit.Cells)}
		}
		r.env.reporter().Note(fmt.Sprintf("memory: %d MB are free, so batches are of %d tokens instead of %d; the run's identity says so", free/1e6, fit.Batch, p.Batch))
	}
	r.setup.Plan = fit
	if c.Plan == planAuto {
		r.setup.Plan, err = r.measurePlans(ctx, s, fit, free)
	}
	return err
}

// planText says a plan in the words of its flags.
func planText(p engine.Plan) string {
	return fmt.Sprintf("--batch %d --chunk-tokens %d", p.Batch, p.ChunkTokens)
}

// resumable refuses to resume a run whose plan would be measured again.
func (c Config) resumable() error {
	if c.Plan == planAuto {
		return usage("a measured plan can differ from run to run: resume with the plan that the first run printed, --batch N --chunk-tokens N")
	}
	return nil
}
