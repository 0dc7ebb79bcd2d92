package cacheaside

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/conn"
)

// A fetch is one call of Fetch, without its type.
type fetch struct {
	cache  *Cache
	key    string
	load   func(ctx context.Context) ([]byte, error)
	decode func(b []byte) error // also stores the value for the caller
	tries  int                  // intervals that have passed without the lock
}

// errOtherShape is the error of a follower of a flight that can't decode the flight's value into its own type.
var errOtherShape = errors.New("cacheaside: the value is of another type")

// run looks for the value, or makes it. It returns nil once decode has had the value.
func (f *fetch) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.cache.refuse(f.key); err != nil {
		return err
	}
	if redimutex.LeaseFrom(ctx) != nil {
		if value, err := f.look(ctx); value != nil || err != nil {
			return err
		}
		// This caller may hold this very lock (WithReentrancy), and the leader of a flight may be waiting for it.
		value, again, err := f.try(ctx)
		switch {
		case value != nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !again:
			return err
		}
	}
	for {
		// A cached value that can't be decoded counts as absent, and so does one that a flight brings.
		if err := f.fly(ctx); err != errOtherShape {
			return err
		}
	}
}

// fly looks in the cache, and then waits for the value together with all other callers of this process.
func (f *fetch) fly(ctx context.Context) error {
	c := f.cache
	flight := c.board(f.key, false)
	if flight == nil {
		// A caller that has just changed the value and deleted it from the cache wants the new one. So a look that another
		// goroutine began earlier would not do here.
		if value, err := f.look(ctx); value != nil || err != nil {
			return err
		}
		flight = c.board(f.key, true)
	}
	defer c.leave(f.key, flight)
	return f.wait(ctx, flight)
}

// wait waits until the flight has landed, or until this caller can lead it.
func (f *fetch) wait(ctx context.Context, flight *flight) error {
	for {
		select {
		case <-flight.landed:
			return f.arrive(flight)
		case <-flight.lead:
			return f.lead(ctx, flight)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(f.cache.interval):
			if f.tries++; f.tries >= f.cache.maxTries {
				return f.giveUp(flight)
			}
		}
	}
}

// arrive takes the result of the leader.
func (f *fetch) arrive(flight *flight) error {
	if flight.err != nil {
		return flight.err
	}
	if f.decode(flight.value) != nil {
		return errOtherShape
	}
	return nil
}

// lead asks the servers until there is a value, or until this caller has to give up. Then the next caller leads.
func (f *fetch) lead(ctx context.Context, flight *flight) error {
	defer func() { flight.lead <- struct{}{} }() // also when the loader panics
	select {
	case <-flight.landed: // while this caller took the lead
		return f.arrive(flight)
	default:
	}
	for {
		value, again, err := f.try(ctx)
		switch {
		case value != nil:
			f.cache.land(f.key, flight, value, nil)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !again:
			return err
		}
		flight.why.Store(&err)
		if value, err := f.pause(ctx); value != nil || err != nil {
			if ctx.Err() == nil {
				f.cache.land(f.key, flight, value, err)
			}
			return err
		}
		if f.tries++; f.tries >= f.cache.maxTries {
			return f.giveUp(flight)
		}
	}
}

// pause waits for one interval and looks in the cache.
func (f *fetch) pause(ctx context.Context) ([]byte, error) {
	select {
	case <-time.After(f.cache.interval):
		return f.look(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// look returns the value if it is in the cache and decode accepts it, and nil if not.
func (f *fetch) look(ctx context.Context) ([]byte, error) {
	value, err := f.cache.store.Get(ctx, f.key)
	switch {
	case err != nil && conn.Over(ctx):
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("cacheaside: %q: the cache can't be read: %w", f.key, err)
	case value == nil || f.decode(value) != nil:
		return nil, nil
	}
	return value, nil
}

// try tries once to get the lock. If it gets the lock, it makes the value. again says that only the lock was missing.
func (f *fetch) try(ctx context.Context) (value []byte, again bool, err error) {
	mutex := f.cache.client.Mutex(f.cache.lockKey(f.key))
	var lost error
	inside := false
	err = mutex.TryDo(ctx, func(ctx context.Context) (err error) {
		inside = true
		value, lost, err = f.refresh(ctx, redimutex.LeaseFrom(ctx))
		return err
	})
	switch {
	case value != nil:
		return value, false, nil // it was cached in time, whatever happened to the lock since
	case lost != nil:
		return nil, false, fmt.Errorf("%w; the loaded value was not cached", lost)
	}
	var locked *redimutex.LockedError
	switch {
	case inside: // the loader may use locks of its own, so its errors say nothing about this one
		return nil, false, err
	case errors.As(err, &locked):
		return nil, !locked.Nested, err // a lock that this caller holds itself does not become free while it waits
	}
	return nil, errors.Is(err, redimutex.ErrUnavailable), err
}

// refresh looks once more, under the lock. If the value is still not there, refresh loads and caches it. If the lease ended
// meanwhile, a loaded value is not cached, and lost says why.
func (f *fetch) refresh(ctx context.Context, lease *redimutex.Lease) (value []byte, lost, err error) {
	if value, err = f.look(ctx); value != nil || err != nil {
		return value, nil, err
	}
	if value, err = f.load(ctx); err != nil {
		return nil, nil, err
	}
	if err = f.decode(value); err != nil {
		return nil, nil, fmt.Errorf("cacheaside: %q: the loaded value can't be decoded again: %w", f.key, err)
	}
	// In a process that was paused, ctx may not have ended yet. The lease looks at the clock.
	if lost = lease.Err(); lost != nil {
		return nil, lost, nil
	}
	if err = f.cache.store.Set(ctx, f.key, value); err != nil {
		if lost = lease.Err(); lost != nil {
			return nil, lost, nil
		}
		if conn.Over(ctx) {
			return nil, nil, context.Cause(ctx)
		}
		f.cache.log().Warn("cacheaside: a loaded value could not be cached", "key", f.key, "err", err)
	}
	return value, nil, nil
}

// giveUp returns the error of a caller whose tries are used up.
func (f *fetch) giveUp(flight *flight) error {
	err := redimutex.ErrLocked
	if why := flight.why.Load(); why != nil {
		err = *why
	}
	return fmt.Errorf("cacheaside: %q: no value after %d tries: %w", f.key, f.tries, err)
}
