package quorum

// Voter lets tests put scripted servers in the place of real ones.
type Voter = voter

// Of returns the Quorum over scripted servers.
func Of(voters ...Voter) *Quorum { return newQuorum(voters) }

// Settle says that server i has answered.
func (s *Shortening) Settle(i int) { s.settle(i, false) }

// Count returns how many there are to look at.
func (a *Shortenings) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.list)
}
