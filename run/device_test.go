package run

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"olmes/artifact"
	"olmes/engine/llamacpp"
	"olmes/engine/llamacpp/library"
)

func TestLayers(t *testing.T) {
	one := func(n int) *int { return &n }
	card := llamacpp.Device{Name: "CUDA0", Description: "card", Kind: "gpu"}
	second := llamacpp.Device{Name: "CUDA1", Description: "card", Kind: "gpu"}
	chip := llamacpp.Device{Name: "Vulkan0", Description: "chip", Kind: "igpu"}
	cpu := llamacpp.Device{Name: "CPU", Description: "processor", Kind: "cpu"}
	for name, c := range map[string]struct {
		config  Config
		variant library.Variant
		all     []llamacpp.Device
		layers  int
		used    []string
		fails   string
		hint    string
	}{
		"a GPU library takes all":  {Config{}, library.CUDA, []llamacpp.Device{card, second, cpu}, allLayers, []string{"CUDA0", "CUDA1"}, "", ""},
		"some layers":              {Config{GPULayers: one(10)}, library.CUDA, []llamacpp.Device{card, cpu}, 10, []string{"CUDA0"}, "", ""},
		"none wanted":              {Config{GPULayers: one(0)}, library.CUDA, []llamacpp.Device{card, cpu}, 0, nil, "", ""},
		"one of two":               {Config{Devices: []string{"cuda1"}}, library.CUDA, []llamacpp.Device{card, second, cpu}, allLayers, []string{"CUDA1"}, "", ""},
		"no chip beside cards":     {Config{}, library.Vulkan, []llamacpp.Device{chip, card, cpu}, allLayers, []string{"CUDA0"}, "", ""},
		"a chip alone":             {Config{}, library.Vulkan, []llamacpp.Device{chip, cpu}, allLayers, []string{"Vulkan0"}, "", ""},
		"a GPU library without":    {Config{}, library.Vulkan, []llamacpp.Device{cpu}, 0, nil, "", ""},
		"layers without a GPU":     {Config{GPULayers: one(10)}, library.CPU, []llamacpp.Device{cpu}, 0, nil, "--gpu-layers 10 needs a GPU: the library cpu finds no GPU device", "olmes engine install --variant cuda"},
		"layers without a driver":  {Config{GPULayers: one(10)}, library.CUDA, []llamacpp.Device{cpu}, 0, nil, "the library cuda finds no GPU", "driver"},
		"a device without a GPU":   {Config{Devices: []string{"CUDA0", "x"}}, library.Native, []llamacpp.Device{cpu}, 0, nil, "--device CUDA0,x needs a GPU", "olmes engine install"},
		"a device that is not one": {Config{Devices: []string{"CUDA7"}}, library.CUDA, []llamacpp.Device{card, cpu}, 0, nil, `no device "CUDA7"; there is CUDA0 (card)`, ""},
		"the CPU as a device":      {Config{Devices: []string{"CPU"}}, library.CUDA, []llamacpp.Device{card, cpu}, 0, nil, "device CPU is no GPU", ""},
	} {
		n, used, err := layers(c.config, c.variant, c.all)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) || !strings.Contains(artifact.Hint(err), c.hint) {
				t.Errorf("%s: error %v (hint %q), want %q", name, err, artifact.Hint(err), c.fails)
			}
			continue
		}
		if err != nil || n != c.layers || !slices.Equal(deviceNames(used), c.used) {
			t.Errorf("%s: %d layers on %v, %v; want %d on %v", name, n, deviceNames(used), err, c.layers, c.used)
		}
	}
	_, _, err := layers(Config{Devices: []string{"CUDA7"}}, library.CUDA, []llamacpp.Device{card})
	var u *UsageError
	if !errors.As(err, &u) {
		t.Errorf("a device that is not one: %T, want a usage error", err)
	}
	if got := accelerators([]llamacpp.Device{card, chip}); got != "CUDA0 (card), Vulkan0 (chip)" {
		t.Errorf("accelerators %q", got)
	}
}
