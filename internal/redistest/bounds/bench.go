// Package bounds measures by how much calls outlast their bounds while a server hangs: every verb over every kind of pool, in
// every way of hanging.
//
//   - verbs.go: the calls, each with its promised bound
//   - pools.go: the kinds of pools
//   - ways.go:  the ways of hanging
//   - bench.go: a server that hangs in one way while many calls are made
//   - party.go: one of these calls
package bounds

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redimutex/redimutex/internal/redistest"
)

// A Cell is one verb over one kind of pool, and its result in the last Run.
type Cell struct {
	Kind Kind
	Verb Verb

	Unready  string        // why the call could not be prepared; empty: it was
	Over     time.Duration // by how much the call outlasted its bound; negative if it did not
	Overtime bool          // the call was still under way when the server went on
}

// A Bench is a server that hangs in one way, with the proxies in front of it.
type Bench struct {
	t      testing.TB
	way    Way
	server *redistest.Server
	fronts map[string][]*redistest.Front // by name of the kind
	keys   atomic.Int64
	met    atomic.Int64
}

// New starts a Bench, which ends with the test.
func New(t testing.TB, w Way) *Bench {
	t.Helper()
	b := &Bench{t: t, way: w, server: redistest.Real(t), fronts: make(map[string][]*redistest.Front)}
	AddUser(b.server)
	return b
}

// Cells returns all verbs over those kinds of pools that the way of hanging concerns.
func (b *Bench) Cells(kinds ...Kind) (cells []*Cell) {
	for _, k := range kinds {
		if b.way.Concerns(k) {
			for _, v := range Verbs() {
				if (!v.alone || !k.shared) && (!v.single || k.servers <= 1) {
					cells = append(cells, &Cell{Kind: k, Verb: v})
				}
			}
		}
	}
	return cells
}

// Met returns how many tries have met the silence. If it is 0, nothing was shown.
func (b *Bench) Met() int64 { return b.met.Load() }

func (b *Bench) front(k Kind) []*redistest.Front {
	if f := b.fronts[k.Name]; f != nil {
		return f
	}
	var fronts []*redistest.Front
	for range k.count() {
		if k.tls {
			fronts = append(fronts, redistest.NewTLSFront(b.t, b.server))
		} else {
			fronts = append(fronts, redistest.NewFront(b.t, b.server))
		}
	}
	b.fronts[k.Name] = fronts
	return fronts
}

// Run prepares the calls, makes the server hang, and measures the calls. The server goes on when all calls have ended, or are
// still under way when patience has passed after their bounds. Run returns how late the machine was meanwhile.
func (b *Bench) Run(cells []*Cell, patience time.Duration) (late time.Duration) {
	b.t.Helper()
	var parties []*party
	fronts := make(map[string][]*redistest.Front)
	for _, c := range cells {
		c.Unready, c.Overtime = "", false
		fronts[c.Kind.Name] = b.front(c.Kind)
		parties = append(parties, b.party(c))
	}
	each(parties, (*party).prepare)
	b.hang(fronts)
	lateness := redistest.MeasureLateness()
	for _, p := range parties {
		p.start()
	}
	for _, p := range parties {
		p.await(patience)
	}
	late = lateness.Stop()
	if b.way.stopped {
		b.server.Resume()
	}
	for _, group := range fronts {
		for _, f := range group {
			f.Lift()
		}
	}
	each(parties, (*party).end)
	return late
}

func (b *Bench) hang(fronts map[string][]*redistest.Front) {
	if b.way.stopped {
		b.server.Pause()
		return
	}
	for _, group := range fronts {
		for _, f := range group {
			f.Hang(b.way.phase)
		}
	}
}

// each calls f for all parties, a few at a time: two hundred at once would keep the machine busy with timeouts.
func each(parties []*party, f func(*party)) {
	var team sync.WaitGroup
	few := make(chan struct{}, 4)
	for _, p := range parties {
		few <- struct{}{}
		team.Go(func() {
			defer func() { <-few }()
			f(p)
		})
	}
	team.Wait()
}
