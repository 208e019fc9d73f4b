package record

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"olmes"
	"olmes/score"
	"olmes/secret"
)

// Identity is all that determines the results of a run. Two runs of one
// identity give the same results, byte for byte; the SHA-256 of its canonical
// JSON is the run's id, known before the run starts. It names no person, time,
// machine or path. In imported results, fields that are not known stay empty.
type Identity struct {
	Standard       string                `json:"standard"` // "olmes-0.1"
	Product        string                `json:"product"`  // version of the program
	Variant        string                `json:"variant"`  // of all tasks that name none of their own; "" is the standard's own rendering
	Tasks          []Task                `json:"tasks"`    // in the run's order
	Formulations   []olmes.Formulation   `json:"formulations,omitempty"`
	Normalizations []olmes.Normalization `json:"normalizations,omitempty"`
	Model          Model                 `json:"model"`
	BOS            BOS                   `json:"bos"`
	Window         int                   `json:"window,omitempty"` // tokens of context in force
	Truncation     string                `json:"truncation,omitempty"`
	Tokenization   string                `json:"tokenization,omitempty"`
	Plan           json.RawMessage       `json:"plan,omitempty"` // the engine's plan, any JSON
	Precision      Precision             `json:"precision"`
	Engine         Engine                `json:"engine"`
	Variants       []Variant             `json:"variants,omitempty"` // those that tasks are rendered by
}

// Variant is a rendering of tasks that is not the standard's. What it changes of
// a task's prompts is covered by the task's own digests.
type Variant struct {
	Name string `json:"name"`
	// Order is that of the instances' choices, where it is not the dataset's:
	// all positions in the predictions are those that were shown.
	Order *olmes.Order `json:"order,omitempty"`
}

// Task is what determines the requests of one task.
type Task struct {
	Name              string              `json:"name"`
	Group             string              `json:"group,omitempty"`      // "mmlu" for its subjects
	GroupSize         int                 `json:"group_size,omitempty"` // tasks of the whole group
	Split             string              `json:"split"`
	StandardSplit     string              `json:"standard_split,omitempty"`
	Selection         string              `json:"selection,omitempty"`          // how the instances were chosen, in words
	Instances         int                 `json:"instances"`                    // evaluated, per formulation
	StandardInstances int                 `json:"standard_instances,omitempty"` // that the standard evaluates
	Complete          bool                `json:"complete"`                     // exactly the instances that the standard evaluates
	Normalization     olmes.Normalization `json:"normalization,omitempty"`      // the standard's for CF
	Dataset           Dataset             `json:"dataset"`
	DocIDsSHA256      string              `json:"doc_ids_sha256,omitempty"` // see DigestDocIDs
	FewShot           []string            `json:"few_shot,omitempty"`       // pointers to the examples, in order
	ShotsSHA256       string              `json:"shots_sha256,omitempty"`   // of the parsed examples
	// Formulations holds what was asked, by "cf" and "mcf".
	Formulations map[olmes.Formulation]Requests `json:"formulations,omitempty"`

	// What follows is empty in the standard's own rendering.
	Variant        string `json:"variant,omitempty"`         // one of Identity.Variants
	TemplateSHA256 string `json:"template_sha256,omitempty"` // of the template's JSON
}

// Dataset names the rows that a task was read from.
type Dataset struct {
	Artifact       string `json:"artifact,omitempty"`        // "pypi:name==version", "hf:org/name@commit"
	ArtifactSHA256 string `json:"artifact_sha256,omitempty"` // of the artifact's file
	File           string `json:"file,omitempty"`            // within the artifact
	Rows           int    `json:"rows,omitempty"`            // of the split
	RowsSHA256     string `json:"rows_sha256,omitempty"`     // of the parsed rows
}

// Requests sums up the requests of one task in one formulation.
type Requests struct {
	PrefixSHA256   string `json:"prefix_sha256,omitempty"`   // of description and examples as text
	RequestsSHA256 string `json:"requests_sha256,omitempty"` // see DigestRequests
	Requests       int    `json:"requests"`                  // (context, continuation) pairs, unconditional ones apart
	Unconditional  int    `json:"unconditional,omitempty"`
}

// Model is the model evaluated.
type Model struct {
	Name            string         `json:"name"`
	Source          string         `json:"source,omitempty"` // "pypi:…", "hf:…", "file"
	SHA256          string         `json:"sha256,omitempty"` // of the published file or files
	Architecture    string         `json:"architecture,omitempty"`
	Parameters      int64          `json:"parameters,omitempty"`
	WeightTypes     map[string]int `json:"weight_types,omitempty"` // tensors by type in the published file
	Quantized       bool           `json:"quantized"`              // the published file's weights are quantized
	Weights         string         `json:"weights,omitempty"`      // in force: "as-is", "f16", "bf16", "f32"
	Context         int            `json:"context,omitempty"`      // tokens, as trained
	Vocab           int            `json:"vocab,omitempty"`        // tokens
	TokenizerSHA256 string         `json:"tokenizer_sha256,omitempty"`
	License         string         `json:"license,omitempty"`
	FirstIDs        []int32        `json:"first_ids,omitempty"` // first eight ids of the first request

	// What follows is empty where weights come from a plain GGUF file.
	Format        string `json:"format,omitempty"`         // of the files: "safetensors", "pickle"
	Quantization  string `json:"quantization,omitempty"`   // how they are quantized, where the format has a name for it: "gptq", "awq"
	Adapter       string `json:"adapter,omitempty"`        // what was trained on top and is applied, by name
	AdapterSHA256 string `json:"adapter_sha256,omitempty"` // of its files
	RemoteCode    bool   `json:"remote_code,omitempty"`    // code out of the model's folder was run
	// Fingerprint stands for weights of which no digest is known: SHA-256 of
	// some log-probabilities. It is of model, engine and machine together.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// Known reports whether it is known which weights the model has, so that
// another run's results for the same name are results of the same weights.
func (m Model) Known() bool { return m.SHA256 != "" || m.Fingerprint != "" }

// BOS is the policy for the token that begins a sequence.
type BOS struct {
	Policy   string `json:"policy,omitempty"` // "auto", "always", "never", "tokenizer"
	Added    bool   `json:"added"`            // what the policy did for this model
	Standard bool   `json:"standard"`         // what the standard does for this model
	ID       *int32 `json:"id,omitempty"`     // the token; absent where the model has none
}

// Precision says how numbers were kept: "f32", "bf16", "f16", or a quantized type.
type Precision struct {
	Published string `json:"published,omitempty"` // the published weights' own; "" is not known
	Computed  string `json:"computed,omitempty"`  // of the weights as computed with; "" is not known
	Exact     bool   `json:"exact"`               // exact mode: weights and cache in f32
}

// Engine is the software that computed the log-probabilities.
type Engine struct {
	Name          string `json:"name,omitempty"`
	Version       string `json:"version,omitempty"`
	Variant       string `json:"variant,omitempty"`
	LibrarySHA256 string `json:"library_sha256,omitempty"`
	// GPULayers counts the layers computed on GPUs, -1 for all, and Devices says
	// what kinds of GPU hold them: each rounds in its own way.
	GPULayers int      `json:"gpu_layers,omitempty"`
	Devices   []string `json:"devices,omitempty"`
	// Packing says how requests are put together for computing, where an engine
	// knows several ways: "tree", "copy", "plain", "echo", "step".
	Packing string `json:"packing,omitempty"`
}

// Canonical returns the identity's canonical JSON, free of secrets.
func (id Identity) Canonical() ([]byte, error) {
	doc, err := json.Marshal(id)
	if err != nil {
		return nil, fmt.Errorf("encode identity: %w", err)
	}
	// Redacting by pattern only: the id must not depend on whose
	// environment it is computed in.
	return canonical(doc, secret.Redact)
}

// ModelKey is equal for runs of one model in one setting, whatever they evaluate;
// it is "" for an identity that cannot be encoded.
func (id Identity) ModelKey() string {
	m := id.Model
	m.FirstIDs = nil // of the first task's first request
	key, err := json.Marshal([]any{m, id.BOS, id.Window, id.Truncation, id.Tokenization, id.Precision, id.Engine.Name})
	if err != nil {
		return ""
	}
	return string(key)
}

// ID returns the run's id, 64 hexadecimal digits. It is "" for an identity
// that cannot be encoded; Canonical tells why.
func (id Identity) ID() string {
	doc, err := id.Canonical()
	if err != nil {
		return ""
	}
	return digest(doc)
}

// ReuseKey returns the SHA-256 of what determines the bits of a chunk of given
// id: all of the identity but its choice of tasks, formulations,
// normalizations and variants. Runs of one key may take each other's chunks. It is "" for
// an identity that cannot be encoded.
func (id Identity) ReuseKey() string {
	id.Tasks, id.Formulations, id.Normalizations, id.Variants = nil, nil, nil, nil
	id.Model.FirstIDs = nil // of the first task's first request
	return id.ID()
}

// VariantOf returns the variant that a task of the run is rendered by, "" where
// that is the standard's own rendering.
func (id Identity) VariantOf(t Task) string { return cmp.Or(t.Variant, id.Variant) }

// Order returns the order of choices in a variant of the run, by which a position
// in a prediction is mapped back to the dataset's (olmes.Order.Positions).
func (id Identity) Order(variant string) olmes.Order {
	for _, v := range id.Variants {
		if v.Name == variant && v.Order != nil {
			return *v.Order
		}
	}
	return olmes.Order{}
}

// Facts returns what score.Summarize must know about the run's tasks.
func (id Identity) Facts() []score.Facts {
	facts := make([]score.Facts, len(id.Tasks))
	for i, t := range id.Tasks {
		facts[i] = score.Facts{Task: t.Name, Group: t.Group, GroupSize: t.GroupSize, Split: t.Split,
			Variant: id.VariantOf(t), Standard: t.Normalization, Complete: t.Complete, Instances: t.Instances,
			Formulations: slices.Sorted(maps.Keys(t.Formulations)), Normalizations: id.Normalizations}
	}
	return facts
}

// Differences lists where two identities differ, one line each: the field and
// both values.
func Differences(a, b Identity) ([]string, error) {
	docA, err := a.Canonical()
	if err != nil {
		return nil, err
	}
	docB, err := b.Canonical()
	if err != nil {
		return nil, err
	}
	return differences(docA, docB)
}

// differences lists where two JSON documents differ.
func differences(a, b []byte) ([]string, error) {
	flatA, err := flatten(a)
	if err != nil {
		return nil, err
	}
	flatB, err := flatten(b)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range slices.Sorted(maps.Keys(flatA)) {
		if v, ok := flatB[path]; !ok {
			out = append(out, fmt.Sprintf("%s: %s, absent there", path, flatA[path]))
		} else if v != flatA[path] {
			out = append(out, fmt.Sprintf("%s: %s, there %s", path, flatA[path], v))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(flatB)) {
		if _, ok := flatA[path]; !ok {
			out = append(out, fmt.Sprintf("%s: absent, there %s", path, flatB[path]))
		}
	}
	return out, nil
}

// flatten maps the path of every leaf of a JSON document to its JSON text.
func flatten(doc []byte) (map[string]string, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if path != "" {
					k = path + "." + k
				}
				walk(k, e)
			}
		case []any:
			for i, e := range v {
				name := fmt.Sprint(i)
				if m, ok := e.(map[string]any); ok {
					for _, key := range []string{"name", "task", "group"} {
						if s, ok := m[key].(string); ok {
							variant, _ := m["variant"].(string)
							name = olmes.Label(s, variant)
							break
						}
					}
				}
				walk(path+"["+name+"]", e)
			}
		default:
			text, err := json.Marshal(v)
			if err == nil {
				out[path] = string(text)
			}
		}
	}
	walk("", v)
	return out, nil
}

// DigestDocIDs returns the SHA-256 of a set of doc_ids: one a line, decimal,
// ascending.
func DigestDocIDs(ids []int) string {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	h := sha256.New()
	for _, id := range sorted {
		fmt.Fprintln(h, id)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// DigestRequests returns the SHA-256 of the requests of one task in one
// formulation, given the prompt.Digest of every choice by doc_id: one line per
// choice in the order of doc_id and choice, "doc_id choice digest". Requests
// of the unconditional kind are not in it.
func DigestRequests(byDoc map[int][]string) string {
	ids := make([]int, 0, len(byDoc))
	for id := range byDoc {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	h := sha256.New()
	for _, id := range ids {
		for i, d := range byDoc[id] {
			fmt.Fprintln(h, id, i, d)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
