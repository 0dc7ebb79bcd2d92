package mux_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
			assert.Less(t, time.Since(began), nodeTimeout+50*time.Millisecond)
		})
		_, err := within(late, nodeTimeout, "ECHO", "late")
		assert.Equal(t, nodeTimeout, time.Since(began))
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

func TestAReplyAfterTheDeadlineOfItsCallerIsThrownAwayAndTheConnectionKept(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]struct{ waits, comes time.Duration }{
		"a moment after the node timeout":                     {nodeTimeout, nodeTimeout + 10*time.Millisecond},
		"within the node timeout, whose caller has less time": {50 * time.Millisecond, nodeTimeout / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWire(t)
				p := share(t, w.pool(), 1)
				c := get(t, p)
				time.AfterFunc(d.comes, w.hold())
				_, err := within(c, d.waits, "ECHO", "late")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				got, err := redis.String(within(c, time.Minute, "ECHO", "next"))
				require.NoError(t, err)
				assert.Equal(t, "next", got)
				dials, _ := w.counted()
				assert.Equal(t, 1, dials)
			})
		})
	}
}

// Those that are cancelled before they are written leave nothing to write.
func TestACancelledCallEndsNoConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := share(t, s.Pool(), 1)
	c := get(t, p)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 5000 {
				ctx, cancel := context.WithCancel(until(time.Minute))
				go cancel()
				do(ctx, c, "PING") //nolint:errcheck // it may be cancelled
			}
		})
	}
	group.Wait()
	assert.NoError(t, c.Err())
}

// The one that was late has its undo behind it; the other must not be repeated before its own undo is executed.
func TestWhatIsUnansweredWhenAConnectionEndsIsUndone(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	p := share(t, s.Pool(), 1)
	require.True(t, works(p))
	s.Pause()
	defer s.Resume()
	var group sync.WaitGroup
	for i, d := range []time.Duration{200 * time.Millisecond, time.Minute} {
		c, key := get(t, p), fmt.Sprint("key:", i)
		group.Go(func() {
			_, err := c.DoContext(until(d, "RENAME", key, "undone:"+key), "SET", key, "v")
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	group.Wait()
	time.Sleep(100 * time.Millisecond)
	s.Resume()
	redistest.Wait(t, "both are executed and undone", func() bool {
		keys := s.Keys()
		slices.Sort(keys)
		return slices.Equal(keys, []string{"undone:key:0", "undone:key:1"})
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
