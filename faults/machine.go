package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// machine says in a few lines on what the figures were taken.
func machine() []string {
	return []string{
		fmt.Sprintf("%d cores, %s; load average %s at the start", runtime.NumCPU(), processor(), load()),
		fmt.Sprintf("%s %s/%s; %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, server()),
		libraries(),
	}
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

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

// server names the server that the tests find first.
func server() string {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if out, err := exec.Command(name, "--version").Output(); err == nil {
			words, _, _ := strings.Cut(strings.TrimSpace(string(out)), " sha=")
			return words
		}
	}
	return "no server on the PATH"
}

// libraries names the versions of what is compared, as this program was built with.
func libraries() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "libraries of unknown versions"
	}
	versions := make(map[string]string)
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
	}
	var all []string
	for _, l := range []struct{ path, name string }{
		{"github.com/gomodule/redigo", "redigo"},
		{"github.com/go-redsync/redsync/v4", "redsync"},
		{"github.com/bsm/redislock", "redislock"},
		{"github.com/redis/go-redis/v9", "go-redis"},
		{"github.com/anishathalye/porcupine", "porcupine"},
	} {
		if v := versions[l.path]; v != "" {
			all = append(all, l.name+" "+v)
		}
	}
	return strings.Join(all, ", ")
}
