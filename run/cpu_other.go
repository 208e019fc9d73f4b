//go:build !linux

package run

// cpuModel is not known here.
func cpuModel() string { return "" }
