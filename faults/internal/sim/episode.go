package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/redimutex/redimutex"
)

// How large an episode is.
const (
	clients     = 3
	each        = 2 // workers of a client
	perEpisode  = 400
	sceneLength = 3 * time.Second
)

// each returns how many workers a client has.
func (w *world) each() int {
	if w.Few {
		return 1
	}
	return each
}

// newWorld makes the servers and links of an episode.
func newWorld(c Config, seed uint64) *world {
	w := &world{Config: c, seed: seed, began: time.Now(), taken: make(map[time.Duration]bool), gone: make(map[string]time.Duration)}
	w.given, w.noneGiven, w.judge.byKey = make(chan redimutex.Handover, 1), make(chan struct{}), make(map[string][]*hold)
	w.judge.world, w.judge.wanted, w.judge.last = w, make(map[string]time.Duration), make(map[string]time.Duration)
	w.judge.tried, w.judge.late = make(map[string]time.Duration), make(map[string]bool)
	uuid.SetRand(&entropy{world: w})
	for i := range c.Servers {
		w.servers = append(w.servers, newServer(w, i))
	}
	for i := range clients {
		w.links = append(w.links, nil)
		for j := range c.Servers {
			w.links[i] = append(w.links[i], newLink(w, i, j))
		}
	}
	return w
}

// finish ends an episode. No more faults begin, and stop ends the clients.
func (w *world) finish(stop func()) {
	w.end()
	stop()
	time.Sleep(time.Minute) // by then, every caller that still waits for an answer has got it
	uuid.SetRand(nil)
}

func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

func (w *world) report() *Report {
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.judge.report
	r.Episodes, r.Hash, r.Events, r.Trace, r.Virtual = 1, w.hash, w.events, w.trace, w.now()
	r.Picture = &Scene{min(sceneLength, w.now()), w.judge.scenes, w.ills, clients * each}
	return r
}

// episode lets clients take the lock again and again in bad weather. It is called in a testing/synctest bubble.
func episode(c Config, seed uint64) *Report {
	w := newWorld(c, seed)
	stop := w.populate()
	w.finish(stop)
	return w.report()
}

// populate lets the clients work until there were enough acquisitions, or for two minutes of virtual time. stop cleans up.
func (w *world) populate() (stop func()) {
	var all, takers sync.WaitGroup
	var closing []func()
	for i := range clients {
		pools := w.pools(i)
		client := w.newClient(i, pools)
		if w.Kinds {
			var rw *redimutex.RWMutex
			if w.Servers == 1 {
				rw = client.RWMutex(shared, redimutex.WithFencing())
			}
			for k := range each {
				if w.Strangers && k > 0 {
					s := &stranger{world: w, random: w.stream("stranger", i), pool: pools[0], key: shared}
					all.Go((&worker{world: w, number: i*each + k, random: w.stream("worker", i), locker: s}).run)
					continue
				}
				all.Go(w.newKinds(i*each+k, client, rw).run)
			}
			takers.Go(w.newKinds(clients*each+i, client, rw).takers)
			closing = append(closing, func() { w.close(client, pools) })
			continue
		}
		for k := range w.each() {
			number := i*each + k
			var l locker = &ours{world: w, mutex: client.Mutex(key)}
			switch {
			case w.Library == "redsync":
				l = w.newTheirs(number, pools)
			case w.Strangers && k > 0 && i > 0:
				l = &stranger{world: w, random: w.stream("stranger", number), pool: pools[0], key: key}
			case w.Mixed:
				l = w.newMixed(number, client)
			}
			worker := &worker{world: w, number: number, random: w.stream("worker", number), locker: l}
			all.Go(worker.run)
		}
		closing = append(closing, func() { w.close(client, pools) })
	}
	for w.judge.count() < perEpisode && w.now() < 2*time.Minute {
		w.sleep(50 * time.Millisecond)
		w.orphans()
	}
	w.end()
	all.Wait()
	close(w.noneGiven)
	takers.Wait()
	return func() {
		for _, f := range closing {
			f()
		}
	}
}

func (w *world) close(client *redimutex.Client, pools []*redis.Pool) {
	s := client.Stats()
	w.judge.mu.Lock()
	w.judge.report.Renewed += int(s.Renewed)
	w.judge.mu.Unlock()
	client.Close()
	for _, p := range pools {
		p.Close()
	}
}

func (j *judge) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.report.Acquired
}

// entropy is the source of the UUIDs. What it returns depends on the moment and on how many requests came at that moment, but
// not on earlier requests.
type entropy struct {
	world *world

	mu    sync.Mutex
	at    time.Duration
	count uint64 // of requests at that moment
}

func (e *entropy) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.world.now(); now != e.at {
		e.at, e.count = now, 0
	}
	e.count++
	random := rand.New(rand.NewPCG(mix(e.world.seed, uint64(e.at)), e.count))
	for i := range p {
		p[i] = byte(random.Uint32())
	}
	return len(p), nil
}
