package llamacpp

import (
	"os"
	"strconv"
	"strings"
)

// availableMemory returns the bytes that can still be taken, by the machine
// and by the process's control group, or 0 where the system does not tell.
func availableMemory() int64 {
	free := int64(0)
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			f := strings.Fields(line)
			if len(f) >= 2 && f[0] == "MemAvailable:" {
				kib, _ := strconv.ParseInt(f[1], 10, 64)
				free = kib << 10
			}
		}
	}
	number := func(file string) int64 {
		b, err := os.ReadFile(file)
		if err != nil {
			return -1
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		if err != nil { // "max"
			return -1
		}
		return n
	}
	// What the group holds of files is given up when memory is short.
	limit, used := number("/sys/fs/cgroup/memory.max"), number("/sys/fs/cgroup/memory.current")
	if stat, err := os.ReadFile("/sys/fs/cgroup/memory.stat"); err == nil {
		for line := range strings.Lines(string(stat)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "file" {
				files, _ := strconv.ParseInt(f[1], 10, 64)
				used -= files
			}
		}
	}
	if limit > 0 && free > 0 {
		free = min(free, max(1, limit-used))
	}
	return free
}
