package inspect

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/server"
)

// A Waiter is one process in the queue of a lock.
type Waiter struct {
	Owner string        // its label, or ""
	Wants *server.Kind  // the kind of lock that it waits for; nil if unknown
	Since time.Duration // how long it has waited; 0 if unknown
	// Listens says whether its process is connected to this server; nil if unknown. A waiter that does not listen is dead, or
	// its connection has just broken. In a cluster it may listen at another node, so there Listens is never false.
	Listens *bool

	channel string
}

// firstMembers returns the command for the first n members of a queue.
func firstMembers(queue string, n int) []any {
	if n <= 0 { // an end of -1 would mean all members
		return []any{"ZRANGE", queue, 1, 0}
	}
	return []any{"ZRANGE", queue, 0, n - 1, "WITHSCORES"}
}

// readQueue reads the replies about the queue: its size, its TTL, the first members.
func (v *View) readQueue(replies []any, now int64) {
	v.Waiting, _ = redis.Int(replies[0], nil)
	if left, _ := redis.Int64(replies[1], nil); left > 0 { // each look at the queue resets its TTL to QueueTTL
		v.Looked = max(server.QueueTTL-time.Duration(left)*time.Millisecond, time.Millisecond)
	}
	members, _ := redis.Strings(replies[2], nil)
	for i := 0; i+1 < len(members); i += 2 {
		w := Waiter{Since: since(members[i+1], now)}
		fields := strings.SplitN(members[i], " ", 5) // channel, want, fence, lease, name
		w.channel = fields[0]
		if len(fields) == 5 {
			w.Wants, w.Owner = wants(fields[1]), server.Owner(fields[4])
		}
		v.Queue = append(v.Queue, w)
	}
}

// since returns how long ago the moment in a score was; 0 if that is unknown.
func since(score string, now int64) time.Duration {
	at, err := strconv.ParseFloat(score, 64)
	if err != nil || now == 0 || math.IsNaN(at) || math.Abs(at) > 1<<62 {
		return 0
	}
	return time.Duration(max(now-int64(at), 1)) * time.Microsecond
}

// wants returns the kind of lock that a waiter with this want waits for.
func wants(want string) *server.Kind {
	for _, k := range []*server.Kind{server.Mutex, server.Reader, server.Writer} {
		if k.Want == want {
			return k
		}
	}
	return server.Semaphore
}

// readMarks reads the marks of waiting readers and writers, of which those in the queue have one as well.
func (v *View) readMarks(replies []any, now int64) {
	for _, reply := range replies {
		for _, mark := range unexpired(reply, now) {
			v.marks = append(v.marks, mark.Token)
		}
	}
	shows := func(w Waiter) bool { return w.Wants != nil && w.Wants.Shows }
	if v.Kind == server.Mutex && (len(v.marks) > 0 || slices.ContainsFunc(v.Queue, shows)) {
		v.Kind = server.Writer
	}
	if v.Waiting == 0 {
		v.Waiting, v.marks = len(v.marks), nil
	}
}

// countMarks counts the waiters outside of the queue. reply has the members of the queue, each of which begins with its mark.
func (v *View) countMarks(reply any) {
	members, _ := redis.Strings(reply, refusal(reply))
	queued := make(map[string]bool)
	for _, member := range members {
		channel, _, _ := strings.Cut(member, " ")
		queued[channel] = true
	}
	for _, mark := range v.marks {
		if !queued[mark] {
			v.Waiting++
		}
	}
	v.marks = nil
}
