package server

// Away reports whether the claim is out of the way of the next one.
func (c *Claim) Away() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state >= away
}
