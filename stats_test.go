package redimutex_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestStatsCountWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		cut := redistest.NewBetween(pool)
		client := newClient(t, []redimutex.Pool{cut}, redimutex.WithTTL(9*time.Second))
		m := client.Mutex("k")
		assert.Equal(t, redimutex.Stats{Errors: []int64{0}}, client.Stats())

		m.Lock()
		go func() {
			if client.Mutex("k").LockContext(t.Context(), 0) == nil {
				panic("locked twice")
			}
		}()
		synctest.Wait()
		s := client.Stats()
		assert.Equal(t, 1, s.Held)
		assert.Equal(t, 1, s.Waiting)
		time.Sleep(7 * time.Second)
		assert.EqualValues(t, 2, client.Stats().Renewed)
		server.Del("k")
		<-m.Lease().Done()
		synctest.Wait()
		s = client.Stats()
		assert.Zero(t, s.Held, "a lost lease is no hold")
		assert.EqualValues(t, 1, s.LostDeleted)
		assert.EqualValues(t, 1, s.Acquired)
		assert.Zero(t, s.Contended)
		assert.Zero(t, s.Released)
	})
}

func TestStatsOfContentionAndFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		cut := redistest.NewBetween(pool)
		client := newClient(t, []redimutex.Pool{cut})
		m := client.Mutex("k")
		require.NoError(t, server.Set("k", "foreign"))
		server.SetTTL("k", 3*time.Second)
		m.Lock()
		s := client.Stats()
		assert.EqualValues(t, 1, s.Contended)
		assert.InDelta(t, 3*time.Second, s.WaitTime, float64(100*time.Millisecond))
		time.Sleep(2 * time.Second)
		m.Unlock()
		s = client.Stats()
		assert.EqualValues(t, 1, s.Released)
		assert.InDelta(t, 2*time.Second, s.HoldTime, float64(time.Millisecond))

		cut.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		assert.Error(t, m.TryLockContext(t.Context()))
		s = client.Stats()
		assert.EqualValues(t, 1, s.Failed)
		assert.Equal(t, []int64{1}, s.Errors)
		cut.Set(nil)

		m.Lock()
		require.NoError(t, server.Set("k", "other"))
		assert.Error(t, m.UnlockContext(t.Context()))
		assert.EqualValues(t, 1, client.Stats().LostTaken, "a loss that only the release has noticed")
	})
}

func TestTraceTellsWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		type told struct {
			what  string
			event redimutex.Event
		}
		var mu sync.Mutex // the functions are called on several goroutines
		var events []told
		tell := func(what string) func(redimutex.Event) {
			return func(e redimutex.Event) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, told{what, e})
			}
		}
		m := newMutex(t, pool, "k", redimutex.WithOwner("me"), redimutex.WithTTL(9*time.Second), redimutex.WithTrace(&redimutex.Trace{
			Attempt: tell("attempt"), Acquired: tell("acquired"), Renewed: tell("renewed"), Released: tell("released"), Lost: tell("lost"),
		}))
		require.NoError(t, server.Set("k", "foreign"))
		server.SetTTL("k", 40*time.Millisecond)
		m.Lock()
		l := m.Lease()
		time.Sleep(4 * time.Second)
		server.Del("k")
		<-l.Done()
		synctest.Wait()
		assert.Error(t, m.UnlockContext(t.Context()))

		mu.Lock()
		defer mu.Unlock()
		var names []string
		for _, e := range events {
			names = append(names, e.what)
			assert.Equal(t, "k", e.event.Key)
			assert.Equal(t, "me", e.event.Owner)
		}
		require.Equal(t, []string{"attempt", "acquired", "renewed", "lost", "released"}, names, "one loss is told once")
		assert.ErrorIs(t, events[0].event.Err, redimutex.ErrLocked)
		assert.Equal(t, 1, events[0].event.Attempt)
		assert.Equal(t, 2, events[1].event.Attempt)
		assert.GreaterOrEqual(t, events[1].event.Wait, 50*time.Millisecond)
		assert.Equal(t, "renewed", names[2])
		assert.NoError(t, events[2].event.Err)
		assert.True(t, events[2].event.Until.After(events[1].event.Until))
		assert.InDelta(t, 3*time.Second, events[2].event.Held, float64(200*time.Millisecond))
		for _, e := range events[3:] {
			assert.ErrorIs(t, e.event.Err, redimutex.ErrLost)
		}
	})
}

func TestTraceWithoutFunctionsIsFine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithTrace(&redimutex.Trace{}))
	m.Lock()
	assert.Error(t, newMutex(t, s.Pool(), "k", redimutex.WithTrace(&redimutex.Trace{})).TryLockContext(t.Context()))
	require.NoError(t, m.Lease().Extend(context.Background(), time.Minute))
	s.Do("DEL", "k")
	assert.Error(t, m.UnlockContext(t.Context()))
}
