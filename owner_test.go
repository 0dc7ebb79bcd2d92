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

// holderIn returns what err says of the holder.
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
			client := newClient(t, pools, append(opts, redimutex.WithTTL(time.Minute))...)
			alice, bob := client.Mutex("k", redimutex.WithOwner("alice")), client.Mutex("k", redimutex.WithOwner("bob"))
			unnamed := client.Mutex("k")
			for range 3 { // a second hold may follow in the same lease
				alice.Lock()
				assert.Equal(t, "alice", holderIn(t, bob.TryLockContext(t.Context())))
				assert.Equal(t, "alice", holderIn(t, bob.LockContext(t.Context(), 10*time.Millisecond)))
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
	mine := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithTTL(time.Minute))
	before := mine.Mutex("k", redimutex.WithOwner("before"))
	before.Lock()
	before.Unlock() // its label must not stay behind
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
