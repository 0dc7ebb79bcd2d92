package main

import (
	"os/exec"
	"strings"

	"github.com/redimutex/redimutex/internal/machine"
)

// about says in a few lines on what the figures were taken.
func about() []string {
	return []string{machine.Describe(), machine.Go() + "; " + server(), machine.Libraries(
		"github.com/gomodule/redigo", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
		"github.com/redis/go-redis/v9", "github.com/anishathalye/porcupine",
	)}
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
