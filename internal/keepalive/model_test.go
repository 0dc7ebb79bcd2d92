package keepalive_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/keepalive"
)

// A model is a server that knows when each key expires, and a network that delays and loses. Each lease is
// held against its key: while one is valid, the other stands.
type model struct {
	t       *testing.T
	keeper  *keepalive.Keeper
	healthy bool // all is answered within 2 ms
	closed  atomic.Bool

	mu    sync.Mutex
	rnd   *rand.Rand
	down  time.Time // no answer until then
	holds map[*keepalive.Lease]*hold
}

// A hold is the key of a lease, and its Holder. The model's mu protects it.
type hold struct {
	m        *model
	lease    *keepalive.Lease
	expires  time.Time
	ended    time.Time // zero: it has not, or it has just now
	lost     int
	reason   keepalive.Reason
	renewing bool
}

func newModel(t *testing.T, seed uint64, healthy bool) *model {
	m := &model{t: t, healthy: healthy, rnd: rand.New(rand.NewPCG(11, seed)), holds: make(map[*keepalive.Lease]*hold)}
	m.keeper = keepalive.New(m.renew)
	return m
}

// random returns from 1 to n. All that is sent takes time, so that what happens at one moment of virtual time
// happens on the client alone.
func (m *model) random(n time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return 1 + time.Duration(m.rnd.Int64N(int64(n)))
}

func (m *model) oneIn(n time.Duration) bool { return m.random(n) == 1 }

func (m *model) start(renew bool) *hold {
	h := &hold{m: m, lease: new(keepalive.Lease)}
	now := time.Now()
	terms := keepalive.Terms{Began: now, TTL: 100*time.Millisecond + m.random(5*time.Second), Renew: renew, Holder: h}
	terms.Until = now.Add(terms.TTL)
	if m.oneIn(4) {
		terms.HandOff = 50*time.Millisecond + m.random(300*time.Millisecond)
		terms.Until = now.Add(terms.HandOff)
	}
	if m.oneIn(8) && !m.healthy {
		terms.MaxHold = m.random(10 * time.Second)
	}
	h.expires = terms.Until
	m.mu.Lock()
	m.holds[h.lease] = h
	m.mu.Unlock()
	if !m.keeper.Start(h.lease, terms) {
		h.lost, h.reason, h.ended = 1, keepalive.Closed, now // no process has to be told
	}
	return h
}

// execute is what the server does, and reports whether the key was there.
func (h *hold) execute(ttl time.Duration) bool {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	now := time.Now()
	if !now.Before(h.expires) {
		return false
	}
	if at := now.Add(ttl); at.After(h.expires) {
		h.expires = at
	}
	return true
}

// extend sends an extension, and waits for the answer until open. It is not executed after that.
func (h *hold) extend(ttl time.Duration, open time.Time) (ok bool) {
	m := h.m
	there, back := m.random(time.Millisecond), m.random(time.Millisecond)
	if !m.healthy {
		if m.oneIn(5) {
			there += m.random(600 * time.Millisecond)
		}
		if m.oneIn(5) {
			back += m.random(600 * time.Millisecond)
		}
	}
	sent := time.Now()
	answer := make(chan bool, 1)
	go func() {
		time.Sleep(there)
		m.mu.Lock()
		down := time.Now().Before(m.down)
		m.mu.Unlock()
		if down || time.Now().After(open) {
			return
		}
		found := h.execute(ttl)
		time.Sleep(back)
		answer <- found
	}()
	select {
	case found := <-answer:
		if found {
			h.lease.Extended(sent.Add(ttl), ttl)
		} else {
			h.lease.Lose(keepalive.Deleted)
		}
		return found
	case <-time.After(time.Until(open)):
		return false
	}
}

func (m *model) renew(due []*keepalive.Lease) {
	if m.closed.Load() {
		m.t.Error("a renewal began after Close")
	}
	var all sync.WaitGroup
	for _, l := range due {
		m.mu.Lock()
		h := m.holds[l]
		if !h.ended.IsZero() && h.ended.Before(time.Now()) {
			m.t.Error("a renewal began after the end")
		}
		if h.renewing {
			m.t.Error("two renewals at once")
		}
		h.renewing = true
		m.mu.Unlock()
		all.Go(func() {
			ok := h.extend(l.TTL(), time.Now().Add(300*time.Millisecond))
			m.mu.Lock()
			h.renewing = false
			m.mu.Unlock()
			l.Renewed(ok)
		})
	}
	all.Wait()
}

func (h *hold) Lost(r keepalive.Reason) {
	until := h.lease.Until()
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.lost++; h.lost > 1 || !h.ended.IsZero() {
		h.m.t.Errorf("told %v, %d times in all, after %v", r, h.lost, h.reason)
	}
	h.reason, h.ended = r, time.Now()
	if h.m.closed.Load() {
		h.m.t.Error("told after Close")
	}
	if r == keepalive.Expired && time.Now().After(until) {
		h.m.t.Errorf("told %v too late", time.Since(until))
	}
}

// check holds a lease against its key.
func (h *hold) check() {
	until, reason := h.lease.Until(), h.lease.Reason()
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if reason == keepalive.Alive && until.After(h.expires) {
		h.m.t.Errorf("valid for %v longer than its key", until.Sub(h.expires))
	}
	if reason == keepalive.Alive && h.lost > 0 {
		h.m.t.Error("alive after the loss")
	}
}

func (h *hold) over() bool {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return !h.ended.IsZero()
}

func (h *hold) unlock() {
	reason := h.lease.End(time.Now())
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.ended.IsZero() {
		h.ended, h.reason = time.Now(), reason
	}
}

// drive does what callers do, in random order, side by side. After a lease that has ended they begin another.
func (h *hold) drive(steps int) {
	var all sync.WaitGroup
	defer all.Wait()
	for range steps {
		time.Sleep(h.m.random(300 * time.Millisecond))
		h.check()
		if h.m.closed.Load() {
			return
		}
		if h.over() {
			h = h.m.start(h.m.healthy || !h.m.oneIn(4))
		}
		h.step(&all)
	}
	h.check()
}

func (h *hold) step(all *sync.WaitGroup) {
	switch m := h.m; m.random(16) {
	case 1, 2, 3, 4, 5, 6:
		ttl, patience := 100*time.Millisecond+m.random(6*time.Second), m.random(500*time.Millisecond)
		all.Go(func() {
			if h.extend(ttl, time.Now().Add(patience)) {
				h.lease.Ask(ttl)
			}
		})
	case 7:
		if !m.healthy && m.oneIn(300) {
			m.mu.Lock()
			m.down = time.Now().Add(2 * time.Second)
			m.mu.Unlock()
		}
	case 8:
		if m.oneIn(8) {
			h.unlock()
		} else if !m.healthy && m.oneIn(20) {
			h.lease.Lose(keepalive.Taken)
		}
	}
}

func TestALeaseIsNeverValidForLongerThanItsKey(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, seed, false)
			var all sync.WaitGroup
			for range 60 {
				time.Sleep(m.random(20 * time.Millisecond))
				h := m.start(!m.oneIn(4))
				all.Go(func() { h.drive(60) })
			}
			if seed%2 == 0 {
				all.Wait()
			} else {
				time.Sleep(m.random(10 * time.Second)) // Close comes in between
			}
			if seed%4 == 0 {
				m.mu.Lock()
				m.down = time.Now().Add(time.Hour)
				m.mu.Unlock()
				time.Sleep(time.Minute)
				assert.Zero(t, m.keeper.Len(), "leases that are not looked at")
			}
			m.keeper.Close()
			m.closed.Store(true)
			assert.Zero(t, m.keeper.Len())
			all.Wait()
			time.Sleep(time.Hour)
			m.settle(seed)
		})
	}
}

// settle asserts that each loss was told once, and nothing else was.
func (m *model) settle(seed uint64) {
	ends := make(map[keepalive.Reason]int)
	for l, h := range m.holds {
		reason := l.Reason()
		ends[reason]++
		told := 0
		if reason > keepalive.Unlocked {
			told = 1
		}
		assert.Equal(m.t, told, h.lost, "seed %d: it ended as %v", seed, reason)
		assert.Equal(m.t, h.reason, reason, "seed %d", seed)
		assert.False(m.t, h.renewing, "seed %d", seed)
	}
	assert.Zero(m.t, ends[keepalive.Alive], "seed %d", seed)
	assert.Greater(m.t, len(ends), 1, "seed %d tests nothing: %v", seed, ends)
	m.t.Logf("seed %d: ends %v", seed, ends)
}

func TestNoLeaseIsLostWhereTheServersAnswer(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, seed, true)
			var all sync.WaitGroup
			for range 60 {
				h := m.start(true)
				all.Go(func() { h.drive(60) })
			}
			all.Wait()
			time.Sleep(time.Minute)
			for l, h := range m.holds {
				assert.False(t, l.Reason() > keepalive.Unlocked, "seed %d: %v", seed, h.reason)
			}
			assert.Greater(t, m.keeper.Len(), 20, "seed %d", seed)
			m.keeper.Close()
		})
	}
}
