package sim

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// disorderly is a Config of row 24, in a weather in which a bug shows soon.
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

// An extension that was overtaken takes back what a later one gave.
func TestCheckerFindsExtensionThatLowersTheExpiry(t *testing.T) {
	r := run(t, disorderly(Config{Servers: 1, Want: 5000, Plant: Plant{
		From: "if redis.call('PTTL', lock) < tonumber(ARGV[2]) then", To: "if true then",
	}}))
	assert.NotZero(t, r.Overlaps)
	t.Log(r.Overlaps, r.First)
}

// A waiter that listens at a replica is handed the lock, and so is the next one.
func TestCheckerFindsReplicatedMessages(t *testing.T) {
	r := run(t, disorderly(Config{Servers: 1, Want: 2000, Renew: true, Queue: true, Astray: true, Plant: Plant{
		From: "redis.set_repl(redis.REPL_NONE)", To: "",
	}}))
	assert.NotZero(t, r.Overlaps)
	t.Log(r.Overlaps, r.First)
}

// An Extend that waits behind another one is checked when it is called, and not again when its turn comes. By then its
// hold may be over, and the next one of the process in the same lease.
func TestCheckerFindsExtendThatConcernsTheNextHold(t *testing.T) {
	const (
		file    = "../../../internal/lock/extend.go"
		first   = "import (\n"
		head    = "// Extend makes the hold last for ttl from now on."
		mark    = "g.over.Store(true) // before the look at the hold: whoever ends it looks at this after that\n"
		checked = "\tif r := h.Reason(); r != keepalive.Alive {\n\t\treturn r, nil\n\t}\n"
		wait    = "\tturn, _ := extensions.LoadOrStore(g, make(chan struct{}, 1))\n" +
			"\tturn.(chan struct{}) <- struct{}{}\n\tdefer func() { <-turn.(chan struct{}) }()\n"
	)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(source), first)
	require.True(t, found)
	imports, rest, found := strings.Cut(rest, head)
	require.True(t, found)
	before, _, found := strings.Cut(rest, mark+checked)
	require.True(t, found)
	c := disorderly(Config{Servers: 1, Want: 30000, Renew: true, Fencing: true})
	program := mutant(t, file, first+imports+head+before+mark+checked,
		first+"\t\"sync\"\n"+imports+"var extensions sync.Map\n\n"+head+before+checked+wait)
	r, err := Run(t.Context(), program, c, nil)
	require.NoError(t, err)
	assert.NotZero(t, r.Cut)
	t.Log(r.Cut, r.First)
}
