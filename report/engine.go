package report

import (
	"fmt"
	"strings"

	"olmes/record"
)

// modelLine says in one line which model is evaluated and in what precision.
// What is not known is left out.
func modelLine(id record.Identity) string {
	m, p := id.Model, id.Precision
	parts := []string{m.Architecture}
	if m.Architecture == "" {
		parts[0] = "architecture not known"
	}
	if m.Parameters > 0 {
		parts = append(parts, count(m.Parameters)+" parameters")
	}
	precision := p.Published
	if precision == "" {
		precision = "published precision not known"
	}
	if m.Quantization != "" {
		precision += " " + m.Quantization
	}
	switch w := m.Weights; {
	case w != "" && w != "as-is":
		precision += " computed as " + w
	case w == "" && p.Computed != "" && p.Computed != p.Published:
		precision += " computed as " + p.Computed
	}
	parts = append(parts, precision)
	if m.Adapter != "" {
		parts = append(parts, "adapter "+m.Adapter)
	}
	bos, window := "no BOS", fmt.Sprintf("window %d", id.Window)
	switch {
	case id.BOS.Added:
		bos = "BOS"
	case id.BOS.Policy == "":
		bos = "BOS not known"
	}
	if id.Window == 0 {
		window = "window not known"
	}
	parts = append(parts, bos, window)
	if m.License != "" {
		parts = append(parts, "licence "+m.License)
	}
	name := "model " + m.Name
	if m.Name == "" {
		name = "model without a name"
	}
	return name + ": " + strings.Join(parts, ", ")
}

// engineLine says in one line what computes; library is the engine's library
// where it has several, or "".
func engineLine(id record.Identity, library string) string {
	e := id.Engine
	words := []string{"engine"}
	for _, w := range []string{e.Name, e.Version, e.Variant} {
		if w != "" {
			words = append(words, w)
		}
	}
	if len(words) == 1 {
		words = append(words, "not known")
	}
	line := strings.Join(words, " ")
	if library != "" {
		line += ", " + library + " library"
	}
	if len(e.Devices) > 0 {
		line += ", on " + strings.Join(e.Devices, " and ")
	}
	if e.Packing != "" {
		line += ", packing " + e.Packing
	}
	if id.Precision.Exact {
		line += ", exact"
	}
	return line
}

// served reports whether a server computed, which may keep what it has computed
// for others.
func served(id record.Identity) bool {
	for _, way := range strings.Split(id.Engine.Packing, "+") {
		if way == "echo" || way == "step" || way == "native" {
			return true
		}
	}
	return false
}
