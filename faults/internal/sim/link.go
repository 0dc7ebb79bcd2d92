package sim

import (
	"math/rand/v2"
	"time"
)

// A link is the network between a client and a server. It delivers every message, in order for each connection. That may take
// long, as in TCP when packets are lost. A link can also be cut for a while.
type link struct {
	world          *world
	client, server int
	cuts           *rand.Rand
	cutFrom, cutTo time.Duration // the present or next cut
	held           time.Duration // until this moment hold has cut the link
}

func newLink(w *world, client, server int) *link {
	l := &link{world: w, client: client, server: server, cuts: w.stream("cuts", client, server)}
	l.next()
	return l
}

// next draws the next cut.
func (l *link) next() {
	if !l.world.Weather.Cut {
		l.cutFrom, l.cutTo = 1<<62, 1<<62
		return
	}
	l.cutFrom = l.cutTo + exponential(l.cuts, 4*l.world.Weather.Calm)
	l.cutTo = l.cutFrom + between(l.cuts, ttl/10, 2*ttl)
}

// Events that are no messages of a client. dice gets them, added to the kind of the message before the event if there was one.
const (
	closing = 1 << (60 + iota)
	breaking
	replying
	subscribing
)

// dice returns random numbers for a message of the given kind that is sent now. They depend on nothing else than the seed, the
// link, the moment and the kind: neither on which of several goroutines is first nor on which connection it got.
func (l *link) dice(kind uint64) *rand.Rand {
	w := l.world
	return rand.New(rand.NewPCG(mix(w.seed, uint64(l.client), uint64(l.server)), mix(uint64(w.now()), kind)))
}

// mix makes one number of several, which may be alike.
func mix(numbers ...uint64) (h uint64) {
	for _, n := range numbers {
		h += n + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// delay draws how long a message that is sent now takes.
func (l *link) delay(r *rand.Rand) time.Duration {
	now := l.world.now()
	d := 50*time.Microsecond + exponential(r, 300*time.Microsecond)
	if r.Float64() < l.world.Weather.Slow {
		d = between(r, time.Millisecond, 2*ttl)
	}
	if late := l.world.Weather.Late; late > 0 && r.Float64() < late {
		d = max(d, between(r, time.Millisecond, 2*nodeTimeout))
	}
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	for now+d >= l.cutTo {
		l.next()
	}
	if now+d >= l.cutFrom { // the message is sent again until the link has healed
		d = l.cutTo - now + between(r, time.Millisecond, 30*time.Millisecond)
	}
	if now < l.held {
		d = max(d, l.held-now+between(r, time.Microsecond, 5*time.Millisecond))
	}
	return d
}

// turn returns a few nanoseconds, which depend on the link and the kind of message. So what a client does at the same moment,
// on one server or on all, ends in an order that does not depend on which of its goroutines runs first.
func (l *link) turn(kind uint64) time.Duration {
	return time.Duration(1 + kind%256 + 256*uint64(l.client*len(l.world.servers)+l.server))
}

// hold cuts the link until the moment to.
func (l *link) hold(to time.Duration) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	l.held = to
}
