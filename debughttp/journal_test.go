package debughttp_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/debughttp"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestTroubleOutlivesAFloodOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		c := newClient(t, pool)
		page := debughttp.Handler(c)
		bad := c.Mutex("bad")
		bad.Lock()
		server.Del("bad")
		<-bad.Lease().Done()
		synctest.Wait()
		assert.Error(t, bad.UnlockContext(t.Context()))
		for i := range 500 {
			m := c.Mutex(fmt.Sprint("good", i))
			m.Lock()
			time.Sleep(time.Millisecond)
			m.Unlock()
		}
		l, _ := asJSON(t, page, nil)
		require.Len(t, l.Events, 200)
		assert.Equal(t, []string{"released good499", "acquired good499", "released good498"}, steps(l.Events)[:3])
		assert.Equal(t, "acquired good400", steps(l.Events)[199])
		for i, e := range l.Events[1:] {
			assert.False(t, e.At.After(l.Events[i].At), "the newest comes first")
			assert.False(t, e.Trouble)
		}
		require.Equal(t, []string{"lost bad"}, steps(l.Trouble))
		assert.Equal(t, "lease lost: deleted", l.Trouble[0].Error)
		assert.True(t, l.Trouble[0].Trouble)
	})
}

func TestOneLossIsOneTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		c := newClient(t, pool, redimutex.WithTTL(9*time.Second))
		page := debughttp.Handler(c)
		losses := []string{"deleted", "taken", "expired", "found by Unlock"}
		for _, key := range losses {
			m := c.Mutex(key)
			if key == "expired" {
				m = c.Mutex(key, redimutex.WithoutRenewal())
			}
			m.Lock()
			switch key {
			case "taken":
				require.NoError(t, server.Set(key, "another"))
			case "expired":
			default:
				server.Del(key)
			}
			if key != "found by Unlock" {
				<-m.Lease().Done()
			}
			assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
		}
		l, _ := asJSON(t, page, nil)
		assert.ElementsMatch(t, []string{"lost deleted", "lost taken", "lost expired", "lost found by Unlock"}, steps(l.Trouble))
		assert.Equal(t, 0.0, l.Stats["not_renewed"])
	})
}

func TestRepeatedEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		c := newClient(t, pool, redimutex.WithTTL(9*time.Second))
		page := debughttp.Handler(c)
		require.NoError(t, server.Set("foreign", "x"))
		held := c.Mutex("held")
		held.Lock()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		assert.ErrorIs(t, c.Mutex("foreign").LockContext(ctx, 0), redimutex.ErrLocked)
		l, _ := asJSON(t, page, nil)
		times := make(map[string]int)
		for _, e := range l.Events {
			times[e.What+" "+e.Key] += e.Times
		}
		assert.Len(t, l.Events, 4)
		assert.Equal(t, 1, times["acquired held"])
		assert.Equal(t, 3, times["renewed held"])
		assert.InDelta(t, 200, times["try failed foreign"], 5)
		assert.Equal(t, []string{"gave up foreign"}, steps(l.Trouble), "who waited, and ran out of time")
		held.Unlock()
	})
}

func TestWhatACallerDecidesIsNoTrouble(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	between := redistest.NewBetween(s.Pool())
	c := newClient(t, between)
	page := debughttp.Handler(c)
	s.Do("SET", "foreign", "x")
	m := c.Mutex("foreign")
	assert.False(t, m.TryLock())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Error(t, m.LockContext(ctx, 0))
	assert.Error(t, c.Mutex("foreign", redimutex.WithMaxAttempts(2)).LockContext(t.Context(), 0))
	l, _ := asJSON(t, page, nil)
	assert.NotEmpty(t, l.Events)
	assert.Empty(t, l.Trouble)

	between.Set(redistest.Cut)
	assert.Error(t, c.Mutex("k").TryLockContext(t.Context()))
	between.Set(nil)
	l, _ = asJSON(t, page, nil)
	assert.Equal(t, []string{"gave up k", "try failed k"}, steps(l.Trouble))
	assert.Contains(t, l.Trouble[0].Error, "the connection was cut")
	assert.Equal(t, []any{1.0}, l.Stats["errors"])
}
