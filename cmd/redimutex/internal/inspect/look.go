package inspect

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/server"
)

// perKey is the number of commands that read all about one key, except the holders of a shared lock.
const perKey = 9

// Look looks at locks, and at the given number of waiters of each, without changing anything. It takes one round trip. A
// second one asks for the holders of a shared lock, which waiters listen, and which of them wait in the queue or poll. An
// error about one key is the Err of its View. A replica is an error: a lock that it shows as free may be held. Look uses plain
// commands, so that it works for a user who may only read. They are not atomic: the TTL may be that of a new holder, and the
// token that of the holder before.
func Look(ctx context.Context, s *server.Server, keys []string, waiters int, timeout time.Duration) ([]View, error) {
	ses := s.Session(ctx, timeout, keys[0])
	commands := make([][]any, 0, 2+perKey*len(keys))
	commands = append(commands, []any{"TIME"}, []any{"ROLE"})
	for _, key := range keys {
		queue := server.QueueKey(key)
		_, writers, waiting, entitled := server.PhaseKeys(key)
		commands = append(commands, []any{"GETRANGE", key, 0, Longest}, []any{"PTTL", key}, []any{"GETRANGE", server.FenceKey(key), 0, 20},
			[]any{"ZCARD", queue}, []any{"PTTL", queue}, firstMembers(queue, waiters),
			lastMembers(writers), lastMembers(waiting), lastMembers(entitled))
	}
	replies, err := ses.Pipeline(commands)
	if err != nil {
		return nil, err
	}
	if err := replica(replies[1]); err != nil {
		return nil, err
	}
	now := clockOf(replies[0])
	views := make([]View, len(keys))
	second := secondLook{now: now}
	for i := range views {
		views[i].read(replies[2+i*perKey:][:perKey], now)
		second.add(&views[i], keys[i])
	}
	return views, second.run(ses)
}

// replica returns an error if the reply to ROLE is that of a replica. If this user may not ask, it returns nil.
func replica(reply any) error {
	role, _ := reply.([]any)
	if len(role) < 3 {
		return nil
	}
	kind, _ := redis.String(role[0], nil)
	host, _ := redis.String(role[1], nil)
	if kind != "slave" && kind != "replica" {
		return nil
	}
	return redis.Error(fmt.Sprintf("REPLICA it is a replica of %s, and what it knows may be old", net.JoinHostPort(host, fmt.Sprint(role[2]))))
}

// clockOf reads the reply to TIME, in µs; 0 if this user may not ask.
func clockOf(reply any) int64 {
	v, err := redis.Int64s(reply, nil)
	if err != nil || len(v) != 2 {
		return 0
	}
	return v[0]*1e6 + v[1]
}

// A secondLook asks in one round trip what the replies to the first one leave open: who holds a shared lock, which waiters
// listen, and which of those that show a mark are in the queue too.
type secondLook struct {
	now      int64
	waiters  []*Waiter
	commands [][]any
	reads    []func(reply any) // for each command, what reads its reply
}

// ask adds a command, and what reads its reply.
func (l *secondLook) ask(read func(reply any), command ...any) {
	l.commands, l.reads = append(l.commands, command), append(l.reads, read)
}

// add asks about a lock.
func (l *secondLook) add(v *View, key string) {
	for i := range v.Queue {
		l.waiters = append(l.waiters, &v.Queue[i])
	}
	if len(v.marks) > 0 {
		l.ask(v.countMarks, "ZRANGE", server.QueueKey(key), 0, mostMembers-1)
	}
	if v.Kind != nil && v.Kind.Shared {
		if v.Kind == server.Reader {
			key, _, _, _ = server.PhaseKeys(key)
		}
		l.ask(func(reply any) { v.readHolders(reply, l.now) }, lastMembers(key)...)
		l.ask(v.countHolders, "ZCARD", key)
	}
}

// run sends the commands, if there are any.
func (l *secondLook) run(ses *server.Session) error {
	if len(l.waiters) > 0 {
		l.askWhoListens()
	}
	if len(l.commands) == 0 {
		return nil
	}
	replies, err := ses.Pipeline(l.commands)
	if err != nil {
		return err
	}
	for i, read := range l.reads {
		read(replies[i])
	}
	return nil
}

// askWhoListens asks which waiters listen. Without permission, or through a proxy that does not know the command, that stays
// unknown.
func (l *secondLook) askWhoListens() {
	alone := false // no other node can have the waiter
	l.ask(func(reply any) {
		info, err := redis.String(reply, refusal(reply))
		// A server without cluster mode refuses CLUSTER INFO, but not with NOPERM.
		alone = !strings.Contains(info, "cluster_state:") && (err == nil || !strings.HasPrefix(err.Error(), "NOPERM"))
	}, "CLUSTER", "INFO")
	channels := []any{"PUBSUB", "NUMSUB"}
	for _, w := range l.waiters {
		if !slices.Contains(channels[2:], any(w.channel)) {
			channels = append(channels, w.channel)
		}
	}
	l.ask(func(reply any) {
		counts, _ := redis.IntMap(reply, refusal(reply))
		for _, w := range l.waiters {
			if n, known := counts[w.channel]; known && (n > 0 || alone) {
				listens := n > 0
				w.Listens = &listens
			}
		}
	}, channels...)
}
