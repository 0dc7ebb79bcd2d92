package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// delayed gives c a weather in which many messages come too late, and few workers that want the lock.
func delayed(c Config) Config {
	c.Few, c.Weather = true, Weather{Drift: .009, Slow: .01, Late: .3, Break: .02, Calm: 300 * time.Millisecond, Hang: 3, Cancel: .1}
	return c
}

func TestCheckerFindsNothingThatHealthyClaimsLeaveBehind(t *testing.T) {
	for _, c := range append(orphanages(), delayed(Config{Name: "delayed", Servers: 1, Renew: true})) {
		c.Seed, c.Want = 1, 4000
		r := run(t, c)
		assert.Zero(t, r.Overlaps+r.Revived+r.Orphans, "%s: %s", c.Name, r.First)
	}
}

// Each case is something that a claim must not do, planted in a copy of the file.
func TestCheckerFindsBugsInTheClaims(t *testing.T) {
	const claim, away, acquire = "../../../internal/server/claim.go", "../../../internal/server/release.go", "../../../internal/quorum/votes.go"
	one, queued, three := orphanages()[0], orphanages()[1], orphanages()[2]
	queued.Want = 6000 // few tries come late enough
	undone := delayed(Config{Servers: 1, Renew: true})
	undone.Want = 8000 // few undos do
	fenced := Config{Servers: 3, Renew: true, Fencing: true, Weather: rough}
	for name, bug := range map[string]struct {
		file, from, to string
		at             Config
	}{
		"gone by an answer that came too early":    {away, "case r.Sent.Sub(epoch) < open:", "case false:", queued},
		"a try that is repeated after its undo":    {claim, "return c.doubt || c.state != wanted", "return c.state != wanted", undone},
		"a release that is not repeated":           {away, "!Permanent(r.Err):\n\t\tmore = c.schedule(now + minBackoff)", "!Permanent(r.Err):", one},
		"a try without an answer has done nothing": {claim, "c.mayExist = c.mayExist || unanswered ||", "c.mayExist = c.mayExist ||", one},
		"a release that a try overtook":            {away, "case c.tries > 0, c.running > 0 && c.keep > 0:", "case false:", three},
		"something is sent for what has ended":     {claim, "	if c.state != wanted {\n		return false\n	}\n	c.running++", "	c.running++", three},
		"a fence that is not written back":         {acquire, "if l.Fence == server.NextFence {", "if false {", fenced},
	} {
		t.Run(name, func(t *testing.T) {
			c := bug.at
			c.Name, c.Seed, c.Want = "planted", 1, max(c.Want, 2000)
			r, err := Run(t.Context(), mutant(t, bug.file, bug.from, bug.to), c, nil)
			require.NoError(t, err)
			assert.NotZero(t, r.Overlaps+r.Orphans+r.Inverted)
			t.Log(r.Overlaps, r.Orphans, r.Inverted, r.First)
		})
	}
}

func TestCheckerFindsTriesThatAreExecutedAfterTheirDeadline(t *testing.T) {
	c := orphanages()[1]
	c.Name, c.Seed, c.Want = "planted", 1, 3000
	c.Plant = Plant{From: "if ARGV[3] ~= '0' and now > tonumber(ARGV[3]) then", To: "if false then"}
	r := run(t, c)
	assert.NotZero(t, r.Orphans)
	t.Log(r.Orphans, r.First)
}

func TestCheckerFindsAGuardThatEndsTooEarly(t *testing.T) {
	r := run(t, Config{
		Name: "planted", Seed: 1, Want: 6000, Servers: 3, Guard: true, Weather: forgetful,
		Plant: Plant{From: "local left = math.ceil((born - now) / 1000) + ms", To: "local left = math.ceil((born - now) / 1000) + ms / 2"},
	})
	assert.NotZero(t, r.Overlaps)
	t.Log(r.Overlaps, r.First)
}
