package keepalive

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"time"
)

// A Keeper watches over many leases with one timer. Neither the timer's goroutine nor a renewal waits for another renewal. So
// a server that hangs delays no loss signal, and no renewal on another node.
type Keeper struct {
	renew func(due []*Lease)
	began time.Time

	mu      sync.Mutex
	leases  leases // a heap, ordered by next
	timer   *time.Timer
	armed   time.Time // when the timer fires; zero: it is not set, or has fired
	beat    time.Time // when the wall clock is compared next
	closed  bool
	running sync.WaitGroup // ticks and renewals
}

const (
	heartbeat = time.Second            // how often the wall clock is compared to the monotonic clock, while there are leases
	jump      = 20 * time.Millisecond  // how far it must run ahead to move an end closer; less may be a reading error
	early     = 100 * time.Millisecond // how early a lease may be renewed together with others; less for short leases
	// Patience is how long a lease waits after a hand-off before it asks for its TTL. After a short hand-off it waits less. Many
	// holds are over by then, and need no request but the release.
	Patience = 10 * time.Millisecond
)

// New returns a Keeper that calls renew on its own goroutine. due are the leases to renew, sorted by their end. For each of
// them renew must call Renewed before it returns. If the servers have decided, it must call Extended or End before Renewed. It
// may make these calls from any goroutine.
func New(renew func(due []*Lease)) *Keeper { return &Keeper{renew: renew, began: time.Now()} }

// at returns t as the time since the Keeper was made. That takes a third of the memory of a time.Time.
func (k *Keeper) at(t time.Time) time.Duration { return t.Sub(k.began) }

// Start begins the life of l, which must be the zero Lease. It reports false if the Keeper is closed.
func (k *Keeper) Start(l *Lease, t Terms) bool {
	l.keeper, l.holder = k, t.Holder
	if t.Renew {
		l.last = math.MaxInt64
		if t.MaxHold > 0 {
			l.last = k.at(t.Began.Add(t.MaxHold))
		}
	}
	l.ttl, l.handOff, l.index = t.TTL, t.HandOff, -1
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		l.reason.Store(int32(Closed))
		return false
	}
	now := time.Now()
	if k.armed.IsZero() { // there was no lease, so no heartbeat either
		k.beat = now.Add(heartbeat)
	}
	l.until = nearer(t.Until, now)
	l.schedule(k.at(t.Began.Add(min(Patience, t.HandOff/20))))
	return true
}

func (k *Keeper) Leases() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.leases)
}

// Close ends all leases, and waits until no tick and no renewal runs any more.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop() // a tick that begins all the same sees closed
	}
	k.mu.Unlock()
	for _, l := range k.Leases() {
		l.End(Closed, time.Now())
	}
	k.running.Wait()
}

// remove ends l, which is alive, and forgets it. It leaves the timer as it is: a useless wake-up costs less than setting it
// for each lock. After a hand-off it resets the timer, or that would wake the process for each hold. The caller holds k.mu.
func (k *Keeper) remove(l *Lease, r Reason) {
	l.reason.Store(int32(r))
	heap.Remove(&k.leases, int(l.index))
	if l.handOff > 0 {
		k.timer.Stop()
		k.armed = time.Time{}
		k.arm()
	}
}

// arm sets the timer for the lease that is first by next, unless it fires before that anyway. A timer that fires just now may
// fire twice, which is harmless. The caller holds k.mu.
func (k *Keeper) arm() {
	if k.closed || len(k.leases) == 0 {
		return
	}
	next := k.began.Add(k.leases[0].next)
	if k.beat.Before(next) {
		next = k.beat
	}
	if !k.armed.IsZero() && !next.Before(k.armed) {
		return
	}
	k.armed = next
	if k.timer == nil {
		k.timer = time.AfterFunc(time.Until(next), k.tick)
	} else {
		k.timer.Reset(time.Until(next))
	}
}

// tick announces losses and hands out renewals.
func (k *Keeper) tick() {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	k.running.Add(1)
	defer k.running.Done()
	now := time.Now()
	if !now.Before(k.beat) {
		k.beat = now.Add(heartbeat)
		for _, l := range slices.Clone(k.leases) {
			if until := nearer(l.until, now); l.until.Sub(until) > jump {
				l.until = until
				l.schedule(0)
			}
		}
	}
	lost, due := k.collect(now)
	if len(due) > 0 {
		k.running.Go(func() { k.renew(due) })
	}
	k.armed = time.Time{} // not earlier: a lease that was scheduled above needs no timer of its own
	k.arm()
	k.mu.Unlock()
	for _, l := range lost {
		l.holder.Lost(Expired)
	}
}

// collect removes the leases that are over, and picks the leases to renew now. The caller holds k.mu.
func (k *Keeper) collect(now time.Time) (lost, due []*Lease) {
	at := k.at(now)
	for len(k.leases) > 0 {
		l := k.leases[0]
		soon := at
		if l.handOff == 0 { // a lease is renewed late after a hand-off: most holds end before that
			soon += min(early, l.pace()/100)
		}
		if loss := l.loss(); loss <= at || l.over(now) {
			k.remove(l, Expired)
			lost = append(lost, l)
		} else if l.next < loss && l.next <= soon {
			l.renewing = true
			l.schedule(0)
			due = append(due, l)
		} else {
			break
		}
	}
	slices.SortFunc(due, func(a, b *Lease) int { return a.until.Compare(b.until) })
	return lost, due
}

type leases []*Lease

func (h leases) Len() int           { return len(h) }
func (h leases) Less(i, j int) bool { return h[i].next < h[j].next }
func (h leases) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i), int32(j)
}

func (h *leases) Push(x any) {
	l := x.(*Lease)
	l.index = int32(len(*h))
	*h = append(*h, l)
}

func (h *leases) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}
