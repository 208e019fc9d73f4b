package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/jupiterrider/ffi"

	"olmes/engine"
	"olmes/trie"
)

// loaded is a model in this process. It implements engine.Engine,
// engine.Detokenizer and engine.Counter.
type loaded struct {
	lib     *binding
	args    loadArgs
	model   llama.Model
	vocab   llama.Vocab
	size    int // of the vocabulary
	threads int // of each lane
	lanes   lanes

	limiting sync.Mutex // while limits are made
	limits   lanes      // of Limit, made when first needed
}

// loadArgs are the args of the load operation.
type loadArgs struct {
	Library   string      `json:"library"`
	Model     []string    `json:"model"`
	Plan      engine.Plan `json:"plan"`
	Threads   int         `json:"threads"`
	Lanes     int         `json:"lanes"`
	GPULayers int         `json:"gpu_layers"`
	Devices   []string    `json:"devices,omitempty"`
}

// cacheTypes are the types of Plan.KVType.
var cacheTypes = map[string]llama.GGMLType{
	"f32":  llama.GGMLTypeF32,
	"f16":  llama.GGMLTypeF16,
	"bf16": llama.GGMLTypeBF16,
}

// maxSequences is llama.cpp's LLAMA_MAX_SEQ.
const maxSequences = 256

// checkPlan keeps from llama.cpp what it would answer by ending the process.
func checkPlan(p engine.Plan) error {
	switch {
	case p.Batch < 1 || p.Batch > 1<<16:
		return fmt.Errorf("plan: batch is %d, must be from 1 to %d", p.Batch, 1<<16)
	case p.MicroBatch < 1 || p.MicroBatch > p.Batch:
		return fmt.Errorf("plan: micro_batch is %d, must be from 1 to batch (%d)", p.MicroBatch, p.Batch)
	case p.Cells < p.Batch || p.Cells > 1<<22:
		return fmt.Errorf("plan: cells is %d, must be from batch (%d) to %d", p.Cells, p.Batch, 1<<22)
	case p.Sequences <= seqFirst || p.Sequences > maxSequences:
		return fmt.Errorf("plan: sequences is %d, must be from %d to %d", p.Sequences, seqFirst+1, maxSequences)
	case p.Sequences > p.Batch: // llama.cpp keeps a row of logits for each
		return fmt.Errorf("plan: sequences is %d, must be at most batch (%d)", p.Sequences, p.Batch)
	}
	if _, ok := cacheTypes[p.KVType]; !ok {
		return fmt.Errorf("plan: kv_type is %q, must be f16, bf16 or f32", p.KVType)
	}
	return nil
}

// open loads a model and makes its context.
func open(lib *binding, args loadArgs) (m *loaded, err error) {
	if err := checkPlan(args.Plan); err != nil {
		return nil, engine.InputError(err)
	}
	if len(args.Model) == 0 {
		return nil, engine.InputError(errors.New("no model file is given"))
	}
	if args.Threads < 1 {
		args.Threads = int(llama.Threads())
	}
	for _, file := range args.Model {
		if _, err := os.Stat(file); err != nil {
			return nil, engine.InputError(fmt.Errorf("model file: %w", err))
		}
	}
	m = &loaded{lib: lib, args: args}
	opened := m // a failing return clears m
	defer func() {
		if err != nil {
			opened.Close()
		}
	}()
	lib.log.reset()
	mp := llama.ModelDefaultParams()
	mp.NGpuLayers = int32(args.GPULayers)
	mp.CheckTensors = 1 // or NaN weights would load
	list, err := deviceList(args.GPULayers, args.Devices)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(list)
	if err := mp.SetDevices(list); err != nil {
		return nil, err
	}
	if len(args.Model) == 1 {
		m.model, err = llama.ModelLoadFromFile(args.Model[0], mp)
	} else {
		m.model, err = llama.ModelLoadFromSplits(args.Model, mp)
	}
	if err != nil {
		return nil, lib.log.explain(fmt.Errorf("load model %s: %w", args.Model[0], err))
	}
	m.vocab = llama.ModelGetVocab(m.model)
	m.size = int(llama.VocabNTokens(m.vocab))
	if m.size < 2 || llama.GetVocabType(m.vocab) == llama.VocabTypeNone {
		return nil, engine.InputError(fmt.Errorf("model %s has no tokenizer (vocabulary of %d): text cannot be scored with it", args.Model[0], m.size))
	}
	if llama.ModelIsRecurrent(m.model) || llama.ModelIsHybrid(m.model) || llama.ModelIsDiffusion(m.model) || llama.ModelHasEncoder(m.model) {
		return nil, engine.InputError(fmt.Errorf("model %s (%s) is recurrent, hybrid, diffusion or has an encoder: this engine scores decoders with a cache of keys and values only", args.Model[0], m.meta("general.architecture")))
	}
	n, err := m.lanesFor()
	if err != nil {
		return nil, err
	}
	n = min(n, args.Threads)
	m.threads = max(1, args.Threads/n)
	for range n {
		l, err := m.newLane()
		if l != nil {
			m.lanes.add(l)
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// newLane makes a context and computes its first tokens. It returns what is to
// be freed with an error, too.
func (m *loaded) newLane() (*lane, error) {
	plan := m.args.Plan
	cp := llama.ContextDefaultParams()
	cp.NCtx = uint32(plan.Cells)
	cp.NBatch = uint32(plan.Batch)
	cp.NUbatch = uint32(plan.MicroBatch)
	cp.NSeqMax = uint32(plan.Sequences)
	cp.NThreads = int32(m.threads)
	cp.NThreadsBatch = int32(m.threads)
	cp.TypeK = cacheTypes[plan.KVType]
	cp.TypeV = cp.TypeK
	cp.FlashAttentionType = llama.FlashAttentionTypeDisabled
	if plan.FlashAttention {
		cp.FlashAttentionType = llama.FlashAttentionTypeEnabled
	}
	cp.KVUnified = 1 // one set of cells for all sequences
	cp.SwaFull = 1   // or cells outside a sliding window would be lost to later branches
	cp.NoPerf = 0
	cp.Offload_kqv, cp.OpOffload = 0, 0
	if m.args.GPULayers != 0 {
		cp.Offload_kqv, cp.OpOffload = 1, 1
	}
	m.lib.log.reset()
	l := &lane{}
	var err error
	if l.lctx, err = llama.InitFromModel(m.model, cp); err != nil {
		return nil, m.lib.log.explain(fmt.Errorf("make a context of %d cells (%s) for %s: %w", plan.Cells, plan.KVType, m.args.Model[0], err))
	}
	if l.cache, err = newNativeCache(l.lctx, plan.Batch, plan.Sequences, m.size, m.lib); err != nil {
		return l, err
	}
	l.packer = packer{plan: plan, vocab: m.size, workers: m.threads, cache: l.cache, deepest: plan.Cells}
	if n := int(llama.ModelNCtxTrain(m.model)); n > 0 {
		l.packer.deepest = min(l.packer.deepest, n)
	}
	return l, l.warm(plan.Batch)
}

func (m *loaded) meta(key string) string {
	value, _ := llama.ModelMetaValStr(m.model, key)
	return value
}

// special returns the id of a special token that the file names, or -1. Where
// a file names none, llama.cpp itself takes one by the kind of tokenizer.
func (m *loaded) special(name string) int32 {
	id, err := strconv.ParseInt(m.meta("tokenizer.ggml."+name+"_token_id"), 10, 32)
	if err != nil || id < 0 || id >= int64(m.size) {
		return -1
	}
	return int32(id)
}

// memory estimates what the model takes.
func (m *loaded) memory() Footprint {
	number := func(key string, other int) int {
		if n, err := strconv.Atoi(m.meta(m.meta("general.architecture") + "." + key)); err == nil {
			return n
		}
		return other
	}
	embedding := int(llama.ModelNEmbd(m.model))
	head := embedding / max(1, int(llama.ModelNHead(m.model)))
	return Memory(Shape{
		Vocab: m.size, Layers: int(llama.ModelNLayer(m.model)), Embedding: embedding, FeedForward: number("feed_forward_length", 4*embedding),
		Heads: int(llama.ModelNHead(m.model)), KVHeads: int(llama.ModelNHeadKV(m.model)),
		KeyLength:   (number("attention.key_length", head) + number("attention.value_length", head) + 1) / 2,
		WeightBytes: int64(llama.ModelSize(m.model)),
		Summed:      m.lib.setSink != nil && m.plainHead(),
		Widened:     strings.Contains(m.lib.variant, "blas") && llama.ModelFtype(m.model) != llama.FtypeAllF32,
	}, m.args.Plan)
}

// plainHead reports whether logits are the output matrix's products, with
// nothing done to them afterwards.
func (m *loaded) plainHead() bool {
	arch := m.meta("general.architecture")
	for _, key := range []string{"final_logit_softcapping", "logit_scale"} {
		if x, err := strconv.ParseFloat(m.meta(arch+"."+key), 64); err == nil && x != 0 {
			return false
		}
	}
	return true
}

// lanesFor returns how many lanes to make. It refuses one that is larger than
// the free memory: llama.cpp would find out after many seconds, or be killed.
func (m *loaded) lanesFor() (int, error) {
	if m.args.GPULayers != 0 {
		return 1, nil
	}
	need, free, plan := m.memory(), FreeMemory(), m.args.Plan
	if free > 0 && need.Lane() > free {
		return 0, fmt.Errorf("a cache of %d cells (%s) takes %d MB, and batches of %d tokens %d MB; %d MB of memory are free: free some, or lower plan.cells",
			plan.Cells, plan.KVType, need.Cache/1e6, plan.Batch, (need.Lane()-need.Cache)/1e6, free/1e6)
	}
	if m.args.Lanes > 0 {
		return m.args.Lanes, nil
	}
	if free > 0 { // the weights are mapped: they count as free until they are needed
		free = max(1, free-need.Weights)
	}
	return Lanes(m.args.Threads, need.Lane(), free), nil
}

func (m *loaded) Close() error {
	m.lanes.close()
	m.limits.close()
	if m.model != 0 {
		llama.ModelFree(m.model)
		m.model = 0
	}
	return nil
}

// Score computes the tree in a lane that is free, best in one that has the
// tree's prefix in its cache already.
func (m *loaded) Score(ctx context.Context, tree *trie.Tree) (engine.Scores, error) {
	l, err := m.lanes.take(ctx, tree)
	if err != nil {
		return engine.Scores{}, err
	}
	defer m.lanes.give(l)
	l.cache.current.Store(&ctx)
	defer l.cache.current.Store(nil)
	return l.packer.score(ctx, tree)
}

// Stats waits for the calls in progress: the library's counter lags until it is
// synchronized, which decode does.
func (m *loaded) Stats(ctx context.Context) (engine.Stats, error) {
	return m.lanes.stats(ctx)
}

func (m *loaded) Describe(context.Context) (engine.Description, error) {
	d := engine.Description{
		Engine:        "llamacpp",
		Version:       m.lib.version,
		Variant:       m.lib.variant,
		LibrarySHA256: m.lib.digest,
		System:        system(),
		Threads:       m.args.Threads,
		Parallel:      m.lanes.count(),
		Architecture:  m.meta("general.architecture"),
		Parameters:    int64(llama.ModelNParams(m.model)),
		WeightType:    llama.FtypeName(llama.ModelFtype(m.model)),
		ContextTrain:  int(llama.ModelNCtxTrain(m.model)),
		Vocab:         m.size,
		BOS:           m.special("bos"),
		EOS:           m.special("eos"),
		AddBOS:        llama.VocabGetAddBOS(m.vocab),
	}
	return d, nil
}

// system tells the machine: its system, its devices and the features in use.
func system() string {
	parts := []string{runtime.GOOS + "/" + runtime.GOARCH}
	for i := range llama.GGMLBackendDeviceCount() {
		parts = append(parts, llama.GGMLBackendDeviceDescription(llama.GGMLBackendDeviceGet(i)))
	}
	return strings.Join(append(parts, strings.TrimSpace(llama.PrintSystemInfo())), "; ")
}

// Tokenize spreads the texts over the engine's threads.
func (m *loaded) Tokenize(ctx context.Context, texts []string) ([][]int32, error) {
	for i, s := range texts {
		switch {
		case strings.IndexByte(s, 0) >= 0:
			return nil, &engine.TextError{Index: i, Reason: "holds a NUL byte"}
		case len(s) > 1<<30:
			return nil, &engine.TextError{Index: i, Reason: fmt.Sprintf("has %d bytes", len(s))}
		}
	}
	ids := make([][]int32, len(texts))
	var next atomic.Int64
	var failed atomic.Int64 // index+1 of a text that cannot be tokenized
	var group sync.WaitGroup
	for range min(m.args.Threads, len(texts)) {
		group.Go(func() {
			var buf []int32
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(texts) {
					return
				}
				var n int32
				if buf, n = m.tokenize(texts[i], buf); n < 0 {
					failed.Store(int64(i) + 1)
					return
				}
				ids[i] = append(make([]int32, 0, n), buf[:n]...)
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if i := failed.Load(); i > 0 {
		return nil, &engine.TextError{Index: int(i) - 1, Reason: "cannot be tokenized by llama.cpp"}
	}
	return ids, nil
}

// tokenize writes the text's ids into buf, grown as needed, and returns their
// number, or -1. Reading the vocabulary from several threads is safe.
func (m *loaded) tokenize(text string, buf []int32) ([]int32, int32) {
	if text == "" {
		return buf, 0
	}
	need := len(text) + 8 // a token is at least a byte; SentencePiece may put a space before
	for range 2 {
		if cap(buf) < need {
			buf = make([]int32, need)
		}
		buf = buf[:cap(buf)]
		var result ffi.Arg
		data, size := unsafe.StringData(text), int32(len(text))
		out, room := unsafe.SliceData(buf), int32(len(buf))
		var special, parse uint8
		m.lib.tokenize.Call(&result, unsafe.Pointer(&m.vocab), unsafe.Pointer(&data), &size,
			unsafe.Pointer(&out), &room, &special, &parse)
		runtime.KeepAlive(text)
		n := int32(result)
		if n >= 0 {
			return buf, n
		}
		if n == -1<<31 { // more than an int32 counts
			return buf, -1
		}
		need = int(-n)
	}
	return buf, -1
}

// Pieces gives special tokens as the text that stands for them.
func (m *loaded) Pieces(context.Context) ([][]byte, error) {
	pieces := make([][]byte, m.size)
	buf := make([]byte, 256)
	for i := range pieces {
		n := llama.TokenToPiece(m.vocab, llama.Token(i), buf, 0, true)
		if n < 0 {
			buf = make([]byte, -n)
			n = llama.TokenToPiece(m.vocab, llama.Token(i), buf, 0, true)
		}
		if n < 0 {
			return nil, fmt.Errorf("llama.cpp gives no text for token %d", i)
		}
		pieces[i] = append([]byte{}, buf[:n]...)
	}
	return pieces, nil
}
