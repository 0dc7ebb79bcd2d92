package failure_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

const guardKey = "redimutex:guard"

// virtualPools returns pools for n embedded servers in a testing/synctest bubble, and functions that delete their data.
func virtualPools(t testing.TB, n int) (pools []redimutex.Pool, flush []func()) {
	t.Helper()
	for range n {
		m, pool := redistest.Virtual(t)
		pools = append(pools, pool)
		flush = append(flush, m.FlushAll)
	}
	return pools, flush
}

func TestFirstStartOfGuardedServersCostsOneTTL(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			pools, _ := virtualPools(t, n)
			opts := []redimutex.Option{redimutex.WithTTL(10 * time.Second), redimutex.WithRestartGuard()}
			client := locktest.ClientOver(t, pools, opts...)
			m := client.Mutex("k")
			began := time.Now()
			require.NoError(t, m.LockContext(t.Context(), time.Minute))
			took := time.Since(began)
			assert.GreaterOrEqual(t, took, 10*time.Second)
			assert.LessOrEqual(t, took, 10*time.Second+100*time.Millisecond, "a poll interval later at the latest")
			m.Unlock()

			began = time.Now()
			for _, key := range []string{"k", "another"} {
				require.NoError(t, locktest.ClientOver(t, pools, opts...).Mutex(key).TryLockContext(t.Context()))
			}
			assert.Less(t, time.Since(began), time.Second, "from then on it costs nothing, whatever the key and the client")
		})
	}
}

func TestServerThatLostItsDataDoesNotVoteForOneTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pools, flush := virtualPools(t, 1)
		m := newMutex(t, pools[0], "k", redimutex.WithRestartGuard(), redimutex.WithTTL(2*time.Second))
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		m.Unlock()
		for range 3 {
			flush[0]()
			began := time.Now()
			require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrUnavailable)
			require.NoError(t, m.LockContext(t.Context(), time.Minute))
			assert.GreaterOrEqual(t, time.Since(began), 2*time.Second)
			assert.LessOrEqual(t, time.Since(began), 2100*time.Millisecond)
			m.Unlock()
		}
	})
}

func TestGuardSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	_, pools := all.Pools()
	client := locktest.ClientOver(t, pools, redimutex.WithRestartGuard(), redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(20*time.Second))
	err := client.Mutex("k").TryLockContext(t.Context())
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.NotErrorIs(t, err, redimutex.ErrLocked)
	assert.Regexp(t, `started without data; it votes again in 3[56]\d{5} ms`, err)
	require.ErrorIs(t, client.Mutex("k").LockContext(t.Context(), 100*time.Millisecond), redimutex.ErrUnavailable)
	for _, s := range all {
		redistest.Wait(t, "the mark on the server", func() bool { return s.Exists(guardKey) })
		assert.Equal(t, []string{guardKey}, s.Keys(), "one key, and no lock")
		assert.Negative(t, s.PTTL(guardKey), "it does not expire")
	}
}

func TestMinorityWithoutDataKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pools, flush := virtualPools(t, 3)
		m := locktest.ClientOver(t, pools, redimutex.WithRestartGuard(), redimutex.WithTTL(2*time.Second)).Mutex("k")
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		m.Unlock()
		flush[0]()
		began := time.Now()
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		m.Unlock()
		assert.Less(t, time.Since(began), time.Second)
		flush[1]() // now only one of the three may vote
		require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrUnavailable)
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		assert.GreaterOrEqual(t, time.Since(began), 2*time.Second, "until the first of the two is a TTL old")
		m.Unlock()
	})
}
