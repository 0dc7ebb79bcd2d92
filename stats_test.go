package redimutex_test

import (
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

func TestErrorsOfAServerCountAlsoWhereTheOthersAreEnough(t *testing.T) {
	t.Parallel()
	a, b, c := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	start := func() (*redimutex.Client, *redimutex.Mutex) {
		client := newClient(t, []redimutex.Pool{a.Pool(), b.Pool(), c.Pool()}, redimutex.WithTTL(time.Minute), redimutex.WithoutRenewal())
		return client, client.Mutex("k")
	}
	client, m := start()
	m.Lock()
	m.Unlock()
	require.NoError(t, client.Close())
	assert.Equal(t, []int64{0, 0, 0}, client.Stats().Errors)

	b.Kill()
	client, m = start() // one that knows of no server that it is slow, so that all are asked
	counted := func(n int64) func() bool { return func() bool { return client.Stats().Errors[1] >= n } }
	m.Lock()
	redistest.Wait(t, "the failed try", counted(1)) // a majority does not wait for it
	require.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
	redistest.Wait(t, "the failed extension", counted(2))
	m.Unlock()
	require.NoError(t, client.Close())
	failed := client.Stats().Errors
	assert.Zero(t, failed[0])
	assert.Zero(t, failed[2])
}

func TestACallerThatGivesUpIsNoErrorOfAServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, []redimutex.Pool{s.Pool()})
	s.Do("SET", "k", "foreign", "PX", 60_000)
	require.ErrorIs(t, client.Mutex("k").LockContext(t.Context(), time.Second), redimutex.ErrLocked)
	assert.Equal(t, []int64{0}, client.Stats().Errors)
}
