package servers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// A peer is another library, and how it is opened.
type peer struct {
	name string
	open func(t testing.TB) peers.Library
}

// redsyncPeer returns redsync over redigo pools whose connections wait up to timeout for a reply.
func redsyncPeer(dialers []peers.Dialer, timeout time.Duration, opts ...redsync.Option) peer {
	return peer{"redsync", func(t testing.TB) peers.Library {
		var pools []*redis.Pool
		for _, d := range dialers {
			pools = append(pools, pool(t, d, timeout))
		}
		return peers.Redsync(pools, opts...)
	}}
}

// bothPeers returns redsync over all the dialers, with this timeout, and redislock over the first one. redislock's go-redis
// client obeys the deadlines of its callers only if punctual is set, because by default it does not.
func bothPeers(dialers []peers.Dialer, ttl, timeout time.Duration, punctual bool) []peer {
	return []peer{
		redsyncPeer(dialers, timeout, redsync.WithExpiry(ttl)),
		{"redislock", func(t testing.TB) peers.Library {
			o := peers.GoRedis(dialers[0])
			o.ContextTimeoutEnabled = punctual
			l := peers.Redislock(goredis.NewClient(o), ttl)
			t.Cleanup(func() { l.Close() })
			return l
		}},
	}
}

// compare plays something with another library, and notes how it did.
func compare(s *evidence.Scene, p peer, play func(t testing.TB, l peers.Library, f *evidence.Figure)) {
	s.Round(func(t testing.TB) {
		f := evidence.Figure{Library: p.name, NotJudged: true}
		play(t, p.open(t), &f)
		s.Figure(f)
	})
}

// works makes sure that a peer locks when there is no fault. It tries several times, because the machine may be slow.
func works(t testing.TB, l peers.Library, name string) {
	for i := range 10 {
		s := l.Slot(fmt.Sprint(name, " before ", i))
		if s.TryLock(context.Background()) == nil && s.Unlock(context.Background()) == nil {
			return
		}
	}
	t.Fatal(name + " doesn't lock")
}

// An outcome is the outcome of a call that may block.
type outcome struct {
	took  time.Duration
	err   error
	still bool // it had not returned when await stopped waiting
}

// await waits for call to return, for 2 s or, in the long version, for 12 s. After that, call goes on in the background. The
// test does not close what call uses before call has ended.
func await(s *evidence.Scene, t testing.TB, call func() error) outcome {
	limit := 2 * time.Second
	if s.Long {
		limit = 12 * time.Second
	}
	began := time.Now()
	over := make(chan outcome, 1)
	go func() {
		err := call()
		over <- outcome{took: time.Since(began), err: err}
	}()
	select {
	case o := <-over:
		return o
	case <-time.After(limit):
		t.Cleanup(func() { <-over })
		return outcome{took: time.Since(began), still: true}
	}
}

// inTime reports whether the call has honoured a ctx that ended after d.
func (o outcome) inTime(d time.Duration) bool { return !o.still && o.took <= d+overshoot }

func (o outcome) String() string {
	if o.still {
		return fmt.Sprintf("still blocked after %.1f s", o.took.Seconds())
	}
	return evidence.Millis(o.took).String()
}
