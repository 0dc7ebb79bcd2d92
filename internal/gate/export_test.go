package gate

// Waiting reports whether a goroutine waits for the turn.
func (g *Gate) Waiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first != nil
}
