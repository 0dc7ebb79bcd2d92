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
	patience := between(w.random, ttl/4, 4*ttl)
	if w.random.Float64() < w.world.Weather.Cancel {
		patience = between(w.random, time.Microsecond, 10*time.Millisecond)
	}
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

// work is the critical section. Most are short, and some last until the lease ends. Some are paused for longer than the lease,
// and do not notice it.
func (w *worker) work(h *hold) {
	judge, weather := &w.world.judge, w.world.Weather
	length := exponential(w.random, 2*time.Millisecond)
	if w.random.Float64() < weather.Long {
		length = between(w.random, ttl/2, 2*ttl)
	}
	paused := w.random.Float64() < weather.Pause
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
