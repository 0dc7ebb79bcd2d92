package quorum

// Voter lets tests put scripted servers in the place of real ones.
type Voter = voter

// Of returns the Quorum over scripted servers.
func Of(voters ...Voter) *Quorum { return newQuorum(voters) }
