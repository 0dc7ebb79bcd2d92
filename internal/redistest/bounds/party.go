package bounds

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A party is a Client, as if in its own process, that makes one call.
type party struct {
	*Cell
	bench    *Bench
	key      string
	pools    []redimutex.Pool
	client   *redimutex.Client
	mutex    *redimutex.Mutex
	patience context.Context
	cancel   context.CancelFunc

	call  func() error // nil: it could not be prepared
	began time.Time
	done  chan struct{}
	took  time.Duration
	err   error
	busy  chan struct{} // closed when the call that uses the only connection has ended
}

func (b *Bench) party(c *Cell) *party {
	p := &party{Cell: c, bench: b, key: fmt.Sprintf("k%d", b.keys.Add(1)), done: make(chan struct{}), busy: make(chan struct{})}
	for i, f := range b.fronts[c.Kind.Name] {
		a := Address{HostPort: f.Addr(), TLS: f.TLS(), DB: i + 1}
		if b.way.stopped && !c.Kind.tls {
			a.HostPort = b.server.Addr()
		}
		p.pools = append(p.pools, c.Kind.make(a))
	}
	opts := []redimutex.Option{
		redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(nodeTimeout),
		redimutex.WithPollInterval(20 * time.Millisecond), redimutex.WithLogger(slog.New(slog.DiscardHandler)),
	}
	if c.Kind.shared {
		opts = append(opts, redimutex.WithMultiplexing(1))
	}
	p.client = redimutex.NewClient(p.pools, opts...)
	return p
}

type unprepared struct{ error }

// must ends the preparation if err is not nil.
func (p *party) must(err error) {
	if err != nil {
		panic(unprepared{err})
	}
}

func (p *party) prepare() {
	defer func() {
		if r := recover(); r != nil {
			p.Unready = fmt.Sprintf("could not be prepared: %v", r) // because the machine is too busy
		}
	}()
	p.patience, p.cancel = context.WithTimeout(context.Background(), 30*time.Second)
	patient := p.client.Mutex(p.key, redimutex.WithNodeTimeout(20*time.Second)) // opens the connections
	p.must(patient.LockContext(p.patience, 0))
	p.must(patient.UnlockContext(p.patience))
	p.call = p.Verb.begin(p)
}

// start begins the call.
func (p *party) start() {
	p.began = time.Now()
	if p.call == nil {
		close(p.done)
		close(p.busy)
		return
	}
	go func() {
		defer close(p.done)
		if p.Kind.busy {
			p.occupy()
		} else {
			close(p.busy)
		}
		time.Sleep(p.Verb.wait)
		began := time.Now() // not p.began: this goroutine may be late
		p.err = p.call()
		p.took = time.Since(began)
	}()
}

// occupy makes another call take the only connection, which it keeps as long as the server is silent.
func (p *party) occupy() {
	pool := p.pools[0].(*redis.Pool)
	go func() {
		defer close(p.busy)
		p.client.Mutex(p.key + ":busy").TryLockContext(context.Background()) //nolint:errcheck // it can't succeed
	}()
	for range 20 {
		if s := pool.Stats(); s.ActiveCount > s.IdleCount {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// await waits for the call, but at most until patience has passed after its bound.
func (p *party) await(patience time.Duration) {
	timer := time.NewTimer(time.Until(p.began.Add(p.Verb.wait + p.Verb.Bound + patience)))
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		select {
		case <-p.done: // while await waited for other calls
		default:
			p.Overtime = true
		}
	}
}

// end waits for the rest of the call, and checks that no lock is left behind.
func (p *party) end() {
	defer p.cancel()
	<-p.done
	<-p.busy
	p.Over = p.took - p.Verb.Bound
	if p.Verb.takes && p.err != nil {
		p.bench.met.Add(1)
		for _, c := range p.direct() {
			redistest.Wait(p.bench.t, "no lock without an owner: "+p.Kind.Name+" / "+p.Verb.Name, func() bool {
				n, err := redis.Int(c.Do("EXISTS", p.key))
				return err == nil && n == 0
			})
			c.Close()
		}
	}
	if err := p.client.Close(); err != nil {
		p.bench.t.Errorf("%s / %s: Close: %v", p.Kind.Name, p.Verb.Name, err)
	}
	for _, pool := range p.pools {
		retire(pool)
	}
}

// retire closes a pool. Of a pool with Wait it closes only the one connection: redigo v1.9.3 has a data race between
// Pool.Close and a caller whose ctx ends while it waits for a connection. A clean-up of the library may be such a caller after
// Client.Close.
func retire(pool redimutex.Pool) {
	if p, ok := pool.(*redis.Pool); ok && p.Wait {
		c := p.Get()
		_, _ = redis.DoWithTimeout(c, time.Nanosecond, "PING") // it times out, so the pool closes the connection
		c.Close()
		return
	}
	if c, ok := pool.(io.Closer); ok {
		c.Close()
	}
}

// direct returns connections to the servers that bypass what hangs.
func (p *party) direct() []redis.Conn {
	conns := make([]redis.Conn, len(p.pools))
	for i := range conns {
		c, err := redis.Dial("tcp", p.bench.server.Addr(), redis.DialDatabase(i+1), redis.DialReadTimeout(10*time.Second))
		if err != nil {
			p.bench.t.Error(strings.TrimSpace(err.Error()))
			c = nil
		}
		conns[i] = c
	}
	return conns
}
