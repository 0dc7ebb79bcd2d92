package bounds

import (
	"context"
	"strings"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

const (
	nodeTimeout = 200 * time.Millisecond
	early       = nodeTimeout / 3     // the end of a ctx while the first command is under way
	late        = nodeTimeout * 7 / 4 // the end of a ctx while a later command is
	replicas    = nodeTimeout / 2     // the timeout of WithReplicas
)

// A Verb is a call with its promised bound.
type Verb struct {
	Name  string
	Bound time.Duration
	takes bool // it may leave a lock behind that has no owner
	// begin runs while the server answers. It returns the call, which runs while the server hangs.
	begin  func(p *party) (call func() error)
	wait   time.Duration // before the call, while the server hangs
	alone  bool          // not over shared connections
	single bool          // only with one server
}

// Method returns the name of the method that is called, in one word.
func (v Verb) Method() string {
	word, _, _ := strings.Cut(v.Name, " ")
	return strings.TrimSuffix(word, ",")
}

func try(name string, bound time.Duration, lock func(*party) error, opts ...redimutex.Option) Verb {
	return Verb{Name: name, Bound: bound, takes: true, begin: func(p *party) func() error {
		p.mutex = p.client.Mutex(p.key, opts...)
		return func() error { return lock(p) }
	}}
}

func held(name string, bound time.Duration, end func(*party) error, opts ...redimutex.Option) Verb {
	return Verb{Name: name, Bound: bound, begin: func(p *party) func() error {
		p.mutex = p.client.Mutex(p.key, opts...)
		p.must(p.mutex.LockContext(p.patience, 0))
		return func() error { return end(p) }
	}}
}

// renewing delays the call until a renewal hangs.
func renewing(v Verb) Verb {
	v.wait = nodeTimeout + nodeTimeout/4 // the TTL is three node timeouts
	return v
}

func alone(v Verb) Verb {
	v.alone = true
	return v
}

// queued marks a verb with WithQueue, which is refused over several servers.
func queued(v Verb) Verb {
	v.single = true
	return v
}

// kept is a try that finds a lease of the same process which it can't use and has to release.
func kept(name string, bound time.Duration, lock func(*party) error) Verb {
	v := try(name, bound, lock)
	without := v.begin
	v.begin = func(p *party) func() error {
		other := p.client.Mutex(p.key, redimutex.WithLeaseReuse(20*time.Second), redimutex.WithNodeTimeout(20*time.Second))
		p.must(other.LockContext(p.patience, 0))
		p.must(other.UnlockContext(p.patience))
		return without(p)
	}
	return v
}

// after returns a ctx that is cancelled after d.
func after(d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(d, cancel)
	return ctx
}

// within returns a ctx whose deadline is in d.
func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	time.AfterFunc(d+time.Minute, cancel)
	return ctx
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func background() context.Context { return context.Background() }

// never returns a ctx that could be cancelled, but is not.
func never() context.Context { return after(time.Minute) }

// Verbs returns all calls for which the library promises a bound.
func Verbs() []Verb {
	all := []Verb{
		try("TryLock", nodeTimeout, func(p *party) error {
			if !p.mutex.TryLock() {
				return redimutex.ErrUnavailable
			}
			return nil
		}),
		held("Unlock", nodeTimeout, func(p *party) error { p.mutex.Unlock(); return nil }),
		doing(),
		held("Close with a lock", 2*nodeTimeout, func(p *party) error { return p.client.Close() }),
		renewing(held("UnlockContext, ended before, a renewal hangs", nodeTimeout, func(p *party) error {
			return p.mutex.UnlockContext(ended())
		}, redimutex.WithTTL(3*nodeTimeout))),
		queued(waiting()),
		try("LockContext, timeout", late, func(p *party) error { return p.mutex.LockContext(background(), late) }),
		queued(try("LockContext, cancelled, WithQueue", late, func(p *party) error { return p.mutex.LockContext(after(late), 0) }, redimutex.WithQueue())),
		try("TryLockContext, WithFencing", nodeTimeout, func(p *party) error { return p.mutex.TryLockContext(background()) }, redimutex.WithFencing()),
		alone(try("TryLockContext, WithReplicas", nodeTimeout+replicas, func(p *party) error {
			return p.mutex.TryLockContext(background())
		}, redimutex.WithReplicas(1, replicas))),
		kept("TryLockContext, a kept lease of other options", nodeTimeout, func(p *party) error {
			return p.mutex.TryLockContext(background())
		}),
		kept("LockContext, a kept lease of other options", late, func(p *party) error {
			return p.mutex.LockContext(background(), late)
		}),
	}
	for _, c := range []struct {
		name  string
		bound time.Duration
		ctx   func() context.Context
	}{
		{"Background", nodeTimeout, background},
		{"a ctx that goes on", nodeTimeout, never},
		{"cancelled early", early, func() context.Context { return after(early) }},
		{"deadline early", early, func() context.Context { return within(early) }},
	} {
		all = append(all, try("TryLockContext, "+c.name, c.bound, func(p *party) error { return p.mutex.TryLockContext(c.ctx()) }))
		if c.name == "deadline early" {
			continue // the same as when cancelled
		}
		all = append(all,
			held("UnlockContext, "+c.name, c.bound, func(p *party) error { return p.mutex.UnlockContext(c.ctx()) }),
			held("Extend, "+c.name, c.bound, func(p *party) error { return p.mutex.Lease().Extend(c.ctx(), time.Hour) }))
	}
	all = append(all, held("UnlockContext, ended before", nodeTimeout, func(p *party) error { return p.mutex.UnlockContext(ended()) }))
	for _, c := range []struct {
		name string
		ctx  func() context.Context
	}{
		{"cancelled", func() context.Context { return after(late) }},
		{"deadline", func() context.Context { return within(late) }},
	} {
		all = append(all,
			try("LockContext, "+c.name, late, func(p *party) error { return p.mutex.LockContext(c.ctx(), 0) }),
			try("Do that waits, "+c.name, late, func(p *party) error {
				return p.mutex.Do(c.ctx(), func(context.Context) error { return nil })
			}))
	}
	return all
}

// doing is a Do whose function returns while the server hangs: only the release remains.
func doing() Verb {
	return Verb{Name: "Do whose function returns", Bound: nodeTimeout, begin: func(p *party) func() error {
		entered, leave, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			result <- p.client.Mutex(p.key).Do(p.patience, func(context.Context) error {
				close(entered)
				<-leave
				return nil
			})
		}()
		select {
		case <-entered:
		case err := <-result:
			p.must(err)
			result <- err
		}
		return func() error {
			close(leave)
			return <-result
		}
	}}
}

// waiting is a Close while a caller waits in the queue of the server, with a subscription.
func waiting() Verb {
	return Verb{Name: "Close with a waiter in the queue", Bound: 2 * nodeTimeout, begin: func(p *party) func() error {
		m := p.client.Mutex(p.key, redimutex.WithQueue())
		holder := p.client.Mutex(p.key + ":held")
		p.must(holder.LockContext(p.patience, 0))
		for _, c := range p.direct() {
			_, err := c.Do("SET", p.key, "another holder", "PX", time.Minute.Milliseconds())
			p.must(err)
			c.Close()
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			m.LockContext(p.patience, 0) //nolint:errcheck // Close ends it
		}()
		redistest.Wait(p.bench.t, "the waiter", func() bool { return p.client.Stats().Waiting == 1 })
		return func() error {
			err := p.client.Close()
			<-over
			return err
		}
	}}
}
