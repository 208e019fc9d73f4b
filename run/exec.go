package run

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"olmes/engine"
	"olmes/engine/child"
	"olmes/model"
	"olmes/noise"
	"olmes/record"
	"olmes/trie"
)

// execBackend is the backend of anyone's engine that speaks the public protocol
// (docs/engine-protocol.md). Its model is whatever it says; what it does not say
// stays unknown.
type execBackend struct {
	*Run
	fingerprint string // of the weights, where the engine does not give their digest
}

// Of exec engines: new tokens of a chunk, since nothing is known of their speed,
// and the time that they get to end by themselves.
const (
	execChunk = 4096
	execLeave = 2 * time.Second
)

// execLoad is the args of load as exec engines get them, where they offer it.
type execLoad struct {
	Model   string      `json:"model,omitempty"` // as the user gave it
	DType   string      `json:"dtype,omitempty"`
	Threads int         `json:"threads,omitempty"`
	Plan    engine.Plan `json:"plan"`
}

// execDescription is a description with what only an engine of one's own can
// tell, and without taking a BOS that is left out for id 0.
type execDescription struct {
	engine.Description
	BOS         *int32 `json:"bos"`
	EOS         *int32 `json:"eos"`
	Model       string `json:"model"`        // its name
	ModelSHA256 string `json:"model_sha256"` // of its weights, in whatever form the engine has them
}

// decide takes the plan's numbers from the user; all others are the engine's.
func (r *execBackend) decide(context.Context) error {
	p := r.planFile.over(engine.Plan{ChunkTokens: execChunk})
	if f := r.planFile.Batch; f != nil {
		p.Batch = *f
	}
	if r.config.Batch > 0 {
		p.Batch = r.config.Batch
	}
	if r.config.ChunkTokens > 0 {
		p.ChunkTokens = r.config.ChunkTokens
	}
	r.setup.Plan = p
	return nil
}

func (r *execBackend) start(ctx context.Context, s Setup) (engine.Engine, error) {
	command, err := words(r.config.command())
	if err != nil {
		return nil, &UsageError{err}
	}
	e, err := child.Start(ctx, child.Options{
		Command: command, Log: r.env.EngineLog, Leave: execLeave,
		Load: execLoad{Model: r.config.Model, DType: r.config.DType, Threads: s.Threads, Plan: s.Plan},
	})
	if err != nil {
		return nil, err
	}
	if !slices.Contains(e.Hello().Ops, "load") {
		// What cannot be told to the engine must not look as if it were in force.
		for name, given := range map[string]bool{"dtype": r.config.DType != "", "threads": r.config.Threads > 0, "batch": s.Plan.Batch > 0} {
			if given {
				e.Close()
				return nil, usage("--%s cannot be told to this engine, which offers no operation load; leave it out", name)
			}
		}
	}
	return e, nil
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (r *execBackend) described(ctx context.Context, d *engine.Description) error {
	own := execDescription{Description: *d, BOS: &d.BOS, EOS: &d.EOS}
	name := d.Engine
	if e, ok := r.engine.(*child.Engine); ok {
		own = execDescription{}
		if _, err := e.Call(ctx, "describe", nil, &own, nil); err != nil {
			return fmt.Errorf("ask the engine who it is: %w", err)
		}
		d.BOS, d.EOS = -1, -1
		if own.BOS != nil {
			d.BOS = *own.BOS
		}
		if own.EOS != nil {
			d.EOS = *own.EOS
		}
		name = e.Hello().Name
	}
	if d.Engine == "" {
		d.Engine = name
	}
	bad := func(format string, args ...any) error {
		return &hinted{fmt.Errorf("the engine's description: "+format, args...), "docs/engine-protocol.md says what an engine describes"}
	}
	if err := engine.CheckName(own.Model); err != nil {
		return bad("model: %w", err)
	}
	switch {
	case d.Engine == "":
		return bad("it has no name (engine)")
	case d.Vocab < 2:
		return bad("its vocabulary has %d tokens (vocab)", d.Vocab)
	case d.BOS < -1 || int(d.BOS) >= d.Vocab:
		return bad("its BOS is token %d of a vocabulary of %d", d.BOS, d.Vocab)
	case d.Architecture == "":
		return bad("it does not say the model's architecture, on which the standard's BOS depends")
	case own.ModelSHA256 != "" && !sha256Hex.MatchString(own.ModelSHA256):
		return bad("model_sha256 is %q, not 64 hexadecimal digits", own.ModelSHA256)
	}
	m := &r.setup.Model
	if m.Name = r.config.Model; m.Name == "" {
		m.Name = own.Model
	}
	if m.Name == "" {
		m.Name = d.Engine
	}
	m.SHA256 = own.ModelSHA256
	m.Facts = model.Facts{
		Architecture: d.Architecture, Parameters: d.Parameters, WeightType: precisionName(d.WeightType), Quantized: quantized(d),
		Context: d.ContextTrain, Vocab: d.Vocab, TokenizerSHA256: d.TokenizerSHA256, BOS: d.BOS, EOS: d.EOS,
	}
	if m.SHA256 == "" {
		var err error
		if r.fingerprint, err = fingerprint(ctx, r.engine, *d); err != nil {
			return fmt.Errorf("tell the engine's weights from others: %w", err)
		}
	}
	return nil
}

// quantized reports whether a description says that the weights are quantized.
func quantized(d *engine.Description) bool {
	t := precisionName(d.WeightType)
	return d.Quantization != "" || t != "" && !slices.Contains([]string{"f64", "f32", "f16", "bf16"}, t)
}

// fingerprint stands for weights that nothing else is known of: the SHA-256 of
// some log-probabilities, each as 64 bits. Two engines of one fingerprint give
// the same numbers; other weights, another machine or another way of computing
// give other ones, which only makes runs be taken for different that are not.
func fingerprint(ctx context.Context, e engine.Scorer, d engine.Description) (string, error) {
	n := 48
	if d.ContextTrain > 0 {
		n = min(n, d.ContextTrain)
	}
	t := &trie.Tree{}
	for i := range n {
		t.Token, t.Parent = append(t.Token, int32((7919*i+13)%d.Vocab)), append(t.Parent, int32(i-1))
		t.Wants = append(t.Wants, trie.Want{Node: int32(i), Token: int32((104_729*i + 7) % d.Vocab)})
	}
	s, err := e.Score(ctx, t)
	if err != nil {
		return "", err
	}
	if len(s.LogProbs) != n {
		return "", errors.New("it gave another number of log-probabilities than were asked for")
	}
	h := sha256.New()
	for _, x := range s.LogProbs {
		h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (r *execBackend) loaded() string {
	d := r.description
	text := d.Engine
	for _, more := range []string{d.Version, d.Variant, d.DType} {
		if more != "" {
			text += " " + more
		}
	}
	return text
}

func (r *execBackend) precision() string { return precisionName(r.description.DType) }

// arithmetic allows for whatever hardware the engine has: nothing is known of it.
func (r *execBackend) arithmetic() noise.Arithmetic {
	p := r.precision()
	if p == "f64" {
		p = "f32"
	}
	return noise.Arithmetic{Weights: p, KVType: p, FlashAttention: true}
}

func (r *execBackend) identify(id *record.Identity) {
	id.Model.Quantization, id.Model.Adapter = r.description.Quantization, r.description.Adapter
	id.Model.Fingerprint = r.fingerprint
}

func (r *execBackend) surroundings(*record.Environment) {}

func (r *execBackend) notes() []string { return nil }
