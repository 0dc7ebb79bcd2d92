package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
)

// The terms of the locks. They are short, so that much happens in little time.
const (
	ttl         = 200 * time.Millisecond
	lasts       = ttl - ttl/100 - 2*time.Millisecond // how long a lease is valid, counted from its request
	nodeTimeout = 50 * time.Millisecond
	minPause    = 10 * time.Millisecond // between two tries
	maxPause    = 40 * time.Millisecond
	key         = "sim"
)

// A world is one episode of a simulation: servers, and clients that want one lock. It lives in a testing/synctest bubble, so
// its time moves on when all goroutines wait.
//
// What a goroutine draws must not depend on which goroutine runs first. So each client, worker, server and link has a stream
// of random numbers of its own, and the numbers for a message depend on its link, its moment and its kind. No two messages
// arrive in the same nanosecond.
type world struct {
	Config
	seed      uint64
	began     time.Time
	servers   []*server
	links     [][]*link // by client and server
	judge     judge
	given     chan redimutex.Handover // locks that another worker may take over, until noneGiven is closed
	noneGiven chan struct{}
	over      bool // protected by mu, as are the fields below

	mu     sync.Mutex
	taken  map[time.Duration]bool   // moments for which something is planned
	gone   map[string]time.Duration // when a foreign client has deleted a key
	hash   uint64
	events int
	trace  []string
	ills   []Stretch
}

// stream returns the random numbers of one actor.
func (w *world) stream(actor string, numbers ...int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, actor, numbers)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// now is how long the world has existed.
func (w *world) now() time.Duration { return time.Since(w.began) }

// reserve returns d, or the first moment after it for which nothing is planned yet.
func (w *world) reserve(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.taken[d] {
		d++
	}
	w.taken[d] = true
	return d
}

// ttl returns the TTL of the locks.
func (w *world) ttl() time.Duration { return max(w.TTL, ttl) }

func (w *world) free(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.taken, d)
}

// at runs f at the moment d, or a little later if something else happens then.
func (w *world) at(d time.Duration, f func()) {
	d = w.reserve(d)
	time.AfterFunc(d-w.now(), func() {
		w.free(d)
		f()
	})
}

// sleep waits for d and a few nanoseconds.
func (w *world) sleep(d time.Duration) {
	end := w.reserve(w.now() + max(d, 1))
	time.Sleep(end - w.now())
	w.free(end)
}

// note adds an event to the trace and its hash to the sum. The sum does not depend on the order of the events of one moment,
// and the moment is part of each hash.
func (w *world) note(actor string, number, other int, what string) {
	now := w.now()
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d %d %s", now, actor, number, other, what)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hash += h.Sum64()
	w.events++
	if w.Trace {
		w.trace = append(w.trace, fmt.Sprintf("%13d %s %d/%d %s", now, actor, number, other, what))
	}
}

// delete notes that a foreign client has deleted a key.
func (w *world) delete(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[key] = w.now()
}

// deleted returns when a foreign client last deleted the key.
func (w *world) deleted(key string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[key]
}

// ill notes a fault for the picture.
func (w *world) ill(server int, from, to time.Duration, kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if from < sceneLength {
		w.ills = append(w.ills, Stretch{server, from, to, kind})
	}
}

func (w *world) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// exponential draws a waiting time.
func exponential(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(r.ExpFloat64() * float64(mean))
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(max(high-low, 1)))) // they may be the same
}
