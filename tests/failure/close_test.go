package failure_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// closing returns a Client that the test closes itself, with its server and the front of that server.
func closing(t *testing.T, opts ...redimutex.Option) (*redistest.Server, *redistest.Front, *redimutex.Client) {
	t.Helper()
	s := redistest.Start(t)
	front := redistest.NewFront(t, s)
	pool := redimutex.NewPoolAt("tcp", front.Addr())
	t.Cleanup(func() { pool.Close() })
	return s, front, redimutex.NewClient([]redimutex.Pool{pool}, opts...)
}

// The readers of a process try together. After Close nothing runs in the background, so the reader that tried releases all
// tokens before it returns. It releases them at the same time, because otherwise each would cost a node timeout.
func TestReadersThatCloseEndsDoNotWaitForASilentServerOnceForEach(t *testing.T) {
	t.Parallel()
	const (
		readers     = 40
		nodeTimeout = 200 * time.Millisecond
	)
	s, front, client := closing(t, redimutex.WithTTL(2*time.Second), redimutex.WithNodeTimeout(nodeTimeout))
	s.Do("SET", "key", "another holder", "PX", time.Hour.Milliseconds())
	ended := make(chan error, readers)
	for range readers {
		m := client.RWMutex("key")
		go func() { ended <- m.RLockContext(t.Context(), 0) }()
	}
	locktest.WaitInLine(t, client, readers)
	front.Hang(redistest.AtReply)
	redistest.Wait(t, "a try hangs", func() bool { return front.Hung() > 0 })
	began := time.Now()
	require.NoError(t, client.Close())
	for range readers {
		require.ErrorIs(t, <-ended, redimutex.ErrClosed)
	}
	assert.Less(t, time.Since(began), readers*nodeTimeout/2)
}

// Earlier tries of a queued reader or writer have left a mark. It is released at the same time as the try that hangs. So the
// waiter waits for one node timeout for the try, and for another for the releases.
func TestAWaiterThatCloseEndsWaitsForASilentServerTwiceAtMost(t *testing.T) {
	t.Parallel()
	const nodeTimeout = 2 * time.Second
	for name, lock := range map[string]func(*redimutex.RWMutex) error{
		"reader": func(m *redimutex.RWMutex) error { return m.RLockContext(context.Background(), 0) },
		"writer": func(m *redimutex.RWMutex) error { return m.LockContext(context.Background(), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, front, client := closing(t, redimutex.WithNodeTimeout(nodeTimeout), queue)
			s.Do("SET", "key", "another holder", "PX", time.Hour.Milliseconds())
			ended := make(chan error, 1)
			go func() { ended <- lock(client.RWMutex("key")) }()
			redistest.Wait(t, "it is in the queue", func() bool { return len(s.Keys()) > 2 })
			front.Hang(redistest.AtReply)
			redistest.Wait(t, "a try hangs", func() bool { return front.Hung() > 0 })
			over, late := redistest.Overrun(5*nodeTimeout/2, func() {
				require.NoError(t, client.Close())
				require.ErrorIs(t, <-ended, redimutex.ErrClosed)
			})
			assert.LessOrEqual(t, over, 2*late, "the machine was late by %v", late)
		})
	}
}

// A writer that has waited in the queue has left a mark in its earlier tries. The mark is released together with the lock.
func TestUnlockAfterCloseWaitsForASilentServerOnce(t *testing.T) {
	t.Parallel()
	const nodeTimeout = 2 * time.Second
	s, front, client := closing(t, redimutex.WithNodeTimeout(nodeTimeout), queue)
	m := client.RWMutex("key")
	s.Do("SET", "key", "another holder", "PX", 200)
	require.NoError(t, m.LockContext(t.Context(), 0))
	front.Hang(redistest.AtReply)
	require.NoError(t, client.Close())
	over, late := redistest.Overrun(3*nodeTimeout/2, func() {
		require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrClosed)
	})
	assert.LessOrEqual(t, over, 2*late, "the machine was late by %v", late)
}
