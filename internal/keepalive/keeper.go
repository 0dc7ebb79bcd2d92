package keepalive

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"time"
)

// A Keeper watches over many leases with one timer. Neither the timer's goroutine nor a renewal waits for
// another renewal, so a server that hangs delays no loss signal, and no lease that another node serves.
type Keeper struct {
	renew func(due []*Lease)
	began time.Time

	mu      sync.Mutex
	leases  leases // by next
	timer   *time.Timer
	armed   time.Time // when the timer fires; zero: it is not set, or has fired
	beat    time.Time // when the wall clock is compared next
	closed  bool
	running sync.WaitGroup // ticks and renewals
}

const (
	heartbeat = time.Second            // how often the wall clock is compared to the monotonic one while there are leases
	jump      = 20 * time.Millisecond  // by how much it has to run ahead to bring an end nearer; less may be how they are read
	early     = 100 * time.Millisecond // how much before its time a lease may be renewed, with others; less with short leases
	// Patience is how long a lease that was handed off waits before it asks for its TTL. With a short hand-off
	// lease it is less. Many holds are over by then, and need no request but the release.
	Patience = 10 * time.Millisecond
)

// New returns a Keeper that calls renew, on a goroutine of its own, for leases that are due, the one that
// ends first in front. renew has to call Renewed for each of them, from any goroutine, before it returns; and
// Extended or End before that, if the servers have decided.
func New(renew func(due []*Lease)) *Keeper { return &Keeper{renew: renew, began: time.Now()} }

// at returns t as the time since the Keeper was made, which takes a third of the room of a time.Time.
func (k *Keeper) at(t time.Time) time.Duration { return t.Sub(k.began) }

// Start begins the life of l, which is the zero Lease. It reports false if the Keeper is closed.
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

// Close ends all leases and waits until nothing of the Keeper runs any more.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop() // a tick that begins all the same finds it closed
	}
	k.mu.Unlock()
	for _, l := range k.Leases() {
		l.End(Closed, time.Now())
	}
	k.running.Wait()
}

// remove ends l, which is alive, and forgets it. The timer stays as it is: waking up for nothing once costs less than setting
// the timer for every lock. Not after a hand-off, where it would wake the process for each hold. The caller holds k.mu.
func (k *Keeper) remove(l *Lease, r Reason) {
	l.reason.Store(int32(r))
	heap.Remove(&k.leases, int(l.index))
	if l.handOff > 0 {
		k.timer.Stop()
		k.armed = time.Time{}
		k.arm()
	}
}

// arm sets the timer for the lease that needs it first, unless it fires before that anyhow. One that fires just now may
// fire twice, which does no harm. The caller holds k.mu.
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

// tick tells losses and hands out renewals.
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
	k.armed = time.Time{} // not before: what is scheduled meanwhile needs no timer of its own
	k.arm()
	k.mu.Unlock()
	for _, l := range lost {
		l.holder.Lost(Expired)
	}
}

// collect takes out what is over, and what is to be renewed now. The caller holds k.mu.
func (k *Keeper) collect(now time.Time) (lost, due []*Lease) {
	at := k.at(now)
	for len(k.leases) > 0 {
		l := k.leases[0]
		soon := at
		if l.handOff == 0 { // a lease that was handed off is renewed late: most holds end before
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
