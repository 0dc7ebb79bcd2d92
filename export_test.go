package redimutex

// Keys returns for how many keys the Client remembers something.
func (c *Client) Keys() int { return c.engine.Keys() }
