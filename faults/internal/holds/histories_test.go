package holds

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestEveryHistoryUnderFaultsIsLinearizable(t *testing.T) {
	row := histories()
	r := row.Hold(t, 20*time.Second)
	assert.Contains(t, r.Files, "history.html")
	for _, f := range r.Figures {
		assert.Equal(t, historyKeys, f.Tried, f.Library)
	}
}

// A sloppy library has a planted bug, or none.
type sloppy struct {
	peers.Library
	server *redistest.Server
	next   *atomic.Int64

	deletes bool          // releases without comparing
	overdue time.Duration // how long after the request it begins to count the validity
	falls   bool          // fences fall
}

type sloppySlot struct {
	peers.Slot
	library sloppy
	key     string
	number  int64
}

func (s sloppy) Slot(key string) peers.Slot {
	return &sloppySlot{Slot: s.Library.Slot(key), library: s, key: key}
}

func (h *sloppySlot) TryLock(ctx context.Context) error {
	h.number = h.library.next.Add(1)
	return h.Slot.TryLock(ctx)
}

func (h *sloppySlot) Lock(ctx context.Context) error {
	for {
		err := h.TryLock(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		evidence.Sleep(ctx, time.Millisecond)
	}
}

func (h *sloppySlot) Fence() int64 {
	if h.library.falls {
		return 1_000_000 - h.number
	}
	return 0
}

func (h *sloppySlot) Until() time.Time { return h.Slot.Until().Add(h.library.overdue) }
func (h *sloppySlot) Valid() bool      { return time.Now().Before(h.Until()) }

func (h *sloppySlot) Unlock(ctx context.Context) error {
	if h.library.deletes {
		h.library.server.Do("DEL", h.key)
		return nil
	}
	return h.Slot.Unlock(ctx)
}

// record plays for a while, and returns the history.
func record(s sloppy, t *testing.T) []event {
	const ttl = 20 * time.Millisecond
	s.server, s.next = redistest.Start(t), new(atomic.Int64)
	s.Library = peers.Bare(s.server.Pool(), ttl)
	end := make(chan struct{})
	var mu sync.Mutex
	var events []event
	var ids atomic.Int64
	var group sync.WaitGroup
	for g := range 4 {
		p := player{
			library: s, job: job{Kit: kit{TTL: ttl * 2}, Keys: []string{"k"}}, client: g + 1, ids: &ids, given: make(chan gift),
			random: rand.New(rand.NewPCG(1, uint64(g))),
			tell: func(e event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Return != 0 {
					events = append(events, e)
				}
			},
		}
		group.Go(func() { p.play(end) })
	}
	redistest.Wait(t, "some hundred calls", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(events) > 1500
	})
	close(end)
	group.Wait()
	return events
}

func TestPlantedBugsMakeAHistoryIllegal(t *testing.T) {
	assert.Equal(t, porcupine.Ok, check("k", record(sloppy{}, t)).result, "without a bug")
	for name, bug := range map[string]sloppy{
		"releases without comparing":                 {deletes: true},
		"counts the validity from after the request": {overdue: 50 * time.Millisecond},
		"has fences that fall":                       {falls: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := check("k", record(bug, t))
			assert.Equal(t, porcupine.Illegal, v.result)
			path := filepath.Join(t.TempDir(), "illegal.html")
			require.NoError(t, porcupine.VisualizePath(model, v.info, path))
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.NotEmpty(t, b)
		})
	}
}

// Each case is a series of calls about one lock, and whether the last of them may have gone as it did.
func TestWhatALockMayDo(t *testing.T) {
	lock := func(hold int64, from, until evidence.Instant) event {
		return event{Op: opLock, Hold: hold, Return: from, Until: until, Result: resultOK}
	}
	read := func(hold int64, from, until evidence.Instant) event {
		e := lock(hold, from, until)
		e.Reads = true
		return e
	}
	permit := func(hold int64, from, until evidence.Instant) event {
		e := lock(hold, from, until)
		e.Limit = 2
		return e
	}
	fenced := func(e event, fence int64) event {
		e.Fence = fence
		return e
	}
	does := func(op string, hold int64, at evidence.Instant, result string, until evidence.Instant) event {
		return event{Op: op, Hold: hold, Return: at, Result: result, Until: until}
	}
	given := does(opHandOver, 1, 50, resultOK, 90)
	for _, c := range []struct {
		name  string
		calls []event
		legal bool
	}{
		{"no one gets it before its time", []event{lock(1, 10, 100), lock(2, 99, 200)}, false},
		{"another gets it then", []event{lock(1, 10, 100), lock(2, 100, 200)}, true},
		{"with a fence that rises", []event{fenced(lock(1, 10, 100), 7), fenced(lock(2, 100, 200), 7)}, false},
		{"its holder finds it valid", []event{lock(1, 10, 100), does(opCheck, 1, 50, resultOK, 120), lock(2, 110, 200)}, false},
		{"and no one else does", []event{lock(1, 10, 100), does(opCheck, 2, 50, resultOK, 120)}, false},
		{"who was overtaken can't extend", []event{lock(1, 10, 100), lock(2, 100, 200), does(opExtend, 1, 150, resultOK, 300)}, false},
		{"nor release", []event{lock(1, 10, 100), does(opUnlock, 2, 50, resultOK, 0)}, false},
		{"but be told so", []event{lock(1, 10, 100), does(opUnlock, 2, 50, resultGone, 0)}, true},
		{"a key is not gone before its time", []event{lock(1, 10, 100), does(opUnlock, 1, 50, resultGone, 0)}, false},
		{"its holder releases it", []event{lock(1, 10, 100), does(opUnlock, 1, 50, resultOK, 0), lock(2, 51, 200)}, true},
		{"an Unlock that died may have done so", []event{lock(1, 10, 100), does(opUnlock, 1, never, "", 0), lock(2, 51, 200)}, true},

		{"readers share", []event{read(1, 10, 100), read(2, 20, 110), does(opCheck, 1, 50, resultOK, 100)}, true},
		{"a writer waits for the last reader", []event{read(1, 10, 100), read(2, 20, 110), lock(3, 105, 200)}, false},
		{"and no longer", []event{read(1, 10, 100), read(2, 20, 110), lock(3, 110, 200)}, true},
		{"a reader waits for the writer", []event{lock(1, 10, 100), read(2, 99, 200)}, false},
		{"a reader of an earlier phase is none", []event{read(1, 10, 100), lock(2, 100, 200), read(3, 200, 300), does(opExtend, 1, 210, resultOK, 400)}, false},
		{"a reader has the fence of the last writer", []event{fenced(lock(1, 10, 100), 7), fenced(read(2, 100, 200), 7)}, true},
		{"and none before", []event{fenced(lock(1, 10, 100), 7), fenced(read(2, 100, 200), 6)}, false},
		{"a writer that is downgraded lets readers in", []event{lock(1, 10, 100), does(opDowngrade, 1, 20, resultOK, 100), read(2, 30, 200)}, true},
		{"and no writer", []event{lock(1, 10, 100), does(opDowngrade, 1, 20, resultOK, 100), lock(2, 30, 200)}, false},
		{"also where it is not known", []event{lock(1, 10, 100), does(opDowngrade, 1, 20, resultFailed, 100), lock(2, 30, 200)}, false},

		{"two permits are two", []event{permit(1, 10, 100), permit(2, 20, 110), permit(3, 90, 200)}, false},
		{"a permit is free when its lease has ended", []event{permit(1, 10, 100), permit(2, 20, 110), permit(3, 100, 200)}, true},
		{"and that one is over", []event{permit(1, 10, 100), permit(2, 20, 110), permit(3, 100, 200), does(opExtend, 1, 120, resultOK, 300)}, false},
		{"the other is not", []event{permit(1, 10, 100), permit(2, 20, 110), permit(3, 100, 200), does(opExtend, 2, 105, resultOK, 300)}, true},

		{"a hold that is handed over keeps others out", []event{lock(1, 10, 100), given, lock(2, 89, 200)}, false},
		{"until its end", []event{lock(1, 10, 100), given, lock(2, 90, 200)}, true},
		{"the taker goes on", []event{lock(1, 10, 100), given, does(opTakeOver, 1, 60, resultOK, 150), lock(2, 140, 200)}, false},
		{"and is the only one", []event{lock(1, 10, 100), given, does(opTakeOver, 1, 60, resultOK, 150), does(opTakeOver, 1, 61, resultOK, 150)}, false},
		{"it has a higher fence", []event{fenced(lock(1, 10, 100), 7), given, fenced(does(opTakeOver, 1, 60, resultOK, 150), 7)}, false},
		{"what was not given is not taken", []event{lock(1, 10, 100), does(opTakeOver, 1, 60, resultOK, 150)}, false},
		{"what has ended is not taken", []event{lock(1, 10, 100), given, lock(2, 95, 200), does(opTakeOver, 1, 96, resultOK, 150)}, false},
	} {
		s, legal := state{}, false
		for i, e := range c.calls {
			legal, s = s.step(e)
			assert.True(t, legal || i == len(c.calls)-1, "%s: what comes before", c.name)
		}
		assert.Equal(t, c.legal, legal, c.name)
	}
}

// A renewal is no call. So only a later call shows which of two permits had ended when a third one was given.
func TestAPermitThatIsFoundValidHasNotEndedBefore(t *testing.T) {
	call := func(op string, hold int64, at, until evidence.Instant) event {
		e := event{Op: op, Client: int(hold), Hold: hold, Call: at, Return: at + 1, Result: resultOK, Until: until}
		if op == opLock {
			e.Limit = 2
		}
		return e
	}
	events := []event{call(opLock, 1, 470, 600), call(opLock, 2, 210, 611), call(opLock, 3, 620, 1000)}
	assert.Equal(t, porcupine.Ok, check("k", events).result)
	events = append(events, call(opCheck, 1, 660, 840))
	assert.Equal(t, porcupine.Ok, check("k", events).result, "it was the other one")
	events = append(events, call(opCheck, 2, 661, 840))
	assert.Equal(t, porcupine.Illegal, check("k", events).result, "three were there at once")
}
