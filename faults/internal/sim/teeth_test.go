package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rough is a weather in which a bug shows soon.
var rough = func() Weather {
	w := storm
	w.Slow, w.Long, w.Pause = .05, .3, .1
	return w
}()

// In the same weather the checker must find nothing if there is no bug. Otherwise its finds in the other tests prove nothing.
func TestCheckerFindsNothingInHealthyCode(t *testing.T) {
	for _, c := range []Config{
		{Name: "renewed", Servers: 1, Renew: true},
		{Name: "fixed", Servers: 5},
		{Name: "renewed by five", Servers: 5, Renew: true, Fencing: true},
		{Name: "foreign pool", Servers: 1, Renew: true, Foreign: true},
		{Name: "foreign pools", Servers: 5, Renew: true, Fencing: true, Foreign: true},
	} {
		c.Seed, c.Want, c.Weather = 1, 1500, rough
		r := run(t, c)
		assert.Zero(t, r.Overlaps+r.Revived+r.Inverted, "%s: %s", c.Name, r.First)
		assert.GreaterOrEqual(t, r.Acquired, c.Want)
		assert.NotZero(t, r.Lost, "holds whose lease ended")
	}
}

// notOurs is the part of the script with which an extension of a Mutex handles a lock that does not hold its token.
const notOurs = "return (holder or wrong) and -1 or 0, i\nend\nend\nfor i = 1, locks do\nraise("

// Whatever the script does, a renewal is refused once its lease has expired. So the bugs show only if the key is lost before
// the lease expires.
func TestCheckerFindsBadRenewals(t *testing.T) {
	lost := jumping
	lost.Long, lost.Calm = .3, time.Second
	c := Config{Name: "planted", Seed: 1, Want: 8000, Servers: 1, Renew: true, Weather: lost}
	healthy := run(t, c)
	assert.Zero(t, healthy.Prolonged, healthy.First)
	for name, bug := range map[string]Plant{
		"without comparing": {
			From: notOurs,
			To:   "if not holder then\nreturn 0, i\nend\nend\nend\nfor i = 1, locks do\nraise(",
		},
		"creating the key again": {
			From: notOurs,
			To:   "if not holder then\nredis.call('SET', KEYS[i], token, 'PX', ms)\nreturn 1\nend\nreturn -1, i\nend\nend\nfor i = 1, locks do\nraise(",
		},
	} {
		c.Plant = bug
		r := run(t, c)
		assert.NotZero(t, r.Prolonged, name)
		t.Log(name, r.Prolonged)
	}
}

func TestCheckerFindsReleaseThatDoesNotCompare(t *testing.T) {
	r := run(t, Config{
		Name: "planted", Seed: 1, Want: 1000, Servers: 1, Renew: true, Weather: rough,
		Plant: Plant{
			From: "if holder == token then\nexpire(KEYS[i], ms)",
			To:   "if holder then\nexpire(KEYS[i], ms)",
		},
	})
	assert.NotZero(t, r.Overlaps)
}

func TestCheckerFindsFenceThatDoesNotRise(t *testing.T) {
	r := run(t, Config{
		Name: "planted", Seed: 1, Want: 500, Servers: 1, Fencing: true, Weather: rough,
		Plant: Plant{From: "fence = math.max(fence, tonumber(last or 0) + 1)", To: "fence = 5"},
	})
	assert.NotZero(t, r.Inverted)
	assert.NotZero(t, r.Stale)
}

// These bugs are planted in the Go code: in a copy of the file, with which a second test program is built.
func TestCheckerFindsBugsInTheQuorum(t *testing.T) {
	for name, bug := range map[string]struct{ from, to string }{
		"validity from the time of the reply": {"return sent.Add(Validity(ttl)), fence", "return time.Now().Add(Validity(ttl)), fence"},
		"a quorum of N/2":                     {"need: n/2 + 1", "need: n / 2"},
	} {
		t.Run(name, func(t *testing.T) {
			program := mutant(t, "../../../internal/quorum/tally.go", bug.from, bug.to)
			r, err := Run(t.Context(), program, Config{Name: "planted", Seed: 1, Want: 3000, Servers: 5, Weather: rough}, nil)
			require.NoError(t, err)
			assert.NotZero(t, r.Overlaps)
			t.Log(r.First)
		})
	}
}

// mutant builds this test program with from replaced by to in one file of the library.
func mutant(t *testing.T, file, from, to string) (program string) {
	t.Helper()
	file, err := filepath.Abs(file)
	require.NoError(t, err)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), from), "%s has to have %q once", file, from)
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(source), from, to, 1)), 0o600))
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	program = filepath.Join(dir, "mutant")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

func TestSameSeedIsTheSameTrace(t *testing.T) {
	for _, c := range []Config{
		{Name: "one", Servers: 1, Renew: true},
		{Name: "queue", Servers: 1, Renew: true, Fencing: true, Queue: true},
		{Name: "five", Servers: 5, Renew: true, Fencing: true},
	} {
		c.Seed, c.Want, c.Weather = 3, 400, storm
		first, again := run(t, c), run(t, c)
		assert.Equal(t, first.Hash, again.Hash, c.Name)
		assert.Equal(t, first.Events, again.Events, c.Name)
		c.Seed++
		assert.NotEqual(t, first.Hash, run(t, c).Hash, c.Name)
	}
}
