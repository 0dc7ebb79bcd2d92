package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A hundred keys with the TTL of an hour: what a stopped server executes when it goes on would stay.
func TestRedlockLeavesNoOrphanInAHundredTries(t *testing.T) {
	t.Parallel()
	for hung := 2; hung <= 3; hung++ {
		t.Run(fmt.Sprintf("%d of 5 stopped", hung), func(t *testing.T) {
			t.Parallel()
			c := locktest.Real(t, 5)
			pools, asPools := c.Pools()
			client := newClient(t, asPools, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Second))
			warm := client.Mutex("warm")
			warm.Lock()
			warm.Unlock()
			for _, s := range c[:hung] {
				s.Pause()
			}
			locked, began := 0, 0
			for i := range 100 {
				m := client.Mutex(fmt.Sprint("k", i))
				limit := time.Minute
				if hung > 2 {
					limit = 20 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				if err := m.LockContext(ctx, 0); err == nil {
					locked++
					require.NoError(t, m.UnlockContext(t.Context()))
				} else if errors.Is(err, redimutex.ErrUnavailable) {
					began++
				} else { // on a late machine ctx may end before the try
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				}
				cancel()
			}
			if hung > 2 {
				assert.Zero(t, locked)
				assert.Positive(t, began)
			} else {
				assert.Equal(t, 100, locked)
			}
			for _, s := range c[:hung] {
				s.Resume()
			}
			c.Empty(t, pools)
		})
	}
}

// Once everything is said and done, the thousand pairs have left nothing that waits for the stopped server.
func TestRedlockGoroutinesDoNotGrowWhileAServerHangs(t *testing.T) {
	c := locktest.Real(t, 5)
	client := c.Client(t, redimutex.WithTTL(20*time.Second), redimutex.WithNodeTimeout(time.Second))
	m := client.Mutex("k")
	before := locktest.Goroutines()
	c[0].Pause()
	c[4].Pause()
	most := [2]int{} // in the first and in the second half
	for i := range 1000 {
		m.Lock()
		m.Unlock()
		if i%10 == 0 {
			most[i/500] = max(most[i/500], locktest.Goroutines()-before)
		}
	}
	t.Logf("at most %d goroutines in the first 500 pairs, and %d in the second", most[0], most[1])
	assert.LessOrEqual(t, most[1], most[0]+150)
	c[0].Resume()
	c[4].Resume()
	redistest.Wait(t, "the goroutines to end", func() bool { return locktest.Goroutines() <= before })
}

// Which servers fail is told one by one, with the number that their pool has.
func TestRedlockTellsWhichServersDidNotAnswer(t *testing.T) {
	t.Parallel()
	c := locktest.Real(t, 5)
	m := c.Client(t, redimutex.WithNodeTimeout(200*time.Millisecond)).Mutex("k")
	for _, i := range []int{0, 2, 4} {
		c[i].Pause()
	}
	for _, limit := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond} { // before and after a node timeout
		err := m.LockContext(t.Context(), limit)
		require.ErrorIs(t, err, redimutex.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		found := nodes(err)
		slices.Sort(found)
		assert.Subset(t, found, []int{0, 2, 4})
	}
	for _, i := range []int{0, 2, 4} {
		c[i].Resume()
	}
}

// The votes of late winners are taken back also where the try has lost, so that two rivals of an even
// number of servers get on.
func TestRivalsOverFourServersTakeTurns(t *testing.T) {
	t.Parallel()
	c := locktest.Start(t, 4)
	done := make(chan int, 2)
	for range 2 {
		m := c.Client(t, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10*time.Second), redimutex.WithPollInterval(10*time.Millisecond)).Mutex("k")
		go func() {
			n := 0
			for range 20 {
				if assert.NoError(t, m.LockContext(t.Context(), time.Minute)) {
					n++
					m.Unlock()
				}
			}
			done <- n
		}()
	}
	assert.Equal(t, 20, <-done)
	assert.Equal(t, 20, <-done)
}
