package entrants

import (
	"context"
	"io"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/lab/peers"
)

// A peer is a library without readers.
type peer struct{ peers.Library }

func (p peer) Pair(key string, _ bool) Pair {
	s := p.Slot(key)
	return Pair{s.Lock, s.Unlock}
}

func bare(e Env) (Locker, error) { return peer{peers.Bare(e.pool(), e.TTL)}, nil }

// inTurn locks several keys, one after the other.
type inTurn struct{ peer }

func bare5(e Env) (Locker, error) { return inTurn{peer{peers.Bare(e.pool(), e.TTL)}}, nil }

func (t inTurn) Pair(key string, _ bool) Pair {
	var all []Pair
	for _, k := range five(key) {
		all = append(all, t.peer.Pair(k, true))
	}
	each := func(do func(Pair) error) error {
		for _, p := range all {
			if err := do(p); err != nil {
				return err
			}
		}
		return nil
	}
	return Pair{
		func(ctx context.Context) error { return each(func(p Pair) error { return p.Lock(ctx) }) },
		func(ctx context.Context) error { return each(func(p Pair) error { return p.Unlock(ctx) }) },
	}
}

func overRedigo(opts ...redsync.Option) func(Env) (Locker, error) {
	return func(e Env) (Locker, error) { return e.overRedigo(e.pool(), opts...), nil }
}

func redsyncOverPlain(e Env) (Locker, error) { return e.overRedigo(e.plain()), nil }

func (e Env) overRedigo(pool *redis.Pool, opts ...redsync.Option) Locker {
	return e.redsync(redsyncredigo.NewPool(pool), pool, opts...)
}

func overGoRedis(e Env) (Locker, error) {
	client := e.goRedis()
	return e.redsync(redsyncgoredis.NewPool(client), client), nil
}

func (e Env) redsync(pool redsyncredis.Pool, closer io.Closer, opts ...redsync.Option) Locker {
	opts = append([]redsync.Option{redsync.WithExpiry(e.TTL), peers.Patient}, opts...)
	l := peer{peers.RedsyncOver([]redsyncredis.Pool{pool}, []io.Closer{closer}, opts...)}
	if e.Crowd {
		return l
	}
	return uncancelled{l}
}

// uncancelled locks without the ctx of its caller. That costs redsync less.
type uncancelled struct{ peer }

func (u uncancelled) Pair(key string, writes bool) Pair {
	p := u.peer.Pair(key, writes)
	return Pair{func(context.Context) error { return p.Lock(context.Background()) }, p.Unlock}
}
