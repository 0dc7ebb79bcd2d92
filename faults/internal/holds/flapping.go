package holds

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// flapping is the row of a queue whose messages are lost because subscribers are killed and links break.
func flapping() evidence.Row {
	return evidence.Played(evidence.Row{
		ID: 16, Name: "flapping", Fault: "subscriber killed, link flapping",
		Must: "no hand-off missed", Short: 6 * time.Second, Long: 90 * time.Second,
	}, func(s *evidence.Scene) {
		flapAll(s, []kit{
			{Library: "redimutex", Queue: true, TTL: flapTTL, Addrs: addrs(s, 1)},
			{Library: "redimutex", TTL: flapTTL, Addrs: addrs(s, 3)},
		})
	})
}

const (
	flapTTL     = time.Second
	flapClients = 4
	liveLimit   = 300 * time.Millisecond // the longest silence and two polls: polls at the same time may split the votes
)

// flapAll breaks the connections of the clients of each kit, side by side.
func flapAll(s *evidence.Scene, kits []kit) {
	noise := s.Noise()
	sideBySide(s, kits, 40, 600, func(i int, k kit, q *evidence.Quota) ([]evidence.Figure, error) {
		f := flapper{Scene: s, kit: k, key: fmt.Sprintf("flapping-%d", i), random: s.Random(i), noise: noise, quota: q}
		return f.run()
	})
	s.Note("Four clients wait for one key all the time, each over links of its own. The wait is from a release to the next grant; a release that could not be "+
		"told to the servers has the TTL. The faults were %s.", s.Strikes())
}

// A flapper breaks the connections of clients that take turns at holding a lock.
type flapper struct {
	*evidence.Scene
	kit    kit
	key    string
	random *rand.Rand
	noise  evidence.Noise
	quota  *evidence.Quota

	mu  sync.Mutex
	log []turn
}

// A turn is one hold of one client.
type turn struct {
	client int
	asked  evidence.Instant // when the client began to wait
	got    evidence.Instant
	gave   evidence.Instant // when Unlock returned
	live   bool             // Unlock succeeded, so the servers know of the release
}

func (f *flapper) run() ([]evidence.Figure, error) {
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	links := make([][]*redistest.Proxy, flapClients)
	var group sync.WaitGroup
	for client := range links {
		k := f.kit
		k.Addrs = nil
		for _, addr := range f.kit.Addrs {
			l := redistest.NewProxy(f, addr)
			links[client], k.Addrs = append(links[client], l), append(k.Addrs, l.Addr())
		}
		lib, err := k.open()
		if err != nil {
			return nil, err
		}
		defer lib.Close()
		r := rand.New(rand.NewPCG(f.random.Uint64(), uint64(client)))
		group.Go(func() { f.client(ctx, client, lib, r) })
	}
	var err error
	for err == nil && f.quota.More() {
		evidence.Sleep(ctx, evidence.Between(f.random, 20*time.Millisecond, 150*time.Millisecond))
		err = f.strike(ctx, links[f.random.IntN(flapClients)])
		f.quota.Done++
	}
	evidence.Sleep(ctx, flapTTL)
	cancel()
	group.Wait()
	return f.figures(), err
}

// client takes its turns until ctx ends.
func (f *flapper) client(ctx context.Context, number int, lib peers.Library, r *rand.Rand) {
	for ctx.Err() == nil {
		one := turn{client: number, asked: evidence.Now()}
		h, err := lock(ctx, lib, f.key)
		if err != nil {
			evidence.Sleep(ctx, time.Millisecond)
			continue
		}
		one.got = evidence.Now()
		evidence.Sleep(ctx, evidence.Between(r, 0, 5*time.Millisecond))
		one.live = h.Unlock(context.Background()) == nil
		one.gave = evidence.Now()
		f.mu.Lock()
		f.log = append(f.log, one)
		f.mu.Unlock()
	}
}

// strike breaks the subscribers of a server, or the links of a client.
func (f *flapper) strike(ctx context.Context, links []*redistest.Proxy) error {
	switch f.random.IntN(3) {
	case 0:
		f.Struck("CLIENT KILL of all subscribers")
		c, err := redis.DialContext(ctx, "tcp", f.kit.Addrs[f.random.IntN(len(f.kit.Addrs))])
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Do("CLIENT", "KILL", "TYPE", "pubsub")
		return err
	case 1:
		f.Struck("a client's links cut")
		heal := each(links, (*redistest.Proxy).Cut, (*redistest.Proxy).Heal)
		evidence.Sleep(ctx, evidence.Between(f.random, 0, 100*time.Millisecond))
		heal()
	case 2:
		f.Struck("a client's links silent")
		heal := each(links, func(p *redistest.Proxy) { p.Hold() }, func(p *redistest.Proxy) { p.Release() })
		evidence.Sleep(ctx, evidence.Between(f.random, 0, 200*time.Millisecond))
		heal()
	}
	return nil
}

// figures measures the waits between the turns.
func (f *flapper) figures() []evidence.Figure {
	live, failed := handovers(f.log, f.noise.Between)
	b := evidence.Bound{Limit: liveLimit, Words: "for a live release", Strict: f.Long, Steps: steps, Share: 1, Slack: patience}
	figures := []evidence.Figure{b.Figure(f.kit.String()+", live releases", live)}
	if len(failed) > 0 {
		b.Limit, b.Words = f.kit.TTL+50*time.Millisecond, "TTL + 50 ms"
		figures = append(figures, b.Figure(f.kit.String()+", failed releases", failed))
	}
	return figures
}

// handovers returns how long it took from each release until the next waiter had the lock.
func handovers(log []turn, noise func(from, to evidence.Instant) time.Duration) (live, failed []evidence.Sample) {
	slices.SortFunc(log, func(a, b turn) int { return cmp.Compare(a.got, b.got) })
	waiting := never // the earliest moment at which a client of a later turn began to wait
	for i := len(log) - 2; i >= 0; i-- {
		one, next := log[i], log[i+1]
		waiting = min(waiting, next.asked)
		from := max(one.gave, waiting)
		took := max(0, next.got.Sub(from)) // the next client may have the lock before Unlock returns
		s := evidence.Sample{Took: took, Noise: noise(from, next.got)}
		if one.live {
			live = append(live, s)
		} else {
			failed = append(failed, s)
		}
	}
	return live, failed
}
