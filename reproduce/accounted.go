package reproduce

import (
	"encoding/json"
	"fmt"
	"strings"

	"olmes/record"
)

// accounted says what in the records accounts for log-probabilities that differ
// without a pattern: weights first, then the precision of computing, then the
// arithmetic. What a record does not say is said to be unknown.
func (c *comparison) accounted(all []value, d Distribution) Cause {
	a, b := c.a.Record.Identity, c.b.Record.Identity
	if c.different {
		return Cause{Code: OtherWeights, Text: "the models are different, and so are their weights", Certain: true}
	}
	var found []Cause
	add := func(code Code, run, format string, args ...any) {
		found = append(found, Cause{Code: code, Run: run, Text: fmt.Sprintf(format, args...), Certain: true})
	}
	unknown := otherAdapter(a, b, add)
	if len(found) == 0 {
		unknown = append(unknown, otherBits(a, b, add)...)
		unknown = append(unknown, otherPrecision(a, b, add)...)
		if len(found) == 0 && a.Model.SHA256 != "" && b.Model.SHA256 != "" && a.Model.SHA256 != b.Model.SHA256 {
			add(OtherWeights, "", "the weights are other files (%.12s and %.12s) of the same types", a.Model.SHA256, b.Model.SHA256)
			found[0].Certain = a.Model.Format == b.Model.Format // else it may be one model in two formats
		}
		if len(found) == 0 {
			c.otherArithmetic(all, add)
		} else {
			also := []string{}
			c.otherArithmetic(all, func(_ Code, _ string, format string, args ...any) { also = append(also, fmt.Sprintf(format, args...)) })
			for _, o := range found[1:] {
				also = append([]string{o.Text}, also...)
			}
			if len(also) > 0 {
				found[0].Text += "; besides, " + strings.Join(also, "; ")
			}
		}
	}
	for _, u := range unknown {
		c.doubt("%s", u)
	}
	if len(found) > 0 {
		return found[0]
	}
	text := "nothing in the records accounts for it"
	if largest, bound := c.rounding(all); len(unknown) == 0 && largest > 0 && largest <= bound {
		return Cause{Code: Arithmetic, Text: fmt.Sprintf("the records name the same weights, precision and engine; a token moves by %s at most, within the %g that rounding of this kind explains, as beside other instances", nats(largest), bound)}
	}
	if len(unknown) > 0 {
		text = "what accounts for it is not known: " + strings.Join(unknown, "; ")
	}
	if d.N >= leastForm && d.Correlation < 0.9 {
		text += fmt.Sprintf("; the two runs' values hardly go together (correlation %.2f), as those of different models or of a fault", d.Correlation)
	}
	return Cause{Code: Unexplained, Text: text}
}

// adder takes a cause.
type adder = func(code Code, run, format string, args ...any)

// otherAdapter reports adapters that are not the same. It returns what is not
// known of the weights.
func otherAdapter(a, b record.Identity, add adder) (unknown []string) {
	m, n := a.Model, b.Model
	if m.Adapter != n.Adapter || m.AdapterSHA256 != n.AdapterSHA256 {
		add(OtherWeights, "", "the adapters are not the same: %s and %s", orNone(m.Adapter), orNone(n.Adapter))
	}
	for i, id := range []record.Identity{a, b} {
		if id.Model.SHA256 == "" {
			unknown = append(unknown, fmt.Sprintf("no digest says which weights %c's model has", 'A'+i))
		}
	}
	return unknown
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// otherBits reports weights that are stored in other types, one of them quantized.
func otherBits(a, b record.Identity, add adder) (unknown []string) {
	m, n := a.Model, b.Model
	typesA, typesB := weightTypes(m), weightTypes(n)
	switch {
	case m.Quantized && !n.Quantized && typesB == "" && b.Precision.Published == "":
		return []string{"whether B's weights are quantized as A's are is not known"}
	case n.Quantized && !m.Quantized && typesA == "" && a.Precision.Published == "":
		return []string{"whether A's weights are quantized as B's are is not known"}
	case !m.Quantized && !n.Quantized:
		return nil
	case typesA == typesB && m.Quantization == n.Quantization && m.Quantized == n.Quantized:
		return nil
	}
	run := ""
	switch {
	case n.Quantized && !m.Quantized:
		run = "b"
	case m.Quantized && !n.Quantized:
		run = "a"
	}
	add(QuantizedWeights, run, "the weights are quantized otherwise: A's are %s, B's %s", stored(a), stored(b))
	return nil
}

// stored says how the published weights are stored.
func stored(id record.Identity) string {
	parts := []string{}
	if t := weightTypes(id.Model); t != "" {
		parts = append(parts, t)
	} else if id.Precision.Published != "" {
		parts = append(parts, id.Precision.Published)
	}
	if id.Model.Quantization != "" {
		parts = append(parts, id.Model.Quantization)
	}
	if len(parts) == 0 {
		return "of a type that is not known"
	}
	return strings.Join(parts, ", ")
}

// otherPrecision reports weights or a cache computed with in other types.
func otherPrecision(a, b record.Identity, add adder) (unknown []string) {
	p, q := a.Precision, b.Precision
	for i, x := range []record.Precision{p, q} {
		if x.Computed == "" {
			unknown = append(unknown, fmt.Sprintf("in which precision %c computed is not known", 'A'+i))
		}
	}
	if p.Computed != "" && q.Computed != "" && !strings.EqualFold(p.Computed, q.Computed) {
		add(Precision, lower(a, b), "A computes with weights in %s, B in %s", p.Computed, q.Computed)
	}
	ka, kb := plan(a), plan(b)
	if ka.KVType != "" && kb.KVType != "" && ka.KVType != kb.KVType {
		add(Precision, "", "A keeps its cache in %s, B in %s", ka.KVType, kb.KVType)
	}
	return unknown
}

// lower is the run that computes in less than the published precision, where one
// alone does.
func lower(a, b record.Identity) string {
	deviates := func(id record.Identity) bool {
		for _, d := range record.Deviations(id, nil) {
			if d.Code == "precision" {
				return true
			}
		}
		return false
	}
	return off(!deviates(a), !deviates(b))
}

// planned is what of a plan decides rounding.
type planned struct {
	Batch          int    `json:"batch"`
	MicroBatch     int    `json:"micro_batch"`
	ChunkTokens    int    `json:"chunk_tokens"`
	FlashAttention bool   `json:"flash_attention"`
	KVType         string `json:"kv_type"`
}

func plan(id record.Identity) (p planned) {
	if json.Unmarshal(id.Plan, &p) != nil {
		return planned{}
	}
	return p
}

// otherArithmetic reports other software, hardware or schedule.
func (c *comparison) otherArithmetic(all []value, add adder) {
	a, b := c.a.Record.Identity, c.b.Record.Identity
	e, f := a.Engine, b.Engine
	var parts []string
	part := func(what, x, y string) {
		if x != y && x != "" && y != "" {
			parts = append(parts, fmt.Sprintf("%s %s and %s", what, x, y))
		}
	}
	part("engine", words(e.Name, e.Version, e.Variant), words(f.Name, f.Version, f.Variant))
	if len(parts) == 0 {
		part("library", fmt.Sprintf("%.12s", e.LibrarySHA256), fmt.Sprintf("%.12s", f.LibrarySHA256))
	}
	part("packing", e.Packing, f.Packing)
	part("GPU layers", fmt.Sprint(e.GPULayers), fmt.Sprint(f.GPULayers))
	part("devices", strings.Join(e.Devices, " "), strings.Join(f.Devices, " "))
	p, q := plan(a), plan(b)
	if len(a.Plan) > 0 && len(b.Plan) > 0 {
		part("batch", fmt.Sprint(p.Batch), fmt.Sprint(q.Batch))
		part("micro batch", fmt.Sprint(p.MicroBatch), fmt.Sprint(q.MicroBatch))
		part("chunks of", fmt.Sprint(p.ChunkTokens), fmt.Sprint(q.ChunkTokens))
		part("flash attention", fmt.Sprint(p.FlashAttention), fmt.Sprint(q.FlashAttention))
	}
	if x, y := c.a.Record.Provenance.Environments, c.b.Record.Provenance.Environments; len(x) == 1 && len(y) == 1 {
		part("system", x[0].OS, y[0].OS)
		part("processor", x[0].CPU, y[0].CPU)
	}
	if len(parts) == 0 {
		return
	}
	text := "the arithmetic is another: " + strings.Join(parts, ", ")
	if largest, bound := c.rounding(all); bound > 0 && largest > 0 {
		within := "which is"
		if largest > bound {
			within = "which is not"
		}
		text += fmt.Sprintf("; a token moves by %s at most, %s within the %g that rounding of this kind explains", nats(largest), within, bound)
	}
	add(Arithmetic, "", "%s", text)
}

// rounding returns the largest difference of a token's log-probability and what
// rounding of the runs' kind explains, both in nats and 0 where not known.
func (c *comparison) rounding(all []value) (largest, bound float64) {
	for _, n := range []*record.Noise{c.a.Record.Provenance.Noise, c.b.Record.Provenance.Noise} {
		if n != nil {
			bound = max(bound, n.Bound)
		}
	}
	for i := range all {
		largest = max(largest, all[i].largestToken)
	}
	return largest, bound
}
