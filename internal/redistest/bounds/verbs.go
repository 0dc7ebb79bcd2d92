package bounds_test

import (
	"context"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

const (
	nodeTimeout = 200 * time.Millisecond
	early       = nodeTimeout / 3     // a ctx that ends while a command is under way
	late        = nodeTimeout * 7 / 4 // a ctx that ends while a later one is
)

// A verb is a call with what promises its bound. begin is run while the server answers, and returns
// the call, which is run when it does not.
type verb struct {
	name  string
	bound time.Duration
	takes bool // it may leave a lock behind that nobody owns
	begin func(p *party) (call func() error)
}

func try(name string, bound time.Duration, lock func(*party) error, opts ...redimutex.Option) verb {
	return verb{name, bound, true, func(p *party) func() error {
		p.mutex = p.client.Mutex(p.key, opts...)
		return func() error { return lock(p) }
	}}
}

func held(name string, bound time.Duration, end func(*party) error) verb {
	return verb{name, bound, false, func(p *party) func() error {
		p.mutex = p.client.Mutex(p.key)
		p.must(p.mutex.LockContext(p.patience, 0))
		return func() error { return end(p) }
	}}
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

// never returns a ctx that can be cancelled, and is not.
func never() context.Context { return after(time.Minute) }

func verbs() []verb {
	all := []verb{
		try("TryLock", nodeTimeout, func(p *party) error {
			if !p.mutex.TryLock() {
				return redimutex.ErrUnavailable
			}
			return nil
		}),
		held("Unlock", nodeTimeout, func(p *party) error { p.mutex.Unlock(); return nil }),
		doing(),
		held("Close with a lock", 2*nodeTimeout, func(p *party) error { return p.client.Close() }),
		waiting(),
		try("LockContext, timeout", late, func(p *party) error { return p.mutex.LockContext(background(), late) }),
		try("LockContext, cancelled, WithQueue", late, func(p *party) error { return p.mutex.LockContext(after(late), 0) }, redimutex.WithQueue()),
		try("TryLockContext, WithFencing", nodeTimeout, func(p *party) error { return p.mutex.TryLockContext(background()) }, redimutex.WithFencing()),
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
			continue // as when cancelled
		}
		all = append(all,
			held("UnlockContext, "+c.name, c.bound, func(p *party) error { return p.mutex.UnlockContext(c.ctx()) }),
			held("Extend, "+c.name, c.bound, func(p *party) error { return p.mutex.Lease().Extend(c.ctx(), time.Hour) }))
	}
	all = append(all, held("UnlockContext, ended before", nodeTimeout, func(p *party) error { return p.mutex.UnlockContext(ended()) }))
	for name, ctx := range map[string]func() context.Context{
		"cancelled": func() context.Context { return after(late) },
		"deadline":  func() context.Context { return within(late) },
	} {
		all = append(all,
			try("LockContext, "+name, late, func(p *party) error { return p.mutex.LockContext(ctx(), 0) }),
			try("Do that waits, "+name, late, func(p *party) error {
				return p.mutex.Do(ctx(), func(context.Context) error { return nil })
			}))
	}
	return all
}

// doing is a Do whose function returns while the server hangs: what is left is the release.
func doing() verb {
	return verb{"Do whose function returns", nodeTimeout, false, func(p *party) func() error {
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

// waiting is a Close while somebody waits in the queue of the servers, with a listener.
func waiting() verb {
	return verb{"Close with a waiter in the queue", 2 * nodeTimeout, false, func(p *party) func() error {
		m := p.client.Mutex(p.key, redimutex.WithQueue())
		holder := p.client.Mutex(p.key + ":held")
		p.must(holder.LockContext(p.patience, 0))
		for _, c := range p.direct() {
			_, err := c.Do("SET", p.key, "somebody else", "PX", time.Minute.Milliseconds())
			p.must(err)
			c.Close()
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			m.LockContext(p.patience, 0) //nolint:errcheck // Close ends it
		}()
		redistest.Wait(p.t, "the waiter", func() bool { return p.client.Stats().Waiting == 1 })
		return func() error {
			err := p.client.Close()
			<-over
			return err
		}
	}}
}
