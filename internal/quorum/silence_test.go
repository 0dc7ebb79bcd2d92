package quorum_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A silent server is asked by one operation at a time, and takes part again as soon as it answers.
func TestSilentServersAreLeftOutUntilTheyAnswer(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		var mu sync.Mutex
		asked, now, most := 0, 0, 0
		silent := func(run func() (any, error), command string, args []any) (any, error) {
			mu.Lock()
			asked++
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() {
				mu.Lock()
				now--
				mu.Unlock()
			}()
			return hung(run, command, args)
		}
		pair := func() {
			r := request("k")
			g, err := c.q.Acquire(t.Context(), r)
			require.NoError(t, err)
			require.NoError(t, c.q.Release(t.Context(), r, g))
			time.Sleep(10 * time.Millisecond)
		}
		c.on(silent, 1, 3)
		for range 300 { // three seconds
			pair()
		}
		mu.Lock()
		assert.Less(t, asked, 100, "of 1,200 operations")
		assert.Greater(t, asked, 10, "they are never asked again")
		assert.Less(t, most, 30)
		mu.Unlock()
		c.on(nil, 1, 3)
		time.Sleep(5 * time.Second)
		pair()
		synctest.Wait()
		r := request("k")
		_, err := c.q.Acquire(t.Context(), r)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, 5, c.holders(r), "they answer again and are still left out")
	})
}

// When too few would remain, the silent ones are asked all the same: they may be our only chance.
func TestNobodyIsLeftOutWhenTooFewWouldRemain(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(hung, 0, 1)
		for range 3 {
			_, err := c.q.Acquire(t.Context(), request("k"))
			failure(t, err, quorum.Unavailable)
		}
		c.on(nil, 0, 1)
		time.Sleep(ttl)
		_, err := c.q.Acquire(t.Context(), request("k"))
		require.NoError(t, err)
	})
}

func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(slow(timeout/2), 2)
		r := request("k")
		g, err := c.q.Acquire(t.Context(), r)
		require.NoError(t, err)
		require.NoError(t, c.q.Release(t.Context(), r, g))
		began := time.Now()
		c.q.Close(time.Minute)
		assert.GreaterOrEqual(t, time.Since(began), timeout/2)
		assert.Less(t, time.Since(began), time.Minute)
		assert.Zero(t, c.holders(r), "what the late server granted is given back before Close returns")
	})
}

func TestCloseIsBounded(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		r := request("k")
		r.Timeout = ttl / 2
		c.on(func(func() (any, error), string, []any) (any, error) {
			time.Sleep(ttl)
			return nil, redistest.ErrCut
		}, 0, 1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.q.Acquire(ctx, r)
		require.Error(t, err)
		began := time.Now()
		c.q.Close(time.Second)
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
		time.Sleep(3 * ttl)
	})
}

func TestPausedServersDoNotPileUpGoroutines(t *testing.T) {
	var servers []*redistest.Server
	var pools []server.Pool
	for range 5 {
		r := redistest.Real(t)
		servers, pools = append(servers, r), append(pools, r.Pool())
	}
	q := quorum.New(pools)
	defer q.Close(10 * time.Second)
	pair := func() error {
		r := request("k")
		r.Timeout = 10 * time.Second // a slow machine is not a silent server
		g, err := q.Acquire(t.Context(), r)
		if err != nil {
			return err
		}
		return q.Release(t.Context(), r, g)
	}
	for range 20 {
		if err := pair(); err != nil {
			t.Logf("warming up: %v", err) // the machine is slow
		}
	}
	idle := runtime.NumGoroutine()
	servers[1].Pause()
	servers[3].Pause()
	most, good := 0, 0
	for range 1000 {
		if pair() == nil {
			good++
		}
		most = max(most, runtime.NumGoroutine()-idle)
	}
	assert.Greater(t, good, 900)
	assert.Less(t, most, 500, "goroutines pile up")
	t.Logf("%d of 1000 pairs, at most %d more goroutines", good, most)
	servers[1].Resume()
	servers[3].Resume()
	redistest.Wait(t, "no key is left on any server", func() bool {
		for _, s := range servers {
			if len(s.Keys()) > 0 {
				return false
			}
		}
		return true
	})
}
