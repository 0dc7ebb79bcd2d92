package redimutex_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestErrorsOfAServerCountAlsoWhereTheOthersAreEnough(t *testing.T) {
	t.Parallel()
	a, b, c := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	client := newClient(t, []redimutex.Pool{a.Pool(), b.Pool(), c.Pool()}, redimutex.WithTTL(time.Minute), redimutex.WithoutRenewal())
	m := client.Mutex("k")
	m.Lock()
	m.Unlock()
	assert.Equal(t, []int64{0, 0, 0}, client.Stats().Errors)

	b.Kill()
	counted := func(n int64) func() bool { return func() bool { return client.Stats().Errors[1] >= n } }
	m.Lock()
	redistest.Wait(t, "the failed try", counted(1)) // a majority does not wait for it
	require.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
	redistest.Wait(t, "the failed extension", counted(2))
	m.Unlock()
	redistest.Wait(t, "the failed release", counted(3))
	failed := client.Stats().Errors
	assert.Zero(t, failed[0])
	assert.GreaterOrEqual(t, failed[1], int64(3), "and the first release, if it was still under way")
	assert.Zero(t, failed[2])
}

func TestACallerThatGivesUpIsNoErrorOfAServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, []redimutex.Pool{s.Pool()})
	s.Do("SET", "k", "foreign", "PX", 60_000)
	require.ErrorIs(t, client.Mutex("k").LockContext(t.Context(), 20*time.Millisecond), redimutex.ErrLocked)
	assert.Equal(t, []int64{0}, client.Stats().Errors)
}
