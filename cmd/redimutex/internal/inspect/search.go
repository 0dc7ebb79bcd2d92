package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/server"
)

// A Search goes through the keys of one server and picks out the locks, some hundred keys at a time, so that its user can stop
// it or slow it down. Of each value it reads only the beginning. As with SCAN, a key that exists all the time is found, and a
// key that comes or goes meanwhile may be found.
type Search struct {
	Passed  int  // keys that the server has gone through, approximately
	Total   int  // keys on the server, approximately; 0 if unknown
	Seen    int  // keys that match the pattern, and were looked at
	Refused int  // those of Seen that the user may not read
	Done    bool // there are no more keys

	server  *server.Server
	pattern string
	all     bool
	cursor  string
}

// searchCount is about how many keys one step looks at. A step takes the server a fraction of a millisecond.
const searchCount = 500

// How many bytes of a value are read to see what it is.
const (
	tokenStart = 41  // one more than the longest form that FormOf knows
	labelled   = 300 // no token that a process wrote on purpose is longer
)

// Find begins a Search. pattern is a pattern of SCAN, or "" for all keys. A lock is one of these: a string that expires and is
// a token of a known form; a string that expires and has a queue, a fence counter or readers; a sorted set of tokens that
// expires. If all is set, any string of at most 300 bytes counts as a lock too, even if it never expires.
func Find(s *server.Server, pattern string, all bool) *Search {
	return &Search{server: s, pattern: pattern, all: all, cursor: "0"}
}

// Next looks at some more keys and returns the locks among them. It may return a key twice. An error ends the Search. A
// replica is an error, as in Look.
func (f *Search) Next(ctx context.Context, timeout time.Duration) (locks []string, err error) {
	ses := f.server.Session(ctx, timeout, f.pattern)
	if f.Passed == 0 {
		role, _ := ses.Do("ROLE") // some users may not ask
		if err := replica(role); err != nil {
			return nil, err
		}
		if reply, err := redis.Int(ses.Do("DBSIZE")); err == nil {
			f.Total = reply
		}
	}
	keys, err := f.scan(ses)
	if err != nil {
		return nil, err
	}
	f.Passed += searchCount
	f.Seen += len(keys)
	keys = slices.DeleteFunc(keys, server.Reserved)

	keys, err = f.keep(ses, keys, func(key string) []any { return []any{"PTTL", key} }, func(_ string, reply any) bool {
		ttl, _ := redis.Int64(reply, nil)
		return ttl > 0 || f.all && ttl == -1
	})
	if err != nil {
		return nil, err
	}
	return f.choose(ses, keys)
}

// choose returns those keys that are locks, judged by their values and their siblings.
func (f *Search) choose(ses *server.Session, keys []string) (locks []string, err error) {
	sets := make(map[string]bool)
	keys, err = f.keep(ses, keys, func(key string) []any { return []any{"TYPE", key} }, func(key string, reply any) bool {
		sets[key] = reply == "zset"
		return sets[key] || reply == "string"
	})
	if err != nil {
		return nil, err
	}
	end := tokenStart - 1
	if f.all {
		end = labelled
	}
	reading := make(map[string]bool)
	doubtful, err := f.keep(ses, keys, func(key string) []any {
		if sets[key] {
			return []any{"ZRANGE", key, -1, -1}
		}
		return []any{"GETRANGE", key, 0, end}
	}, func(key string, reply any) bool {
		v := first(reply)
		reading[key] = v == server.Reading
		if FormOf(v) == Ours || !sets[key] && (FormOf(v) == Foreign || f.all && len(v) <= labelled) {
			locks = append(locks, key)
			return false
		}
		return !sets[key]
	})
	if err != nil {
		return nil, err
	}
	beside, err := f.keep(ses, doubtful, func(key string) []any {
		if reading[key] {
			readers, _, _, _ := server.PhaseKeys(key)
			return []any{"EXISTS", readers}
		}
		return []any{"EXISTS", server.FenceKey(key), server.QueueKey(key)}
	}, func(_ string, reply any) bool {
		n, _ := redis.Int(reply, nil)
		return n > 0
	})
	if err != nil {
		return nil, err
	}
	return append(locks, beside...), nil
}

// first returns the beginning of a string value, or the member of a set that was asked for.
func first(reply any) string {
	if members, ok := reply.([]any); ok {
		if len(members) == 0 {
			return ""
		}
		reply = members[0]
	}
	v, _ := redis.String(reply, nil)
	return v
}

// scan returns the next keys.
func (f *Search) scan(ses *server.Session) (keys []string, err error) {
	args := []any{f.cursor, "COUNT", searchCount}
	if f.pattern != "" {
		args = append(args, "MATCH", f.pattern)
	}
	reply, err := redis.Values(ses.Do("SCAN", args...))
	if err == nil {
		_, err = redis.Scan(reply, &f.cursor, &keys)
	}
	f.Done = f.cursor == "0"
	return keys, err
}

// keep asks the same about many keys, in one round trip. It returns those whose replies are wanted.
func (f *Search) keep(
	ses *server.Session, keys []string, command func(key string) []any, wanted func(key string, reply any) bool,
) (kept []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	commands := make([][]any, len(keys))
	for i, key := range keys {
		commands[i] = command(key)
	}
	replies, err := ses.Pipeline(commands)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		switch err := refusal(replies[i]); {
		case err == nil && wanted(key, replies[i]):
			kept = append(kept, key)
		case err != nil && !wrongType(err): // otherwise the key has just become something else
			f.Refused++
		}
	}
	return kept, nil
}
