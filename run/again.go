package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"olmes"
	"olmes/record"
	"olmes/score"
	"olmes/task"
)

// Fresh is predictions scored anew.
type Fresh struct {
	Predictions map[olmes.Key]olmes.Prediction
	Identity    record.Identity // of the model, engine and settings that scored them
	Noise       *record.Noise   // measured while scoring; nil where it was not
}

// Again scores single predictions anew, those of keys, which all have one split or
// their tasks' own. Of c it takes model, engine and settings, and none of what
// chooses instances. Nothing is kept.
func Again(ctx context.Context, c Config, keys []olmes.Key, env Env) (Fresh, error) {
	var err error
	if c, err = c.only(keys); err != nil {
		return Fresh{}, err
	}
	r, all, err := start(ctx, c, Options{}, env)
	if err != nil {
		return Fresh{}, err
	}
	defer r.engine.Close()
	for _, f := range []olmes.Formulation{olmes.CF, olmes.MCF} {
		if err := r.encode(ctx, among(all, keys, f)); err != nil {
			return Fresh{}, err
		}
	}
	id, err := r.identity()
	if err != nil {
		return Fresh{}, err
	}
	r.seed = seedOf(id.ID())
	dir, err := os.MkdirTemp("", "olmes-again-")
	if err != nil {
		return Fresh{}, fmt.Errorf("make a folder for scores: %w", err)
	}
	defer os.RemoveAll(dir)
	prov, err := r.provenance(time.Now())
	if err != nil {
		return Fresh{}, err
	}
	w, finished, err := r.openRecord(filepath.Join(dir, "run"), id, prov, Options{})
	if err != nil {
		return Fresh{}, err
	}
	defer w.Close()
	if err := r.checkNoise(ctx, w, finished, Options{}); err != nil {
		return Fresh{}, err
	}
	if err := r.score(ctx, w, finished); err != nil {
		return Fresh{}, err
	}
	out := Fresh{Predictions: map[olmes.Key]olmes.Prediction{}, Identity: id, Noise: r.noise}
	for _, u := range r.units {
		for i := range u.preds {
			score.Predict(&u.preds[i], nil)
			out.Predictions[u.preds[i].Key()] = u.preds[i]
		}
	}
	return out, nil
}

// only returns c with the tasks and the split of keys.
func (c Config) only(keys []olmes.Key) (Config, error) {
	c.Tasks, c.Variants, c.Formulation, c.Split, c.All, c.Limit, c.LimitPerSubject = nil, nil, "both", "", false, 0, 0
	splits := map[string]bool{}
	own := true
	for _, k := range keys {
		t, ok := task.Lookup(k.Task)
		if !ok {
			return c, usage("%s is no task of the standard, so it cannot be scored here", k.Task)
		}
		variant := k.Variant
		if variant == "" {
			variant = task.VariantStandard
		}
		if !slices.Contains(c.Variants, variant) {
			c.Variants = append(c.Variants, variant)
		}
		if !slices.Contains(c.Tasks, k.Task) {
			c.Tasks = append(c.Tasks, k.Task)
		}
		splits[k.Split] = true
		own = own && k.Split == t.Split
	}
	switch {
	case len(keys) == 0:
		return c, usage("there is nothing to score")
	case own:
	case len(splits) > 1:
		return c, usage("the predictions are of several splits; score those of one")
	default:
		c.Split = keys[0].Split
	}
	return c, nil
}

// among returns what is chosen with the instances of keys in one formulation alone.
func among(all []chosen, keys []olmes.Key, f olmes.Formulation) []chosen {
	var out []chosen
	for _, ch := range all {
		one := ch
		one.formulations, one.evaluated, one.data.whole = []olmes.Formulation{f}, nil, false
		for _, k := range keys {
			if k.Task == ch.task.Name && k.Formulation == f && slices.ContainsFunc(ch.shown, func(s shown) bool { return s.variant == k.Variant }) &&
				k.DocID >= 0 && k.DocID < len(ch.data.Instances) && !slices.Contains(one.evaluated, k.DocID) {
				one.evaluated = append(one.evaluated, k.DocID)
			}
		}
		if len(one.evaluated) > 0 {
			slices.Sort(one.evaluated)
			out = append(out, one)
		}
	}
	return out
}

// OpenSource opens where the rows of c's source come from; the function closes it.
func OpenSource(ctx context.Context, c Config, env Env) (task.Source, func(), error) {
	c, err := c.Resolved()
	if err != nil {
		return nil, nil, err
	}
	return openSource(ctx, c, env)
}
