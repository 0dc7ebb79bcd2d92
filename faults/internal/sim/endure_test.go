package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckerFindsALockThatRegainsNoVotes(t *testing.T) {
	c := Config{Name: "planted", Seed: 1, Want: 40, Servers: 3, Renew: true, Endure: true, Weather: steady}
	healthy := run(t, c)
	assert.Zero(t, healthy.Fallen+healthy.Overlaps, healthy.First)
	assert.GreaterOrEqual(t, healthy.Restarts, c.Want)
	program := mutant(t, "../../../internal/quorum/extend.go", "r.regain(i, batch, missing)", "_ = missing")
	r, err := Run(t.Context(), program, c, nil)
	require.NoError(t, err)
	assert.NotZero(t, r.Fallen)
}

// A vote must not be regained after a missed round, nor on a server that has another token: another caller may have the lock.
func TestCheckerFindsVotesThatAreRegainedWhereTheyMustNotBe(t *testing.T) {
	gone := corrected
	gone.Amnesia, gone.Cut, gone.Long, gone.Calm = 8, true, .4, 300*time.Millisecond
	c := Config{Name: "planted", Seed: 1, Want: 4000, Servers: 3, Renew: true, Weather: gone}
	healthy := run(t, c)
	assert.Zero(t, healthy.Prolonged+healthy.Revived, healthy.First)
	t.Run("after a missed round", func(t *testing.T) {
		program := mutant(t, "../../../internal/quorum/extend.go", "if !r.tallies[k].won() || c.Unknown() {", "if c.Unknown() {")
		planted := c
		for planted.Seed < 8 { // there is seldom another holder just then
			r, err := Run(t.Context(), program, planted, nil)
			require.NoError(t, err)
			if r.Prolonged > 0 {
				t.Log(planted.Seed, r.Prolonged, r.First)
				return
			}
			planted.Seed++
		}
		t.Error("not found")
	})
	t.Run("over another's token", func(t *testing.T) {
		planted := c
		planted.Plant = Plant{
			From: notOurs,
			To:   "if holder then\nredis.call('SET', KEYS[i], token, 'PX', ms)\nreturn 1\nend\nreturn 0, i\nend\nend\nfor i = 1, locks do\nraise(",
		}
		r := run(t, planted)
		assert.NotZero(t, r.Prolonged)
		t.Log(r.Prolonged, r.Overlaps, healthy.Overlaps)
	})
}
