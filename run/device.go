package run

import (
	"context"
	"fmt"
	"strings"

	"olmes/engine/llamacpp"
	"olmes/engine/llamacpp/library"
)

// allLayers is what the engine takes for every layer of the model.
const allLayers = -1

// chooseDevices decides how many layers are put on a GPU, and on which, after
// looking at what the library finds on this machine.
func (r llama) chooseDevices(ctx context.Context) error {
	c, lib := r.config, r.setup.Library
	asked := c.GPULayers != nil && *c.GPULayers > 0 || len(c.Devices) > 0
	usual := c.GPULayers == nil && (lib.Variant == library.CUDA || lib.Variant == library.Vulkan)
	if !asked && !usual {
		return nil
	}
	all, err := llamacpp.Devices(ctx, llamacpp.Options{Library: lib.Dir})
	if err != nil {
		return fmt.Errorf("ask the library %s for its devices: %w", lib.Variant, err)
	}
	if r.setup.GPULayers, r.setup.Devices, err = layers(c, lib.Variant, all); err != nil {
		return err
	}
	if r.setup.GPULayers == 0 {
		r.env.reporter().Note(fmt.Sprintf("the library %s finds no GPU on this machine; the CPU computes", lib.Variant))
	}
	return nil
}

// layers returns how many layers c wants on GPUs, allLayers for all, and which
// of the devices hold them. Where no number is given they are all, on a
// machine without a GPU none.
func layers(c Config, v library.Variant, all []llamacpp.Device) (int, []llamacpp.Device, error) {
	n := allLayers
	if c.GPULayers != nil {
		n = *c.GPULayers
	}
	if n == 0 {
		return 0, nil, nil
	}
	gpus := llamacpp.GPUs(all)
	if len(gpus) == 0 {
		if c.GPULayers == nil && len(c.Devices) == 0 {
			return 0, nil, nil
		}
		return 0, nil, noGPU(c, v)
	}
	if len(c.Devices) > 0 {
		used, err := llamacpp.Pick(all, c.Devices)
		if err != nil {
			return 0, nil, &UsageError{err}
		}
		return n, used, nil
	}
	// As llama.cpp itself does: GPUs that share the machine's memory only where
	// there are no others.
	var used []llamacpp.Device
	for _, d := range gpus {
		if d.Kind == "gpu" {
			used = append(used, d)
		}
	}
	if used == nil {
		used = gpus
	}
	return n, used, nil
}

// noGPU says what was asked of a GPU that is not there, and what to do.
func noGPU(c Config, v library.Variant) error {
	what := "--device " + strings.Join(c.Devices, ",")
	if c.GPULayers != nil {
		what = fmt.Sprintf("--gpu-layers %d", *c.GPULayers)
	}
	hint := "leave it out, or install a library for GPUs: olmes engine install --variant cuda (NVIDIA) or vulkan"
	if v == library.CUDA || v == library.Vulkan {
		hint = "leave it out, or look whether the GPU's driver works here"
	}
	return &hinted{fmt.Errorf("%s needs a GPU: the library %s finds no GPU device on this machine", what, v), hint}
}

// deviceNames returns the devices' names, for the engine.
func deviceNames(devices []llamacpp.Device) []string {
	var out []string
	for _, d := range devices {
		out = append(out, d.Name)
	}
	return out
}

// deviceTypes returns what kinds of device compute, which decides how they
// round: "NVIDIA H200".
func deviceTypes(devices []llamacpp.Device) []string {
	var out []string
	for _, d := range devices {
		out = append(out, d.Description)
	}
	return out
}

// accelerators says in words which devices hold layers.
func accelerators(devices []llamacpp.Device) string {
	var out []string
	for _, d := range devices {
		out = append(out, fmt.Sprintf("%s (%s)", d.Name, d.Description))
	}
	return strings.Join(out, ", ")
}

// Devices asks a library, the best installed where variant is "", which
// devices it finds on this machine.
func Devices(ctx context.Context, variant library.Variant, env Env) (library.Library, []llamacpp.Device, error) {
	lib, err := openLibrary(ctx, Config{Variant: string(variant)}, env)
	if err != nil {
		return lib, nil, err
	}
	all, err := llamacpp.Devices(ctx, llamacpp.Options{Library: lib.Dir})
	return lib, all, err
}
