package election

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/server"
)

// A record is what a leader writes to a key next to the lock. The lock alone decides who leads: a record counts only while the
// lock holds its token. So a term never has two owners, even if writes are late: each token has one term, each term has one
// token, and the holder of the token writes both. The fence counter could not replace the record: several servers have
// different counters, and foreign clients lock without it.
type record struct {
	term  int64
	ttl   time.Duration
	token string
}

func (r record) leader() Leader { return Leader{Owner: server.Owner(r.token), Term: r.term} }

func (r record) String() string {
	return fmt.Sprintf("%d %d %s", r.term, r.ttl.Milliseconds(), r.token)
}

// parse is the inverse of String. A string that is no record names no leader.
func parse(s string) (r record) {
	fields := strings.SplitN(s, " ", 3)
	if len(fields) < 3 {
		return record{}
	}
	term, err := strconv.ParseInt(fields[0], 10, 64)
	ms, err2 := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || err2 != nil || term <= 0 || ms <= 0 {
		return record{}
	}
	return record{term, time.Duration(ms) * time.Millisecond, fields[2]}
}

// tell writes r, and returns when a majority has it. It tries until the lead ends. It fails if the lead has ended or the
// servers refuse for good.
func (e *Election) tell(l *lead, r record) error {
	p := paceOf(r.ttl)
	for {
		b := e.ask(l, p.timeout, r.write, false)
		if b.votes[""] >= b.need() {
			return nil
		}
		if b.hopeless() && l.Err() == nil {
			return b.failure(e.mutex.Key())
		}
		if !pause(l, p.poll) {
			return context.Cause(l.Context)
		}
	}
}

// repeat writes r again and again while the lead lasts, because a server may have lost it, and because it expires. A hung
// server may execute a write late, over the record of the next leader. Observers then see no leader until the next leader
// repeats its own record.
func (e *Election) repeat(l *lead, r record) {
	for pause(l, r.ttl/3) {
		e.ask(l, paceOf(r.ttl).timeout, r.write, true)
	}
}

// pause waits for d. It reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// write is the leader's question to a server. Its answer is empty.
func (r record) write(ses *server.Session, key string) (string, error) {
	_, err := ses.Do("SET", server.TermKey(key), r.String(), "PX", 3*r.ttl.Milliseconds())
	return "", err
}

// read is an observer's question. Its answer is the record, or empty if the lock holds another token or none.
func read(ses *server.Session, key string) (string, error) {
	replies, err := ses.Pipeline([][]any{{"GET", server.TermKey(key)}, {"GET", key}})
	if err != nil {
		return "", err
	}
	var values [2]string
	for i, reply := range replies {
		if refused, ok := reply.(error); ok {
			return "", refused
		}
		if values[i], err = redis.String(reply, nil); err != nil && !errors.Is(err, redis.ErrNil) {
			return "", err
		}
	}
	if r := parse(values[0]); r.term == 0 || r.token != values[1] {
		return "", nil
	}
	return values[0], nil
}

// A ballot counts the answers of the servers.
type ballot struct {
	size    int            // of all servers
	votes   map[string]int // by answer
	out     int            // servers that have not answered yet
	refused int            // how many of failed are for good
	failed  []error
}

// need returns how many servers are a majority.
func (b *ballot) need() int { return b.size/2 + 1 }

// result returns the answer of a majority, or the empty answer if no other can get a majority any more. decided is false while
// neither is known.
func (b *ballot) result() (answer string, decided bool) {
	most := 0
	for answer, n := range b.votes {
		if n >= b.need() {
			return answer, true
		}
		if answer != "" {
			most = max(most, n)
		}
	}
	return "", most+b.out+len(b.failed) < b.need()
}

// hopeless reports whether so many servers refuse for good that the others are no majority.
func (b *ballot) hopeless() bool { return b.size-b.refused < b.need() }

// failure returns an error that says why nothing was decided.
func (b *ballot) failure(key string) error {
	format, args := "election: %q", []any{key}
	if !b.hopeless() {
		format, args = format+": %w", append(args, redimutex.ErrUnavailable)
	}
	for _, err := range b.failed {
		format, args = format+"; %w", append(args, err)
	}
	return fmt.Errorf(format, args...)
}

// ask asks all servers at once. If patient, it returns when all have answered. Otherwise it returns once the answers decide
// and the other servers have had as long again: it cuts their commands short.
func (e *Election) ask(ctx context.Context, timeout time.Duration,
	what func(ses *server.Session, key string) (string, error), patient bool,
) *ballot {
	type answer struct {
		node  int
		value string
		err   error
	}
	n := len(e.servers)
	b := &ballot{size: n, votes: make(map[string]int), out: n}
	answers := make(chan answer, n)
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	began := time.Now()
	for i, s := range e.servers {
		asking.Go(func() {
			a := answer{node: i}
			a.value, a.err = what(s.Session(ctx, timeout, e.mutex.Key()), e.mutex.Key())
			answers <- a
		})
	}
	var grace <-chan time.Time
	for b.out > 0 {
		select {
		case a := <-answers:
			b.out--
			if a.err == nil {
				b.votes[a.value]++
			} else {
				b.failed = append(b.failed, &redimutex.NodeError{Node: a.node, Err: a.err})
				if server.Permanent(a.err) {
					b.refused++
				}
			}
		case <-grace:
			return b
		}
		if _, decided := b.result(); decided && grace == nil && !patient {
			// To cut short a command whose answer is on its way would cost its connection.
			grace = time.After(time.Since(began) + 10*time.Millisecond)
		}
	}
	return b
}
