package entrants

import (
	"context"
	"io"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

func ours(opts ...redimutex.Option) func(Env) (peers.Library, error) {
	return func(e Env) (peers.Library, error) {
		pool := e.ourPool(e.Addrs[0])
		return e.ours(!e.Crowd, []redimutex.Pool{pool}, []io.Closer{pool}, opts...), nil
	}
}

// ours locks by Lock if plain, else by LockContext.
func (e Env) ours(plain bool, pools []redimutex.Pool, closers []io.Closer, opts ...redimutex.Option) peers.Library {
	opts = append([]redimutex.Option{redimutex.WithTTL(e.TTL)}, opts...)
	return peers.Redimutex(redimutex.NewClient(pools, opts...), plain, closers...)
}

// usual is the usual path, with a ctx that could be cancelled, in one of its ways.
func usual(way func(peers.Slot) peers.Slot) func(Env) (peers.Library, error) {
	return func(e Env) (peers.Library, error) {
		pool := e.ourPool(e.Addrs[0])
		return in{e.ours(false, []redimutex.Pool{pool}, []io.Closer{pool}), way}, nil
	}
}

// plain is the usual path over a pool that is not ours.
func plain(e Env) (peers.Library, error) {
	pool := e.plain()
	return in{e.ours(false, []redimutex.Pool{pool}, []io.Closer{pool}), sameCtx}, nil
}

// redlock is the usual path with all servers.
func redlock(e Env) (peers.Library, error) {
	var pools []redimutex.Pool
	var closers []io.Closer
	for _, addr := range e.Addrs {
		pool := e.ourPool(addr)
		pools, closers = append(pools, pool), append(closers, pool)
	}
	return in{e.ours(false, pools, closers), sameCtx}, nil
}

// multiplexed uses one connection, which is enough for a server that has one thread.
func multiplexed(e Env) (peers.Library, error) {
	pool := e.ourPool(e.Addrs[0])
	return e.ours(!e.Crowd, []redimutex.Pool{pool}, []io.Closer{pool}, redimutex.WithMultiplexing(1)), nil
}

// in is a library that is used in a way of its own.
type in struct {
	peers.Library
	way func(peers.Slot) peers.Slot
}

func (l in) Slot(key string) peers.Slot { return l.way(l.Library.Slot(key)) }

// A ctxSlot unlocks with the ctx that it has locked with: the caller's, or one for each pair.
type ctxSlot struct {
	peers.Slot
	each   bool
	ctx    context.Context
	cancel context.CancelFunc
}

func sameCtx(s peers.Slot) peers.Slot { return &ctxSlot{Slot: s} }
func newCtx(s peers.Slot) peers.Slot  { return &ctxSlot{Slot: s, each: true} }

func (s *ctxSlot) Lock(ctx context.Context) error {
	s.ctx = ctx
	if s.each {
		s.ctx, s.cancel = context.WithCancel(ctx)
	}
	return s.Slot.Lock(s.ctx)
}

func (s *ctxSlot) Unlock(context.Context) error {
	err := s.Slot.Unlock(s.ctx)
	if s.each {
		s.cancel()
	}
	return err
}

// A doSlot has locked and unlocked when Lock returns.
type doSlot struct {
	peers.Slot
	do peers.Doer
}

func inDo(s peers.Slot) peers.Slot {
	return doSlot{s, s.(peers.Doer)} //nolint:forcetypeassert // ours have it
}

func (s doSlot) Lock(ctx context.Context) error {
	return s.do.Do(ctx, func(context.Context) error { return nil })
}

func (doSlot) Unlock(context.Context) error { return nil }
