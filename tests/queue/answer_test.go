package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// isPlace reports whether an argument of a script is a waiter's place in the queue.
func isPlace(arg any) bool {
	text := fmt.Sprint(arg)
	return strings.HasPrefix(text, "redimutex:") && strings.Contains(text, " ")
}

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
		place := slices.IndexFunc(args, isPlace)
		if command != "EVALSHA" || place < 0 || err != nil {
			return reply, err
		}
		mu.Lock()
		defer mu.Unlock()
		places[args[place]] = true
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

// The place is given up at once, and once more when no server can take the try for timely any more. The try is executed
// between the two, and its answer is late or lost.
func TestPlaceOfATryThatWasCutShortIsGivenUpAlsoWhenTheTryArrivesLater(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"the answer comes late": false, "the connection breaks": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t)
			s.Do("SET", key, "foreign", "PX", 60000)
			pool := outside{redistest.NewBetween(s.Pool()), s.Pool()}
			caught, late, executed := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once sync.Once
			m := newMutex(t, pool, redimutex.WithNodeTimeout(time.Second))
			pool.Set(func(run func() (any, error), _ string, args []any) (reply any, err error) {
				if !slices.ContainsFunc(args, isPlace) {
					return run()
				}
				err = redistest.ErrCut
				once.Do(func() { // the try that shows the place
					close(caught)
					<-late
					defer close(executed)
					if reply, err = run(); lost {
						err = redistest.ErrCut
					}
				})
				return reply, err
			})
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error, 1)
			go func() { got <- m.LockContext(ctx, 0) }()
			<-caught
			cancel()
			require.ErrorIs(t, <-got, context.Canceled)
			pool.Set(nil)
			close(late)
			<-executed
			for _, name := range queues(t, s) {
				s.Do("PERSIST", name) // or it would be gone by itself in the end
			}
			waitQueued(t, s, key, 0)
		})
	}
}
