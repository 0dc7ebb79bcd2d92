//go:build unix

package locks

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestBrokenLockIsLostToItsHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := redimutex.New(s.Pool(), "job", redimutex.WithOwner("web-1"), redimutex.WithFencing(), redimutex.WithTTL(2*time.Second))
	m.Lock()
	lease := m.Lease()
	out, stderr := clitest.Ends(t, cli.OK, "break", "-yes", "-redis", s.URL(), "job")
	assert.Empty(t, stderr)
	assert.Regexp(t, `(?s)^job: held by web-1, age .*, fence \d+, on \S+/0\nThe lock is broken\.\n  now: free\n  Its holder learns that its lease is lost at its next renewal, .* If it was taken with fencing, .* with fence \d+, once`, out)
	assert.NotContains(t, out, lease.Token()[:36])
	<-lease.Done()
	require.ErrorIs(t, lease.Err(), redimutex.ErrLost)
	assert.Empty(t, s.Get("job"))

	for _, flags := range [][]string{{}, {"-y"}, {"-yes"}} { // without a terminal, too: there is nothing to ask
		out, _ = clitest.Ends(t, cli.Failure, append([]string{"break", "-redis", s.URL(), "job"}, flags...)...)
		assert.Equal(t, "job: free, on "+s.Addr()+"/0\nNothing was broken: the lock is free.\n", out)
	}
}

func TestBrokenLockGoesToWhoWaitsFirst(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := redimutex.New(s.Pool(), "job", redimutex.WithOwner("web-1"), redimutex.WithQueue(), redimutex.WithTTL(time.Hour))
	holder.Lock()
	clitest.Enqueue(t, s, "job", "m next", "web-2", true)
	clitest.Enqueue(t, s, "job", "m next", "web-3", false)
	clitest.Enqueue(t, s, "job", "m next", "web-4", false)
	out, stderr := clitest.Ends(t, cli.OK, "break", "-yes", "-json", "-redis", s.URL(), "job")
	assert.Empty(t, stderr)
	b := clitest.FromJSON[breach](t, out)
	assert.Equal(t, wasBroken, b.Result)
	assert.Equal(t, "web-1", b.Before.Owner)
	assert.Equal(t, 3, b.Before.Waiting)
	assert.Equal(t, []brokenServer{{Address: s.Addr(), Name: s.Addr() + "/0", Result: wasBroken}}, b.Servers)
	require.NotNil(t, b.After)
	assert.Equal(t, "web-3", b.After.Owner, "who listens, and waits for longest")
	assert.Equal(t, 1, b.After.Waiting)
	assert.Equal(t, "web-3", server.Owner(s.Get("job")))
}

// breachOf returns what break knows when it asks the user.
func breachOf(t *testing.T, key string, all ...*redistest.Server) *breach {
	t.Helper()
	var given servers.URLs
	for _, s := range all {
		given = append(given, s.URL())
	}
	nodes, err := servers.Find(given, servers.QuickTimeout)
	require.NoError(t, err)
	t.Cleanup(nodes.Close)
	before, err := sight.Look(t.Context(), nodes, key)
	require.NoError(t, err)
	return &breach{Key: key, Before: before, nodes: nodes}
}

func TestBreakNeverDeletesAnotherLockThanTheOneShown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, waiting := range map[string]bool{"without a queue": false, "with a queue": true} {
		first, second := clitest.Token("first"), clitest.Token("second")
		s.Do("SET", name, first, "PX", 60000)
		if waiting {
			clitest.Enqueue(t, s, name, "m next", "waiter", false)
		}
		b := breachOf(t, name, s)
		s.Do("SET", name, second, "PX", 60000)
		b.carryOut()
		assert.Equal(t, wasChanged, b.Result)
		assert.Equal(t, second, s.Get(name), "not deleted")
		var out strings.Builder
		b.tell(&out)
		assert.Contains(t, out.String(), "Nothing was broken: the lock has changed hands since it was shown.\n"+name+": held by second")
		assert.Equal(t, cli.Failure, b.status(&cli.Terminal{Err: &out}))

		b = breachOf(t, name, s)
		s.Do("DEL", name)
		b.carryOut()
		assert.Equal(t, wasFree, b.Result)
	}
}

// put gives the lock to these tokens, one a server; "": it is free there.
func put(all []*redistest.Server, key string, tokens ...string) {
	for i, token := range tokens {
		if token == "" {
			all[i].Do("DEL", key)
		} else {
			all[i].Do("SET", key, token, "PX", 60000)
		}
	}
}

func TestBreakOfARedlockDeletesItOnAllServers(t *testing.T) {
	t.Parallel()
	all, _ := clitest.Three(t)
	x, y := clitest.Token("x"), clitest.Token("y")
	for name, c := range map[string]struct {
		shown, now []string // the tokens on the servers at the look, and at the break
		result     string
		left       []string
	}{
		"another holder may be taking it just now":         {[]string{x, x, y}, []string{x, x, y}, wasBroken, []string{"", "", y}},
		"no holder has it, and it is in the way of all":    {[]string{x, y, ""}, []string{x, y, ""}, wasBroken, []string{"", "", ""}},
		"it changed hands":                                 {[]string{x, x, x}, []string{y, y, y}, wasChanged, []string{y, y, y}},
		"it changed hands, and a release left it on one":   {[]string{x, x, x}, []string{y, y, x}, wasChanged, []string{y, y, ""}},
		"what a release has left on one server is no lock": {[]string{x, x, x}, []string{"", "", x}, wasFree, []string{"", "", ""}},
	} {
		put(all, name, c.shown...)
		b := breachOf(t, name, all...)
		put(all, name, c.now...)
		b.carryOut()
		assert.Equal(t, c.result, b.Result, name)
		for i, s := range all {
			assert.Equal(t, c.left[i], s.Get(name), name)
			assert.Equal(t, c.left[i] != "", b.Servers[i].Result == wasChanged, name)
		}
	}
}

func TestBreakOfARedlockSaysWhichServersDidNotAnswer(t *testing.T) {
	t.Parallel()
	all, _ := clitest.Three(t)
	x := clitest.Token("x")
	put(all, "perhaps", x, "", x)
	put(all, "down", x, x, x)
	put(all, "more down", x, x)
	all[2].Kill()
	b := breachOf(t, "down", all...)
	b.carryOut()
	assert.Equal(t, wasBroken, b.Result, "what one server may still have is no majority")
	var out strings.Builder
	b.tell(&out)
	assert.Contains(t, out.String(), all[2].Addr())

	b = breachOf(t, "perhaps", all...)
	b.carryOut()
	assert.Equal(t, wasUnclear, b.Servers[2].Result, "it is asked too, and did not answer")
	assert.NotEmpty(t, b.Servers[2].Error)
	out.Reset()
	b.tell(&out)
	assert.Contains(t, out.String(), all[2].Addr())
	assert.Contains(t, out.String(), "Its holder", "who may have had a majority")

	b = breachOf(t, "more down", all...)
	all[1].Kill()
	b.carryOut()
	assert.Equal(t, wasUnclear, b.Result)
	var stderr strings.Builder
	assert.Equal(t, cli.Unavailable, b.status(&cli.Terminal{Err: &stderr}))
	assert.Contains(t, stderr.String(), all[1].Addr())
	assert.Contains(t, stderr.String(), "it may be broken or not")
}

func TestBreakWorksForLocksOfOtherLibraries(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, token := range []string{"9HrBA1BqmdGOBrF8xKmY4g==", "worker 7", ""} {
		s.Do("SET", "job", token)
		out, _ := clitest.Ends(t, cli.OK, "break", "-y", "-redis", s.URL(), "job")
		assert.Contains(t, out, "held by an unknown owner of another library")
		assert.Contains(t, out, "which may not notice")
		assert.Contains(t, out, "It has no fence")
		if token != "" {
			assert.NotContains(t, out, token)
		}
		assert.NotContains(t, s.Keys(), "job")
	}
	s.Do("HSET", "job", "field", "value")
	_, stderr := clitest.Ends(t, cli.Unavailable, "break", "-yes", "-redis", s.URL(), "job")
	assert.Contains(t, stderr, "WRONGTYPE")
	assert.Contains(t, s.Keys(), "job")
}

func TestBreakEndsReadersWhoseSetIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", server.Reading, "PX", 60000)
	out, stderr := clitest.Ends(t, cli.OK, "break", "-yes", "-redis", s.URL(), "job")
	assert.Empty(t, stderr)
	assert.Contains(t, out, "job: held by readers, ")
	assert.Contains(t, out, "The lock is broken.\n  now: free\n")
	assert.NotContains(t, s.Keys(), "job")
}

func TestBreakLeavesAValueThatIsLongerThanAnyToken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", strings.Repeat("x", 1<<16), "PX", 60000)
	clitest.Ends(t, cli.OK, "break", "-yes", "-redis", s.URL(), "job")
	assert.NotContains(t, s.Keys(), "job")

	s.Do("SET", "job", strings.Repeat("x", 1<<16+1), "PX", 60000)
	_, stderr := clitest.Ends(t, cli.Unavailable, "break", "-yes", "-redis", s.URL(), "job")
	assert.Contains(t, stderr, "delete it with DEL")
	assert.Contains(t, s.Keys(), "job")
}

func TestBreakDoesNothingWhenThereIsNobodyToAsk(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", "token", "PX", 60000)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	_, err = write.WriteString("y\n")
	require.NoError(t, err)
	require.NoError(t, write.Close())
	for _, in := range []*os.File{null, read} {
		var out, stderr strings.Builder
		status := cli.Dispatch([]*cli.Command{Break()}, []string{"break", "-redis", s.URL(), "job"},
			&cli.Terminal{In: in, Out: cli.NewOutput(&out), Err: &stderr})
		assert.Equal(t, cli.UsageError, status)
		assert.Empty(t, out.String())
		assert.Contains(t, stderr.String(), "-yes breaks the lock without asking")
	}
	assert.Contains(t, s.Keys(), "job")
}

func TestBreakSaysWhyItMayNot(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := redistest.Start(t)
	s.Do("SET", "job", "token", "PX", 60000)
	s.Do("ACL", "SETUSER", "reader", "on", ">hunter2", "~*", "-@all", "+@read", "+time")
	refused := func(url, why string) {
		var status int
		var stderr string
		redistest.Wait(t, "an answer in time", func() bool {
			status, _, stderr = clitest.Call("break", "-yes", "-redis", url, "job")
			return !strings.Contains(stderr, "no answer")
		})
		assert.Equal(t, cli.Unavailable, status)
		assert.Contains(t, stderr, why)
		assert.NotContains(t, stderr, "broken or not")
		assert.NotContains(t, stderr, "hunter2")
	}
	refused("redis://reader:hunter2@"+s.Addr(), "NOPERM")
	s.Do("REPLICAOF", "127.0.0.1", "1")
	refused("redis://"+s.Addr(), "it is a replica of 127.0.0.1:1, ")
	assert.Equal(t, "token", s.Get("job"))
}

func TestBreakOfAHungServerEndsAsSoonAsRunDoes(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"without a password": nil, "with a password": {"--requirepass", "x"}} {
		s := redistest.Real(t, args...)
		url := s.URL()
		if args != nil {
			url = "redis://:x@" + s.Addr()
		}
		s.Pause()
		began := time.Now()
		status, _, stderr := clitest.Call("break", "-yes", "-redis", url, "job")
		assert.Less(t, time.Since(began), 4*time.Second, name)
		assert.Equal(t, cli.Unavailable, status)
		assert.Contains(t, stderr, "no answer", name)
		s.Resume()
	}
}
