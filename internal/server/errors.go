package server

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

var errTimeout = conn.ErrTimeout

// explain finds plainer words for what a server says that can't run our scripts, or never for these keys.
func explain(err error) error {
	err = conn.Mask(err)
	var said redis.Error
	if !errors.As(err, &said) {
		return err
	}
	var cause string
	switch text := string(said); {
	case strings.Contains(text, "WRONGTYPE"):
		return conn.Masked("the key holds a lock of another kind, or no lock; a Mutex or RWMutex, a Semaphore and other data "+
			"need keys of their own: "+text, said)
	case strings.HasPrefix(text, "CROSSSLOT"):
		return conn.Masked("the keys are in different slots of the cluster; give them a {tag} in common, as in "+
			"account:{eu}:1 and account:{eu}:2: "+text, said)
	case strings.Contains(text, "DB index is out of range"):
		return conn.Masked("the server does not have that database; choose a lower number in the URL, from 0, "+
			"or raise databases in its configuration: "+text, said)
	case strings.Contains(text, "after non deterministic commands"), strings.Contains(text, "turning on single commands replication"):
		cause = "it is too old, or set to lua-replicate-commands no"
	case strings.Contains(text, "Unknown Redis command called from"):
		cause = "it is too old, or lacks a command that they call"
	case strings.Contains(text, "unknown command") && (strings.Contains(text, "EVAL") || strings.Contains(text, "eval")):
		cause = "it has no Lua scripting"
	default:
		return err
	}
	return conn.Masked("the server can't run the scripts of the lock: "+cause+
		"; it has to be Redis 5.0, Valkey 7.2 or newer, with Lua scripting and its default lua-replicate-commands yes", said)
}
