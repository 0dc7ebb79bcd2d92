package sim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// status is a reply such as OK.
type status string

// execute runs a command; it knows those that locks need. c is nil for a command of a script. The caller holds s.mu.
func (s *server) execute(c *conn, args []string) any {
	switch strings.ToUpper(args[0]) {
	case "EVALSHA":
		if !s.known[args[1]] {
			return redis.Error("NOSCRIPT No matching script. Please use EVAL.")
		}
		return s.eval(args[1], args[2:])
	case "EVAL":
		hash := load(args[1])
		s.known[hash] = true
		return s.eval(hash, args[2:])
	case "SUBSCRIBE":
		at := s.subscribed
		if c.astray {
			at = s.astray
		}
		at[args[1]] = append(at[args[1]], c)
		return []any{"subscribe", args[1], int64(1)}
	case "UNSUBSCRIBE":
		s.hangUp(c)
		return []any{"unsubscribe", nil, int64(0)}
	case "PING":
		if s.listens(c) {
			return []any{"pong", ""}
		}
		return status("PONG")
	case "PUBLISH":
		for _, listener := range s.subscribed[args[1]] {
			listener.deliver([]any{"message", args[1], args[2]}, nil)
		}
		for _, listener := range s.astray[args[1]] {
			if !s.unsent {
				listener.deliver([]any{"message", args[1], args[2]}, nil)
			}
		}
		return int64(len(s.subscribed[args[1]]))
	case "ROLE":
		if c.astray {
			return redis.Error("NOPERM this user has no permissions to run the 'role' command")
		}
		return []any{"master", int64(0), []any{}}
	case "DEL":
		if c != nil { // not by a script
			s.world.delete(args[1])
		}
	case "ECHO":
		return args[1]
	case "TIME":
		now := s.clock()
		return []any{strconv.FormatInt(now/1e6, 10), strconv.FormatInt(now%1e6, 10)}
	}
	return s.onKey(strings.ToUpper(args[0]), args[1], args[2:])
}

const wrongType = redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value")

// onKey runs a command on a key of any kind.
func (s *server) onKey(command, key string, args []string) any {
	v := s.live(key)
	switch command {
	case "GET", "GETRANGE":
		switch {
		case v != nil && v.set != nil:
			return wrongType
		case v != nil && command == "GET":
			return v.text
		case v != nil:
			return part(v.text, args[0], args[1])
		case command == "GET":
			return nil
		}
		return ""
	case "SET":
		px, nx := "", false
		for i, a := range args {
			nx = nx || a == "NX"
			if a == "PX" {
				px = args[i+1]
			}
		}
		if nx && v != nil {
			return nil
		}
		s.set(key, args[0], px)
		return status("OK")
	case "ZUNIONSTORE":
		return s.unite(key, args)
	case "DEL":
		delete(s.data, key)
		delete(s.expires, key)
		return number(v != nil)
	case "EXISTS":
		return number(v != nil)
	case "PTTL":
		end, ok := s.expires[key]
		switch {
		case v == nil:
			return int64(-2)
		case !ok:
			return int64(-1)
		}
		return end - s.clock()/1000
	case "PEXPIRE":
		ms, err := strconv.ParseInt(args[0], 10, 64)
		if v == nil || err != nil {
			return int64(0)
		}
		s.expires[key] = s.clock()/1000 + ms
		return int64(1)
	}
	return s.onSet(command, key, v, args)
}

// part returns the reply of GETRANGE. It expects that from and to are not negative.
func part(text, from, to string) any {
	low, err := strconv.Atoi(from)
	high, wrong := strconv.Atoi(to)
	if err != nil || wrong != nil {
		return redis.Error("ERR value is not an integer or out of range")
	}
	high = min(high+1, len(text))
	return text[min(low, high):high]
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (s *server) listens(c *conn) bool {
	for _, at := range []map[string][]*conn{s.subscribed, s.astray} {
		for _, all := range at {
			if slices.Contains(all, c) {
				return true
			}
		}
	}
	return false
}

// hangUp ends the subscriptions of a connection. The caller holds s.mu.
func (s *server) hangUp(c *conn) {
	for _, at := range []map[string][]*conn{s.subscribed, s.astray} {
		for channel, all := range at {
			all = slices.DeleteFunc(slices.Clone(all), func(other *conn) bool { return other == c })
			if len(all) == 0 {
				delete(at, channel)
			} else {
				at[channel] = all
			}
		}
	}
}
