package lease_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestRenewalKeepsTheLockPastItsTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(9*time.Second))
		m.Lock()
		l := m.Lease()
		for range 600 {
			time.Sleep(time.Second)
			require.NoError(t, l.Err())
			require.True(t, server.Exists("k"))
			require.Greater(t, time.Until(l.Until()), 5500*time.Millisecond)
			require.Greater(t, server.TTL("k"), 5500*time.Millisecond)
		}
		assert.InDelta(t, 600/3, m.Client().Stats().Renewed, 10, "a third of the TTL apart")
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestWithoutRenewalTheLeaseEndsWithItsTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Second), redimutex.WithoutRenewal())
		m.Lock()
		l, until := m.Lease(), m.Lease().Until()
		ctx := l.Context(t.Context())
		redistest.Receive(t, "the loss", l.Done())
		assert.False(t, time.Now().After(until), "told at the end of the validity at the latest")
		assert.WithinDuration(t, until, time.Now(), 200*time.Millisecond)
		assert.Equal(t, &redimutex.LostError{Key: "k", Reason: redimutex.Expired}, l.Err())
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrLost)
		err := m.UnlockContext(t.Context())
		assert.ErrorIs(t, err, redimutex.ErrLost)
		assert.ErrorContains(t, err, "expired")
		m.Lock() // works again
		m.Unlock()
	})
}

// The keep-alive reports the loss. The unlocking goroutine waits for that, but not for ever, and reports the release.
func TestALossIsToldBeforeTheRelease(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{100 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			_, pool := redistest.Virtual(t)
			var mu sync.Mutex
			var told []string
			tell := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, what)
			}
			begun := make(chan struct{})
			m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(time.Second), redimutex.WithoutRenewal(),
				redimutex.WithTrace(&redimutex.Trace{
					Lost: func(redimutex.Event) {
						close(begun)
						time.Sleep(takes)
						tell("lost")
					},
					Released: func(redimutex.Event) { tell("released") },
				}))
			m.Lock()
			redistest.Receive(t, "the loss", begun)
			unlocked := time.Now()
			assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
			assert.LessOrEqual(t, time.Since(unlocked), 1100*time.Millisecond)
			time.Sleep(time.Hour)
			mu.Lock()
			defer mu.Unlock()
			if takes < time.Second {
				assert.Equal(t, []string{"lost", "released"}, told)
			} else {
				assert.Equal(t, []string{"released", "lost"}, told)
			}
		})
	}
}

func TestNoRenewalAfterTheLongestHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		client := newClient(t, pool, redimutex.WithTTL(9*time.Second), redimutex.WithMaxHold(4*time.Second))
		m := client.Mutex("k")
		began := time.Now()
		m.Lock()
		redistest.Receive(t, "the loss", m.Lease().Done())
		assert.LessOrEqual(t, time.Since(began), 13*time.Second, "lost a TTL after the longest hold at the latest")
		assert.GreaterOrEqual(t, time.Since(began), 9*time.Second)
		assert.EqualValues(t, 1, client.Stats().Renewed)
		assert.Equal(t, &redimutex.LostError{Key: "k", Reason: redimutex.Expired}, m.Lease().Err())
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

func TestRenewalTellsThatTheKeyIsGone(t *testing.T) {
	t.Parallel()
	for reason, lose := range map[redimutex.Reason]func(c redis.Conn) error{
		redimutex.Deleted: func(c redis.Conn) error { _, err := c.Do("DEL", "k"); return err },
		redimutex.Taken:   func(c redis.Conn) error { _, err := c.Do("SET", "k", "other", "PX", "60000"); return err },
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				client := newClient(t, pool, redimutex.WithTTL(9*time.Second))
				m := client.Mutex("k")
				m.Lock()
				l := m.Lease()
				ctx := l.Context(t.Context())
				c := pool.Get()
				defer c.Close()
				require.NoError(t, lose(c))
				began := time.Now()
				redistest.Receive(t, "the loss", l.Done())
				assert.LessOrEqual(t, time.Since(began), 3*time.Second+50*time.Millisecond, "a third of the TTL")
				assert.Equal(t, &redimutex.LostError{Key: "k", Reason: reason}, l.Err())
				synctest.Wait()
				assert.Equal(t, l.Err(), context.Cause(ctx))
				time.Sleep(time.Minute)
				n, err := redis.Int(c.Do("EXISTS", "k"))
				require.NoError(t, err)
				assert.Zero(t, n, "a renewal never re-creates the key")
				assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
				s := client.Stats()
				assert.EqualValues(t, 1, s.LostDeleted+s.LostTaken)
			})
		})
	}
}

func TestRenewalIsRepeatedUntilTheValidityEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		cut := redistest.NewBetween(pool)
		client := newClient(t, cut, redimutex.WithTTL(9*time.Second))
		m := client.Mutex("k")
		m.Lock()
		l := m.Lease()
		until := l.Until()
		cut.Set(redistest.Cut)
		time.Sleep(8 * time.Second)
		assert.NoError(t, l.Err())
		assert.GreaterOrEqual(t, client.Stats().NotRenewed, int64(5))
		cut.Set(nil)
		time.Sleep(time.Second)
		assert.NoError(t, l.Err(), "saved in the last second")
		assert.True(t, l.Until().After(until))
		cut.Set(redistest.Cut)
		until = l.Until()
		redistest.Receive(t, "the loss", l.Done())
		assert.False(t, time.Now().After(until))
		assert.Equal(t, &redimutex.LostError{Key: "k", Reason: redimutex.Expired}, l.Err())
		cut.Set(nil)
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

func TestLossIsToldInTimeWhileARenewalHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		hung := redistest.NewBetween(pool)
		m := newMutex(t, hung, "k", redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(8*time.Second))
		m.Lock()
		l := m.Lease()
		until := l.Until()
		free := hung.Hold()
		redistest.Receive(t, "the loss", l.Done())
		assert.False(t, time.Now().After(until))
		assert.ErrorIs(t, l.Err(), redimutex.ErrLost)
		assert.Equal(t, until, l.Until())
		hung.Set(nil)
		free()
		synctest.Wait()
		assert.ErrorIs(t, l.Err(), redimutex.ErrLost, "a late success does not revive it")
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

// Each lease ends at about the time when a renewal is due, over a slow network.
func TestNoRenewalRunsAfterUnlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		slow := redistest.NewBetween(pool)
		var unlocked sync.Map // by token
		slow.Set(func(command redistest.Command) (any, error) {
			time.Sleep(rand.N(5 * time.Millisecond))
			for _, arg := range command.Args {
				if _, over := unlocked.Load(arg); over {
					t.Error("something was sent for a lock after Unlock")
				}
			}
			return command.Run()
		})
		const ttl = 60 * time.Millisecond
		client := newClient(t, slow, redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(50*time.Millisecond))
		m := client.Mutex("k")
		for range 1000 {
			require.NoError(t, m.LockContext(t.Context(), 0))
			token := m.Lease().Token()
			time.Sleep(ttl/3 - 10*time.Millisecond + rand.N(15*time.Millisecond))
			require.NoError(t, m.UnlockContext(t.Context()))
			unlocked.Store(token, true)
			require.False(t, server.Exists("k"))
		}
		assert.Greater(t, client.Stats().Renewed, int64(100))
	})
}

// far returns a pool for a server that takes a moment to answer. Timers can fire within that moment.
func far(pool *redis.Pool) redimutex.Pool {
	b := redistest.NewBetween(pool)
	b.Set(func(command redistest.Command) (any, error) {
		time.Sleep(time.Millisecond)
		return command.Run()
	})
	return b
}

// The renewals ask for less than the margin of the long lease. So they come when that margin would already have begun.
func TestAShortExtensionOfALongLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newClient(t, far(pool), redimutex.WithTTL(10*time.Second)).Mutex("k")
		m.Lock()
		l := m.Lease()
		require.NoError(t, l.Extend(t.Context(), 45*time.Millisecond))
		time.Sleep(10 * time.Second)
		for range 100 {
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, l.Err())
			require.LessOrEqual(t, server.TTL("k"), 45*time.Millisecond)
		}
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

// For the race detector: a renewal reads what the acquisition has written.
func TestAHoldThatWasWaitedForIsCompleteBeforeItIsRenewed(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pools []redimutex.Pool
				for range count {
					_, pool := redistest.Virtual(t)
					pools = append(pools, pool)
				}
				const ttl = time.Second
				opts := []redimutex.Option{redimutex.WithFencing(), redimutex.WithTTL(ttl)}
				if count == 1 {
					opts = append(opts, redimutex.WithQueue())
				}
				held := newClientOver(t, pools, opts...).Mutex("k")
				waiter := newClientOver(t, pools, opts...).Mutex("k")
				for range 10 {
					require.NoError(t, held.LockContext(t.Context(), time.Minute))
					locked := make(chan error)
					go func() { locked <- waiter.LockContext(t.Context(), time.Minute) }()
					time.Sleep(ttl / 2) // it queues
					require.NoError(t, held.UnlockContext(t.Context()))
					require.NoError(t, <-locked)
					time.Sleep(ttl) // some renewals
					assert.NoError(t, waiter.UnlockContext(t.Context()))
				}
			})
		})
	}
}
