package lease_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// holdBack has the next command about a token wait until the channel is closed that it returns.
func holdBack(pool *redistest.Between, token string) (release chan struct{}) {
	release = make(chan struct{})
	var caught atomic.Bool
	pool.Set(func(run func() (any, error), _ string, args []any) (any, error) {
		if mentions(args, token) && !caught.Swap(true) {
			<-release
		}
		return run()
	})
	return release
}

func mentions(args []any, token string) bool {
	for _, a := range args {
		switch a := a.(type) {
		case string:
			if strings.Contains(a, token) {
				return true
			}
		case []byte:
			if strings.Contains(string(a), token) {
				return true
			}
		}
	}
	return false
}

func TestAnExtendThatComesToItsTurnAfterItsHoldLeavesTheNextHoldAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, real := redistest.Virtual(t)
		pool := redistest.NewBetween(real)
		m := newClient(t, []redimutex.Pool{pool}, redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(4*time.Second),
			redimutex.WithLeaseReuse(2*time.Second), redimutex.WithoutRenewal()).Mutex("k")
		m.Lock()
		first := m.Lease()
		require.NoError(t, first.Extend(t.Context(), 10*time.Second), "the server knows the script from here on")
		release := holdBack(pool, first.Token())
		go first.Extend(t.Context(), 20*time.Second) //nolint:errcheck // it is in the way, and no more
		synctest.Wait()
		late := make(chan error, 1)
		go func() { late <- first.Extend(t.Context(), 50*time.Millisecond) }()
		synctest.Wait()
		require.NoError(t, m.UnlockContext(t.Context()))
		require.NoError(t, m.LockContext(t.Context(), 3*time.Second))
		second := m.Lease()
		close(release)
		if err := <-late; err != nil { // else it was through before the end of its hold
			assert.ErrorIs(t, err, redimutex.ErrUnlocked)
		}
		time.Sleep(time.Second)
		assert.NoError(t, second.Err(), "nobody has extended this hold")
		assert.Greater(t, time.Until(second.Until()), 3*time.Second)
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestAnExtendEndsWithItsHold(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redimutex.Option{
		"renewed": nil, "not renewed": {redimutex.WithoutRenewal()}, "queue": {redimutex.WithQueue()}, "fencing": {redimutex.WithFencing()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, pool := redistest.Virtual(t)
				const ttl = 10 * time.Second
				opts := append(opts, redimutex.WithTTL(ttl), redimutex.WithLeaseReuse(4*time.Second))
				m := newClient(t, []redimutex.Pool{pool}, opts...).Mutex("k")
				m.Lock()
				require.NoError(t, m.Lease().Extend(t.Context(), time.Hour))
				require.NoError(t, m.UnlockContext(t.Context()))
				time.Sleep(time.Second) // for what is done in the background
				assert.LessOrEqual(t, server.TTL("k"), ttl, "nobody holds the lock, and after a crash nobody could for an hour")
				require.NoError(t, m.LockContext(t.Context(), time.Second))
				assert.LessOrEqual(t, time.Until(m.Lease().Until()), ttl, "the next hold has what it has asked for")
				assert.LessOrEqual(t, server.TTL("k"), ttl)
				time.Sleep(20 * ttl)
				assert.LessOrEqual(t, server.TTL("k"), ttl, "and renewals ask for no more")
				_ = m.UnlockContext(t.Context()) // without renewal it is lost by now
			})
		})
	}
}
