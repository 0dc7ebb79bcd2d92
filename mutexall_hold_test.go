package redimutex_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestUnlockOfAMutexAllBeforeItsShortestHoldLeavesAllKeysToExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithNodeTimeout(5*time.Second))
	both := c.MutexAll([]string{"a", "b"}, redimutex.WithMinHold(time.Minute))
	require.NoError(t, both.LockContext(t.Context(), time.Minute))
	require.NoError(t, both.UnlockContext(t.Context()))
	for _, key := range both.Keys() {
		left := s.PTTL(key)
		assert.Greater(t, left, 30*time.Second, key)
		assert.LessOrEqual(t, left, time.Minute, key)
		assert.ErrorIs(t, c.Mutex(key).TryLockContext(t.Context()), redimutex.ErrLocked, key)
	}
	s.Do("PEXPIRE", "a", 1)
	s.Do("PEXPIRE", "b", 1)
	require.NoError(t, both.LockContext(t.Context(), time.Minute))
	s.Do("DEL", "b")
	var lost *redimutex.LostError
	require.ErrorAs(t, both.UnlockContext(t.Context()), &lost)
	assert.Equal(t, redimutex.LostError{Key: "b", Reason: redimutex.Deleted}, *lost)
}

// The server that has lost its data is asked again for all keys. Its vote then counts beside theirs.
func TestAMutexAllOutlivesServersThatRestartOneAfterTheOther(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	both, other := all.Client(t, patient).MutexAll([]string{"a", "b"}), all.Client(t, patient)
	l, err := both.Acquire(t.Context())
	require.NoError(t, err)
	everywhere := func() bool { return all.All("a", l.Token()) && all.All("b", l.Token()) }
	for _, s := range all {
		redistest.Wait(t, "the keys on all servers", everywhere)
		s.Restart()
		for _, key := range both.Keys() {
			require.ErrorIs(t, other.Mutex(key).TryLockContext(t.Context()), redimutex.ErrLocked, key)
		}
		redistest.Wait(t, "an extension regains its vote", func() bool { return l.Extend(t.Context(), 10*time.Minute) != nil || everywhere() })
		require.NoError(t, l.Err())
	}
	require.NoError(t, both.UnlockContext(t.Context()))
	for _, s := range all {
		redistest.Wait(t, "all keys are free", func() bool { return len(s.Keys()) == 0 })
	}
}
