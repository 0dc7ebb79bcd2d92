package servers

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A feature is a way to use the library.
type feature struct {
	name    string
	servers int            // on how many servers it locks
	shared  bool           // WithMultiplexing
	cold    bool           // no connection is kept
	login   []any          // user and password, if any
	pools   *[]*redis.Pool // if not nil, client adds its pools to these
	options []redimutex.Option
}

var (
	fencing = []redimutex.Option{redimutex.WithFencing()}
	queued  = []redimutex.Option{redimutex.WithQueue()}
	reusing = []redimutex.Option{redimutex.WithLeaseReuse(50 * time.Millisecond)}
)

// single has the features of a lock on one server.
var single = []feature{
	{name: "plain", servers: 1},
	{name: "fencing", servers: 1, options: fencing},
	{name: "queue", servers: 1, options: queued},
	{name: "reuse", servers: 1, options: reusing},
	{name: "multiplexed", servers: 1, shared: true},
}

// all has the features of single, and Redlock.
var all = append([]feature{
	{name: "Redlock of 3", servers: 3},
	{name: "Redlock of 3 with fencing", servers: 3, options: fencing},
}, single...)

// direct is the way to a server without anything in between.
func direct(s *redistest.Server) peers.Dialer { return peers.To(s.Addr()) }

// pool returns a pool that the end of the test closes.
func pool(t testing.TB, d peers.Dialer, timeout time.Duration) *redis.Pool {
	p := peers.Pool(d, timeout)
	t.Cleanup(func() { p.Close() })
	return p
}

// client returns a Client with the feature on the first servers of dialers. The end of the test closes it.
func (f feature) client(t testing.TB, dialers []peers.Dialer, ttl time.Duration, more ...redimutex.Option) *redimutex.Client {
	var pools []redimutex.Pool
	for _, d := range dialers[:f.servers] {
		p := pool(t, d, 0)
		if f.cold {
			p.MaxIdle = 0
		}
		if f.pools != nil {
			*f.pools = append(*f.pools, p)
		}
		if f.login != nil {
			p.DialContext = f.loggedIn(p.DialContext)
		}
		pools = append(pools, p)
	}
	opts := append([]redimutex.Option{redimutex.WithTTL(ttl), redimutex.WithLogger(peers.Quiet)}, f.options...)
	if f.shared {
		opts = append(opts, redimutex.WithMultiplexing(1))
	}
	c := redimutex.NewClient(pools, append(opts, more...)...)
	t.Cleanup(func() { c.Close() })
	return c
}

// loggedIn returns a dial that also logs in.
func (f feature) loggedIn(dial func(context.Context) (redis.Conn, error)) func(context.Context) (redis.Conn, error) {
	return func(ctx context.Context) (redis.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := redis.DoContext(c, ctx, "AUTH", f.login...); err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	}
}

// proxied returns ways to servers through proxies.
func proxied(t testing.TB, servers []*redistest.Server) (proxies []*redistest.Proxy, dialers []peers.Dialer) {
	for _, s := range servers {
		p := redistest.NewProxy(t, s.Addr())
		proxies, dialers = append(proxies, p), append(dialers, peers.To(p.Addr()))
	}
	return proxies, dialers
}

// start starts n real servers.
func start(t testing.TB, n int) (servers []*redistest.Server, dialers []peers.Dialer) {
	for range n {
		s := redistest.Real(t)
		servers, dialers = append(servers, s), append(dialers, direct(s))
	}
	return servers, dialers
}
