//go:build !linux

package run

// freeMemory is not known here.
func freeMemory() (int64, bool) { return 0, false }

// cpuModel is not known here.
func cpuModel() string { return "" }
