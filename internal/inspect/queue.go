package inspect

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/server"
)

// A Waiter is one process in the queue of a lock.
type Waiter struct {
	Owner    string        // its label, or ""
	Since    time.Duration // how long it has waited; 0 if unknown
	Presence Presence

	channel string
}

// Presence says whether a waiter listens for its turn.
type Presence int8

const (
	PresenceUnknown Presence = iota
	Listening                // its process is connected to this server
	Absent                   // it is not: it is dead, or its connection broke just now; never said in a cluster, where it may listen at another node
)

// The mark is a member of each queue that is no waiter. It sorts behind all of them: its score is
// so much more than the moment when a waiter last looked at the queue.
const (
	mark      = "*"
	markAhead = 4e15
)

// readQueue takes in the replies about the queue: how many members it has, the last one, the first ones.
func (v *View) readQueue(replies []any, now int64) {
	v.Waiting, _ = redis.Int(replies[0], nil)
	if last, _ := redis.Strings(replies[1], nil); len(last) == 2 && last[0] == mark {
		v.Waiting--
		v.Looked = since(last[1], markAhead, now)
	}
	members, _ := redis.Strings(replies[2], nil)
	for i := 0; i+1 < len(members); i += 2 {
		if members[i] == mark {
			continue
		}
		w := Waiter{Since: since(members[i+1], 0, now)}
		fields := strings.SplitN(members[i], " ", 4) // channel, fences, lease, name
		w.channel = fields[0]
		if len(fields) == 4 {
			w.Owner = server.Owner(fields[3])
		}
		v.Queue = append(v.Queue, w)
	}
}

// since is how long ago the moment in a score was; 0 if that can't be told.
func since(score string, ahead float64, now int64) time.Duration {
	at, err := strconv.ParseFloat(score, 64)
	if err != nil || now == 0 || math.IsNaN(at) || math.Abs(at) > 1<<62 {
		return 0
	}
	return time.Duration(max(now-int64(at-ahead), 1)) * time.Microsecond
}

// channels are those on which the waiters listen, in order.
func (v *View) channels() (all []string) {
	for _, w := range v.Queue {
		all = append(all, w.channel)
	}
	return all
}

// meet finds out which waiters listen. channels are those of all waiters of all views, in order.
func meet(ses *server.Session, views []View, channels []string) error {
	command := []any{"PUBSUB", "NUMSUB"}
	listed := make(map[string]bool)
	for _, c := range channels {
		if !listed[c] {
			listed[c] = true
			command = append(command, c)
		}
	}
	replies, err := ses.Pipeline([][]any{command, {"CLUSTER", "INFO"}})
	if err != nil {
		return err
	}
	info, err := redis.String(replies[1], refusal(replies[1]))
	alone := err != nil || !strings.Contains(info, "cluster_state:") // no other node can have the waiter
	counts, err := redis.IntMap(replies[0], refusal(replies[0]))
	if err != nil {
		return nil //nolint:nilerr // not permitted, or not known to a proxy: then it is not known
	}
	for i := range views {
		for j := range views[i].Queue {
			n, known := counts[channels[0]]
			channels = channels[1:]
			switch w := &views[i].Queue[j]; {
			case n > 0:
				w.Presence = Listening
			case known && alone:
				w.Presence = Absent
			}
		}
	}
	return nil
}
