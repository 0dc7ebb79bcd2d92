package mux_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestAnOverdueReplyEndsTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		late, other := get(t, p), get(t, p)
		release := w.hold()
		began := time.Now()
		var group sync.WaitGroup
		group.Go(func() {
			_, err := within(other, time.Minute, "ECHO", "other")
			assert.ErrorContains(t, err, "ended")
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "so that it is sent again over another")
			assert.Error(t, other.Err())
			assert.Less(t, time.Since(began), 100*time.Millisecond)
		})
		_, err := within(late, 50*time.Millisecond, "ECHO", "late")
		assert.Equal(t, 50*time.Millisecond, time.Since(began))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		group.Wait()
		release()
		assert.True(t, works(p), "it was replaced")
		dials, _ := w.counted()
		assert.Equal(t, 2, dials)
	})
}

func TestAReplyAMomentAfterItsDeadlineIsThrownAwayAndTheConnectionKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		c := get(t, p)
		time.AfterFunc(60*time.Millisecond, w.hold())
		_, err := within(c, 50*time.Millisecond, "ECHO", "late")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		got, err := redis.String(within(c, time.Minute, "ECHO", "next"))
		require.NoError(t, err)
		assert.Equal(t, "next", got)
		dials, _ := w.counted()
		assert.Equal(t, 1, dials)
	})
}

func TestAReplyThatComesAtTheDeadlineGoesToNobodyElse(t *testing.T) {
	t.Parallel()
	p := share(t, redistest.Start(t).Pool(), 2)
	var group sync.WaitGroup
	var late, inTime atomic.Int64
	for g := range 50 {
		group.Go(func() {
			for i := range 1000 {
				want := fmt.Sprintf("%d of %d", i, g)
				got, err := redis.String(within(get(t, p), time.Duration(1+rand.IntN(5000))*time.Microsecond, "ECHO", want))
				if err != nil {
					late.Add(1)
					continue
				}
				inTime.Add(1)
				assert.Equal(t, want, got)
			}
		})
	}
	group.Wait()
	assert.Positive(t, late.Load())
	assert.Positive(t, inTime.Load())
}

func TestWhatIsLateIsUndoneOrNeverDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		release := w.hold()
		var group sync.WaitGroup
		// While the first reply is held back, the embedded server gets stuck on one of the next, then our
		// writer on a command, and all later ones wait.
		const tries = 20
		for i := range tries {
			c, key := get(t, p), fmt.Sprintf("key:%02d", i)
			group.Go(func() {
				time.Sleep(time.Duration(i))
				_, err := c.DoContext(until(100*time.Millisecond, "RENAME", key, "undone:"+key), "SET", key, "v")
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
			synctest.Wait()
		}
		group.Wait()
		release()
		require.True(t, works(p))
		keys := w.server.Keys()
		for _, key := range keys {
			assert.Contains(t, key, "undone:")
		}
		assert.NotEmpty(t, keys)
		assert.Less(t, len(keys), tries, "those that were not written never are")

		_, err := get(t, p).DoContext(until(time.Second, "DEL", "kept"), "SET", "kept", "v")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.True(t, w.server.Exists("kept"), "what is in time is not undone")
	})
}

func TestWhatIsCancelledEndsAtOnceAndIsUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		release := w.hold()
		ctx, cancel := context.WithCancel(until(time.Minute, "RENAME", "k", "undone"))
		time.AfterFunc(time.Millisecond, cancel)
		began := time.Now()
		for range 2 {
			_, err := get(t, p).DoContext(ctx, "SET", "k", "v")
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.Equal(t, time.Millisecond, time.Since(began))
		release()
		n, err := redis.Int(within(get(t, p), time.Minute, "EXISTS", "undone"))
		require.NoError(t, err)
		assert.Equal(t, 1, n)
	})
}

// until is a ctx that has a deadline and an undo, and does not end: the connection keeps the deadline by itself.
func until(d time.Duration, undo ...any) context.Context {
	return deadline{context.WithValue(context.Background(), punctual.Undo, undo), time.Now().Add(d)}
}

type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }
