// Package machine describes the machine on which figures were measured.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Describe returns the number of processors, their model, and how busy the machine is.
func Describe() string {
	return fmt.Sprintf("%d cores, %s; load average %s at the start", runtime.NumCPU(), processor(), Load())
}

// Go returns the Go version of this program, and its target.
func Go() string { return fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH) }

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// Load returns the load average over 1, 5 and 15 minutes.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

// Libraries returns the versions of the modules with these paths that this program was built with.
func Libraries(paths ...string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "libraries of unknown versions"
	}
	versions := make(map[string]string)
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
	}
	var all []string
	for _, path := range paths {
		if v := versions[path]; v != "" {
			name := strings.TrimSuffix(strings.TrimSuffix(path, "/v4"), "/v9")
			all = append(all, name[strings.LastIndex(name, "/")+1:]+" "+v)
		}
	}
	return strings.Join(all, ", ")
}
