package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// varied is a Config of row 37, in a weather in which a bug shows soon.
func varied(queue bool) Config {
	c := Config{Name: "planted", Seed: 1, Want: 4000, Servers: 1, Renew: true, Queue: queue, Kinds: true, Weather: unruly}
	c.Weather.Late, c.Weather.Long = .1, .3
	return c
}

func TestCheckerFindsNothingInHealthyKinds(t *testing.T) {
	for _, queue := range []bool{false, true} {
		r := run(t, varied(queue))
		assert.Zero(t, r.Overlaps+r.Revived+r.Inverted, r.First)
	}
	// Here a writer that was extended is downgraded, and another waits for its end.
	r := run(t, Config{Name: "extended, then downgraded", Seed: 99000011, Want: 300, Servers: 1, Kinds: true, Weather: unruly})
	assert.Zero(t, r.Overlaps+r.Revived+r.Inverted, r.First)
}

func TestCheckerFindsBugsInTheKinds(t *testing.T) {
	for name, bug := range map[string]Plant{
		"the clocks of the clients": { // each token has another, as if it were of another machine
			From: "local now = time[1] * 1000000 + time[2]",
			To:   "local now = time[1] * 1000000 + time[2] + string.byte(ARGV[1], 1) % 4 * 100000",
		},
		"a lock that lives as long as the first of its readers": {
			From: "local left = msUntil(redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')[2])",
			To:   "local left = msUntil(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2])",
		},
		"a writer does not see readers": {
			From: "if holder and (want ~= 'r' or holder ~= '*') then", To: "if holder and holder ~= '*' then",
		},
		"a downgrade in two steps": {
			From: "read(token, math.max(ms, redis.call('PTTL', lock))) --", To: "redis.call('DEL', lock) --",
		},
		"one permit too many": {
			From: "held >= tonumber(want)", To: "held > tonumber(want)",
		},
		"an extension of a permit that shortens it": {
			From: "if tonumber(ends) < now + ms * 1000 then\nput(lock,", To: "if true then\nput(lock,",
		},
		"several keys, of which one is looked at": {
			From: "local ours = 0\nfor i = 1, locks do", To: "local ours = locks - 1\nfor i = 1, 1 do",
		},
		"a lock that is taken over twice": {
			From: "if holder ~= token and holder ~= old then", To: "if not holder then",
		},
		"a fence of the first key alone": {
			From: "for i = locks + 1, 2 * locks do\nlast", To: "for i = locks + 1, locks + 1 do\nlast",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := varied(false)
			c.Renew, c.Plant = false, bug
			r := run(t, c)
			assert.NotZero(t, r.Overlaps+r.Inverted)
			t.Log(r.Overlaps, r.Inverted, r.First)
		})
	}
}
