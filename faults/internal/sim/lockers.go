package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// pools returns what a client uses: a pool of redigo for each server.
func (w *world) pools(client int) []*redis.Pool {
	var pools []*redis.Pool
	for i := range w.servers {
		l := w.links[client][i]
		pools = append(pools, &redis.Pool{MaxIdle: 16, Dial: func() (redis.Conn, error) {
			c, err := dial(l, nodeTimeout)
			if err != nil {
				return nil, err
			}
			return c, nil
		}})
	}
	return pools
}

// newClient returns a Client with the options of the Config.
func (w *world) newClient(client int, pools []*redis.Pool) *redimutex.Client {
	random := w.stream("backoff", client)
	options := []redimutex.Option{
		redimutex.WithTTL(w.ttl()), redimutex.WithNodeTimeout(nodeTimeout), redimutex.WithLogger(peers.Quiet),
		redimutex.WithBackoff(func(int) time.Duration {
			w.mu.Lock()
			defer w.mu.Unlock()
			return between(random, minPause, maxPause)
		}),
	}
	add := func(wanted bool, o func() redimutex.Option) {
		if wanted {
			options = append(options, o())
		}
	}
	add(!w.Renew, redimutex.WithoutRenewal)
	add(w.Fencing, redimutex.WithFencing)
	add(w.Guard, redimutex.WithRestartGuard)
	add(w.Queue, redimutex.WithQueue)
	add(w.Multiplex, func() redimutex.Option { return redimutex.WithMultiplexing(1) })
	var all []redimutex.Pool
	for i, p := range pools {
		switch {
		case w.Multiplex, w.Foreign:
			all = append(all, p)
		default:
			all = append(all, punctualPool{dialPool{p, w.links[client][i]}})
		}
	}
	return redimutex.NewClient(all, options...)
}

// ours is a Mutex of redimutex.
type ours struct {
	world *world
	mutex *redimutex.Mutex
	lease *redimutex.Lease
}

func (o *ours) lock(ctx context.Context, blocking bool) *hold {
	if blocking {
		o.mutex.Lock()
	} else if o.mutex.LockContext(ctx, 0) != nil {
		return nil
	}
	l := o.mutex.Lease()
	o.lease = l
	return &hold{token: l.Token(), fence: l.Fence(), fenced: o.world.Fencing, valid: func() bool { return l.Err() == nil }, until: l.Until}
}

func (o *ours) unlock(*hold) {
	_ = o.mutex.UnlockContext(context.Background()) // the judge has seen a loss
}

func (o *ours) done(*hold) <-chan struct{} { return o.lease.Done() }

// theirs is a lock of redsync.
type theirs struct{ peers.Slot }

func (w *world) newTheirs(worker int, pools []*redis.Pool, more ...redsync.Option) *theirs {
	random := w.stream("redsync", worker)
	options := append([]redsync.Option{
		redsync.WithExpiry(ttl), redsync.WithTries(1 << 30),
		redsync.WithRetryDelayFunc(func(int) time.Duration { return between(random, minPause, maxPause) }),
		redsync.WithGenValueFunc(func() (string, error) { return token(random), nil }),
	}, more...)
	return &theirs{peers.Redsync(pools, options...).Slot(key)}
}

func token(r *rand.Rand) string { return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()) }

func (t *theirs) lock(ctx context.Context, blocking bool) *hold {
	if blocking {
		ctx = context.Background()
	}
	if t.Lock(ctx) != nil {
		return nil
	}
	until := t.Until()
	return &hold{token: t.Token(), valid: func() bool { return time.Now().Before(until) }}
}

func (t *theirs) unlock(*hold) {
	_ = t.Unlock(context.Background()) // the judge has seen a loss
}

func (t *theirs) done(*hold) <-chan struct{} { return nil }
