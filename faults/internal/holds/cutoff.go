package holds

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// cutOff is the row of a holder that no server answers any more.
func cutOff() evidence.Row {
	return evidence.Played(evidence.Row{
		ID: 6, Name: "cutoff", Fault: "all servers unreachable while held",
		Must: "signalled before the local deadline", Short: 10 * time.Second, Long: 90 * time.Second,
	}, func(s *evidence.Scene) {
		cutAll(s, []kit{
			{Library: "redimutex", Addrs: make([]string, 1)},
			{Library: "redimutex", Addrs: make([]string, 3)},
			{Library: "redsync", Addrs: make([]string, 1)},
			{Library: "redislock", Addrs: make([]string, 1)},
		})
	})
}

const (
	cutTTL     = 1200 * time.Millisecond
	cutHolders = 8 // at once
)

// The ways in which servers become unreachable.
const (
	byStop = "SIGSTOP"
	byKill = "kill -9"
	byPath = "path dropped"
)

// cutAll cuts off the holders of all kits, side by side, each kit with servers of its own.
func cutAll(s *evidence.Scene, kits []kit) {
	noise := s.Noise()
	laps := 6
	if s.Long {
		laps = 30
	}
	sideBySide(s, kits, laps*cutHolders, laps*cutHolders, func(i int, k kit, q *evidence.Quota) ([]evidence.Figure, error) {
		k.TTL = cutTTL
		c := &cutting{Scene: s, kit: k, noise: noise, random: s.Random(i), quota: q, late: make(map[string]int)}
		c.bound = evidence.Bound{Words: "the local deadline", Strict: s.Long, Steps: steps, Share: 1, Slack: 2 * k.TTL}
		if !k.judged() {
			c.bound.Strict, c.bound.Steps = true, 0
		}
		for range k.Addrs {
			c.servers = append(c.servers, redistest.Real(s))
		}
		ways := []string{byStop, byKill, byPath}
		for lap := 0; q.More() && (k.judged() || lap < laps/2); lap++ { // other libraries' laps last longer: no signal
			if err := c.lap(ways[lap%len(ways)]); err != nil {
				return nil, err
			}
		}
		return []evidence.Figure{c.figure()}, nil
	})
	s.Note("The deadline is not the library's own, but an independent bound: no server can have executed the last request that it has answered before a proxy passed it on, and " +
		"so the key, or a majority of them, lives for one TTL after that at least. The times are from that deadline to the moment at which the loss was signalled, as a goroutine of this " +
		"machine saw it: before it they are less than 0. By Lease.Err, which goes by the clock, the hold is over at the deadline whatever timers do, and that is judged without any allowance. " +
		"For redsync and redislock a failed Extend or Refresh, every TTL/3, counts as the signal, if the caller writes such a loop.")
}

// A cutting cuts off the holders of one kit.
type cutting struct {
	*evidence.Scene
	kit     kit
	servers []*redistest.Server
	noise   evidence.Noise
	random  *rand.Rand
	quota   *evidence.Quota

	bound    evidence.Bound
	samples  []evidence.Sample // from the deadline to the signal
	late     map[string]int    // how many were late or never came, by the way in which the holder was cut off
	believed int               // holds that seemed valid at the deadline
}

// A holder is one hold, with a path of its own to each server.
type holder struct {
	library peers.Library
	links   []*redistest.Proxy
	hold    peers.Slot
	watch   *watch
	ttl     time.Duration
}

func (c *cutting) lap(way string) error {
	holders := make([]*holder, cutHolders)
	for i := range holders {
		h := &holder{ttl: c.kit.TTL}
		k := c.kit
		k.Addrs = nil
		for _, s := range c.servers {
			l := redistest.NewProxy(c, s.Addr())
			h.links, k.Addrs = append(h.links, l), append(k.Addrs, l.Addr())
		}
		var err error
		if h.library, err = k.open(); err != nil {
			return err
		}
		if h.hold, err = lock(c.Context(), h.library, fmt.Sprintf("cutoff-%d", i)); err != nil {
			return err
		}
		h.watch = watchOver(h.hold, h.ttl)
		holders[i] = h
	}
	evidence.Sleep(c.Context(), evidence.Between(c.random, c.kit.TTL/3, c.kit.TTL)) // so that some leases have been renewed
	heal := c.cut(way, holders)
	var group sync.WaitGroup
	outcomes := make([]cutOutcome, len(holders))
	for i, h := range holders {
		group.Go(func() { outcomes[i] = h.follow() })
	}
	group.Wait()
	heal()
	for i, h := range holders {
		c.take(way, outcomes[i])
		for _, l := range h.links {
			l.Cut() // so that no operation waits for an answer any more
		}
		h.library.Close()
	}
	return nil
}

// cut makes the servers unreachable, and returns the function that makes them reachable again.
func (c *cutting) cut(way string, holders []*holder) (heal func()) {
	switch way {
	case byStop:
		return each(c.servers, (*redistest.Server).Pause, (*redistest.Server).Resume)
	case byKill:
		return each(c.servers, (*redistest.Server).Kill, (*redistest.Server).Restart)
	}
	var links []*redistest.Proxy
	for _, h := range holders {
		links = append(links, h.links...)
	}
	return each(links, func(p *redistest.Proxy) { p.Hold() }, func(p *redistest.Proxy) { p.Release() })
}

// each breaks all, and returns the function that heals them again.
func each[T any](all []T, breaks, heals func(T)) (heal func()) {
	for _, one := range all {
		breaks(one)
	}
	return func() {
		for _, one := range all {
			heals(one)
		}
	}
}

// A cutOutcome says how the loss of one hold was signalled.
type cutOutcome struct {
	deadline evidence.Instant
	told     evidence.Instant // 0: not within two more TTLs
	believed bool             // the hold seemed valid at the deadline
}

// deadline returns the moment until which a majority of the servers keeps the lock, at least.
func (h *holder) deadline() evidence.Instant {
	ends := make([]evidence.Instant, len(h.links))
	for i, l := range h.links {
		ends[i] = evidence.InstantOf(l.Answered()).Add(h.ttl)
	}
	slices.Sort(ends)
	return ends[len(ends)-1-len(ends)/2]
}

// follow waits for the signal. At the deadline it also asks the hold itself whether it is valid.
func (h *holder) follow() cutOutcome {
	var o cutOutcome
	evidence.Sleep(context.Background(), h.deadline().Sub(evidence.Now())+time.Microsecond)
	o.deadline = h.deadline()
	if evidence.Now() >= o.deadline && h.hold.Done() != nil {
		o.believed = h.hold.Valid()
	}
	if at, ok := h.watch.wait(2 * h.ttl); ok {
		o.told = at
	}
	return o
}

func (c *cutting) take(way string, o cutOutcome) {
	c.quota.Done++
	if o.believed {
		c.believed++
	}
	if o.told == 0 {
		c.bound.Unheard++
		c.late[way]++
		return
	}
	one := evidence.Sample{
		Took:  o.told.Sub(o.deadline),
		Noise: c.noise.Between(min(o.told, o.deadline).Add(-50*time.Millisecond), max(o.told, o.deadline).Add(evidence.NoiseStep)),
	}
	if !c.bound.Allows(one) {
		c.late[way]++
	}
	c.samples = append(c.samples, one)
}

func (c *cutting) figure() evidence.Figure {
	f := c.bound.Figure(c.kit.String(), c.samples)
	if f.NotJudged = !c.kit.judged(); f.NotJudged {
		f.Library += ", with the caller's own loop"
	}
	for _, way := range slices.Sorted(maps.Keys(c.late)) {
		f.Worst += fmt.Sprintf("; %d late or never after %s", c.late[way], way)
	}
	if c.believed > 0 && !f.NotJudged {
		f.Held = min(f.Held, f.Tried-c.believed)
		f.Worst += fmt.Sprintf("; %d seemed valid after the deadline", c.believed)
	}
	return f
}
