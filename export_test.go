package redimutex

// Lines returns for how many keys the Client remembers something.
func (c *Client) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}
