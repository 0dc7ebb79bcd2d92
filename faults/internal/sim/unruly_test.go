package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// disorderly returns c as a Config of row 24, in a weather in which a bug shows soon.
func disorderly(c Config) Config {
	c.Name, c.Seed, c.Mixed, c.Weather = "planted", 1, true, unruly
	c.Weather.Late, c.Weather.Long = .2, .4
	return c
}

func TestCheckerFindsNothingInHealthyExtensions(t *testing.T) {
	for _, c := range unrulies() {
		if c.Library == "redsync" || c.Beyond {
			continue
		}
		name := c.Name
		c = disorderly(c)
		c.Want = 600
		r := run(t, c)
		assert.Zero(t, r.Overlaps+r.Revived+r.Inverted+r.Cut, "%s: %s", name, r.First)
	}
}

// The bug: an extension that was overtaken takes back what a later extension gave.
func TestCheckerFindsExtensionThatLowersTheExpiry(t *testing.T) {
	r := run(t, disorderly(Config{Servers: 1, Want: 5000, Plant: Plant{
		From: "left < tonumber(ms) and ms or left", To: "ms",
	}}))
	assert.NotZero(t, r.Overlaps)
	t.Log(r.Overlaps, r.First)
}

// The bug: the lock is handed to a waiter that listens at a replica, and to the next waiter as well.
func TestCheckerFindsReplicatedMessages(t *testing.T) {
	r := run(t, disorderly(Config{Servers: 1, Want: 2000, Renew: true, Queue: true, Astray: true, Plant: Plant{
		From: "redis.set_repl(redis.REPL_NONE)", To: "",
	}}))
	assert.NotZero(t, r.Overlaps)
	t.Log(r.Overlaps, r.First)
}
