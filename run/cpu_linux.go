package run

import (
	"bufio"
	"os"
	"strings"
)

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
