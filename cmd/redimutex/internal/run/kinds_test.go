//go:build unix

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestReadersRunTogetherAndNoWriterBesideThem(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	one := begun(t, s, lingering, "-s", "job")
	two := begun(t, s, lingering, "-shared", "job")
	clitest.RunEnds(t, 7, s, "run", "-n", "-E", "7", "job", "--", "true")
	writer := redimutex.NewRWMutex(s.Pool(), "job")
	require.ErrorIs(t, writer.TryLockContext(t.Context()), redimutex.ErrLocked)

	terminate(t, one)
	terminate(t, two)
	require.NoError(t, writer.TryLockContext(t.Context()))
	_, stderr := clitest.RunEnds(t, 1, s, "run", "-s", "-w", "0.2", "job", "--", "true")
	assert.Contains(t, stderr, `gave up "job" after 200ms, held by `)
	require.NoError(t, writer.UnlockContext(t.Context()))
	assert.NotContains(t, s.Keys(), "job")
}

func TestNoMoreCommandsRunThanThereArePermits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	run := func() *clitest.Process {
		return clitest.Launch(t, s, "run", "-permits", "2", "-queue", "job", "--", "sh", "-c", lingering)
	}
	one, two := run(), run()
	one.Says("ready")
	two.Says("ready")
	three := run()
	three.Warns(`waiting for "job", held by `)
	assert.Empty(t, three.Out())
	clitest.RunEnds(t, 1, s, "run", "-permits", "2", "-n", "job", "--", "true")
	terminate(t, one)
	three.Says("ready")
	terminate(t, two)
	terminate(t, three)
	assert.NotContains(t, s.Keys(), "job")

	_, stderr := clitest.RunEnds(t, 0, s, "run", "-permits", "1", "job", "--", "sh", "-c", `echo "$REDIMUTEX_KEY ${REDIMUTEX_FENCE-none}" >&2`)
	assert.Equal(t, "job none\n", stderr)
}

func TestSeveralKeysAreHeldTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, `echo "$REDIMUTEX_KEY:$REDIMUTEX_KEYS:$REDIMUTEX_FENCE"; `+lingering, "b", "a", "b")
	assert.Regexp(t, "^a:a\nb:[1-9][0-9]+\n", p.Out())
	_, stderr := clitest.RunEnds(t, 1, s, "run", "-n", "c", "a", "--", "true")
	assert.Regexp(t, `"a c" is held by .*, which has "a"`, stderr)
	assert.NotContains(t, s.Keys(), "c", "all or none")
	s.Do("DEL", "b")
	assert.Equal(t, 143, p.Status(), "one is lost, all are lost")
	assert.Contains(t, p.Notes(), "was lost")
	assert.NotContains(t, s.Keys(), "a")
}

func TestAKeyThatHasALockOfAnotherKindIsSaidToHaveOne(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, err := redimutex.NewSemaphore(s.Pool(), "job", 1).Acquire(t.Context())
	require.NoError(t, err)
	_, stderr := clitest.RunEnds(t, 69, s, "run", "job", "--", "true")
	assert.Contains(t, stderr, "a lock of another kind, such as a semaphore")
}

func TestQueuedCommandsRunInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	order := filepath.Join(t.TempDir(), "order")
	holder := begun(t, s, lingering, "-queue", "job")
	var line []*clitest.Process
	for i := range 4 {
		line = append(line, clitest.Launch(t, s, "run", "-queue", "-ttl", "60", "job", "--", "sh", "-c", fmt.Sprintf("echo %d >>%q", i, order)))
		locktest.WaitQueued(t, s, "job", i+1)
	}
	holder.Signal(15)
	for _, p := range line {
		assert.Equal(t, 0, p.Status(), p.Err())
	}
	ran, err := os.ReadFile(order)
	require.NoError(t, err)
	assert.Equal(t, "0\n1\n2\n3\n", string(ran))
	assert.NotContains(t, s.Keys(), "job")
}

func TestQueuedCommandKeepsItsLockForAsLongAsItRuns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := begun(t, s, lingering, "-queue", "job")
	next := clitest.Launch(t, s, "run", "-queue", "-ttl", "4", "job", "--", "sh", "-c", "sleep 4.5; echo done")
	next.Warns("\n")
	holder.Signal(15)
	assert.Equal(t, 0, next.Status(), "what the release handed off was extended and renewed: %s", next.Err())
	assert.Equal(t, "done\n", next.Out())
}

// With -min-hold an ordinary release would leave the lock to expire, and the next wait would last until then.
func TestQueuedCommandWaitsAgainWhereWhatItWasHandedIsLost(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{nil, {"-min-hold", "1000"}} {
		t.Run(strings.Join(more, " "), func(t *testing.T) {
			t.Parallel()
			waitsAgain(t, more)
		})
	}
}

func waitsAgain(t *testing.T, more []string) {
	t.Helper()
	s := redistest.Start(t)
	p := s.Proxy()
	holder := begun(t, s, lingering, "-queue", "job")
	args := append([]string{"run", "-redis", p.URL(), "-queue", "-ttl", "60"}, more...)
	next := clitest.Launch(t, s, append(args, "job", "--", "echo", "done")...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(next.Err())
		}
	})
	token := queued(t, s)
	extension := catchExtension(p, token)
	holder.Signal(15)
	redistest.Receive(t, "the extension of what was handed off", extension.Arrived())
	redistest.Wait(t, "the hand-off lease is over", func() bool { return !strings.HasPrefix(s.Get("job"), token) })
	extension.Release()
	assert.Equal(t, 0, next.Status(), next.Err())
	assert.Equal(t, "done\n", next.Out())
}

// queued waits until a caller is in the queue, and returns its token.
func queued(t *testing.T, s *redistest.Server) (token string) {
	t.Helper()
	redistest.Wait(t, "a place in the queue", func() bool {
		for _, m := range s.Do("ZRANGE", server.QueueKey("job"), 0, -1).([]any) {
			if place := strings.Fields(string(m.([]byte))); len(place) > 4 { // the channel, want, fence, lease, the token and the owner
				token = place[4]
			}
		}
		return token != ""
	})
	return token
}

// catchExtension catches the extension that a waiter sends once it has the lock. A try of the waiter has more arguments: its
// fence and its place in the queue. The extension ends with the TTL of the fence counter.
func catchExtension(p *redistest.Proxy, token string) *redistest.Caught {
	const command = "*12\r\n" // EVALSHA, the script, 3, the three keys, and six arguments
	return p.Catch(token, command)
}

func TestASignalInTheMomentOfTheHandOverLeavesNothingBehindWhateverTheMinHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := s.Proxy()
	holder := begun(t, s, lingering, "-queue", "job")
	next := clitest.Launch(t, s, "run", "-redis", p.URL(), "-queue", "-ttl", "60", "-min-hold", "1000", "job", "--", "echo", "done")
	extension := catchExtension(p, queued(t, s))
	holder.Signal(15)
	redistest.Receive(t, "the extension of what was handed off", extension.Arrived())
	next.Signal(15)
	assert.Equal(t, 143, next.Status(), next.Err())
	assert.Empty(t, next.Out())
	extension.Release()
	assert.NotContains(t, s.Keys(), "job")
}
