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
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestEveryHistoryUnderFaultsIsLinearizable(t *testing.T) {
	row := histories()
	r := holds(t, row, 10*time.Second)
	assert.Contains(t, r.Files, "history.html")
	for _, f := range r.Figures {
		assert.Equal(t, historyKeys, f.Tried, f.Library)
	}
}

// A sloppy locker has a planted bug, or none.
type sloppy struct {
	pool *redis.Pool
	ttl  time.Duration
	next *atomic.Int64

	deletes bool          // releases without comparing
	overdue time.Duration // the validity is counted from so long after the request
	falls   bool          // fences fall
}

type sloppySlot struct {
	peers.Slot // which is none: what it does not have no caller asks for
	locker     sloppy
	key        string
	token      string
	number     int64
	ends       time.Time
}

func (s sloppy) Close() error { return nil }

func (s sloppy) Slot(key string) peers.Slot { return &sloppySlot{locker: s, key: key} }

func (s sloppy) do(command string, args ...any) (any, error) {
	c := s.pool.Get()
	defer c.Close()
	return c.Do(command, args...)
}

func (h *sloppySlot) TryLock(context.Context) error {
	s := h.locker
	h.number = s.next.Add(1)
	h.token = h.key + "-" + time.Duration(h.number).String()
	h.ends = time.Now().Add(s.ttl + s.overdue)
	_, err := redis.String(s.do("SET", h.key, h.token, "NX", "PX", s.ttl.Milliseconds()))
	return err
}

func (h *sloppySlot) Lock(ctx context.Context) error {
	for {
		err := h.TryLock(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, time.Millisecond)
	}
}

func (h *sloppySlot) Fence() int64 {
	if h.locker.falls {
		return 1_000_000 - h.number
	}
	return 0
}

func (h *sloppySlot) Until() time.Time { return h.ends }
func (h *sloppySlot) Valid() bool      { return time.Now().Before(h.ends) }

func (h *sloppySlot) Extend(context.Context, time.Duration) error { return errInvalid }

func (h *sloppySlot) Unlock(context.Context) error {
	if !h.locker.deletes {
		n, err := redis.Int(h.locker.do("EVAL", `return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0`, 1, h.key, h.token))
		if err == nil && n == 0 {
			err = peers.ErrGone
		}
		return err
	}
	_, err := h.locker.do("DEL", h.key)
	return err
}

// record plays for a while, and returns the history.
func record(s sloppy, t *testing.T) []event {
	server := redistest.Start(t)
	s.pool, s.next, s.ttl = server.Pool(), new(atomic.Int64), 20*time.Millisecond
	end := make(chan struct{})
	var mu sync.Mutex
	var events []event
	var ids atomic.Int64
	var group sync.WaitGroup
	for g := range 4 {
		p := player{
			library: s, job: job{Kit: kit{TTL: s.ttl * 2}, Keys: []string{"k"}}, client: g + 1, ids: &ids,
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

func TestWhatALockMayDo(t *testing.T) {
	held := state{holder: 1, until: 100, fence: 7}
	for _, c := range []struct {
		name  string
		event event
		legal bool
		after state
	}{
		{"nobody gets it before its time", event{Op: opTry, Hold: 2, Return: 99, Until: 200}, false, state{}},
		{"somebody gets it then", event{Op: opLock, Hold: 2, Return: 100, Until: 200, Fence: 8}, true, state{2, 200, 8}},
		{"with a fence that rises", event{Op: opLock, Hold: 2, Return: 100, Until: 200, Fence: 7}, false, state{}},
		{"its holder finds it valid", event{Op: opCheck, Hold: 1, Return: 50, Result: resultOK, Until: 120}, true, state{1, 120, 7}},
		{"and nobody else does", event{Op: opCheck, Hold: 2, Return: 50, Result: resultOK, Until: 120}, false, state{}},
		{"who was overtaken can't extend", event{Op: opExtend, Hold: 2, Return: 150, Result: resultOK}, false, state{}},
		{"nor release", event{Op: opUnlock, Hold: 2, Return: 50, Result: resultOK}, false, state{}},
		{"but be told so", event{Op: opUnlock, Hold: 2, Return: 50, Result: resultGone}, true, held},
		{"a key is not gone before its time", event{Op: opUnlock, Hold: 1, Return: 50, Result: resultGone}, false, state{}},
		{"its holder releases it", event{Op: opUnlock, Hold: 1, Return: 50, Result: resultOK}, true, state{0, 100, 7}},
		{"an Unlock that died may have done so", event{Op: opUnlock, Hold: 1, Return: never}, true, state{0, 100, 7}},
	} {
		legal, after := held.step(c.event)
		assert.Equal(t, c.legal, legal, c.name)
		if legal {
			assert.Equal(t, c.after, after, c.name)
		}
	}
}
