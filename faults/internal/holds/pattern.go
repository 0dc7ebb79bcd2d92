package holds

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// A pattern is what a worker process does for a history.
type pattern struct {
	Goroutines int
	First      int // the number of the first goroutine; no other process uses these numbers
	Seed       uint64
}

// history locks and unlocks at random until the row tells it to end. It reports every call before and after it.
func (w *worker) history() {
	end := make(chan struct{})
	go func() {
		w.hear()
		close(end)
	}()
	var ids atomic.Int64
	var group sync.WaitGroup
	given := make(chan gift, 1)
	for g := range w.job.History.Goroutines {
		client := w.job.History.First + g
		p := player{
			library: w.library, job: w.job, client: client, ids: &ids, given: given,
			random: rand.New(rand.NewPCG(w.job.History.Seed, uint64(client))),
			tell:   func(e event) { w.Say(message{What: sayEvent, Event: &e}) },
		}
		group.Go(func() { p.play(end) })
	}
	group.Wait()
}

// A player is one goroutine that makes a history.
type player struct {
	library peers.Library
	job     job
	client  int
	holds   int64
	ids     *atomic.Int64
	given   chan gift // holds that another player may take over
	random  *rand.Rand
	tell    func(event)
}

// A gift is a hold that is handed over.
type gift struct {
	event
	redimutex.Handover
}

func (p *player) play(end <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		case g := <-p.given:
			p.take(g)
		default:
		}
		p.round()
		evidence.Sleep(context.Background(), evidence.Between(p.random, 0, 3*time.Millisecond))
	}
}

// call makes one call, and reports it before and after.
func (p *player) call(e event, f func(e *event) error) error {
	e.ID, e.Client = p.ids.Add(1), p.client
	e.Call = evidence.Now()
	p.tell(e)
	err := f(&e)
	e.Return = evidence.Now()
	switch {
	case err == nil:
		e.Result = resultOK
	case errors.Is(err, peers.ErrGone):
		e.Result = resultGone
	default:
		e.Result = resultFailed
	}
	p.tell(e)
	return err
}

var errInvalid = errors.New("the hold is not valid any more")

// draw returns a way to lock one of the keys, or all.
func (p *player) draw() (peers.Slot, event) {
	e := event{Op: opLock, Keys: []string{p.job.Keys[p.random.IntN(len(p.job.Keys))]}}
	kinds, _ := p.library.(*kinds)
	switch p.job.Kit.Kind {
	case kindRW:
		m := kinds.client.RWMutex(e.Keys[0])
		if e.Reads = p.random.IntN(3) > 0; e.Reads {
			return peers.NewHandle(m.RAcquire, m.TryRAcquire), e
		}
		return peers.NewHandle(m.Acquire, m.TryAcquire), e
	case kindPermits:
		e.Limit = permits
		m := kinds.client.Semaphore(e.Keys[0], permits)
		return peers.NewHandle(m.Acquire, m.TryAcquire), e
	case kindAll:
		if p.random.IntN(2) == 0 {
			e.Keys = p.job.Keys
		}
		m := kinds.client.MutexAll(e.Keys)
		return peers.NewHandle(m.Acquire, m.TryAcquire), e
	case kindHandOver:
		m := kinds.client.Mutex(e.Keys[0])
		return peers.NewHandle(m.Acquire, m.TryAcquire), e
	}
	return p.library.Slot(e.Keys[0]), e
}

// round makes one hold: it acquires the lock, checks it, extends it now and then, sometimes keeps it for longer than a TTL,
// and releases it.
func (p *player) round() {
	held, e := p.draw()
	p.holds++
	e.Hold = int64(p.client)*1_000_000 + p.holds
	acquire := held.Lock
	if p.random.IntN(3) == 0 {
		e.Op, acquire = opTry, held.TryLock
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*p.job.Kit.TTL)
	defer cancel()
	if p.call(e, func(e *event) (err error) {
		if err = acquire(ctx); err == nil {
			e.Until, e.Fence = evidence.InstantOf(held.Until()), held.Fence()
		}
		return err
	}) == nil {
		p.hold(e, held)
	}
}

// hold does what a holder does: it uses the lock, and then releases it or hands it over.
func (p *player) hold(e event, held peers.Slot) {
	linger := evidence.Between(p.random, 0, 2*time.Millisecond)
	if p.random.IntN(30) == 0 {
		linger = evidence.Between(p.random, 0, p.job.Kit.TTL/2) // long enough for renewals
	}
	for range p.random.IntN(4) {
		evidence.Sleep(context.Background(), linger)
		p.use(e, held)
	}
	switch {
	case p.job.Kit.Kind == kindHandOver && p.random.IntN(2) == 0:
		p.handOver(e, held)
		return
	case p.job.Kit.Kind == kindRW && !e.Reads && p.random.IntN(2) == 0:
		e.Op = opDowngrade
		p.call(e, func(e *event) error { //nolint:errcheck // call reports it
			err := held.(*peers.Handle).Downgrade(context.Background())
			e.Until = evidence.InstantOf(held.Until())
			return peers.Gone(err)
		})
		evidence.Sleep(context.Background(), linger)
		p.use(e, held)
	}
	e.Op = opUnlock
	p.call(e, func(*event) error { return held.Unlock(context.Background()) }) //nolint:errcheck // call reports it
}

// use checks whether the hold is valid, or extends it.
func (p *player) use(e event, held peers.Slot) {
	if p.random.IntN(4) == 0 {
		e.Op = opExtend
		ctx, cancel := context.WithTimeout(context.Background(), p.job.Kit.TTL)
		defer cancel()
		p.call(e, func(e *event) error { //nolint:errcheck // call reports it
			err := held.Extend(ctx, p.job.Kit.TTL)
			e.Until = evidence.InstantOf(held.Until())
			return err
		})
		return
	}
	e.Op = opCheck
	p.call(e, func(e *event) error { //nolint:errcheck // call reports it
		e.Until = evidence.InstantOf(held.Until()) // the validity that was promised before the check
		if !held.Valid() {
			return errInvalid
		}
		return nil
	})
}

// handOver hands the hold over. This player and perhaps another one try to take it over.
func (p *player) handOver(e event, held peers.Slot) {
	const within, rounding = historyTTL, 2 * time.Millisecond
	g := gift{event: e}
	e.Op = opHandOver
	p.call(e, func(e *event) (err error) { //nolint:errcheck // call reports it
		e.Until = e.Call.Add(within - rounding)
		g.Handover, err = held.(*peers.Handle).HandOver(context.Background(), within)
		return peers.Gone(err)
	})
	if g.Handover == (redimutex.Handover{}) {
		return
	}
	select {
	case p.given <- g:
	default:
	}
	p.take(g)
}

// take takes a hold over, and goes on with it. The hold keeps its number.
func (p *player) take(g gift) {
	m := p.library.(*kinds).client.Mutex(g.Keys[0])
	e := g.event
	e.Op = opTakeOver
	ctx, cancel := context.WithTimeout(context.Background(), p.job.Kit.TTL)
	defer cancel()
	var held *peers.Handle
	if p.call(e, func(e *event) error {
		err := m.TakeOver(ctx, g.Handover)
		if err == nil {
			held = peers.Held(m.Lease())
			e.Until, e.Fence = evidence.InstantOf(held.Until()), held.Fence()
		}
		return peers.Gone(err)
	}) == nil {
		p.hold(e, held)
	}
}
