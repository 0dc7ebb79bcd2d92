package lease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// In these scenes a packet of the holder is late, and a later one, over another connection, is executed before it. A packet
// that is later than the node timeout would do nothing, because it carries its deadline. So each scene has to be played within
// the node timeout.
const (
	ttl         = 2 * time.Second
	nodeTimeout = 800 * time.Millisecond
	short       = 400 * time.Millisecond // the TTL that the late extension asks for
)

// warm makes the servers know all scripts of an extension, so that each extension is one packet.
func warm(t *testing.T, m *redimutex.Mutex) {
	t.Helper()
	require.NoError(t, m.LockContext(t.Context(), 10*time.Second))
	for _, d := range []time.Duration{2 * ttl, ttl} {
		require.NoError(t, m.Lease().Extend(t.Context(), d))
	}
	require.NoError(t, m.UnlockContext(t.Context()))
}

// lateExtension extends l to d by a packet that arrives only when the test releases it. The caller gives up as soon as the
// packet is on its way. ok reports whether it ever was.
func lateExtension(t *testing.T, p *redistest.Proxy, l *redimutex.Lease, d time.Duration) (packet *redistest.Caught, ok bool) {
	t.Helper()
	packet = p.Catch(l.Token())
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := errors.New("no longer wanted")
	over := make(chan error, 1)
	go func() { over <- l.Extend(ctx, d) }()
	select {
	case <-packet.Arrived():
	case <-l.Done():
	}
	cancel(gaveUp)
	err := <-over
	if errors.Is(err, redimutex.ErrLost) {
		return packet, false
	}
	require.ErrorIs(t, err, gaveUp)
	return packet, true
}

// watch makes other try for the lock until other gets it or d has passed. It fails the test if both leases are valid when
// other gets the lock.
func watch(t *testing.T, l *redimutex.Lease, other *redimutex.Mutex, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if err := other.TryLockContext(t.Context()); err != nil {
			continue
		}
		assert.False(t, redistest.BothValid(l, other.Lease()), "two valid leases, the first for another %v", time.Until(l.Until()))
		_ = other.UnlockContext(t.Context())
		return
	}
}

// inTime reports whether a packet that was sent after began is released before the deadline that it carries, even if the
// packet took a while to reach the server. Scenes use it.
func inTime(began time.Time) bool { return time.Since(began) < nodeTimeout/2 }

func TestALateExtensionNeverTakesBackWhatALaterOneGave(t *testing.T) {
	for name, scene := range map[string]struct {
		opts  []redimutex.Option
		later func(t *testing.T, c *redimutex.Client, l *redimutex.Lease) error
	}{
		"extended": {[]redimutex.Option{redimutex.WithoutRenewal()}, func(t *testing.T, _ *redimutex.Client, l *redimutex.Lease) error {
			return l.Extend(t.Context(), ttl)
		}},
		"renewed": {nil, func(t *testing.T, c *redimutex.Client, _ *redimutex.Lease) error {
			before := c.Stats().Renewed
			for end := time.Now().Add(nodeTimeout / 4); c.Stats().Renewed == before && time.Now().Before(end); {
				time.Sleep(time.Millisecond) // a renewal may wait until the extension can no longer be executed
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := s.Proxy()
			opts := append(scene.opts, redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(nodeTimeout))
			c := newClient(t, newPool(t, p.URL()), opts...)
			m := c.Mutex("k")
			other := newClient(t, s.Pool()).Mutex("k")
			warm(t, m)
			redistest.Repeat(t, "a packet that arrives behind a later one, and before its deadline", func() bool {
				require.NoError(t, m.LockContext(t.Context(), 10*time.Second))
				defer m.UnlockContext(t.Context()) //nolint:errcheck // it may be lost
				l, began := m.Lease(), time.Now()
				late, ok := lateExtension(t, p, l, short)
				defer late.Release()
				if !ok || scene.later(t, c, l) != nil || !inTime(began) {
					return false
				}
				late.Release()
				watch(t, l, other, short+ttl/2)
				return true
			})
		})
	}
}

// A pausing connection stands still once, when the first part of a long batch has been written.
type pausing struct {
	net.Conn
	armed *atomic.Bool
	pause time.Duration
}

func (p pausing) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if len(b) >= 4096 && p.armed.CompareAndSwap(true, false) {
		time.Sleep(p.pause)
	}
	return n, err
}

// The renewals of many leases go in one batch. The server executes the first of them before the last are written.
func TestNoLeaseOfABatchIsValidForLongerThanTheServerKeepsIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const (
		ttl    = 4 * time.Second
		pause  = 700 * time.Millisecond
		leases = 40
	)
	var armed atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return pausing{c, &armed, pause}, err
	}
	for name, pool := range map[string]redimutex.Pool{
		"on the caller's goroutine": &redis.Pool{MaxIdle: 9, DialContext: redimutex.Dialer("tcp", s.Addr(), redis.DialContextFunc(dial))},
		"by a worker": &redis.Pool{MaxIdle: 9, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", s.Addr(), redis.DialContextFunc(dial))
		}},
	} {
		client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(3*time.Second))
		var held []*redimutex.Mutex
		for i := range leases {
			m := client.Mutex(fmt.Sprint(name, " ", i, strings.Repeat(".", 2000))) // so long that a few keys fill the buffer
			require.NoError(t, m.LockContext(t.Context(), time.Minute))
			held = append(held, m)
		}
		before := held[0].Lease().Until()
		armed.Store(true)
		redistest.Wait(t, "a batch that takes long", func() bool {
			return !armed.Load() && held[0].Lease().Until().After(before)
		})
		for _, m := range held {
			until := m.Lease().Until()
			left, ok := s.Do("PTTL", m.Key()).(int64)
			require.True(t, ok)
			assert.LessOrEqual(t, time.Until(until), time.Duration(left)*time.Millisecond, m.Key()[:30])
		}
		require.NoError(t, client.Close())
	}
}
