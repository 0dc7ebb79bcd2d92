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

// A Holder is one of several holders.
type Holder struct {
	Token string
	Left  time.Duration // of its own lease; 0 if unknown
}

// most is the maximum number of holders of a lock, and of marks of a kind, that are read: those that last longest.
const most = 1000

// last returns the command for the members of a set that last longest.
func last(key string) []any { return []any{"ZRANGE", key, -most, -1, "WITHSCORES"} }

// front returns the command for the first n members of a queue.
func front(queue string, n int) []any {
	if n <= 0 { // an end of -1 would mean all members
		return []any{"ZRANGE", queue, 1, 0}
	}
	return []any{"ZRANGE", queue, 0, n - 1, "WITHSCORES"}
}

// living parses the reply to last: members, scored by the end of their leases in µs. It leaves out those that have ended.
func living(reply any, now int64) (all []Holder) {
	members, _ := redis.Strings(reply, refusal(reply))
	for i := 0; i+1 < len(members); i += 2 {
		end, err := strconv.ParseFloat(members[i+1], 64)
		if err != nil || now != 0 && end <= float64(now) {
			continue
		}
		h := Holder{Token: members[i]}
		if now != 0 {
			h.Left = time.Duration(min(end-float64(now), float64(math.MaxInt64/2000))) * time.Microsecond
		}
		all = append(all, h)
	}
	return all
}

// readHolders reads who holds a shared lock. Readers that this user may not see still hold it, because their lock exists.
func (v *View) readHolders(reply any, now int64) {
	if err := refusal(reply); err != nil && v.Kind == server.Semaphore {
		*v = View{Err: err}
		return
	}
	v.Holders = living(reply, now)
	v.Holding = len(v.Holders)
	if v.Kind == server.Reader {
		return
	}
	foreign := func(h Holder) bool { return KindOf(h.Token) != Ours }
	if v.Left < 0 || slices.ContainsFunc(v.Holders, foreign) { // all tokens of this library expire
		*v = View{Err: redis.Error("WRONGTYPE the sorted set is no semaphore")}
		return
	}
	if v.Holding == 0 {
		v.Kind, v.Left = nil, 0 // the permits have expired
	}
}

// countHolders reads how many hold a shared lock, if they may be more than those that were read.
func (v *View) countHolders(reply any) {
	if n, _ := redis.Int(reply, nil); v.Holding == most { // n is 0 if this user may not count them
		v.Holding = max(n, most)
	}
}

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
		for _, mark := range living(reply, now) {
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
		l.ask(v.countMarks, "ZRANGE", server.QueueKey(key), 0, most-1)
	}
	if v.Kind != nil && v.Kind.Shared {
		if v.Kind == server.Reader {
			key, _, _, _ = server.PhaseKeys(key)
		}
		l.ask(func(reply any) { v.readHolders(reply, l.now) }, last(key)...)
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
