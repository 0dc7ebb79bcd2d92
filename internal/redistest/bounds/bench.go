// Package bounds measures by how much calls outlast their bounds while a server hangs: every verb over every
// kind of pool, in every way of hanging.
//
//   - verbs.go: the calls, and what promises their bounds
//   - pools.go: the kinds of pools
//   - ways.go:  the ways of hanging
//   - bench.go: a server that hangs in one way, before which many calls are made
//   - party.go: one of these calls
package bounds

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redimutex/redimutex/internal/redistest"
)

// A Cell is one verb over one kind of pool, and what came of it in the last Run.
type Cell struct {
	Kind Kind
	Verb Verb

	Unready  string        // why it could not be prepared; empty: it was
	Over     time.Duration // by how much it outlasted its bound, less than 0 if it did not
	Overtime bool          // it was still under way when the server went on
}

// A Bench is a server that hangs in one way, and what stands before it.
type Bench struct {
	t      testing.TB
	way    Way
	server *redistest.Server
	fronts map[string][]*redistest.Front // by kind
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

// Cells returns all verbs over the kinds of pools that are concerned.
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

// Met returns how many tries have met the silence. If there are none nothing was shown.
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

// Run prepares the calls, has the server hang, measures the calls, and lets the server go on: when all are through, or
// have been under way for so long after their bounds. It returns how late the machine was meanwhile.
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

// each calls f for all parties, for a few at a time: two hundred at once would be busy with timing out.
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
