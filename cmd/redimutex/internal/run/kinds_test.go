//go:build unix

package run

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

const lingering = "echo ready; sleep 1000"

// ended ends a run by a signal, and waits for it.
func ended(t *testing.T, p *clitest.Process) {
	t.Helper()
	p.Signal(15)
	assert.Equal(t, 143, p.Status(), p.Err())
}

func TestReadersRunTogetherAndNoWriterBesideThem(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	one := clitest.Launch(t, s, "run", "-s", "job", "--", "sh", "-c", lingering)
	one.Says("ready")
	two := clitest.Launch(t, s, "run", "-shared", "job", "--", "sh", "-c", lingering)
	two.Says("ready")
	_, stderr := clitest.RunEnds(t, 7, s, "run", "-n", "-E", "7", "job", "--", "true")
	writer := redimutex.NewRWMutex(s.Pool(), "job")
	require.ErrorIs(t, writer.TryLockContext(t.Context()), redimutex.ErrLocked)

	ended(t, one)
	ended(t, two)
	require.NoError(t, writer.TryLockContext(t.Context()))
	_, stderr = clitest.RunEnds(t, 1, s, "run", "-s", "-w", "0.2", "job", "--", "true")
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
	ended(t, one)
	three.Says("ready")
	ended(t, two)
	ended(t, three)
	assert.NotContains(t, s.Keys(), "job")

	_, stderr := clitest.RunEnds(t, 0, s, "run", "-permits", "1", "job", "--", "sh", "-c", `echo "$REDIMUTEX_KEY ${REDIMUTEX_FENCE-none}" >&2`)
	assert.Equal(t, "job none\n", stderr)
}

func TestSeveralKeysAreHeldTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Launch(t, s, "run", "b", "a", "b", "--", "sh", "-c", `echo "$REDIMUTEX_KEY:$REDIMUTEX_KEYS:$REDIMUTEX_FENCE"; `+lingering)
	p.Says("ready")
	assert.Regexp(t, "^a:a\nb:[1-9][0-9]+\n", p.Out())
	_, stderr := clitest.RunEnds(t, 1, s, "run", "-n", "c", "a", "--", "true")
	assert.Contains(t, stderr, `"a c" is held by `)
	assert.NotContains(t, s.Keys(), "c", "all or none")
	s.Do("DEL", "b")
	assert.Equal(t, 143, p.Status(), "one is lost, all are lost")
	assert.Contains(t, p.Notes(), "was lost")
	assert.NotContains(t, s.Keys(), "a")
}

func TestAKeyThatHasALockOfAnotherKindIsSaidToHaveOne(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	_, err := redimutex.NewSemaphore(s.Pool(), "job", 1).Acquire(t.Context())
	require.NoError(t, err)
	_, stderr := clitest.RunEnds(t, 69, s, "run", "job", "--", "true")
	assert.Contains(t, stderr, "a lock of another kind, such as a semaphore")
}
