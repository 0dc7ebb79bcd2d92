package redimutexgocron

import (
	"maps"
	"math"
	"sync"
	"time"
)

// ticks knows when each job was asked for last, on this machine.
type ticks struct {
	mu   sync.Mutex
	last map[string]tick
	room int // beyond which old entries are deleted
}

type tick struct {
	at   time.Time
	told bool // that ticks are left out, since the job ran last
}

// begin notes a tick and returns how long ago the one before was. It forgets those that are older than d.
func (t *ticks) begin(name string, d time.Duration) (before time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	last, known := t.last[name]
	before = math.MaxInt64
	if known {
		before = now.Sub(last.at)
	}
	if t.last == nil {
		t.last = make(map[string]tick)
	}
	t.last[name] = tick{now, last.told}
	if len(t.last) > t.room {
		maps.DeleteFunc(t.last, func(_ string, k tick) bool { return now.Sub(k.at) > d })
		t.room = max(2*len(t.last), 16)
	}
	return before
}

// won notes that the job runs here.
func (t *ticks) won(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[name] = tick{at: t.last[name].at}
}

// tell reports whether it is to be told that ticks of the job are left out: once until it runs again.
func (t *ticks) tell(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.last[name]
	t.last[name] = tick{k.at, true}
	return !k.told
}
