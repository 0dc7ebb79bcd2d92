package goredis_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

// A hook notes what it is called for.
type hook struct{ heard chan<- string }

func (h hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.heard <- "dial"
		return next(ctx, network, addr)
	}
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.heard <- cmd.Name()
		return next(ctx, cmd)
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestALockWorksOverAClientWithHooksAndDoesNotCallThem(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	heard := make(chan string, 100)
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	client.AddHook(hook{heard})
	pooltest.Lock(t, open(t, client), "k")
	assert.Empty(t, heard)

	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}})
	cluster.AddHook(hook{heard})
	open(t, cluster)
	failover := redis.NewFailoverClient(&redis.FailoverOptions{SentinelAddrs: []string{s.Addr()}})
	failover.AddHook(hook{heard})
	open(t, failover)
}

// A tunnel refuses deadlines, as the connections of an SSH client do.
type tunnel struct{ net.Conn }

var errNoDeadlines = errors.New("ssh: tcpChan: deadline not supported")

func (tunnel) SetDeadline(time.Time) error      { return errNoDeadlines }
func (tunnel) SetReadDeadline(time.Time) error  { return errNoDeadlines }
func (tunnel) SetWriteDeadline(time.Time) error { return errNoDeadlines }

func TestALockWorksOverConnectionsThatCannotKeepDeadlines(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := single(t, &redis.Options{
		Addr: s.Addr(), ReadTimeout: -2,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return tunnel{c}, err
		},
	})
	pooltest.Lock(t, pool, "k")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.NoError(t, pooltest.Ping(ctx, pool))
	<-ctx.Done() // once a command is answered, its deadline does no harm to the connection
	require.NoError(t, pooltest.Ping(t.Context(), pool))
	assert.Equal(t, 1, pool.ActiveCount())

	s.Pause()
	defer s.Resume()
	for range 20 { // more calls than may be left behind
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.ErrorIs(t, pooltest.Ping(ctx, pool), context.DeadlineExceeded)
		cancel()
	}
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithNodeTimeout(50*time.Millisecond))
	defer client.Close()
	require.ErrorIs(t, client.Mutex("k").TryLockContext(t.Context()), redimutex.ErrUnavailable)
}
