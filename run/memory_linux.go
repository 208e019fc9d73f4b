package run

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// freeMemory returns the bytes that can be used without swapping, and whether
// that is known.
func freeMemory() (int64, bool) {
	kb, ok := procField("/proc/meminfo", "MemAvailable")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(kb, " kB"), 10, 64)
	return n * 1024, err == nil
}

// cpuModel returns the processor's name, or "".
func cpuModel() string {
	name, _ := procField("/proc/cpuinfo", "model name")
	return name
}

func procField(file, name string) (string, bool) {
	f, err := os.Open(file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}
