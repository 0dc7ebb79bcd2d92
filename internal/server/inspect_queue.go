package server

import (
	"math"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Waiter is somebody in the queue of a lock.
type Waiter struct {
	Owner    string        // his label, or ""
	Since    time.Duration // how long he has waited; 0 if unknown
	Presence Presence
}

// Presence says whether a waiter listens for his turn.
type Presence int8

const (
	PresenceUnknown Presence = iota
	Listening                // his process is connected to this server
	Absent                   // it is not: it is dead, or its connection broke just now; never said in a cluster, where it may listen at another node
)

// waiter takes a member of a queue apart, see handover.lua.
func waiter(member, score string, now int64) (w Waiter, channel string) {
	if arrived, err := redis.Float64([]byte(score), nil); err == nil && now != 0 && !math.IsNaN(arrived) {
		w.Since = time.Duration(max(now-int64(arrived), 1)) * time.Microsecond
	}
	fields := strings.SplitN(member, " ", 4) // channel, fencing, claim, token
	if len(fields) == 4 {
		w.Owner = Owner(fields[3])
	}
	return w, fields[0]
}

// meet finds out which waiters listen. channels are those of all waiters of all views, in order.
func (ses session) meet(views []View, channels []string) error {
	command := []any{"PUBSUB", "NUMSUB"}
	listed := make(map[string]bool)
	for _, c := range channels {
		if !listed[c] {
			listed[c] = true
			command = append(command, c)
		}
	}
	replies, err := ses.doAll([][]any{command, {"CLUSTER", "INFO"}})
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
