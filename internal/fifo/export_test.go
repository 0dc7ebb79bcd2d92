package fifo

// Waiting reports whether a goroutine waits for the turn.
func (q *Line) Waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.first != nil
}
