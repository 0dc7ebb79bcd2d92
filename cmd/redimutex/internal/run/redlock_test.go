//go:build unix

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestSeveralServersAreARedlock(t *testing.T) {
	t.Parallel()
	servers, flags := clitest.Three(t)
	conflict := slices.Concat([]string{"run", "-n", "-E", "9", "job"}, flags, []string{"--", "true"})
	show := append([]string{"show", "job"}, flags...)
	held := begun(t, nil, lingering, append(flags, "job")...)
	clitest.RunEnds(t, 9, nil, conflict...)
	out, _ := clitest.RunEnds(t, 0, nil, show...)
	assert.Equal(t, 4, strings.Count(out, "\n"), out)

	servers[0].Kill()
	clitest.RunEnds(t, 9, nil, conflict...)
	terminate(t, held)
	out, _ = clitest.RunEnds(t, 1, nil, show...)
	assert.Contains(t, out, servers[0].Addr()+"/0: connect: connection refused")

	servers[1].Kill()
	for _, args := range [][]string{conflict, show} {
		_, stderr := clitest.RunEnds(t, cli.Unavailable, nil, args...)
		assert.Contains(t, stderr, servers[0].Addr())
		assert.Contains(t, stderr, servers[1].Addr())
		assert.Equal(t, 1, strings.Count(stderr, "\n"))
	}
}

// Machines whose cron starts the job at the same moment may split the votes. If each then left the job to the others, none
// would run it.
func TestATryThatHasSplitTheVotesIsRepeated(t *testing.T) {
	t.Parallel()
	all, flags := clitest.Three(t)
	for i, rival := range []string{"A", "B"} {
		s := all[i]
		var scripts atomic.Int32
		s.Do("SET", "job", rival, "PX", 60_000)
		front := redistest.NewFront(t, s)
		flags[2*i+1] = "redis://" + front.Addr()
		front.On(func(command []string) redistest.Fate { // the rival gives up after the first try
			if strings.HasPrefix(command[0], "EVAL") && scripts.Add(1) == 3 { // a new server does not know the hash of the first
				s.Do("DEL", "job")
			}
			return redistest.Fate{}
		})
	}
	command := []string{"-ttl", "1m", "job", "--", "echo", "ran"} // a machine that stalls for a moment is no server that fails
	out, _ := clitest.RunEnds(t, 0, nil, slices.Concat([]string{"run", "-n", "-E", "0"}, flags, command)...)
	assert.Equal(t, "ran\n", out)

	for _, s := range all { // but a lock that is held is held
		s.Do("SET", "job", "A", "PX", 60_000)
	}
	clitest.RunEnds(t, 1, nil, slices.Concat([]string{"run", "-n"}, flags, command)...)
}

func TestALossByTwoNamesOfOneServerSaysWhatMayBeWrong(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Launch(t, nil, "run", "-redis", s.URL(), "-redis", strings.Replace(s.URL(), "127.0.0.1", "localhost", 1), "job", "--", "true")
	assert.Equal(t, 0, p.Status())
	assert.Contains(t, p.Notes(), "its key was deleted, or the server lost its data (or do two of the URLs lead to one server? redimutex doctor says so)")
}

// A server's counter may be higher than the fence of the holder.
func TestNestedRunsAndFencesOfSeveralServersAreKnown(t *testing.T) {
	t.Parallel()
	all, flags := clitest.Three(t)
	gate := filepath.Join(t.TempDir(), "gate")
	script := fmt.Sprintf(`echo "[$REDIMUTEX_FENCE]"; echo ready; until test -e %q; do sleep 0.02; done; %q run outer -- echo ran`, gate, clitest.Self(t))
	p := begun(t, nil, script, append(flags, "outer")...)
	fence := fmt.Sprintf("fence %d", p.Prints(1)[0])
	redistest.Wait(t, "a server that was slow for a moment has the lock too", func() bool {
		return !slices.ContainsFunc(all, func(s *redistest.Server) bool { return !s.Exists("outer") })
	})
	var sure, other []*redistest.Server // of the three two or all have the fence as their counter
	for _, s := range all {
		if "fence "+s.Get(server.FenceKey("outer")) == fence {
			sure = append(sure, s)
		} else {
			other = append(other, s)
		}
	}
	all = append(sure, other...)
	all[2].Do("INCRBY", server.FenceKey("outer"), 5_000_000)
	show := append([]string{"show", "outer"}, flags...)
	_, out, _ := clitest.Call(show...)
	assert.Equal(t, 3, strings.Count(out, fence), "of the lock and two servers: %s", out)
	assert.Equal(t, 3, strings.Count(out, "fence"), out)
	all[1].Do("INCRBY", server.FenceKey("outer"), 3_000_000)
	_, out, _ = clitest.Call(show...)
	assert.NotContains(t, out, "fence", "which of them it is can't be told any more")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, 1, p.Status())
	assert.Contains(t, p.Err(), "which runs this command")
}
