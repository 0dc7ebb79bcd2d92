package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The first try is made before the waiter can be woken; the second keeps the place that the first had.
func TestPlaceWhoseAnswerWasLostIsGivenUpWhenAnotherIsTaken(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	s.Do("SET", key, "foreign", "PX", 60000)
	pool := outside{redistest.NewBetween(s.Pool()), s.Pool()}
	var mu sync.Mutex
	places := make(map[any]bool)
	pool.Set(func(run func() (any, error), command string, args []any) (any, error) {
		reply, err := run()
		if command != "EVALSHA" || len(args) < 16 || args[15] == "" || err != nil {
			return reply, err
		}
		mu.Lock()
		defer mu.Unlock()
		places[args[15]] = true
		if len(places) == 1 {
			return nil, context.DeadlineExceeded
		}
		return reply, err
	})
	m := newMutex(t, pool)
	got := make(chan error, 1)
	go func() { got <- m.LockContext(t.Context(), 0) }()
	redistest.Wait(t, "it has taken another place", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(places) > 1
	})
	waitQueued(t, s, key, 1)
	s.Do("DEL", key)
	require.NoError(t, <-got)
	unlock(t, m)
}

// The place is given up at once, and once more when no server can take the try for timely any more.
func TestPlaceOfATryThatWasCutShortIsGivenUpAlsoWhenTheTryArrivesLater(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	knows := newMutex(t, s.Pool()) // has the server know the scripts
	knows.Lock()
	unlock(t, knows)
	s.Do("SET", key, "foreign", "PX", 60000)
	pool := outside{redistest.NewBetween(s.Pool()), s.Pool()}
	caught, release, executed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once, undone sync.Once
	left := make(chan struct{})
	pool.Set(func(run func() (any, error), command string, args []any) (any, error) {
		if command != "EVALSHA" || len(args) < 14 || len(args) > 15 && args[15] == "" {
			return run()
		}
		if len(args) < 16 { // leaves the queue
			reply, err := run()
			if err == nil {
				undone.Do(func() { close(left) })
			}
			return reply, err
		}
		once.Do(func() {
			close(caught)
			<-release
			defer close(executed)
			run() //nolint:errcheck // no goroutine hears of it
		})
		return nil, redistest.ErrCut
	})
	m := newMutex(t, pool, redimutex.WithNodeTimeout(3*time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() { got <- m.LockContext(ctx, 0) }()
	<-caught
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
	<-left
	close(release)
	<-executed
	waitQueued(t, s, key, 0)
}
