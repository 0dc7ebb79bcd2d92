package redimutexgocron

import (
	"maps"
	"math"
	"sync"
	"time"
)

// ticks remembers when this machine was last asked for each job.
type ticks struct {
	mu   sync.Mutex
	last map[string]tick
	room int // if there are more entries, old ones are deleted
}

type tick struct {
	at   time.Time
	told bool // it was logged that ticks are left out, since the job last ran
}

// begin notes a tick and returns the time since the tick before. It forgets jobs whose last tick is older than d.
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

// won notes that the job runs on this machine.
func (t *ticks) won(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[name] = tick{at: t.last[name].at}
}

// tell reports whether to log that ticks of the job are left out: once until it runs again.
func (t *ticks) tell(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.last[name]
	t.last[name] = tick{k.at, true}
	return !k.told
}
