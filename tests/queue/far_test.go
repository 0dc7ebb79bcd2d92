package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The node timeout is long, so that a late machine is none of a far one's reasons to miss its turn.
func TestFarWaitersGetTheirTurnInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	holder := newMutex(t, s.Pool())
	roundTrips := []time.Duration{400 * time.Millisecond, 200 * time.Millisecond, 0, 80 * time.Millisecond, 20 * time.Millisecond}
	var waiters []*redimutex.Mutex
	for _, rt := range roundTrips {
		waiters = append(waiters, newMutex(t, s.Network(rt/2).Pool(), redimutex.WithNodeTimeout(2*time.Second)))
	}
	for range 2 { // who was lucky once
		require.NoError(t, holder.LockContext(t.Context(), time.Minute))
		type turn struct {
			who int
			err error
		}
		turns := make(chan turn, len(waiters))
		for i, m := range waiters {
			go func() {
				err := m.LockContext(context.Background(), time.Minute)
				turns <- turn{i, err}
				_ = m.UnlockContext(context.Background())
			}()
			waitQueued(t, s, key, i+1)
		}
		unlock(t, holder)
		var order []time.Duration
		for range waiters {
			next := <-turns
			require.NoError(t, next.err)
			order = append(order, roundTrips[next.who])
		}
		require.Equal(t, roundTrips, order, "round trips of those who were served")
		redistest.Wait(t, "the last one has unlocked", func() bool { return s.Get(key) == "" })
	}
}
