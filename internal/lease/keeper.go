package lease

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

// A Keeper watches over many leases with one timer and a handful of goroutines, which exist only
// while there is something to renew. The timer's goroutine never waits for a renewal, so a server
// that hangs delays no loss signal.
type Keeper struct {
	renew func(batch []*Lease)

	mu      sync.Mutex
	leases  leases // by next
	timer   *time.Timer
	armed   time.Time // when the timer fires; zero: it is not set
	due     []*Lease  // to be renewed, the one that ends first in front
	workers int
	closed  bool
	running sync.WaitGroup // the set timer, its goroutine, and the workers
}

const (
	maxWorkers = 4   // renewals under way at once
	maxBatch   = 128 // leases in one of them
)

// NewKeeper returns a Keeper that calls renew, on several goroutines, for leases that are due. renew
// calls Extended or Lose on each, or neither if it failed and is to be repeated.
func NewKeeper(renew func(batch []*Lease)) *Keeper { return &Keeper{renew: renew} }

// Start begins the life of l, which is the zero Lease. It reports false if the Keeper is closed.
func (k *Keeper) Start(l *Lease, t Terms) bool {
	if t.Began.IsZero() {
		t.Began = time.Now()
	}
	l.keeper, l.terms, l.began, l.until, l.ttl, l.span, l.index = k, t, t.Began, t.Until, t.TTL, t.TTL, -1
	if t.Claim > 0 {
		l.span, l.claim = t.Claim, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	l.schedule(t.Began)
	return true
}

// Len returns the number of leases that are alive.
func (k *Keeper) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.leases)
}

// Leases returns those that are alive.
func (k *Keeper) Leases() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.leases)
}

// Close ends all leases for the reason err and waits until nothing of the Keeper runs any more.
func (k *Keeper) Close(err error) {
	k.mu.Lock()
	k.closed = true
	alive := slices.Clone(k.leases)
	if !k.armed.IsZero() && k.timer.Stop() {
		k.running.Done()
	}
	k.armed = time.Time{}
	k.mu.Unlock()
	for _, l := range alive {
		l.Lose(err)
	}
	k.running.Wait()
}

// fix puts l where it belongs in the heap, and sets the timer. The caller holds k.mu.
func (k *Keeper) fix(l *Lease) {
	if l.index < 0 {
		heap.Push(&k.leases, l)
	} else {
		heap.Fix(&k.leases, l.index)
	}
	k.arm()
}

// remove forgets l. The timer stays as it is: waking up for nothing once costs less than setting
// the timer for every lock. The caller holds k.mu.
func (k *Keeper) remove(l *Lease) {
	if l.index >= 0 {
		heap.Remove(&k.leases, l.index)
	}
}

// arm sets the timer for the lease that needs it first, unless it fires before that anyhow. The
// caller holds k.mu.
func (k *Keeper) arm() {
	if k.closed || len(k.leases) == 0 {
		return
	}
	next := k.leases[0].next
	if !k.armed.IsZero() {
		if !next.Before(k.armed) {
			return
		}
		if !k.timer.Stop() {
			return // it is firing just now, and will set itself again
		}
		k.running.Done()
	}
	k.armed = next
	k.running.Add(1)
	wait := max(time.Until(next), 0)
	if k.timer == nil {
		k.timer = time.AfterFunc(wait, k.tick)
	} else {
		k.timer.Reset(wait)
	}
}

// tick tells losses and hands out renewals.
func (k *Keeper) tick() {
	defer k.running.Done()
	k.mu.Lock()
	k.armed = time.Time{}
	now := time.Now()
	var lost []*Lease
	var after []func()
	for len(k.leases) > 0 && !k.leases[0].next.After(now) {
		l := k.leases[0]
		if !now.Before(l.until.Add(-margin(l.span))) {
			lost = append(lost, l)
			after = append(after, l.end(ErrExpired)...)
			continue
		}
		l.queued = true
		k.due = append(k.due, l)
		l.schedule(now)
	}
	slices.SortFunc(k.due, func(a, b *Lease) int { return a.until.Compare(b.until) })
	for wanted := len(k.due); wanted > 0 && k.workers < maxWorkers && !k.closed; wanted -= maxBatch {
		k.workers++
		k.running.Add(1)
		go k.work()
	}
	k.arm()
	k.mu.Unlock()
	for _, f := range after {
		f()
	}
	for _, l := range lost {
		l.tell(ErrExpired)
	}
}

// work renews what is due, the leases that end first in front, until nothing is.
func (k *Keeper) work() {
	defer k.running.Done()
	for {
		batch := k.take()
		if batch == nil {
			return
		}
		k.renew(batch)
		k.renewed(batch)
	}
}

// take returns the next batch, or nil for a worker that has nothing left to do.
func (k *Keeper) take() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		n := min(len(k.due), maxBatch)
		if n == 0 {
			k.workers--
			k.due = nil
			return nil
		}
		batch := slices.Clone(k.due[:n])
		k.due = slices.Delete(k.due, 0, n)
		for _, l := range batch {
			l.queued = false
		}
		// What ended while it waited for its turn is not renewed, nor what is being extended just now.
		batch = slices.DeleteFunc(batch, func(l *Lease) bool { return l.err != nil || l.renewing != nil })
		for _, l := range batch {
			l.renewing = make(chan struct{})
			l.failed = true // until Extended
		}
		if len(batch) > 0 {
			return batch
		}
	}
}

// renewed ends the renewal of a batch.
func (k *Keeper) renewed(batch []*Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for _, l := range batch {
		close(l.renewing)
		l.renewing = nil
		if l.err == nil {
			l.schedule(now)
		}
	}
}

type leases []*Lease

func (h leases) Len() int           { return len(h) }
func (h leases) Less(i, j int) bool { return h[i].next.Before(h[j].next) }
func (h leases) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *leases) Push(x any) {
	l := x.(*Lease)
	l.index = len(*h)
	*h = append(*h, l)
}

func (h *leases) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	l.index = -1
	*h = old[:len(old)-1]
	return l
}
