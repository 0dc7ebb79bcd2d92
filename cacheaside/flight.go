package cacheaside

import "sync/atomic"

// A flight is the group of goroutines of this process that wait for the value of one key. One of them at a time leads: it asks
// the servers for all.
type flight struct {
	lead chan struct{}         // holds one element while no caller leads
	why  atomic.Pointer[error] // why the last try for the lock failed

	refs int // protected by Cache.mu

	landed chan struct{} // closed once value and err are final
	value  []byte
	err    error
}

// board joins the flight of key. If there is none, board begins one if begin is set, and otherwise returns nil. A caller that
// boards must leave.
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

// leave forgets the flight when its last caller leaves.
func (c *Cache) leave(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.refs--; f.refs == 0 && c.flights[key] == f {
		delete(c.flights, key)
	}
}

// land ends the flight and gives its result to all callers on it. Only the leader may call it. A caller that comes later looks
// in the cache again.
func (c *Cache) land(key string, f *flight, value []byte, err error) {
	c.mu.Lock()
	delete(c.flights, key)
	c.mu.Unlock()
	f.value, f.err = value, err
	close(f.landed)
}
