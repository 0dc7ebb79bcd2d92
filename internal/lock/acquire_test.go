package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// touchy is an Observer that panics where it is told to.
type touchy struct{ at string }

func (o touchy) Traced() bool { return true }

func (o touchy) step(name string) {
	if o.at == name {
		panic(name)
	}
}

func (o touchy) Waiting(context.Context)                             { o.step("Waiting") }
func (o touchy) Tried(context.Context, int, time.Duration, *Failure) { o.step("Tried") }
func (o touchy) Unavailable(*quorum.Failure)                         { o.step("Unavailable") }
func (o touchy) Renewed(*quorum.Failure)                             {}
func (o touchy) Lost(keepalive.Reason)                               {}
func (o touchy) LostIdle(keepalive.Reason)                           {}

func queueEmpty(t testing.TB, s *redistest.Server) {
	t.Helper()
	redistest.Wait(t, "nobody is in the queue", func() bool { return s.Do("EXISTS", server.QueueKey("k")) == int64(0) })
}

func TestCallThatPanicsLeavesNeitherTurnNorTicketNorKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := newEngine(t, s)
	for _, queue := range []bool{false, true} {
		terms := terms
		terms.Queue = queue
		for _, at := range []string{"Waiting", "Tried", "Pause in line", "Pause"} {
			t.Run(at, func(t *testing.T) {
				s.Do("SET", "k", "foreign", "PX", 60000)
				c := call(terms)
				var k *Key
				switch at {
				case "Waiting", "Pause in line":
					k = e.ref("k", nil)
					require.True(t, k.fifo.TryAcquire())
				}
				if at == "Pause in line" {
					c.MaxTries = 3
				}
				if at == "Pause" || at == "Pause in line" {
					c.Pause = func(int) time.Duration { panic("Pause") }
				}
				assert.Panics(t, func() { e.Lock(t.Context(), c, &Hold{Observer: touchy{at}}) })
				if k != nil {
					k.pass()
					k.unref()
				}
				forgotten(t, e)
				queueEmpty(t, s)
				s.Do("DEL", "k")
				h, _ := lock(t, e, call(terms))
				h.Release(t.Context(), time.Now())
				forgotten(t, e)
			})
		}
	}
}

func TestCallThatEndsAnywhereLeavesNoKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := newEngine(t, s)
	terms := terms
	terms.Queue, terms.Reuse = true, 20*time.Millisecond
	for i := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 4 {
				h := &Hold{Observer: quiet{}}
				if e.Lock(ctx, call(terms), h).Failure == nil {
					h.Release(ctx, time.Now())
				}
			}
		}()
		h := &Hold{Observer: quiet{}}
		if e.Lock(ctx, call(terms), h).Failure == nil {
			time.AfterFunc(time.Duration(i)*50*time.Microsecond, cancel)
			h.Release(ctx, time.Now())
		}
		<-done
		cancel()
	}
	forgotten(t, e)
	redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
}

func TestLockAfterCloseFailsAlsoOnAKeyThatWasKnown(t *testing.T) {
	t.Parallel()
	e := newEngine(t, redistest.Start(t))
	h, r := lock(t, e, call(terms))
	e.Close(time.Second)
	c := call(terms)
	c.Hint = r.Key
	again := e.Lock(t.Context(), c, &Hold{Observer: quiet{}})
	require.NotNil(t, again.Failure)
	assert.Equal(t, Closed, again.Failure.Kind)
	reason, _ := h.Release(t.Context(), time.Now())
	assert.Equal(t, keepalive.Closed, reason)
	forgotten(t, e)
}
