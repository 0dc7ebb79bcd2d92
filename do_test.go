package redimutex_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestDoHoldsTheLockAndUnlocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", patient)
	type name struct{}
	wanted := errors.New("what f returned")
	for _, do := range []func(context.Context, func(context.Context) error) error{m.Do, m.TryDo} {
		var inner context.Context
		err := do(context.WithValue(t.Context(), name{}, "value"), func(ctx context.Context) error {
			inner = ctx
			assert.True(t, s.Exists("k"))
			assert.Equal(t, "value", ctx.Value(name{}))
			assert.NoError(t, ctx.Err())
			return wanted
		})
		assert.Equal(t, wanted, err, "the error of f is handed on as it is")
		assert.False(t, s.Exists("k"))
		assert.ErrorIs(t, context.Cause(inner), redimutex.ErrUnlocked)
		require.NoError(t, do(t.Context(), func(context.Context) error { return nil }))
	}
}

func TestDoUnlocksWhenFPanics(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	for _, do := range []func(context.Context, func(context.Context) error) error{m.Do, m.TryDo} {
		assert.ErrorContains(t, panicOf(func() {
			_ = do(t.Context(), func(context.Context) error { panic("of f") })
		}), "of f")
		assert.ErrorContains(t, panicOf(func() { _ = do(t.Context(), nil) }), "Do needs a function")
		assert.False(t, s.Exists("k"))
		assert.Nil(t, m.Lease())
	}
}

func TestDoTellsALossByContextAndError(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", patient)
	wanted := errors.New("what f returned")
	err := m.Do(t.Context(), func(ctx context.Context) error {
		s.Do("DEL", "k")
		assert.ErrorIs(t, m.Lease().Extend(ctx, time.Minute), redimutex.ErrLost)
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrLost)
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
		return wanted
	})
	assert.ErrorIs(t, err, wanted)
	var lost *redimutex.LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, redimutex.Deleted, lost.Reason)
}

func TestDoDoesNotRunFWithoutTheLock(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	client := newClient(t, pool, patient)
	client.Mutex("k").Lock()
	never := func(context.Context) error { t.Error("f ran without the lock"); return nil }
	for _, m := range []*redimutex.Mutex{client.Mutex("k"), newMutex(t, pool, "k", patient)} {
		assert.ErrorIs(t, m.TryDo(t.Context(), never), redimutex.ErrLocked)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // long enough for at least one answer
		defer cancel()
		assert.ErrorIs(t, m.Do(ctx, never), redimutex.ErrLocked)
	}
}

// A function of the caller may panic, and an HTTP server then goes on. Or the function ends its goroutine, as the assertions
// of tests do. In neither case may the lock stay locked for the others.
func TestAFunctionThatPanicsOrExitsLeavesTheLockToOthers(t *testing.T) {
	t.Parallel()
	ends := map[string]func(){"panic": func() { panic("planned") }, "exit": runtime.Goexit}
	for how, end := range ends {
		bad := func(redimutex.Event) { end() }
		type options = []redimutex.Option
		for what, given := range map[string]options{
			"Waiting":        {redimutex.WithTrace(&redimutex.Trace{Waiting: bad})},
			"Attempt":        {redimutex.WithTrace(&redimutex.Trace{Attempt: bad})},
			"Attempt queued": {redimutex.WithTrace(&redimutex.Trace{Attempt: bad}), redimutex.WithQueue()},
			"Backoff":        {redimutex.WithBackoff(func(int) time.Duration { end(); return 0 })},
			"Acquired":       {redimutex.WithTrace(&redimutex.Trace{Acquired: bad})},
			"Acquired again": {redimutex.WithTrace(&redimutex.Trace{Acquired: bad}), redimutex.WithLeaseReuse(time.Second)},
			"GaveUp":         {redimutex.WithTrace(&redimutex.Trace{GaveUp: bad})},
			"Released":       {redimutex.WithTrace(&redimutex.Trace{Released: bad})},
			"Lost":           {redimutex.WithTrace(&redimutex.Trace{Lost: bad})},
		} {
			t.Run(how+" in "+what, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				c := newClient(t, s.Pool(), redimutex.WithPollInterval(5*time.Millisecond))
				bad, good := c.Mutex("k", given...), c.Mutex("k")
				use := func(f func()) {
					over := make(chan struct{})
					go func() {
						defer close(over)
						defer func() { _ = recover() }()
						f()
					}()
					<-over
				}
				lock := func() { _ = bad.LockContext(t.Context(), 50*time.Millisecond) }
				good.Lock()
				use(lock) // behind another goroutine of this process
				good.Unlock()
				s.Do("SET", "k", "foreign", "PX", 20)
				use(lock) // behind another process
				use(func() { _ = bad.UnlockContext(t.Context()) })
				use(lock)
				s.Do("SET", "k", "foreign", "PX", 20)
				use(func() { _ = bad.UnlockContext(t.Context()) }) // only this call notices the loss
				if c.Stats().Held > 0 {
					use(func() { _ = bad.UnlockContext(t.Context()) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				require.NoError(t, good.LockContext(ctx, 0))
				good.Unlock()
				redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
				redistest.Wait(t, "nothing is remembered", func() bool { return c.Keys() == 0 })
				assert.Zero(t, c.Stats().Waiting)
				assert.Zero(t, c.Stats().Held)
			})
		}
	}
}

// All that f has started with its context ends with the hold.
func TestTheContextOfDoEndsAlsoWhileSomebodyElseIsUnlocking(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := s.Proxy()
	m := newMutex(t, p.Pool(), "k", redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
	var inner context.Context
	unlocked := make(chan error)
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		inner = ctx
		p.Hold()
		go func() { unlocked <- m.UnlockContext(context.Background()) }()
		redistest.Wait(t, "a caller who unlocks", func() bool { return m.Lease() == nil })
		return nil
	}))
	assert.ErrorIs(t, context.Cause(inner), redimutex.ErrUnlocked)
	p.Release()
	assert.NoError(t, <-unlocked)
}

// The hold tells many contexts of the loss, and that of Do need not be the first.
func TestTheCauseOfDosContextIsTheLossAlsoWhereFReturnsAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithoutRenewal())
	for range 3 {
		var inner context.Context
		err := m.Do(t.Context(), func(ctx context.Context) error {
			inner = ctx
			l := m.Lease()
			for range 20_000 {
				l.Context(t.Context())
			}
			s.Do("DEL", "k")
			go l.Extend(t.Context(), time.Minute) //nolint:errcheck // it finds the loss
			<-l.Done()
			return nil
		})
		require.ErrorIs(t, err, redimutex.ErrLost)
		<-inner.Done()
		require.ErrorIs(t, context.Cause(inner), redimutex.ErrLost)
	}
}
