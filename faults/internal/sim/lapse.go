package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/redimutex/redimutex"
)

const perLapses = 25 // lapses in an episode

// lapse makes the leases of one client lapse, again and again. The links of a redimutex client are cut until the lease has
// expired, at the client and on the servers. What was sent meanwhile arrives after that. In half of the cases another client
// takes the lock. A lease of redsync lapses because nothing renews it.
func lapse(c Config, seed uint64) *Report {
	w := newWorld(c, seed)
	pools, others := w.pools(0), w.pools(1)
	client, other := w.newClient(0, pools), w.newClient(1, others)
	random := w.stream("lapse")
	for i := range perLapses {
		if c.Library == "redsync" {
			w.lapseTheirs(random, w.newTheirs(i, pools, redsync.WithSetNXOnExtend()))
		} else {
			w.lapseOurs(random, client.Mutex(key), other.Mutex(key))
		}
		w.sleep(2 * ttl) // by then, all that was left behind has expired or was released
	}
	w.finish(func() {
		w.close(client, pools)
		w.close(other, others)
	})
	return w.report()
}

// cutOff cuts the links of client 0 to a majority of the servers, at least, until a lease that begins now has expired.
func (w *world) cutOff(random *rand.Rand) (heals time.Duration) {
	heals = w.now() + 2*ttl + between(random, time.Millisecond, ttl)
	whole := random.IntN(len(w.servers)/2 + 1) // how many links stay whole
	for _, i := range random.Perm(len(w.servers))[whole:] {
		w.links[0][i].hold(heals)
		w.ill(i, w.now(), heals, "cut")
	}
	return heals
}

func (w *world) lapseOurs(random *rand.Rand, mine, other *redimutex.Mutex) {
	mine.Lock()
	lease := mine.Lease()
	h := &hold{token: lease.Token(), valid: func() bool { return lease.Err() == nil }}
	w.judge.acquired(h)
	w.sleep(between(random, time.Millisecond, ttl)) // the lease may be renewed meanwhile
	heals := w.cutOff(random)
	extended := make(chan error, 1)
	stuck := between(random, 1, ttl) // an extension by hand, which is under way when the lease expires
	time.AfterFunc(stuck, func() { extended <- lease.Extend(context.Background(), ttl) })
	<-lease.Done()
	w.lapsed(h)
	taken := random.IntN(2) == 0
	if taken {
		other.Lock()
		theirs := other.Lease()
		w.judge.acquired(&hold{worker: each, token: theirs.Token(), valid: func() bool { return theirs.Err() == nil }})
	}
	<-extended
	if err := lease.Extend(context.Background(), ttl); !errors.Is(err, redimutex.ErrLost) {
		w.judge.revived("an extension of a lease that had expired said %v", err)
	}
	// What was stuck in the links arrives from now on.
	for w.now() < heals+ttl {
		w.sleep(ttl / 20)
		w.inspect(h)
	}
	if taken {
		w.judge.forget()
		other.Unlock()
	}
	if err := mine.UnlockContext(context.Background()); !errors.Is(err, redimutex.ErrLost) {
		w.judge.revived("the release of a lease that had expired said %v", err)
	}
	w.judge.forget()
}

func (w *world) lapseTheirs(random *rand.Rand, m *theirs) {
	h := m.lock(context.Background(), true)
	w.judge.acquired(h)
	w.sleep(2 * ttl)
	w.lapsed(h)
	if m.Extend(context.Background(), ttl) == nil {
		w.judge.revived("an extension of a lease that had expired succeeded")
	}
	m.unlock(h)
	w.judge.forget()
	w.sleep(between(random, time.Millisecond, ttl))
}

// inspect looks on the servers for the token of an expired lease. A token that was gone from a server must not come back.
func (w *world) inspect(h *hold) {
	w.judge.examine()
	for _, s := range w.servers {
		switch there := s.holder() == h.token; {
		case there && h.gone[s.number]:
			w.judge.revived("the key of a lease that had expired is back on server %d", s.number)
		case !there:
			h.gone[s.number] = true
		}
	}
}

// lapsed records that the lease of h has ended.
func (w *world) lapsed(h *hold) {
	w.judge.mu.Lock()
	w.judge.report.Lapsed++
	w.judge.look()
	w.judge.mu.Unlock()
	h.gone = make(map[int]bool)
	w.inspect(h)
	w.note("worker", 0, 0, "lapsed")
}
