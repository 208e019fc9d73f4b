package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"olmes/engine"
	"olmes/engine/llamacpp"
	"olmes/engine/llamacpp/library"
	"olmes/engine/openai"
	"olmes/engine/openai/server"
	"olmes/engine/torch"
	"olmes/model"
	"olmes/noise"
	"olmes/record"
)

// serverBackend is the backend of models behind HTTP: of a server that runs
// already, whose weights are its own word, or of one that is started with a
// model of this machine.
type serverBackend struct {
	*Run
	dtype string // what a started server is told to compute in
}

// serverChunk is the new tokens of a chunk: enough that many calls are on their
// way at once.
const serverChunk = 8192

// apiKeys are the environment variables that hold a server's API key, the first
// that is set.
var apiKeys = []string{"OLMES_API_KEY", "OPENAI_API_KEY"}

// started reports whether the run starts the server.
func (r *serverBackend) started() bool { return r.setup.Engine != kindServer }

func (r *serverBackend) decide(context.Context) error {
	r.setup.Plan = engine.Plan{ChunkTokens: serverChunk}
	if r.config.ChunkTokens > 0 {
		r.setup.Plan.ChunkTokens = r.config.ChunkTokens
	}
	m := r.setup.Model
	switch r.setup.Engine {
	case kindLlamaServer:
		if r.config.Exact && m.WeightType != "F32" {
			return usage("exact means weights in 32 bits, and llama-server computes with those of the file (%s); leave out exact", m.WeightType)
		}
	case kindVLLM, kindSGLang:
		// Their own choice may be another precision than the published one.
		r.dtype = r.config.DType
		if r.dtype == "" || r.dtype == "auto" {
			r.dtype = map[string]string{"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[m.WeightType]
		}
		if m.Quantized || r.dtype == "" {
			r.dtype = "auto"
		}
	}
	return nil
}

func (r *serverBackend) start(ctx context.Context, s Setup) (_ engine.Engine, err error) {
	c := r.config
	o := openai.Options{
		URL: c.Engine, Model: c.Model, Strategy: c.Strategy, Concurrency: c.Concurrency, Log: r.env.EngineLog,
		Architecture: s.Model.Architecture, Vocab: s.Model.Vocab,
	}
	if !r.started() {
		for _, name := range apiKeys {
			if o.APIKey == "" {
				o.APIKey = os.Getenv(name)
			}
		}
		if c.Tokenizer == "" {
			return openai.Start(ctx, o)
		}
		tokenizer, err := r.tokenizer(ctx, &o)
		if err != nil {
			return nil, err
		}
		e, err := openai.Start(ctx, o)
		if err != nil {
			tokenizer.Close()
			return nil, err
		}
		return &tokenized{e.(*openai.Engine), tokenizer}, nil
	}
	// One of a file as its engine loads it.
	path := s.Model.Dir
	if r.setup.Engine == kindLlamaServer {
		path = s.Model.Files[0]
	}
	window := 0 // the server's package knows
	if n := s.Model.Context; r.setup.Engine == kindLlamaServer && n > 0 && n < record.StandardWindow {
		window = n + 1
	}
	srv, err := server.Start(ctx, server.Options{
		Kind: r.setup.Engine, Python: c.Python, Model: path, DType: r.dtype, Context: window, Exact: c.Exact, Threads: s.Threads,
		TrustRemoteCode: c.TrustRemoteCode, Args: c.EngineArgs, Progress: r.env.EngineLog,
	})
	if err != nil {
		return nil, err
	}
	r.env.reporter().Note(fmt.Sprintf("%s runs; its log is %s", r.setup.Engine, srv.LogFile()))
	o.URL, o.Model, o.Child, o.BOS = srv.URL(), "", srv, &s.Model.BOS
	o.Quantization = s.Model.Quantization
	if r.dtype != "auto" {
		o.DType = r.dtype
	}
	return openai.Start(ctx, o)
}

// tokenized is an engine with a tokenizer of its own process.
type tokenized struct {
	*openai.Engine
	tokenizer engine.Engine
}

// Pieces implements engine.Detokenizer.
func (e *tokenized) Pieces(ctx context.Context) ([][]byte, error) {
	return e.tokenizer.(engine.Detokenizer).Pieces(ctx)
}

func (e *tokenized) Close() error { return errors.Join(e.Engine.Close(), e.tokenizer.Close()) }

// tokenizer starts what cuts texts into ids for a server that cannot, and fills
// in what its model's files say.
func (r *serverBackend) tokenizer(ctx context.Context, o *openai.Options) (engine.Engine, error) {
	m, err := r.resolve(ctx, r.config.Tokenizer, model.Options{})
	if err != nil {
		return nil, fmt.Errorf("find the tokenizer: %w", err)
	}
	var e engine.Engine
	if m.Format == model.GGUF {
		var lib library.Library
		if lib, err = openLibrary(ctx, r.config, r.env); err != nil {
			return nil, err
		}
		e, err = llamacpp.Start(ctx, llamacpp.Options{Library: lib.Dir, Model: m.Files, Plan: llamacpp.DefaultPlan(llamacpp.Shape{Context: 64}), Threads: 1, Lanes: 1})
	} else {
		e, err = torch.Start(ctx, torch.Options{Python: r.config.Python, Model: m.Dir, Device: "cpu", Plan: torch.DefaultPlan(torch.Shape{}), Threads: 1, Packing: "plain", Log: r.env.EngineLog})
	}
	if err != nil {
		return nil, fmt.Errorf("start the tokenizer: %w", err)
	}
	r.setup.Model.Facts = model.Facts{Architecture: m.Architecture, Vocab: m.Vocab, TokenizerSHA256: m.TokenizerSHA256, BOS: m.BOS, EOS: m.EOS, AddBOS: m.AddBOS}
	o.Tokenizer, o.Architecture, o.Vocab, o.BOS = e, m.Architecture, m.Vocab, &m.BOS
	return e, nil
}

func (r *serverBackend) described(_ context.Context, d *engine.Description) error {
	m := &r.setup.Model
	if r.started() {
		d.BOS, d.EOS = m.BOS, m.EOS
		return nil
	}
	if named, ok := r.engine.(interface{ Served() string }); ok && r.config.Model == "" {
		m.Name = named.Served()
	}
	own := m.Facts // of the tokenizer given, if any
	m.Facts = model.Facts{
		Architecture: d.Architecture, Parameters: d.Parameters, WeightType: precisionName(d.WeightType), Quantized: quantized(d), Quantization: d.Quantization,
		Context: d.ContextTrain, Vocab: d.Vocab, TokenizerSHA256: own.TokenizerSHA256, BOS: d.BOS, EOS: d.EOS,
	}
	// The tokenizers of all models that the standard gives a BOS add it themselves.
	if d.Architecture == "" && d.AddBOS && r.config.BOS == "auto" {
		return &hinted{errors.New("the server does not say its model's architecture, on which the standard's BOS depends, and its tokenizer adds one"),
			"--bos never is right for most models, --bos always for Gemma; or name the model with --tokenizer, a file or folder"}
	}
	return nil
}

func (r *serverBackend) loaded() string {
	d := r.description
	return strings.TrimSpace(fmt.Sprintf("%s %s", d.Engine, d.Version)) + ", " + d.Packing
}

func (r *serverBackend) precision() string {
	if p := precisionName(r.description.DType); p != "" && p != "auto" {
		return p
	}
	if r.setup.Engine == kindLlamaServer {
		return strings.ToLower(r.setup.Model.WeightType)
	}
	return ""
}

// arithmetic allows for batches that change from call to call, and for whatever
// hardware the server has.
func (r *serverBackend) arithmetic() noise.Arithmetic {
	p := r.precision()
	return noise.Arithmetic{Weights: p, KVType: p, FlashAttention: true, HalfGELU: true, GPU: p != "f32"}
}

func (r *serverBackend) identify(id *record.Identity) { identifyFolder(id, r.Run) }

func (r *serverBackend) surroundings(*record.Environment) {}

// notes say what the calls cost.
func (r *serverBackend) notes() []string {
	e, ok := r.engine.(interface {
		Metrics(ctx context.Context) openai.Metrics
	})
	if !ok {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	m := e.Metrics(ctx)
	text := fmt.Sprintf("the server was asked %d times, for %d prompts of %d tokens in all", m.Calls, m.Prompts, m.PromptTokens)
	if m.CachedTokens > 0 {
		text += fmt.Sprintf(", of which %d were in its cache", m.CachedTokens)
	}
	if m.CacheQueries > 0 {
		text += fmt.Sprintf("; since its start it has looked up %d tokens in its prefix cache and found %d", m.CacheQueries, m.CacheHits)
	}
	if m.Retried > 0 {
		text += fmt.Sprintf("; %d failed attempts were made again", m.Retried)
	}
	return []string{text}
}

// identifyFolder adds what a Hugging Face model has to a run's identity.
func identifyFolder(id *record.Identity, r *Run) {
	m, d := r.setup.Model, r.description
	if m.Format != model.GGUF {
		id.Model.Format = m.Format
	}
	id.Model.Quantization = m.Quantization
	if id.Model.Quantization == "" {
		id.Model.Quantization = d.Quantization
	}
	id.Model.RemoteCode = m.RemoteCode && r.config.TrustRemoteCode
	if a := m.Adapter; a != nil {
		id.Model.Adapter, id.Model.AdapterSHA256 = a.Name, a.SHA256
	} else {
		id.Model.Adapter = d.Adapter
	}
}
