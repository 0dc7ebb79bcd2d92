package servers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/redimutex/redimutex/internal/lab/peers"
)

// redsyncPeer makes redsync's locks, over redigo pools whose connections wait so long for a reply.
func redsyncPeer(t testing.TB, dialers []peers.Dialer, timeout time.Duration, opts ...redsync.Option) peers.Library {
	var pools []*redis.Pool
	for _, d := range dialers {
		pools = append(pools, pool(t, d, timeout))
	}
	return peers.Redsync(pools, opts...)
}

// redislockPeer makes redislock's locks, over a go-redis client that obeys the deadlines of its
// callers if punctual, which it does not do by default.
func redislockPeer(t testing.TB, d peers.Dialer, ttl time.Duration, punctual bool) peers.Library {
	o := peers.GoRedis(d)
	o.ContextTimeoutEnabled = punctual
	l := peers.Redislock(goredis.NewClient(o), ttl)
	t.Cleanup(func() { l.Close() })
	return l
}

// A peer is another library, and how it is opened.
type peer struct {
	name string
	open func(t testing.TB) peers.Library
}

// bothPeers are redsync over all the dialers, with so long a timeout, and redislock over the first.
func bothPeers(dialers []peers.Dialer, ttl, timeout time.Duration, punctual bool) []peer {
	return []peer{
		{"redsync", func(t testing.TB) peers.Library {
			return redsyncPeer(t, dialers, timeout, redsync.WithExpiry(ttl))
		}},
		{"redislock", func(t testing.TB) peers.Library { return redislockPeer(t, dialers[0], ttl, punctual) }},
	}
}

// works makes sure that a peer locks where nothing is wrong, but for a machine that is late now and then.
func works(t testing.TB, l peers.Library, name string) {
	for i := range 10 {
		s := l.Slot(fmt.Sprint(name, " before ", i))
		if s.TryLock(context.Background()) == nil && s.Unlock(context.Background()) == nil {
			return
		}
	}
	t.Fatal(name + " doesn't lock")
}
