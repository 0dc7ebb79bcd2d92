package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// varied is a Config of row 37, in a weather in which a bug shows soon.
func varied(queue bool) Config {
	c := Config{Name: "planted", Seed: 1, Want: 4000, Servers: 1, Renew: true, Queue: queue, Kinds: true, Weather: unruly}
	c.Weather.Late, c.Weather.Long = .1, .3
	return c
}

func TestCheckerFindsNothingInHealthyKinds(t *testing.T) {
	for _, c := range motley() {
		name := c.Name
		c.Name, c.Seed, c.Want = "healthy", 1, 1200
		c.Weather.Late, c.Weather.Long = .1, .3
		r := run(t, c)
		assert.Zero(t, r.Overlaps+r.Revived+r.Inverted, "%s: %s", name, r.First)
		if c.Servers == 1 {
			assert.Zero(t, r.Prolonged, "%s: %s", name, r.First)
		}
	}
	// Here a writer extends its lease and is then downgraded, while another caller waits for its end.
	r := run(t, Config{Name: "extended, then downgraded", Seed: 99000011, Want: 300, Servers: 1, Kinds: true, Weather: unruly})
	assert.Zero(t, r.Overlaps+r.Revived+r.Inverted, r.First)
}

// A call gets a permit on the server, and does not learn of it. The next call takes over its try. In between, a holder with a
// higher limit comes.
func TestAPermitIsJudgedByWhenItsTokenWasFirstAskedFor(t *testing.T) {
	r := run(t, Config{Name: "a try taken over", Seed: 60000006, Want: 300, Servers: 1, Kinds: true, Weather: unruly})
	assert.Zero(t, r.Overlaps+r.Revived+r.Inverted, r.First)
}

const (
	taken   = "return foreign() or put(lock, token, ms)"
	gave    = "local function drop(token)\n"
	full    = "if ends then\nreturn foreign() or first"
	counter = "tonumber(redis.call('GET', lock .. ':n') or 0)"
)

// Known mistakes of other implementations, and what else could go wrong in this one.
func TestCheckerFindsBugsInTheKinds(t *testing.T) {
	foreign := motley()[4]
	for name, bug := range map[string]Plant{
		"the clocks of the clients": { // each token has another clock, as if it came from another machine
			From: "local now = time[1] * 1000000 + time[2]",
			To:   "local now = time[1] * 1000000 + time[2] + string.byte(ARGV[1], 1) % 4 * 100000",
		},
		"one TTL for all readers": {From: "put(readers, token, ms, ends)\nraise(lock, ms)", To: "put(readers, token, ms, ends)\nredis.call('PEXPIRE', lock, ms)"},
		"a downgrade as RLock, then Unlock": {
			From: "if writes then\nentitle()", To: "if writes then\nredis.call('DEL', lock)\nentitle()",
		},
		"permits counted up and down": {
			From: taken, To: "put(lock, token, ms)\nredis.call('SET', lock .. ':n', " + counter + " + 1)",
			And: &Plant{
				From: gave, To: gave + "redis.call('SET', lock .. ':n', " + counter + " - 1)\n",
				And: &Plant{From: full, To: strings.Replace(full, "ends", counter+" >= tonumber(want)", 1)},
			},
		},
		"stale readers of an earlier phase are kept": {From: "redis.call('DEL', readers)\n", To: ""},
		"several keys, one by one": {
			From: "local ours = 0\nfor i = 1, locks do", To: "local ours = locks - 1\nfor i = 1, 1 do",
		},
		"a lock that is taken over twice": {
			From: "if not ours then", To: "if not holder then",
		},
		"a lock that lives as long as the first of its readers": {
			From: "local ends = living(set, '-1')", To: "local ends = living(set, '0')",
		},
		"a writer does not see readers": {
			From: "if holder and (want ~= 'r' or holder ~= '*') then", To: "if holder and holder ~= '*' then",
		},
		"one permit too many": {From: "living(lock, '-' .. want)", To: "living(lock, '-' .. want + 1)"},
		"an extension of a permit that shortens it": {
			From: "math.max(ends or 0, now + ms * 1000)", To: "now + ms * 1000",
		},
		"a fence of the first key alone": {
			From: "for i = locks + 1, 2 * locks do\nlast", To: "for i = locks + 1, locks + 1 do\nlast",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := varied(false)
			c.Renew = false
			switch {
			case strings.HasPrefix(name, "stale"):
				c = foreign
				c.Name, c.Seed, c.Want, c.Only, c.Weather.Long, c.Weather.Rob = "planted", 1, 40000, shared, .4, .4
			case strings.HasPrefix(name, "an extension"): // a longer one has to come before it, and another holder after it
				c.Want *= 4
			}
			c.Plant = bug
			r := run(t, c)
			assert.NotZero(t, r.Overlaps+r.Inverted+r.Prolonged)
			t.Log(r.Overlaps, r.Inverted, r.Prolonged, r.First)
		})
	}
}

// The library refuses a Semaphore over several servers, so the mutant has no such refusal.
func TestCheckerFindsASemaphoreThatCountsByMajority(t *testing.T) {
	program := mutant(t, "../../../semaphore.go", "must(len(c.pools) == 1,", "must(true,")
	c := varied(false)
	c.Servers, c.Counting = 3, true
	r, err := Run(t.Context(), program, c, nil)
	require.NoError(t, err)
	assert.NotZero(t, r.Overlaps)
	t.Log(r.Overlaps, r.First)
}
