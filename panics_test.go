package redimutex_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A function that the caller gave may panic, and an HTTP server goes on after that; or it ends its
// goroutine, as the assertions of tests do. The lock must not be stuck then for the others.
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
				c := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithPollInterval(5*time.Millisecond))
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
				use(lock) // behind another of this process
				good.Unlock()
				s.Do("SET", "k", "foreign", "PX", 20)
				use(lock) // behind another process
				use(func() { _ = bad.UnlockContext(t.Context()) })
				use(lock)
				s.Do("SET", "k", "foreign", "PX", 20)
				use(func() { _ = bad.UnlockContext(t.Context()) }) // a loss that only this notices
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
