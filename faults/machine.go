package main

import (
	"github.com/redimutex/redimutex/internal/machine"
	"github.com/redimutex/redimutex/internal/redistest"
)

// about says in a few lines on what the figures were taken.
func about() []string {
	return []string{machine.Describe(), machine.Go() + "; " + server(), machine.Libraries(
		"github.com/gomodule/redigo", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
		"github.com/redis/go-redis/v9", "github.com/anishathalye/porcupine",
	)}
}

// server names the server that the rows use.
func server() string {
	for _, b := range redistest.Builds() {
		return b.String()
	}
	return "no server on the PATH"
}
