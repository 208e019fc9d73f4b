package linker

import (
	"runtime"
	"syscall"
)

func init() {
	// A preloaded library is found by no search.
	if preload, _ := syscall.Getenv("LD_PRELOAD"); preload != "" || Finds("libffi.so.8") {
		return
	}
	const text = "olmes: the system lacks libffi.so.8, which the engine is called through\n" +
		"hint: install the package that holds it (Debian: apt-get install libffi8)\n"
	syscall.Write(syscall.Stderr, []byte(text))
	syscall.Exit(1)
}

// Finds reports whether the dynamic linker would find the shared library name,
// or whether one of folders holds it. It looks where glibc's linker does:
// LD_LIBRARY_PATH, its cache, the usual folders.
func Finds(name string, folders ...string) bool {
	for _, folder := range folders {
		if exists(folder + "/" + name) {
			return true
		}
	}
	path, _ := syscall.Getenv("LD_LIBRARY_PATH")
	for _, folder := range fields(path, ':', ';') {
		if exists(folder + "/" + name) {
			return true
		}
	}
	triplet := ""
	switch runtime.GOARCH {
	case "amd64":
		triplet = "/x86_64-linux-gnu"
	case "arm64":
		triplet = "/aarch64-linux-gnu"
	}
	for _, root := range []string{"/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"} {
		if exists(root+"/"+name) || exists(root+triplet+"/"+name) {
			return true
		}
	}
	return inCache(readFile("/etc/ld.so.cache"), name)
}

// inCache reports whether the linker's cache has the path of a library of this
// name that is still there. The cache holds names and paths as C strings.
func inCache(cache, name string) bool {
	for _, path := range fields(cache, 0, 0) {
		end := len(path) - len(name)
		if path[0] == '/' && end > 0 && path[end-1] == '/' && path[end:] == name && exists(path) {
			return true
		}
	}
	return false
}

// fields splits s around either separator and leaves out empty parts.
func fields(s string, a, b byte) []string {
	var out []string
	start := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && s[i] != a && s[i] != b {
			continue
		}
		if i > start {
			out = append(out, s[start:i])
		}
		start = i + 1
	}
	return out
}

func exists(path string) bool {
	var stat syscall.Stat_t
	return syscall.Stat(path, &stat) == nil
}

// readFile returns the file's content, or as much of it as can be read.
func readFile(path string) string {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "" // absent in small images
	}
	defer syscall.Close(fd)
	var data []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return string(data)
		}
		data = append(data, buf[:n]...)
	}
}
