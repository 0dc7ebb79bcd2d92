package quorum_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const ttl = 10 * time.Minute

// terms returns the terms of most tests. Their timeout is longer than a slow machine needs.
func terms() *server.Terms {
	return &server.Terms{
		Kind: server.Mutex, Want: "m", TTL: ttl, Timeout: 10 * time.Second, Fence: server.NextFence,
	}
}

// lock describes a lock on key with a new token.
func lock(key string, t *server.Terms) server.Lock {
	return server.Lock{Terms: t, Key: key, Token: uuid.NewString(), Extras: server.NoExtras}
}

// A cluster is a number of independent servers, and a Quorum over them.
type cluster struct {
	*quorum.Quorum
	servers []*redistest.Server
	fronts  []*redistest.Proxy
	pools   []*redis.Pool
	asked   []*server.Server
}

// start returns a cluster of n real servers, each behind a network.
func start(t *testing.T, n int) *cluster {
	t.Helper()
	c := new(cluster)
	for range n {
		r := redistest.Start(t)
		front := r.Proxy()
		c.servers, c.fronts = append(c.servers, r), append(c.fronts, front)
		c.pools = append(c.pools, front.Pool())
		c.asked = append(c.asked, server.New(c.pools[len(c.pools)-1]))
	}
	c.Quorum = quorum.New(c.asked)
	t.Cleanup(func() {
		for _, front := range c.fronts {
			front.Release()
		}
		c.Close(20 * time.Second)
	})
	return c
}

// on sends a command directly to some of the servers.
func (c *cluster) on(servers []int, command string, args ...any) {
	for _, i := range servers {
		c.servers[i].Do(command, args...)
	}
}

// silence stops the answers of some of the servers. Commands still arrive.
func (c *cluster) silence(servers ...int) {
	for _, i := range servers {
		c.fronts[i].Hold(redistest.Replies)
	}
}

// votes counts the servers on which the key has the token of l.
func (c *cluster) votes(l *server.Lock) (n int) {
	for _, s := range c.servers {
		if s.Get(l.Key) == l.Token {
			n++
		}
	}
	return n
}

// everywhere waits until all servers have the lock, and not only a majority. If the try passed over a server that was slow for
// a moment, an extension regains its vote.
func (c *cluster) everywhere(t *testing.T, v *quorum.Votes) {
	t.Helper()
	n := 0
	redistest.Wait(t, "all votes", func() bool {
		if n++; n%100 == 0 {
			f, _ := c.extend(t, v)
			won(t, f)
		}
		return c.votes(v.Spec()) == len(c.servers)
	})
	quiet(t, v)
}

// quiet waits until all commands for v are answered. The servers may have executed them long before.
func quiet(t *testing.T, v *quorum.Votes) {
	v.Each(func(c *server.Claim) { c.Quiet(t.Context(), time.Now().Add(time.Minute)) })
}

// free waits until the key is free on all servers.
func (c *cluster) free(t *testing.T, key string) {
	t.Helper()
	redistest.Wait(t, "the lock is free on all servers", func() bool {
		for _, s := range c.servers {
			if s.Get(key) != "" {
				return false
			}
		}
		return true
	})
}

// votesFor returns the Votes for a lock that is not taken yet.
func (c *cluster) votesFor(l server.Lock) *quorum.Votes {
	v := new(quorum.Votes)
	c.Claim(v, l)
	return v
}

// acquire tries once for new votes.
func (c *cluster) acquire(ctx context.Context, l server.Lock) (*quorum.Votes, *quorum.Failure) {
	v := c.votesFor(l)
	return v, v.Acquire(ctx, server.Try{Start: time.Now()}, nil, nil)
}

// take gets the lock, or fails the test.
func (c *cluster) take(t *testing.T, l server.Lock) *quorum.Votes {
	t.Helper()
	v, failure := c.acquire(t.Context(), l)
	won(t, failure)
	return v
}

// takeAll is take on all servers, and not only on a majority.
func (c *cluster) takeAll(t *testing.T, l server.Lock) *quorum.Votes {
	t.Helper()
	v := c.take(t, l)
	c.everywhere(t, v)
	return v
}

// extend extends one lease.
func (c *cluster) extend(t *testing.T, v *quorum.Votes) (failure *quorum.Failure, until time.Time) {
	t.Helper()
	told := 0
	c.Extend(t.Context(), []*quorum.Extension{{Votes: v, TTL: ttl, Done: func(f *quorum.Failure, u time.Time) {
		failure, until = f, u
		told++
	}}})
	require.Equal(t, 1, told)
	return failure, until
}

func release(t *testing.T, v *quorum.Votes) *quorum.Failure {
	return v.Release(t.Context(), time.Now(), time.Time{})
}

func won(t *testing.T, f *quorum.Failure) {
	t.Helper()
	require.Nil(t, f, "%v", f)
}

func failed(t *testing.T, f *quorum.Failure, kind quorum.Kind) *quorum.Failure {
	t.Helper()
	require.NotNil(t, f)
	require.Equal(t, kind, f.Kind, "%v", f)
	return f
}
