package sim

import (
	"context"
	"sync"
	"time"
)

const perEndured = 20 // restarts in an episode

// endure makes one client hold the lock while servers restart, one at a time. Each is down for longer than a TTL and comes
// back without its data. The other clients want the lock all the time.
func endure(c Config, seed uint64) *Report {
	w := newWorld(c, seed)
	random := w.stream("endure")
	pools := w.pools(0)
	client := w.newClient(0, pools)
	o := &ours{world: w, mutex: client.Mutex(key)}
	h := o.lock(context.Background(), true)
	w.judge.acquired(h)
	w.sleep(3 * ttl) // until all have given their vote: a server that never answered can't give this lock its vote any more
	var all sync.WaitGroup
	var closing []func()
	for i := 1; i < clients; i++ {
		theirs := w.pools(i)
		other := w.newClient(i, theirs)
		rival := &worker{world: w, number: i * each, random: w.stream("worker", i), locker: &ours{world: w, mutex: other.Mutex(key)}}
		all.Go(rival.run)
		closing = append(closing, func() { w.close(other, theirs) })
	}
	for range perEndured {
		down := between(random, ttl, 3*ttl)
		w.servers[random.IntN(len(w.servers))].crash(down, false)
		w.sleep(down + 4*ttl) // the guard takes a TTL, and a rival's try may have the vote just when a renewal asks for it
		w.judge.endured(h)
	}
	w.end()
	w.judge.released(h)
	o.unlock(h)
	all.Wait()
	w.finish(func() {
		w.close(client, pools)
		for _, f := range closing {
			f()
		}
	})
	return w.report()
}

// endured records that a server has restarted during the hold.
func (j *judge) endured(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.look()
	j.report.Restarts++
	if h.dead {
		j.wrong(&j.report.Fallen, "the lease of worker %d was lost, although only one server was away at a time", h.worker)
	}
}

// steady is a weather in which only those restarts could make the lock be lost.
var steady = Weather{Drift: .009, Offset: time.Second}
