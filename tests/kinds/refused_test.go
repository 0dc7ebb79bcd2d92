package kinds_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// eachHold calls f with a hold of each kind. The key has a TTL of a minute, and the server is used by this hold alone.
func eachHold(t *testing.T, f func(t *testing.T, s *redistest.Server, l *redimutex.Lease)) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			l, err := kind(newClient(t, s.Pool(), unhurried...))(t.Context())
			require.NoError(t, err)
			f(t, s, l)
		})
	}
}

func TestAnExtensionThatAReplicaRefusesIsNone(t *testing.T) {
	t.Parallel()
	eachHold(t, func(t *testing.T, s *redistest.Server, l *redimutex.Lease) {
		until := l.Until()
		s.Do("REPLICAOF", "127.0.0.1", "1") // there is no primary at this address, so the data stays
		err := l.Extend(t.Context(), time.Hour)
		assert.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.ErrorContains(t, err, "READONLY")
		assert.Equal(t, until, l.Until())
		s.Do("REPLICAOF", "NO", "ONE")
		release(t, l)
	})
}

// limited makes a user who may do all that the rules leave, and returns a pool for that user. A second call changes the rules.
func limited(s *redistest.Server, rules ...string) *redis.Pool {
	s.SetUser("limited", append([]string{"reset", "on", ">secret", "~*", "&*", "+@all"}, rules...)...)
	return s.Pool(redis.DialUsername("limited"), redis.DialPassword("secret"))
}

// A key without a TTL would never expire, and because of it a Semaphore would be refused for good.
func TestAUserWhoMaySetNoTTLLeavesNothingWithoutOne(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	for _, queue := range []bool{false, true} {
		t.Run(fmt.Sprintf("queue=%t", queue), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			opts := slices.Clone(unhurried)
			if queue {
				opts = append(opts, redimutex.WithQueue())
			}
			may := newClient(t, s.Pool(), opts...)
			maynot := newClient(t, limited(s, "-pexpire"), opts...)

			held, err := may.Mutex("held").Acquire(t.Context())
			require.NoError(t, err)
			for _, way := range []locktest.Acquire{
				maynot.Semaphore("s", 2).Acquire, maynot.RWMutex("rw").RAcquire, maynot.RWMutex("held").Acquire, maynot.RWMutex("held").RAcquire,
			} {
				_, err := way(t.Context())
				assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
				assert.ErrorContains(t, err, "script")
			}
			withTTLs(t, s)
			release(t, held)
			for _, way := range []locktest.Acquire{
				may.Semaphore("s", 2).Acquire, may.RWMutex("rw").RAcquire, may.RWMutex("held").RAcquire,
			} {
				l, err := way(t.Context())
				require.NoError(t, err)
				release(t, l)
			}
		})
	}
}

// A refused try is not released, so it must not have let its reader in.
func TestAReaderThatIsRefusedIsNotIn(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	for _, command := range []string{"zrem", "zadd", "zremrangebyscore", "pexpire", "pttl", "set", "del"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.SetUser("limited", "on", ">secret", "~*", "&*", "+@all", "-"+command)
			opts := []redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10 * time.Second)}
			may := newClient(t, s.Pool(), opts...)
			maynot := newClient(t, limited(s, "-pexpire"), opts...)

			_, err := maynot.RWMutex("k").RAcquire(t.Context())
			assert.ErrorContains(t, err, "script")
			assert.NoError(t, may.RWMutex("k").TryLockContext(t.Context()))
		})
	}
}

// In this case only the server knows whether the lease is lost, and it does not say so.
func TestAUserWhoMayNotReadALockHasNotLostIt(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	for _, command := range []string{"zscore", "zrange", "get|getrange"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := newClient(t, limited(s), unhurried...)
			var leases []*redimutex.Lease
			for _, way := range []locktest.Acquire{
				c.Mutex("m").Acquire, c.Semaphore("s", 2).Acquire, c.RWMutex("w").Acquire, c.RWMutex("r").RAcquire,
			} {
				l, err := way(t.Context())
				require.NoError(t, err)
				leases = append(leases, l)
			}
			var rules []string
			for name := range strings.SplitSeq(command, "|") {
				rules = append(rules, "-"+name)
			}
			limited(s, rules...)
			refused := 0
			for _, l := range leases {
				if err := l.Extend(t.Context(), time.Minute); err != nil {
					refused++
					assert.NotErrorIs(t, err, redimutex.ErrLost)
					assert.ErrorContains(t, err, "script")
				}
				assert.NoError(t, l.Err())
			}
			assert.Positive(t, refused)
			limited(s)
			for _, l := range leases {
				assert.NoError(t, l.Extend(t.Context(), time.Minute))
				release(t, l)
			}
		})
	}
}
