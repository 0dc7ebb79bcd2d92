package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// If a lock were handed to a waiter that has just given up, no caller would have it until the hand-off lapses.
func TestGrantThatMeetsACancelledWaiterIsPassedOn(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "does not count the keys that expire")
	s := redistest.Start(t)
	newQueued := func() *redimutex.Mutex { // a slow machine must not look like a silent server
		return newMutex(t, s.Pool(), redimutex.WithTTL(30*time.Second), redimutex.WithNodeTimeout(10*time.Second))
	}
	holder, fickle, patient := newQueued(), newQueued(), newQueued()
	const rounds = 600
	granted := 0
	for range rounds {
		holder.Lock()
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		wait := func(m *redimutex.Mutex, ctx context.Context, length int) (won func() bool) {
			got := make(chan error, 1)
			group.Go(func() { got <- m.LockContext(ctx, time.Minute) })
			waitQueued(t, s, "k", length)
			return func() bool {
				err := <-got
				if err == nil {
					err = m.UnlockContext(t.Context())
					if err != nil {
						assert.ErrorIs(t, err, redimutex.ErrLost, "on a machine that stood still")
					}
					return true
				}
				assert.ErrorIs(t, err, context.Canceled)
				return false
			}
		}
		first, second := wait(fickle, ctx, 1), wait(patient, t.Context(), 2)
		group.Go(func() {
			for spin := rand.N(300 * time.Microsecond); spin > 0; {
				began := time.Now()
				spin -= max(time.Since(began), time.Nanosecond)
			}
			cancel()
		})
		assert.NoError(t, holder.UnlockContext(t.Context()))
		if first() {
			granted++
		}
		assert.True(t, second())
		group.Wait()
	}
	lapsed, err := strconv.Atoi(s.Info("stats", "expired_keys"))
	require.NoError(t, err)
	t.Logf("%d of %d waiters were faster than their cancellation; %d grants lapsed", granted, rounds, lapsed)
	assert.Less(t, lapsed, rounds/20, "grants are passed on, and don't lapse but on a machine that stands still")
	redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
}

func TestCloseLeavesTheQueue(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	c := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithQueue(), redimutex.WithTTL(time.Minute))
	locked := make(chan error, 1)
	go func() { locked <- c.Mutex("k").LockContext(context.Background(), 0) }()
	waitQueued(t, s, "k", 1)
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-locked, redimutex.ErrClosed)
	redistest.Wait(t, "the subscriber has gone", func() bool { return s.Subscribers() == 0 })
	holder.Unlock()
	assert.Empty(t, s.Keys(), "it is passed over, if it could not leave")
}

func TestTheSubscriptionEndsWhenTheLastWaiterHasGotTheLockOrGivenUp(t *testing.T) {
	t.Parallel()
	for name, gives := range map[string]bool{"it has got the lock": false, "it has given up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			holder, m := newMutex(t, s.Pool()), newMutex(t, s.Pool())
			require.NoError(t, holder.LockContext(t.Context(), time.Minute))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make(chan error, 1)
			go func() { got <- m.LockContext(ctx, 0) }()
			waitQueued(t, s, key, 1)
			require.Equal(t, 1, s.Subscribers())
			if gives {
				cancel()
				require.ErrorIs(t, <-got, context.Canceled)
				unlock(t, holder)
			} else {
				unlock(t, holder)
				require.NoError(t, <-got)
				unlock(t, m)
			}
			redistest.Wait(t, "the subscriber has gone", func() bool { return s.Subscribers() == 0 })
		})
	}
}

func TestAttemptsAreCountedInTheQueueToo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "k", "foreign", "PX", 60000)
	for _, n := range []int{1, 2, 5} {
		var tries []int
		m := newMutex(t, s.Pool(), redimutex.WithMaxAttempts(n),
			redimutex.WithTrace(&redimutex.Trace{Attempt: func(e redimutex.Event) { tries = append(tries, e.Attempt) }}))
		start := time.Now()
		err := m.LockContext(t.Context(), time.Minute)
		require.ErrorIs(t, err, redimutex.ErrLocked)
		assert.Len(t, tries, n)
		assert.GreaterOrEqual(t, time.Since(start), time.Duration(n-1)*40*time.Millisecond, "with a wait between any two of them")
		redistest.Wait(t, "it has left the queue", func() bool { return len(queueOf(t, s, "k")) == 0 })
	}
}

// Otherwise calls that come later would be served first.
func TestACallOfFewAttemptsQueuesBeforeItsPollIntervalIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis, pool := redistest.Virtual(t)
		require.NoError(t, redis.Set("k", "foreign"))
		redis.SetTTL("k", time.Hour)
		m := newMutex(t, pool, redimutex.WithMaxAttempts(3), redimutex.WithPollInterval(time.Second))
		failed := make(chan error)
		go func() { failed <- m.LockContext(t.Context(), time.Minute) }()
		time.Sleep(100 * time.Millisecond) // virtual
		synctest.Wait()
		assert.True(t, redis.Exists(server.QueueKey("k")))
		assert.ErrorIs(t, <-failed, redimutex.ErrLocked)
	})
}

func TestQueueRefusesKeysOfOtherTypes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("RPUSH", "k", "a list")
	m := newMutex(t, s.Pool())
	assert.ErrorContains(t, m.LockContext(t.Context(), time.Minute), "WRONGTYPE")
	s.Do("DEL", "k")
	s.Do("SET", server.QueueKey("k"), "no queue")
	assert.ErrorContains(t, m.LockContext(t.Context(), time.Minute), "WRONGTYPE")
	s.Do("DEL", server.QueueKey("k"))
	require.NoError(t, m.LockContext(t.Context(), time.Minute))
	m.Unlock()
}

// isPlace reports whether an argument of a script is a waiter's place in the queue.
func isPlace(arg any) bool {
	text := fmt.Sprint(arg)
	return strings.HasPrefix(text, "redimutex:") && strings.Contains(text, " ")
}

// The place is given up at once, and once more when the server would refuse the try as too late. The try is executed between
// the two, and its answer is late or lost.
func TestPlaceOfATryThatWasCutShortIsGivenUpAlsoWhenTheTryArrivesLater(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"the answer comes late": false, "the connection breaks": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do("SET", key, "foreign", "PX", 60000)
			pool := outside{redistest.NewBetween(s.Pool()), s.Pool()}
			caught, late, executed := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once sync.Once
			m := newMutex(t, pool, redimutex.WithNodeTimeout(time.Second))
			pool.Set(func(command redistest.Command) (reply any, err error) {
				if !slices.ContainsFunc(command.Args, isPlace) {
					return command.Run()
				}
				err = redistest.ErrCut
				once.Do(func() { // the try that shows the place
					close(caught)
					<-late
					defer close(executed)
					if reply, err = command.Run(); lost {
						err = redistest.ErrCut
					}
				})
				return reply, err
			})
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error, 1)
			go func() { got <- m.LockContext(ctx, 0) }()
			<-caught
			cancel()
			require.ErrorIs(t, <-got, context.Canceled)
			pool.Set(nil)
			close(late)
			<-executed
			for _, name := range queues(t, s) {
				s.Do("PERSIST", name) // otherwise it would expire by itself in the end
			}
			waitQueued(t, s, key, 0)
		})
	}
}
