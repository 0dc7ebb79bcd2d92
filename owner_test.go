package redimutex_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// holderIn returns the owner that err names.
func holderIn(t testing.TB, err error) string {
	t.Helper()
	require.ErrorIs(t, err, redimutex.ErrLocked)
	var locked *redimutex.LockedError
	require.ErrorAs(t, err, &locked)
	return locked.Owner
}

func TestLockedErrorNamesTheHolderOfTheSameClientAndNotTheAsker(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redimutex.Option{
		"plain":           nil,
		"queue":           {redimutex.WithQueue()},
		"reuse":           {redimutex.WithLeaseReuse(time.Second)},
		"polled in vain":  {redimutex.WithMaxAttempts(2)},
		"several servers": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pools := []redimutex.Pool{redistest.Start(t).Pool()}
			if name == "several servers" {
				pools = append(pools, redistest.Start(t).Pool(), redistest.Start(t).Pool())
			}
			client := newClientOver(t, pools, append(opts, redimutex.WithTTL(time.Minute))...)
			alice, bob := client.Mutex("k", redimutex.WithOwner("alice")), client.Mutex("k", redimutex.WithOwner("bob"))
			unnamed := client.Mutex("k")
			for range 3 { // later holds may reuse the same lease
				alice.Lock()
				assert.Equal(t, "alice", holderIn(t, bob.TryLockContext(t.Context())))
				assert.Equal(t, "alice", holderIn(t, bob.LockContext(t.Context(), 200*time.Millisecond)))
				alice.Unlock()
			}
			unnamed.Lock()
			assert.Empty(t, holderIn(t, bob.TryLockContext(t.Context())), "a holder without a label")
			unnamed.Unlock()
			bob.Lock()
			assert.Equal(t, "bob", holderIn(t, alice.TryLockContext(t.Context())))
			bob.Unlock()
		})
	}
}

func TestLockedErrorNamesAHolderElsewhereToWhoWaitsInLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	mine := newClient(t, s.Pool(), redimutex.WithTTL(time.Minute))
	before := mine.Mutex("k", redimutex.WithOwner("before"))
	before.Lock()
	before.Unlock() // its label must not be remembered
	elsewhere := newMutex(t, s.Pool(), "k", redimutex.WithOwner("elsewhere"))
	elsewhere.Lock()
	defer elsewhere.Unlock()
	first := mine.Mutex("k", redimutex.WithOwner("first"))
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- first.LockContext(ctx, 0) }()
	redistest.Wait(t, "the first has asked the server", func() bool {
		all := mine.Locks()
		return len(all) == 1 && all[0].Err != nil
	})
	assert.Equal(t, "elsewhere", holderIn(t, before.TryLockContext(t.Context())))
	stop()
	assert.ErrorIs(t, <-over, context.Canceled)
}

// While readers have the lock, the value of the key is a mark of this library, and not a label.
func TestLockedErrorNamesNoReadersMark(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redimutex.Option{
		"plain": nil, "reuse": {redimutex.WithLeaseReuse(time.Second)}, "queue": {redimutex.WithQueue()},
		"queue and reuse": {redimutex.WithQueue(), redimutex.WithLeaseReuse(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			opts := append(opts, redimutex.WithTTL(time.Minute), redimutex.WithOwner("reader"))
			mine, other := newClient(t, s.Pool(), opts...), newClient(t, s.Pool(), opts...)
			for range 2 {
				l, err := mine.RWMutex("k").RAcquire(t.Context())
				require.NoError(t, err)
				for _, c := range []*redimutex.Client{mine, other} {
					assert.Contains(t, []string{"", "reader"}, holderIn(t, c.RWMutex("k").TryLockContext(t.Context())))
					assert.Contains(t, []string{"", "reader"}, holderIn(t, c.Mutex("k").TryLockContext(t.Context())))
				}
				require.NoError(t, l.Release(t.Context()))
			}
			w := other.RWMutex("k", redimutex.WithOwner("writer"))
			w.Lock()
			assert.Contains(t, []string{"", "writer"}, holderIn(t, mine.RWMutex("k").TryRLockContext(t.Context())))
			w.Unlock()
		})
	}
}

// For a kind that several may hold, holds of this process do not exclude others. So the answer of the servers is the reason.
func TestLockedErrorOfASharedKindIsWhatTheServersSay(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	opts := []redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithOwner("mine")}
	mine, other := newClient(t, s.Pool(), opts...), newClient(t, s.Pool())
	rw := mine.RWMutex("readers")
	l, err := rw.RAcquire(t.Context())
	require.NoError(t, err)
	waiting, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- other.RWMutex("readers").LockContext(waiting, 0) }()
	redistest.Wait(t, "the writer waits", func() bool {
		theirs := other.RWMutex("readers")
		if !theirs.TryRLock() {
			return true
		}
		theirs.RUnlock()
		return false
	})
	assert.Empty(t, holderIn(t, rw.RLockContext(t.Context(), 200*time.Millisecond)), "it waits for a writer, not for a reader")
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
	require.NoError(t, l.Release(t.Context()))

	held, err := mine.Semaphore("permits", 1).Acquire(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = mine.Semaphore("permits", 1).Acquire(ctx)
	var locked *redimutex.LockedError
	require.ErrorAs(t, err, &locked)
	assert.Equal(t, "mine", locked.Owner)
	assert.Positive(t, locked.Left)
	require.NoError(t, held.Release(t.Context()))
}
