package host

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Describe says in a few lines on what the figures were taken.
func Describe(s *Server) []string {
	return []string{
		fmt.Sprintf("Machine: %d cores, %s; load average %s at the start", runtime.NumCPU(), processor(), Load()),
		fmt.Sprintf("Versions: %s %s/%s; %s on the same machine, loopback, no persistence", runtime.Version(), runtime.GOOS, runtime.GOARCH, version(s)),
		"Libraries: " + libraries(),
	}
}

func version(s *Server) string {
	info, err := s.Info()
	if err != nil {
		return "an unknown server"
	}
	if v := info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + info["redis_version"]
}

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

// libraries names the versions of what is compared, as this program was built with.
func libraries() string {
	compared := []string{
		"github.com/gomodule/redigo", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
		"github.com/redis/go-redis/v9", "github.com/redis/rueidis",
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	versions := make(map[string]string)
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
	}
	var all []string
	for _, path := range compared {
		if v := versions[path]; v != "" {
			name := strings.TrimSuffix(strings.TrimSuffix(path, "/v4"), "/v9")
			all = append(all, name[strings.LastIndex(name, "/")+1:]+" "+v)
		}
	}
	return strings.Join(all, ", ")
}
