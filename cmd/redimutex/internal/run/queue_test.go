//go:build unix

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestQueuedCommandsRunInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	order := filepath.Join(t.TempDir(), "order")
	holder := clitest.Launch(t, s, "run", "-queue", "job", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.Says("ready")
	var line []*clitest.Process
	for i := range 4 {
		line = append(line, clitest.Launch(t, s, "run", "-queue", "-ttl", "60", "job", "--", "sh", "-c", fmt.Sprintf("echo %d >>%s", i, order)))
		redistest.Wait(t, "the waiter is in the queue", func() bool {
			n, err := redis.Int(s.Do("ZCOUNT", server.QueueKey("job"), 0, 3e15), nil)
			require.NoError(t, err)
			return n == i+1
		})
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
	holder := clitest.Launch(t, s, "run", "-queue", "job", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.Says("ready")
	next := clitest.Launch(t, s, "run", "-queue", "-ttl", "4", "job", "--", "sh", "-c", "sleep 4.5; echo done")
	next.Warns("\n")
	holder.Signal(15)
	assert.Equal(t, 0, next.Status(), "what the release handed off was extended and renewed: %s", next.Err())
	assert.Equal(t, "done\n", next.Out())
}

// With -min-hold an ordinary release would leave the lock to expire, and the next wait would be for that.
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
	holder := clitest.Launch(t, s, "run", "-queue", "job", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.Says("ready")
	args := append([]string{"run", "-redis", p.URL(), "-queue", "-ttl", "20"}, more...)
	next := clitest.Launch(t, s, append(args, "job", "--", "echo", "done")...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(next.Err())
		}
	})
	token := queued(t, s)
	extension := p.Catch(token)
	holder.Signal(15)
	<-extension.Arrived()
	redistest.Wait(t, "the hand-off lease is over", func() bool { return !strings.HasPrefix(s.Get("job"), token) })
	extension.Release()
	assert.Equal(t, 0, next.Status(), next.Err())
	assert.Equal(t, "done\n", next.Out())
}

// queued waits for a caller in the queue, and returns the token.
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

func TestASignalInTheMomentOfTheHandOverLeavesNothingBehindWhateverTheMinHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := s.Proxy()
	holder := clitest.Launch(t, s, "run", "-queue", "job", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.Says("ready")
	next := clitest.Launch(t, s, "run", "-redis", p.URL(), "-queue", "-min-hold", "1000", "job", "--", "echo", "done")
	extension := p.Catch(queued(t, s))
	holder.Signal(15)
	<-extension.Arrived()
	next.Signal(15)
	assert.Equal(t, 143, next.Status(), next.Err())
	assert.Empty(t, next.Out())
	extension.Release()
	assert.NotContains(t, s.Keys(), "job")
}
