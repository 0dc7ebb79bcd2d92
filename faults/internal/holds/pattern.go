package holds

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/lab/peers"
)

// A pattern is what a worker process does for a history.
type pattern struct {
	Goroutines int
	First      int // the number of the first goroutine, which no other process has
	Seed       uint64
}

// history locks and unlocks at random, and tells of every call before and after it, until it is told
// to end.
func (w *worker) history() {
	end := make(chan struct{})
	go func() {
		w.hear()
		close(end)
	}()
	var ids atomic.Int64
	var group sync.WaitGroup
	for g := range w.job.History.Goroutines {
		client := w.job.History.First + g
		p := player{
			library: w.library, job: w.job, client: client, ids: &ids,
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
	random  *rand.Rand
	tell    func(event)
}

func (p *player) play(end <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		default:
		}
		p.round()
		pause(context.Background(), between(p.random, 0, 3*time.Millisecond))
	}
}

// call makes one call, and tells of it.
func (p *player) call(e event, f func(e *event) error) error {
	e.ID, e.Client = p.ids.Add(1), p.client
	e.Call = now()
	p.tell(e)
	err := f(&e)
	e.Return = now()
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

// round is one hold: it is acquired, looked at, extended now and then, sometimes kept for longer than a
// TTL, and given back.
func (p *player) round() {
	ttl := p.job.Kit.TTL
	key := p.job.Keys[p.random.IntN(len(p.job.Keys))]
	p.holds++
	e := event{Key: key, Op: opLock, Hold: int64(p.client)*1_000_000 + p.holds}
	held := p.library.Slot(key)
	acquire := held.Lock
	if p.random.IntN(3) == 0 {
		e.Op, acquire = opTry, held.TryLock
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*ttl)
	defer cancel()
	if p.call(e, func(e *event) (err error) {
		if err = acquire(ctx); err == nil {
			e.Until, e.Fence = instantOf(held.Until()), held.Fence()
		}
		return err
	}) != nil {
		return
	}
	linger := between(p.random, 0, 2*time.Millisecond)
	if p.random.IntN(30) == 0 {
		linger = between(p.random, 0, ttl/2) // long enough for renewals
	}
	for range p.random.IntN(4) {
		pause(context.Background(), linger)
		p.use(e, held)
	}
	e.Op = opUnlock
	p.call(e, func(*event) error { return held.Unlock(context.Background()) }) //nolint:errcheck // it is told
}

// use looks at the hold, or extends it.
func (p *player) use(e event, held peers.Slot) {
	if p.random.IntN(4) == 0 {
		e.Op = opExtend
		ctx, cancel := context.WithTimeout(context.Background(), p.job.Kit.TTL)
		defer cancel()
		p.call(e, func(e *event) error { //nolint:errcheck // it is told
			err := held.Extend(ctx, p.job.Kit.TTL)
			e.Until = instantOf(held.Until())
			return err
		})
		return
	}
	e.Op = opCheck
	p.call(e, func(e *event) error { //nolint:errcheck // it is told
		e.Until = instantOf(held.Until()) // was promised by now, so before the look
		if !held.Valid() {
			return errInvalid
		}
		return nil
	})
}
