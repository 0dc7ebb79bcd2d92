package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// Here workers use every kind of lock: readers and writers, permits, several keys at once, and locks that are handed over.

const permits = 2

// A kinds worker takes a lock of another kind each time.
type kinds struct {
	world  *world
	number int
	random *rand.Rand
	rw     []*redimutex.RWMutex // the first is that of all workers of the client
	sem    *redimutex.Semaphore
	mutex  []*redimutex.Mutex // of one key, and of several
	taker  *redimutex.Mutex   // of the first key
}

// newKinds makes the locks of a worker. rw is what it shares with the others of its client.
func (w *world) newKinds(number int, client *redimutex.Client, rw *redimutex.RWMutex) *kinds {
	fences := redimutex.WithFencing()
	return &kinds{
		world: w, number: number, random: w.stream("kinds", number),
		rw:  []*redimutex.RWMutex{rw, client.RWMutex("rw", fences, redimutex.WithTTL(2*ttl), redimutex.WithoutRenewal())},
		sem: client.Semaphore("sem", permits),
		mutex: []*redimutex.Mutex{
			client.Mutex("a", fences), client.Mutex("b", fences),
			client.MutexAll([]string{"a", "b"}, fences), client.MutexAll([]string{"c", "b"}, fences),
		},
		taker: client.Mutex("a", fences),
	}
}

func (k *kinds) run() {
	for !k.world.ended() {
		k.world.sleep(exponential(k.random, 3*time.Millisecond))
		k.once()
	}
}

// once is one try, and the hold that may come of it.
func (k *kinds) once() {
	patience := between(k.random, ttl/4, 4*ttl)
	if k.random.Float64() < k.world.Weather.Cancel {
		patience = between(k.random, time.Microsecond, 10*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h := &hold{worker: k.number, fenced: true, began: k.world.now()}
	var lease *redimutex.Lease
	var err error
	switch n := k.random.IntN(10); {
	case n < 3:
		h.keys, h.reads = []string{"rw"}, true
		lease, err = k.rw[k.random.IntN(2)].RAcquire(ctx)
	case n == 3:
		h.keys = []string{"rw"}
		lease, err = k.rw[k.random.IntN(2)].Acquire(ctx)
	case n < 7:
		h.keys, h.permits, h.fenced = []string{"sem"}, permits, false
		lease, err = k.sem.Acquire(ctx)
	default:
		m := k.mutex[k.random.IntN(len(k.mutex))]
		h.keys = m.Keys()
		lease, err = m.Acquire(ctx)
	}
	if err != nil {
		return
	}
	k.hold(h, lease)
}

// hold has the lock for a while, and leaves it in one of the ways that there are.
func (k *kinds) hold(h *hold, lease *redimutex.Lease) {
	judge := &k.world.judge
	h.token, h.fence, h.valid = lease.Token(), lease.Fence(), func() bool { return lease.Err() == nil }
	judge.acquired(h)
	k.world.note("worker", k.number, 0, "acquired "+h.keys[0])
	k.work(h, lease)
	if !h.reads && h.keys[0] == "rw" && k.random.IntN(2) == 0 {
		judge.downgrades(h)
		_ = lease.Downgrade(context.Background()) //nolint:errcheck // what is lost the judge sees
		k.work(h, lease)
	}
	if len(h.keys) == 1 && h.keys[0] == "a" && k.random.IntN(2) == 0 {
		k.handOver(h, lease)
		return
	}
	judge.released(h)
	k.world.note("worker", k.number, 0, "unlocks "+h.keys[0])
	_ = lease.Release(context.Background()) //nolint:errcheck // the same
}

// work is as long as that of a worker, and may extend the lease.
func (k *kinds) work(h *hold, lease *redimutex.Lease) {
	length := exponential(k.random, 2*time.Millisecond)
	if k.random.Float64() < k.world.Weather.Long {
		length = between(k.random, ttl/2, 2*ttl)
	}
	if k.random.IntN(6) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), between(k.random, 1, nodeTimeout))
		_ = lease.Extend(ctx, between(k.random, ttl/8, 3*ttl)) //nolint:errcheck // the same
		cancel()
	}
	if k.random.Float64() < k.world.Weather.Pause {
		length = between(k.random, ttl/2, 3*ttl)
	}
	k.world.sleep(length)
}

// handOver gives the lock away, to whoever of two comes first.
func (k *kinds) handOver(h *hold, lease *redimutex.Lease) {
	k.world.judge.released(h)
	given, err := lease.HandOver(context.Background(), ttl)
	if err != nil && given == (redimutex.Handover{}) {
		return
	}
	k.world.note("worker", k.number, 0, "hands over")
	select {
	case k.world.given <- given: // another may take it over too
	default:
	}
	k.takeOver(given)
}

// takeOver goes on with a lock that was handed over.
func (k *kinds) takeOver(given redimutex.Handover) {
	h := &hold{worker: k.number, keys: []string{"a"}, fenced: true, began: k.world.now()}
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*nodeTimeout)
		err := k.taker.TakeOver(ctx, given)
		cancel()
		if err == nil {
			k.hold(h, k.taker.Lease())
			return
		}
	}
}

// takers take over what others have handed over, and may do so themselves.
func (k *kinds) takers() {
	for {
		select {
		case given := <-k.world.given:
			k.takeOver(given)
		case <-k.world.noneGiven:
			return
		}
	}
}

// downgrades takes in that a writer becomes a reader.
func (j *judge) downgrades(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.look()
	h.reads = true
}

// excludes reports whether two holds must not be valid at the same time.
func (h *hold) excludes(other *hold) bool {
	if h.keys == nil {
		return true
	}
	shared := slices.ContainsFunc(h.keys, func(k string) bool { return slices.Contains(other.keys, k) })
	return shared && h.permits == 0 && !(h.reads && other.reads)
}

// crowd returns how many hold permits, this one included. The caller holds j.mu.
func (j *judge) crowd(h *hold) int {
	n := 1
	for _, other := range j.alive {
		if !other.dead && other.permits > 0 {
			n++
		}
	}
	return n
}

// ordered reports whether a fence of h is right after one of other, which was there before h was asked for.
func (h *hold) ordered(other *hold) bool {
	return h.fence > other.fence || h.reads && h.fence == other.fence
}

// fences judges the fence of a new hold against those of its keys that were there before it was asked for. The caller
// holds j.mu.
func (j *judge) fences(h *hold) {
	for _, k := range h.keys {
		for _, other := range j.byKey[k] {
			if other.granted < h.wanted && !h.ordered(other) {
				j.wrong(&j.report.Inverted, "worker %d got the fence %d of %s although worker %d had %d before", h.worker, h.fence, k, other.worker, other.fence)
				return
			}
		}
		j.byKey[k] = append(j.byKey[k], h)
		if n := len(j.byKey[k]); n > 64 {
			j.byKey[k] = j.byKey[k][n/2:]
		}
	}
}

// motley are the Configs of row 37.
func motley() []Config {
	all := []Config{
		{Name: "redimutex, 1 server", Servers: 1, Renew: true},
		{Name: "redimutex, 1 server, queue", Servers: 1, Renew: true, Queue: true},
		{Name: "redimutex, 1 server, foreign pool", Servers: 1, Renew: true, Foreign: true},
		{Name: "redimutex, 1 server, fixed lease", Servers: 1},
	}
	for i := range all {
		all[i].Kinds, all[i].Weather = true, unruly
	}
	return all
}

// together is row 37.
func together(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	configs := motley()
	res, reports, err := table(ctx, s, 1200, 60000, configs)
	if err != nil {
		return res, err
	}
	for i, c := range configs {
		r := reports[i]
		f := judged(c, r, r.Overlaps, r.Acquired, "overlaps")
		f = alsoBroken(f, r.Revived, "leases revived")
		f = alsoBroken(f, r.Inverted, "fences not higher than the one before")
		res.Figures = append(res.Figures, f)
	}
	return res, nil
}
