package cacheaside

import "sync/atomic"

// A flight is the goroutines of this process that wait for the value of one key. One of them at
// a time leads: it asks the servers for all.
type flight struct {
	lead chan struct{}         // holds one element while no candidate leads
	why  atomic.Pointer[error] // why the last try for the lock failed

	refs int // protected by Cache.mu

	landed chan struct{} // closed once value and err are what they will be
	value  []byte
	err    error
}

// board joins the flight of key. If none is under way it begins one, or returns nil. A caller that boards has to
// leave.
func (c *Cache) board(key string, begin bool) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flights[key]
	if f == nil && begin {
		f = &flight{lead: make(chan struct{}, 1), landed: make(chan struct{})}
		f.lead <- struct{}{}
		c.flights[key] = f
	}
	if f != nil {
		f.refs++
	}
	return f
}

// leave forgets the flight when no caller is on it any more.
func (c *Cache) leave(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.refs--; f.refs == 0 && c.flights[key] == f {
		delete(c.flights, key)
	}
}

// land ends the flight, and all on it get the result. Only its leader may call it. A caller that comes from now on
// looks in the cache again.
func (c *Cache) land(key string, f *flight, value []byte, err error) {
	c.mu.Lock()
	delete(c.flights, key)
	c.mu.Unlock()
	f.value, f.err = value, err
	close(f.landed)
}
