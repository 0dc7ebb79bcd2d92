package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redimutex/redimutex"
)

// Here workers use every kind of lock: readers and writers, permits, several keys at once, and locks that are handed over.

const permits, shared = 2, "rw" // one worker allows one permit more

// A kinds is a worker that takes a lock of another kind each time.
type kinds struct {
	world  *world
	number int
	random *rand.Rand
	ways   []way
	taker  *redimutex.Mutex // of the key that is handed over
}

// A way is a kind of lock, and how it is used.
type way struct {
	hold    hold // what is known of the hold before it is granted
	acquire func(context.Context) (*redimutex.Lease, error)
}

// newKinds makes the locks of a worker. Readers, writers, plain Mutexes, locks of several keys and foreign clients share a
// key. rw is the RWMutex that the workers of a client share; nil: there is none.
func (w *world) newKinds(number int, client *redimutex.Client, rw *redimutex.RWMutex) *kinds {
	fences := redimutex.WithFencing()
	k := &kinds{world: w, number: number, random: w.stream("kinds", number), taker: client.Mutex("a", fences)}
	add := func(often int, h hold, acquire func(context.Context) (*redimutex.Lease, error)) {
		h.worker, h.fenced, h.span = number, h.permits == 0, max(h.span, ttl)
		for range often {
			k.ways = append(k.ways, way{h, acquire})
		}
	}
	for _, keys := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"c", "b"}, {shared}, {shared, "b"}} {
		add(1, hold{keys: keys}, client.MutexAll(keys, fences).Acquire)
	}
	add(1, hold{keys: []string{"a"}}, client.Mutex("a", fences).Acquire)
	if rw != nil {
		long := 2 * ttl
		if w.Guard { // the restart guard knows of one TTL
			long = ttl
		}
		fixed := client.RWMutex(shared, fences, redimutex.WithTTL(long), redimutex.WithoutRenewal())
		for _, m := range []*redimutex.RWMutex{rw, fixed} {
			add(3, hold{keys: []string{shared}, reads: true, span: long}, m.RAcquire)
			add(1, hold{keys: []string{shared}, writes: true, span: long}, m.Acquire)
		}
	}
	if rw != nil || w.Counting {
		limit := permits
		if number == clients*each-1 {
			limit++
		}
		add(6, hold{keys: []string{"sem"}, permits: limit}, client.Semaphore("sem", limit).Acquire)
	}
	return k
}

func (k *kinds) run() {
	for !k.world.ended() {
		k.world.sleep(exponential(k.random, 3*time.Millisecond))
		k.once()
	}
}

// once makes one try, and uses the lock if it got it.
func (k *kinds) once() {
	ctx, cancel := context.WithTimeout(context.Background(), k.world.patience(k.random))
	defer cancel()
	way := k.draw()
	h := way.hold
	h.began = k.world.now()
	if lease, err := way.acquire(ctx); err == nil {
		k.hold(&h, lease)
	}
}

// draw returns a way to lock. For three seconds many workers want the same key, and then another key.
func (k *kinds) draw() way {
	favourite := []string{"a", shared, "sem"}[k.world.now()/(3*time.Second)%3]
	if k.world.Only != "" {
		favourite = k.world.Only
	}
	for {
		w := k.ways[k.random.IntN(len(k.ways))]
		if w.hold.keys[0] == favourite || k.world.Only == "" && k.random.IntN(4) == 0 {
			return w
		}
	}
}

// hold keeps the lock for a while, and then releases it or hands it over. A writer may become a reader meanwhile.
func (k *kinds) hold(h *hold, lease *redimutex.Lease) {
	judge := &k.world.judge
	h.token, h.fence, h.until, h.valid = lease.Token(), lease.Fence(), lease.Until, func() bool { return lease.Err() == nil }
	judge.acquired(h)
	k.world.note("worker", k.number, 0, "acquired "+h.keys[0])
	k.work(h, lease)
	if h.writes && k.random.IntN(2) == 0 {
		judge.downgrades(h)
		_ = lease.Downgrade(context.Background()) //nolint:errcheck // the judge sees a loss
		k.work(h, lease)
	}
	if len(h.keys) == 1 && h.keys[0] == "a" && k.random.IntN(2) == 0 {
		k.handOver(h, lease)
		return
	}
	judge.released(h)
	k.world.note("worker", k.number, 0, "unlocks "+h.keys[0])
	_ = lease.Release(context.Background()) //nolint:errcheck // the judge sees a loss
}

// work lasts as long as that of a worker. It may extend the lease at the beginning and at the end.
func (k *kinds) work(h *hold, lease *redimutex.Lease) {
	length := k.world.length(k.random)
	k.extend(h, lease)
	if k.random.Float64() < k.world.Weather.Pause {
		length = between(k.random, ttl/2, 3*ttl)
	}
	k.world.sleep(length)
	if h.valid() {
		k.extend(h, lease)
	}
}

// extend extends the lease now and then.
func (k *kinds) extend(h *hold, lease *redimutex.Lease) {
	if k.random.IntN(8) > 0 {
		return
	}
	to := between(k.random, ttl/8, 3*ttl)
	if k.world.Guard { // the restart guard knows of one TTL
		to = min(to, ttl)
	}
	k.world.judge.extends(h, to)
	ctx, cancel := context.WithTimeout(context.Background(), between(k.random, 1, nodeTimeout))
	defer cancel()
	_ = lease.Extend(ctx, to) //nolint:errcheck // the judge sees a loss
	k.world.judge.examine()
}

// handOver hands the lock over. This worker and perhaps another one try to take it over, and the first of them gets it.
func (k *kinds) handOver(h *hold, lease *redimutex.Lease) {
	k.world.judge.released(h)
	given, err := lease.HandOver(context.Background(), ttl)
	if err != nil && given == (redimutex.Handover{}) {
		return
	}
	k.world.note("worker", k.number, 0, "hands over")
	select {
	case k.world.given <- given: // another worker may try to take it over too
	default:
	}
	k.takeOver(given)
}

// takeOver goes on with a lock that was handed over.
func (k *kinds) takeOver(given redimutex.Handover) {
	h := &hold{worker: k.number, keys: []string{"a"}, fenced: true, span: ttl, began: k.world.now()}
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

// takers takes over locks that other workers have handed over, and may hand them over again.
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

// downgrades records that a writer becomes a reader.
func (j *judge) downgrades(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.look()
	h.reads, h.writes = true, false
}

// examine looks at all leases.
func (j *judge) examine() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.look()
}

// extends records the TTL that a holder asks for.
func (j *judge) extends(h *hold, to time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h.span = max(h.span, to)
}

// excludes reports whether two holds must not be valid at the same time.
func (h *hold) excludes(other *hold) bool {
	if h.keys == nil {
		return true
	}
	shared := slices.ContainsFunc(h.keys, func(k string) bool { return slices.Contains(other.keys, k) })
	return shared && h.permits == 0 && !(h.reads && other.reads)
}

// crowd returns how many hold permits, h included. A holder with a higher limit does not count if it learned of its permit
// after the token of h was first sent: on the server, it may have come after h. The first send of the token decides, because h
// may have taken over the try of an earlier call, which had the permit on the server already. The caller holds j.mu.
func (j *judge) crowd(h *hold) int {
	n := 1
	for _, other := range j.alive {
		if !other.dead && other.permits > 0 && (other.permits <= h.permits || other.granted < j.wanted[h.token]) {
			n++
		}
	}
	return n
}

// ordered reports whether the fence of h may follow that of other, which was granted before h was asked for.
func (h *hold) ordered(other *hold) bool {
	return h.fence > other.fence || h.reads && h.fence == other.fence
}

// fences judges the fence of a new hold against the holds of its keys that were granted before it was asked for. The caller
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

// motley returns the Configs of row 37.
func motley() []Config {
	all := []Config{
		{Name: "redimutex, 1 server", Servers: 1, Renew: true},
		{Name: "redimutex, 1 server, queue", Servers: 1, Renew: true, Queue: true},
		{Name: "redimutex, 1 server, foreign pool", Servers: 1, Renew: true, Foreign: true},
		{Name: "redimutex, 1 server, fixed lease", Servers: 1},
		{Name: "redimutex, 1 server, foreign clients that lock and delete", Servers: 1, Renew: true, Strangers: true},
		{Name: "redimutex, 1 server, restarts without data, restart guard", Servers: 1, Renew: true, Guard: true},
		{Name: "redimutex, 3 servers, Mutexes of one key and of several, handed over", Servers: 3, Renew: true},
	}
	for i := range all {
		all[i].Kinds, all[i].Weather = true, unruly
		switch {
		case all[i].Guard:
			all[i].Weather = forgetful
		case all[i].Strangers:
			all[i].Weather.Rob = .2
		}
	}
	return all
}
