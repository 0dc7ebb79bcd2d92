package server

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

//go:embed lua/acquire.lua
var acquireSource string

//go:embed lua/guard.lua
var guardSource string

//go:embed lua/handover.lua
var handoverSource string

//go:embed lua/acquire_queued.lua
var acquireQueuedSource string

//go:embed lua/release_queued.lua
var releaseQueuedSource string

//go:embed lua/extend.lua
var extendSource string

//go:embed lua/release.lua
var releaseSource string

//go:embed lua/retain.lua
var retainSource string

//go:embed lua/raise.lua
var raiseSource string

var (
	acquireScript = newScript(guardSource + acquireSource)
	extendScript  = newScript(extendSource)
	releaseScript = newScript(releaseSource)
	retainScript  = newScript(retainSource)
	raiseScript   = newScript(raiseSource)

	acquireQueuedScript = newScript(guardSource + handoverSource + acquireQueuedSource)
	releaseQueuedScript = newScript(handoverSource + releaseQueuedSource)
)

// A script is a Lua script and the hash by which a server that has seen it knows it. Both are
// kept as arguments, ready to be sent.
type script struct{ hash, source any }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return script{hash: hex.EncodeToString(sum[:]), source: source}
}

// eval runs the script. args is what follows the script in the command: the number of keys, the
// keys, the arguments; its first place is free, for the script itself.
func (ses session) eval(s script, args []any) (any, error) {
	args[0] = s.hash
	reply, err := ses.do("EVALSHA", args...)
	if noScript(err) {
		// The server was restarted or its script cache flushed.
		args[0] = s.source
		reply, err = ses.do("EVAL", args...)
	}
	return reply, err
}

// A command is a script with its arguments, as eval takes them.
type command struct {
	script script
	args   []any
}

// evalAll runs many scripts in one round trip. An error of the connection is returned; errors of
// the server stand in replies.
func (ses session) evalAll(batch []command) (replies []any, err error) {
	replies = make([]any, len(batch))
	if ses.pinned && len(batch) == 1 {
		// Only a command that goes alone is repeated where its slot has moved to.
		replies[0], err = ses.evalOne(batch[0])
		return replies, err
	}
	for _, c := range batch {
		c.args[0] = c.script.hash
		if err := ses.conn.Send("EVALSHA", c.args...); err != nil {
			return nil, normalize(err)
		}
	}
	if err := ses.conn.Flush(); err != nil {
		return nil, normalize(err)
	}
	forgotten := false
	for i := range batch {
		reply, err := ses.receive(max(time.Until(ses.deadline), time.Microsecond))
		var refused redis.Error
		switch {
		case err == nil:
			replies[i] = reply
		case errors.As(err, &refused):
			replies[i] = refused
			forgotten = forgotten || noScript(err)
		default:
			return nil, err
		}
	}
	if !forgotten {
		return replies, nil
	}
	for i, c := range batch {
		if e, ok := replies[i].(redis.Error); !ok || !noScript(e) {
			continue
		}
		if replies[i], err = ses.evalOne(c); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// evalOne is eval with an error of the server as the reply.
func (ses session) evalOne(c command) (any, error) {
	reply, err := ses.eval(c.script, c.args)
	var refused redis.Error
	if errors.As(err, &refused) {
		return refused, nil
	}
	return reply, err
}

func noScript(err error) bool {
	if err == nil {
		return false
	}
	var e redis.Error
	return errors.As(err, &e) && strings.HasPrefix(string(e), "NOSCRIPT ")
}
