package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redimutex/redimutex"
)

// Here workers do what else the library lets them do with a lock. They extend leases, give up waiting for the extension, and
// unlock while it is under way. And they use Mutexes with different options for the same key.

// mixed is a locker that uses one of several Mutexes of a Client each time.
type mixed struct {
	ours
	random  *rand.Rand
	mutexes []*redimutex.Mutex
}

func (w *world) newMixed(worker int, client *redimutex.Client) *mixed {
	m := &mixed{ours: ours{world: w}, random: w.stream("mixed", worker)}
	add := func(ttl time.Duration, opts ...redimutex.Option) {
		m.mutexes = append(m.mutexes, client.Mutex(key, append(opts, redimutex.WithTTL(ttl))...))
	}
	add(ttl)
	add(ttl, redimutex.WithLeaseReuse(ttl/3))
	add(ttl, redimutex.WithLeaseReuse(ttl/3)) // another Mutex with the same options
	add(2*ttl, redimutex.WithLeaseReuse(ttl/2))
	add(2*ttl, redimutex.WithoutRenewal())
	add(ttl, redimutex.WithMinHold(ttl/10))
	return m
}

func (m *mixed) lock(ctx context.Context, blocking bool) *hold {
	if m.mutex == nil || m.random.IntN(2) == 0 { // otherwise it uses the same one, which may have left something behind
		m.mutex = m.mutexes[m.random.IntN(len(m.mutexes))]
	}
	h := m.ours.lock(ctx, blocking)
	if h == nil {
		return nil
	}
	h.until, h.lasts = nil, m.lease.Until
	return h
}

// extend extends the lease a few times within about d. In two of three cases it may give up waiting for the outcome, or it
// does not wait at all.
func (m *mixed) extend(random *rand.Rand, h *hold, d time.Duration) {
	if random.IntN(3) > 0 {
		return
	}
	lease := m.lease
	for range 1 + random.IntN(3) {
		m.world.sleep(exponential(random, min(d/4, nodeTimeout/5)))
		to := between(random, ttl/8, ttl)
		if random.IntN(2) == 0 {
			to = between(random, ttl, 4*ttl)
		}
		ctx, cancel := context.WithCancel(context.Background())
		patience := exponential(random, nodeTimeout/5)
		switch random.IntN(3) {
		case 0:
			_ = lease.Extend(ctx, to) //nolint:errcheck // the judge sees a loss
			cancel()
		case 1:
			m.world.at(m.world.now()+patience, cancel)
			_ = lease.Extend(ctx, to) //nolint:errcheck // the same
		default:
			delay := between(random, 1, ttl/10) // perhaps when the next hold has begun
			if random.IntN(2) == 0 {
				delay = between(random, 1, d+1) // perhaps just before this hold ends
			}
			m.world.at(m.world.now()+delay, func() {
				_ = lease.Extend(ctx, to) //nolint:errcheck // the same
				cancel()
			})
		}
	}
	if left := time.Until(lease.Until()); left > 0 && random.IntN(3) == 0 {
		m.world.sleep(between(random, 1, left+ttl/4)) // to make use of the extension
	}
}

// unrulies returns the Configs of row 24.
func unrulies() []Config {
	all := []Config{
		{Name: "redimutex, 1 server, fences", Servers: 1, Renew: true, Fencing: true},
		{Name: "redimutex, 1 server, fixed lease", Servers: 1},
		{Name: "redimutex, 1 server, foreign clients", Servers: 1, Renew: true, Strangers: true},
		{Name: "redimutex, 1 server, foreign pool", Servers: 1, Renew: true, Fencing: true, Foreign: true},
		{Name: "redimutex, 3 servers, fences", Servers: 3, Renew: true, Fencing: true},
		{Name: "redimutex, 1 server, queue, fences", Servers: 1, Renew: true, Fencing: true, Queue: true},
		{Name: "redimutex, 1 server, queue, listeners at a replica", Servers: 1, Renew: true, Queue: true, Astray: true},
		{Name: "redsync, 1 server", Library: "redsync", Servers: 1},
	}
	for i := range all {
		all[i].Mixed, all[i].Weather = true, unruly
	}
	return all
}
