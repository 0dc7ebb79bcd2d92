package load

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// Permits is the limit of the semaphore.
const Permits = 2

// Kinds acts like a process that uses all kinds of locks. All Kinds with the same prefix of keys compete.
type Kinds struct {
	*Ledger
	random *rand.Rand
	ways   []way
	taker  *redimutex.Mutex
	work   time.Duration

	favourites []string // keys
}

type way struct {
	hold    Hold
	acquire func(context.Context) (*redimutex.Lease, error)
}

// NewKinds makes the locks of a process. Readers, writers, plain Mutexes and locks of several keys have keys in common. A hold
// lasts for work at most, or now and then for up to 20 times that.
func NewKinds(l *Ledger, client *redimutex.Client, prefix string, random *rand.Rand, work time.Duration) *Kinds {
	fences := redimutex.WithFencing()
	rw, job, permits := prefix+"rw", prefix+"job", prefix+"permits"
	m := client.RWMutex(rw, fences)
	k := &Kinds{Ledger: l, random: random, taker: client.Mutex(job, fences), work: max(work, time.Millisecond), favourites: []string{rw, job, permits}}
	add := func(h Hold, acquire func(context.Context) (*redimutex.Lease, error), often int) {
		for range often {
			k.ways = append(k.ways, way{h, acquire})
		}
	}
	add(Hold{Keys: []string{rw}, Reads: true}, m.RAcquire, 4)
	add(Hold{Keys: []string{rw}, Writes: true}, m.Acquire, 2)
	add(Hold{Keys: []string{rw}}, client.Mutex(rw, fences).Acquire, 1)
	add(Hold{Keys: []string{rw, job}}, client.MutexAll([]string{rw, job}, fences).Acquire, 1)
	add(Hold{Keys: []string{job}}, k.taker.Acquire, 2)
	add(Hold{Keys: []string{permits}, Permits: Permits}, client.Semaphore(permits, Permits).Acquire, 3)
	return k
}

// Run takes locks until ctx ends. If a call for a lock fails, Run calls told with the error, and goes on.
func (k *Kinds) Run(ctx context.Context, told func(error)) {
	for ctx.Err() == nil {
		w := k.draw()
		h := w.hold
		h.Asked = time.Now()
		var err error
		if h.Lease, err = w.acquire(ctx); err == nil {
			k.hold(ctx, &h)
		} else if ctx.Err() == nil {
			told(err)
			evidence.Sleep(ctx, k.work)
		}
	}
}

// draw returns a way to lock. For a while many calls want the same key, and then another key.
func (k *Kinds) draw() way {
	favourite := k.favourites[time.Now().UnixMilli()/250%int64(len(k.favourites))]
	for {
		w := k.ways[k.random.IntN(len(k.ways))]
		if w.hold.Keys[0] == favourite || k.random.IntN(4) == 0 {
			return w
		}
	}
}

// hold keeps the lock for a while, and then releases it or hands it over. A writer may become a reader meanwhile.
func (k *Kinds) hold(ctx context.Context, h *Hold) {
	k.Begin(h)
	length := evidence.Between(k.random, 0, k.work)
	if k.random.IntN(20) == 0 {
		length *= 20
	}
	evidence.Sleep(ctx, length)
	free := context.Background()
	switch {
	case k.random.IntN(2) == 0: // it is released below
	case len(h.Keys) == 1 && h.Keys[0] == k.taker.Key():
		k.End(h)
		given, _ := h.HandOver(free, time.Second) //nolint:errcheck // the hand-over may work in spite of an error
		k.take(ctx, given, h.Keys)
		return
	case h.Writes:
		k.Downgrade(h)
		_ = h.Lease.Downgrade(free) //nolint:errcheck // a lost lease says so itself
		evidence.Sleep(ctx, length)
	}
	k.Release(h)
}

// take takes over a lock that was handed over, and goes on with it.
func (k *Kinds) take(ctx context.Context, given redimutex.Handover, keys []string) {
	if given == (redimutex.Handover{}) {
		return
	}
	h := &Hold{Keys: keys, Asked: time.Now()}
	if k.taker.TakeOver(ctx, given) == nil {
		h.Lease = k.taker.Lease()
		k.hold(ctx, h)
	}
}
