//go:build unix

package run

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestUnreachableServerIsToldAtOnce(t *testing.T) {
	t.Parallel()
	addr := redistest.FreeAddr(t)
	socket := t.TempDir() + "/no.socket"
	for url, shown := range map[string]string{
		"redis://someone:hunter2@" + addr: addr,
		"unix://:hunter2@" + socket:       socket,
	} {
		for _, args := range [][]string{
			{"run", "-redis", url, "job", "--", "echo", "ran"},
			{"run", "-n", "-redis", url, "job", "--", "echo", "ran"},
			{"run", "-w", "60", "-redis", url, "job", "--", "echo", "ran"},
			{"show", "-redis", url, "job"},
		} {
			out, stderr := clitest.RunEnds(t, cli.Unavailable, nil, args...)
			assert.Empty(t, out)
			assert.Contains(t, stderr, shown)
			assert.NotContains(t, stderr, "hunter2")
			assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		}
	}
}

// failing is a lock whose first try fails with the words of the server, and whose later tries end only with ctx.
type failing struct{ said error }

func (f *failing) TryAcquire(ctx context.Context) (*redimutex.Lease, error) {
	if err := f.said; err != nil {
		f.said = nil
		return nil, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestATryThatIsCutShortDoesNotHideWhatTheServerHasSaid(t *testing.T) {
	t.Parallel()
	said := errors.Join(redimutex.ErrUnavailable, &redimutex.NodeError{Err: redis.Error("READONLY no")})
	r := &runner{job: &job{once: true, wait: time.Millisecond}, tryLock: (&failing{said}).TryAcquire}
	assert.Equal(t, said, r.try(t.Context()))

	nodes, err := servers.Find(servers.URLs{"redis://host"}, servers.QuickTimeout)
	require.NoError(t, err)
	r.tryLock = (&failing{}).TryAcquire
	assert.Equal(t, "host:6379/0: no answer in time", nodes.Failures(r.try(t.Context())))
}

func TestHungServerDoesNotHoldUsForEver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Pause()
	defer s.Resume()
	_, stderr := clitest.RunEnds(t, cli.Unavailable, s, "run", "job", "--", "true")
	assert.Contains(t, stderr, s.Addr()+"/0: no answer")
}

func TestServerThatRefusesIsQuoted(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := redistest.Start(t)
	s.Do("HSET", "job", "field", "value")
	_, stderr := clitest.RunEnds(t, cli.Unavailable, s, "run", "job", "--", "true")
	assert.Contains(t, stderr, "WRONGTYPE")
	_, stderr = clitest.RunEnds(t, cli.Unavailable, nil, "run", "-redis", s.URL()+"/99", "job", "--", "true")
	assert.Contains(t, stderr, "out of range (the URL names a database that this server does not have")

	s.Do("ACL", "SETUSER", "reader", "on", ">hunter2", "~*", "+getrange", "+pttl", "+ping")
	reader := "redis://reader:hunter2@" + s.Addr()
	_, stderr = clitest.RunEnds(t, cli.Unavailable, nil, "run", "-redis", reader, "other", "--", "true")
	assert.Contains(t, stderr, "NOPERM")
	clitest.RunEnds(t, 1, nil, "show", "-redis", reader, "other")

	s.Do("CONFIG", "SET", "requirepass", "hunter2")
	for _, kind := range []string{"-q", "-s", "-queue", "-permits=2"} { // before the login a server also limits what it reads
		_, stderr = clitest.RunEnds(t, cli.Unavailable, s, "run", kind, "other", "--", "true")
		assert.Contains(t, stderr, "NOAUTH", kind)
		assert.Contains(t, stderr, "redis://user:password@host", kind)
	}
	_, stderr = clitest.RunEnds(t, cli.Unavailable, nil, "run", "-redis", "redis://:wrong-hunter@"+s.Addr(), "other", "--", "true")
	assert.Contains(t, stderr, "WRONGPASS")
	assert.NotContains(t, stderr, "hunter")
}

func TestServerThatFailsWhileWeWaitIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", "another holder")
	p := clitest.Launch(t, s, "run", "job", "--", "echo", "ran")
	p.Warns("waiting for")
	s.Kill()
	p.Warns("still waiting")
	s.Restart()
	assert.Equal(t, 0, p.Status())
	assert.Equal(t, "ran\n", p.Out())
	assert.Equal(t, 2, strings.Count(p.Notes(), "\n"), "one line for the holder, one for the failure: %s", p.Notes())
	assert.Contains(t, p.Notes(), s.Addr())
}

func TestServerThatFailsUntilTheWaitIsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", "another holder")
	p := clitest.Launch(t, s, "run", "-w", "3", "job", "--", "echo", "ran")
	p.Warns("waiting for")
	s.Kill()
	assert.Equal(t, cli.Unavailable, p.Status())
	assert.Empty(t, p.Out())
}

func TestASecondSignalSkipsTheCleanUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", "another holder")
	p := clitest.Launch(t, s, "run", "-ttl", "4m", "job", "--", "true")
	p.Warns("waiting for")
	s.Pause()
	defer s.Resume()
	clitest.Pass(t, "a try that is under way", 300*time.Millisecond)
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	clitest.Pass(t, "the first signal to be taken", 200*time.Millisecond) // the kernel merges two signals of which it has delivered none
	p.Signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.Status())
	assert.Less(t, time.Since(began), 2500*time.Millisecond, "a node timeout is 3 s")
}

func TestHungServerDoesNotStretchTheWaitWhateverTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", "another holder")
	p := clitest.Launch(t, s, "run", "-ttl", "1h", "-w", "2", "job", "--", "true")
	p.Warns("waiting for")
	s.Pause()
	defer s.Resume()
	began := time.Now()
	assert.NotZero(t, p.Status())
	assert.Less(t, time.Since(began), 30*time.Second)
}

func TestHungServerHoldsNoEndUpForMinutesWhateverTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, `trap "exit 0" USR1; `+endless, "-ttl", "1h", "job")
	s.Pause()
	defer s.Resume()
	p.Signal(syscall.SIGUSR1)
	began := time.Now()
	assert.Equal(t, 0, p.Status())
	assert.Less(t, time.Since(began), 30*time.Second)
	assert.Contains(t, p.Notes(), "stays until its TTL is over")
}

func TestMinHoldIsKeptThoughTheServerHangsWhenTheCommandEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, `trap "exit 0" USR1; `+endless, "-min-hold", "60", "-ttl", "10", "job")
	s.Pause()
	p.Signal(syscall.SIGUSR1)
	clitest.Pass(t, "the end of the stall", 2*time.Second)
	s.Resume()
	assert.Equal(t, 0, p.Status(), p.Err())
	assert.Greater(t, s.PTTL("job"), 15*time.Second, "the TTL alone would be 10 s")
}

func TestMinHoldThatCannotBeKeptIsAFailure(t *testing.T) {
	t.Parallel()
	hangs := func(s *redistest.Server, p *clitest.Process) {
		s.Pause()
		p.Signal(syscall.SIGUSR1)
	}
	isSignalled := func(s *redistest.Server, p *clitest.Process) {
		hangs(s, p)
		allGone(t, p.Prints(1))
		redistest.Wait(t, "the end by a signal", func() bool {
			p.Cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
			return p.Ended()
		})
	}
	isDeleted := func(s *redistest.Server, p *clitest.Process) {
		s.Do("DEL", "job")
		p.Signal(syscall.SIGUSR1)
	}
	for name, c := range map[string]struct {
		ttl, minHold string
		then         func(*redistest.Server, *clitest.Process)
		why          string
	}{
		"the server hangs": {"2", "1m", hangs, "it expired"},
		"the server hangs, and the lease ends just before":       {"2", "2.02s", hangs, "it expired"},
		"the server hangs, and a signal says not to wait for it": {"10", "1m", isSignalled, "is not given back"},
		"the key is gone, and no extension was needed":           {"1h", "1m", isDeleted, "was deleted"},
		"the key is gone, and an extension finds that":           {"1h", "2h", isDeleted, "was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := begun(t, s, `echo "[$$]"; trap "exit 0" USR1; `+endless, "-min-hold", c.minHold, "-ttl", c.ttl, "job")
			c.then(s, p)
			defer s.Resume()
			assert.Equal(t, cli.Unavailable, p.Status())
			assert.Contains(t, p.Notes(), c.why)
			assert.Contains(t, p.Notes(), "could not be kept for the "+c.minHold)
		})
	}
}
