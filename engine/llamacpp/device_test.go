//go:build unix

package llamacpp

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"olmes/engine"
	"olmes/model/modeltest"
)

func TestPick(t *testing.T) {
	all := []Device{{Name: "CUDA0", Description: "card one", Kind: "gpu"}, {Name: "CUDA1", Description: "card two", Kind: "gpu"},
		{Name: "Vulkan0", Description: "chip", Kind: "igpu"}, {Name: "BLAS", Description: "a BLAS", Kind: "accel"}, {Name: "CPU", Description: "a processor", Kind: "cpu"}}
	got, err := Pick(all, []string{"cuda1", "Vulkan0"})
	if err != nil || !slices.Equal(got, []Device{all[1], all[2]}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := Pick(all, nil); err != nil || got != nil {
		t.Errorf("of no names %+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		from  []Device
		names []string
		want  string
	}{
		"unknown": {all, []string{"CUDA2"}, `no device "CUDA2"; there are CUDA0 (card one), CUDA1 (card two), Vulkan0 (chip)`},
		"one":     {all[:1], []string{"x"}, `there is CUDA0 (card one)`},
		"none":    {all[3:], []string{"CUDA0"}, `no device "CUDA0"; there is no GPU`},
		"cpu":     {all, []string{"CPU"}, "device CPU is no GPU (a processor)"},
		"blas":    {all, []string{"BLAS"}, "device BLAS is no GPU"},
		"twice":   {all, []string{"CUDA0", "cuda0"}, "device CUDA0 is named twice"},
	} {
		_, err := Pick(c.from, c.names)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, engine.ErrInput) {
			t.Errorf("%s: error %v, want an ErrInput with %q", name, err, c.want)
		}
	}
}

// The library of this machine names its processor, and no GPU where layers
// could not be put on one.
func TestDevices(t *testing.T) {
	all, err := Devices(t.Context(), Options{Library: libraryDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(d Device) bool { return d.Kind == "cpu" })
	if i < 0 || all[i].Name == "" || all[i].Memory <= 0 {
		t.Errorf("devices %+v, want a CPU with its memory", all)
	}
	if _, err := Devices(t.Context(), Options{Library: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "engine install") {
		t.Errorf("an empty folder: %v", err)
	}
	if len(GPUs(all)) > 0 {
		t.Skip("this machine has a GPU")
	}
	file := tiny(t, modeltest.Options{})
	for want, o := range map[string]Options{
		"all layers on a GPU: the library finds no GPU": {GPULayers: -1},
		"3 layers on a GPU":                             {GPULayers: 3},
		`no device "CUDA0"; there is no GPU`:            {Devices: []string{"CUDA0"}},
		"is no GPU":                                     {Devices: []string{all[i].Name}},
	} {
		o.Library, o.Model, o.Plan = libraryDir(t), []string{file}, smallPlan()
		e, err := Start(t.Context(), o)
		if err == nil {
			e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d layers on %v: error %v, want %q", o.GPULayers, o.Devices, err, want)
		}
	}
}
