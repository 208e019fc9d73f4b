package llamacpp

import (
	"context"
	"fmt"
	"strings"

	"github.com/hybridgroup/yzma/pkg/llama"

	"olmes/engine"
)

// Device is something that a library computes with on this machine.
type Device struct {
	Name        string `json:"name"`             // as Options.Devices takes it: "CPU", "CUDA0", "Vulkan1"
	Description string `json:"description"`      // "NVIDIA H200"
	Kind        string `json:"kind"`             // "cpu", "gpu", "igpu" (shares the machine's memory) or "accel" (helps the CPU)
	Memory      int64  `json:"memory,omitempty"` // bytes it has; 0 where it does not tell
	Free        int64  `json:"free,omitempty"`   // bytes of them that are free
}

// GPU reports whether layers can be put on the device.
func (d Device) GPU() bool { return d.Kind == "gpu" || d.Kind == "igpu" }

// GPUs returns those of the devices that are GPUs.
func GPUs(devices []Device) []Device {
	var out []Device
	for _, d := range devices {
		if d.GPU() {
			out = append(out, d)
		}
	}
	return out
}

// Pick returns the devices of the given names, in their order. A name that is
// none, is not a GPU's or comes twice is an ErrInput. Case does not matter.
func Pick(devices []Device, names []string) ([]Device, error) {
	var out []Device
	seen := map[string]bool{}
	for _, name := range names {
		at := -1
		for i, d := range devices {
			if strings.EqualFold(d.Name, name) {
				at = i
			}
		}
		switch {
		case at < 0:
			return nil, engine.InputError(fmt.Errorf("no device %q; there %s", name, list(devices)))
		case !devices[at].GPU():
			return nil, engine.InputError(fmt.Errorf("device %s is no GPU (%s), so no layers can be put on it", devices[at].Name, devices[at].Description))
		case seen[devices[at].Name]:
			return nil, engine.InputError(fmt.Errorf("device %s is named twice", devices[at].Name))
		}
		seen[devices[at].Name] = true
		out = append(out, devices[at])
	}
	return out, nil
}

// list says in words which GPUs there are among the devices.
func list(devices []Device) string {
	var names []string
	for _, d := range GPUs(devices) {
		names = append(names, fmt.Sprintf("%s (%s)", d.Name, d.Description))
	}
	switch len(names) {
	case 0:
		return "is no GPU"
	case 1:
		return "is " + names[0]
	}
	return "are " + strings.Join(names, ", ")
}

// opDevices is the operation of Devices.
const opDevices = "devices"

type devicesArgs struct {
	Library string `json:"library"`
}

// Devices asks a library which devices it finds on this machine. Only o's
// Executable, Library and Log are used. It runs in a child process.
func Devices(ctx context.Context, o Options) ([]Device, error) {
	o, err := o.resolved()
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	e, err := o.helper(ctx) // loading a driver cannot be told to stop
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	defer e.Close()
	var out []Device
	if _, err := e.Call(ctx, opDevices, devicesArgs{Library: o.Library}, &out, nil); err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	return out, nil
}

var deviceKinds = map[llama.GGMLBackendDeviceType]string{
	llama.GGMLBackendDeviceTypeCPU:   "cpu",
	llama.GGMLBackendDeviceTypeGPU:   "gpu",
	llama.GGMLBackendDeviceTypeIGPU:  "igpu",
	llama.GGMLBackendDeviceTypeACCEL: "accel",
}

// devices lists what the loaded library finds, and llama.cpp's own handles.
func devices() ([]Device, []llama.GGMLBackendDevice) {
	var out []Device
	var handles []llama.GGMLBackendDevice
	for i := range llama.GGMLBackendDeviceCount() {
		h := llama.GGMLBackendDeviceGet(i)
		free, total := llama.GGMLBackendDeviceMemory(h)
		d := Device{Name: llama.GGMLBackendDeviceName(h), Description: llama.GGMLBackendDeviceDescription(h),
			Kind: deviceKinds[llama.GGMLBackendDevType(h)], Memory: int64(total), Free: int64(free)}
		out, handles = append(out, d), append(handles, h)
	}
	return out, handles
}

// deviceList returns what ModelParams.SetDevices takes for the names, nil for
// none, which leaves the choice to llama.cpp.
func deviceList(layers int, names []string) ([]llama.GGMLBackendDevice, error) {
	all, handles := devices()
	if layers != 0 && len(GPUs(all)) == 0 {
		return nil, engine.InputError(fmt.Errorf("%s on a GPU: the library finds no GPU on this machine", layersText(layers)))
	}
	picked, err := Pick(all, names)
	if err != nil || len(picked) == 0 {
		return nil, err
	}
	var out []llama.GGMLBackendDevice
	for _, p := range picked {
		for i, d := range all {
			if d.Name == p.Name {
				out = append(out, handles[i])
			}
		}
	}
	return append(out, 0), nil
}

func layersText(n int) string {
	switch {
	case n < 0:
		return "all layers"
	case n == 1:
		return "1 layer"
	}
	return fmt.Sprintf("%d layers", n)
}
