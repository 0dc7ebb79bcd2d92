package sim

import (
	"context"
	"math/rand/v2"
	"time"
)

// A locker is a lock of some library, as one worker uses it.
type locker interface {
	// lock returns nil if it did not get the lock.
	lock(ctx context.Context, blocking bool) *hold
	unlock(h *hold)
	done(h *hold) <-chan struct{} // nil if the library does not report a loss
}

// A worker takes the lock again and again.
type worker struct {
	world  *world
	number int
	random *rand.Rand
	locker locker
}

func (w *worker) run() {
	for !w.world.ended() {
		rest := 3 * time.Millisecond
		if w.world.Few {
			rest = ttl / 2
		}
		w.world.sleep(exponential(w.random, rest))
		w.once()
	}
}

// once makes one call for the lock, and holds the lock if it got it.
func (w *worker) once() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	patience := w.world.patience(w.random)
	blocking := w.random.IntN(4) == 0
	if !blocking {
		timer := time.AfterFunc(patience, cancel)
		defer timer.Stop()
	}
	began := w.world.now()
	h := w.locker.lock(ctx, blocking)
	if h == nil {
		return
	}
	h.worker, h.began = w.number, began
	w.world.judge.acquired(h)
	w.world.note("worker", w.number, 0, "acquired")
	w.work(h)
	w.world.judge.released(h)
	w.world.note("worker", w.number, 0, "unlocks")
	w.locker.unlock(h)
}

// patience draws how long a call waits for the lock. Some calls are cancelled early.
func (w *world) patience(random *rand.Rand) time.Duration {
	patience := between(random, ttl/4, 4*ttl)
	if random.Float64() < w.Weather.Cancel {
		patience = between(random, time.Microsecond, 10*time.Millisecond)
	}
	return patience
}

// length draws how long a critical section is. Most are short, and some last until the lease ends.
func (w *world) length(random *rand.Rand) time.Duration {
	length := exponential(random, 2*time.Millisecond)
	if random.Float64() < w.Weather.Long {
		length = between(random, ttl/2, 2*ttl)
	}
	return length
}

// work is the critical section. Some holders are paused in it for longer than the lease, and do not notice it.
func (w *worker) work(h *hold) {
	judge := &w.world.judge
	length := w.world.length(w.random)
	paused := w.random.Float64() < w.world.Weather.Pause
	if h.valid() {
		judge.write(h)
	}
	if o, ok := w.locker.(*mixed); ok {
		o.extend(w.random, h, length)
	}
	switch {
	case paused:
		w.world.sleep(between(w.random, ttl/2, 3*ttl))
		judge.write(h) // the holder looked at its lease just before it was paused
	case w.locker.done(h) == nil:
		w.world.sleep(length)
	default:
		timer := time.NewTimer(length)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.locker.done(h):
			w.world.sleep(between(w.random, time.Microsecond, ttl)) // until the holder has stopped its work
		}
	}
	if h.valid() {
		judge.write(h)
	}
}
