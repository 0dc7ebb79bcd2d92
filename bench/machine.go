package main

import (
	"fmt"
	"strings"

	"github.com/redimutex/redimutex/internal/machine"
	"github.com/redimutex/redimutex/internal/redistest"
)

// describe says in a few lines on what the figures were taken.
func describe(s *redistest.Server) []string {
	return []string{
		"Machine: " + machine.Describe(),
		"Versions: " + machine.Go() + "; " + version(s) + " on the same machine, loopback, no persistence",
		"Libraries: " + machine.Libraries("github.com/gomodule/redigo", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
			"github.com/redis/go-redis/v9", "github.com/redis/rueidis"),
	}
}

func version(s *redistest.Server) string {
	info := make(map[string]string)
	for line := range strings.Lines(fmt.Sprintf("%s", s.Do("INFO", "server"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	if v := info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + info["redis_version"]
}
