package election_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestAResignedLeaderGoesToTheEndOfTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a")
	a.leads(t, 1)
	b := join(t, one(s), "b")
	waiting(t, s, 1)
	c := join(t, one(s), "c")
	waiting(t, s, 2)

	last := int64(0)
	for round := 1; round <= 3; round++ {
		for _, now := range []*candidate{a, b, c} {
			lead := now.leads(t, round)
			require.Greater(t, lead.number, last)
			last = lead.number
			waiting(t, s, 2)
			now.Resign()
			now.Resign() // has no further effect
			<-lead.ended
			require.ErrorIs(t, lead.cause, election.ErrResigned)
		}
	}
	a.leads(t, 4)
	assert.Len(t, b.led(), 3)
	assert.Len(t, c.led(), 3)
}

func TestWhoDoesNotLeadCannotResign(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a")
	a.leads(t, 1)
	b := join(t, one(s), "b")
	waiting(t, s, 1)
	b.Resign()
	a.Resign()
	lead := b.leads(t, 1)
	assert.NoError(t, lead.ctx.Err(), "a resignation from before the lead")
	assert.True(t, b.IsLeader())
}
