package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

func TestLostUpdatesAreTheAcknowledgedOnesThatTheCounterDoesNotHave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ acknowledged, counter, lost int }{{0, 0, 0}, {96, 96, 0}, {96, 95, 1}, {96, 1, 95}, {80, 81, 0}} {
		r := &result{acknowledged: c.acknowledged, counter: c.counter}
		assert.Equal(t, c.lost, r.lost(), "%+v", c)
	}
}

func TestVerdictFailsForAnUpdateLostUnderTheLockOnly(t *testing.T) {
	t.Parallel()
	with, without := round{lock: true}, round{}
	assert.NoError(t, verdict([]*result{{round: without, acknowledged: 9, counter: 2}, {round: with, acknowledged: 9, counter: 9}}))
	assert.ErrorIs(t, verdict([]*result{{round: without, acknowledged: 9, counter: 9}, {round: with, acknowledged: 9, counter: 8}}), errLostUpdates)
}

func TestVerdictFailsForARoundThatShowsNothing(t *testing.T) {
	t.Parallel()
	killed := round{lock: true, kill: true}
	for name, r := range map[string]*result{
		"an update that was not reported": {round: round{lock: true}, acknowledged: 9, counter: 10},
		"no worker was killed":            {round: killed, acknowledged: 9, counter: 9},
		"no worker recovered":             {round: killed, acknowledged: 9, counter: 9, timeline: timeline{death: &death{at: 1}}},
		"a worker failed":                 {round: round{lock: true}, planned: 9, failure: "NOPERM"},
	} {
		err := verdict([]*result{r})
		require.Error(t, err, name)
		assert.NotErrorIs(t, err, errLostUpdates, name)
	}
}

func TestServerThatFailsIsNotAVerdictOnTheLock(t *testing.T) {
	t.Parallel()
	d := &demo{t: &cli.Terminal{Out: cli.NewOutput(io.Discard), Err: io.Discard}}
	report := func(ctx context.Context, err error) int {
		status, err := d.report(ctx, err)
		if sig, ok := err.(cli.Signalled); ok {
			return sig.Status()
		}
		return status
	}
	assert.Equal(t, cli.Unavailable, report(t.Context(), verdict([]*result{{round: round{lock: true}, planned: 9, failure: "NOPERM"}})))
	assert.Equal(t, cli.Failure, report(t.Context(), errLostUpdates))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cli.Signalled(2))
	assert.Equal(t, 130, report(ctx, context.Canceled))
	assert.Equal(t, cli.Failure, report(ctx, errLostUpdates), "a signal does not hide what was found")
}

// testCrew starts real workers for a round.
func testCrew(t *testing.T, r round) (*crew, *counter) {
	t.Helper()
	t.Setenv("REDIMUTEX_TEST_MAIN", "1")
	s, err := openServer(nil)
	require.NoError(t, err)
	t.Cleanup(s.close)
	n, err := openCounter(filepath.Join(t.TempDir(), "counter"))
	require.NoError(t, err)
	t.Cleanup(n.close)
	require.NoError(t, n.write(0))
	c, err := startCrew(r.job(s, n), os.Stderr)
	require.NoError(t, err)
	t.Cleanup(c.close)
	return c, n
}

func TestKilledHolderCostsOneTTLAndNoUpdate(t *testing.T) {
	killed := round{lock: true, kill: true, limit: 12 * time.Second}
	c, n := testCrew(t, killed)
	r, err := c.play(t.Context(), killed, n, cli.NewProgress(io.Discard))
	require.NoError(t, err)
	require.NoError(t, r.incomplete())
	assert.Zero(t, r.lost())
	assert.Equal(t, 1, r.timeline.crowd(0, r.timeline.length))

	d := r.timeline.death
	assert.NotEqual(t, d.worker, d.successor)
	assert.Greater(t, d.recovery(), lockTTL/4, "the victim did not hold the lock")
	assert.False(t, c.workers[d.worker].cmd.ProcessState.Exited(), "it was ended by a signal")
	for _, s := range r.timeline.spans {
		assert.False(t, s.worker == d.worker && s.to > d.at, "the dead do not write")
	}
}

func TestRoundThatTakesTooLongIsEnded(t *testing.T) {
	short := round{lock: true, limit: 50 * time.Millisecond}
	c, n := testCrew(t, short)
	r, err := c.play(t.Context(), short, n, cli.NewProgress(io.Discard))
	require.NoError(t, err)
	assert.True(t, r.timedOut)
	assert.Less(t, r.acknowledged, workerCount*goroutineCount*updateCount)
	assert.Zero(t, r.lost())
	assert.Equal(t, r.acknowledged, r.counter)
}

func TestWorkerThatDiesUnasked(t *testing.T) {
	c, n := testCrew(t, rounds[0])
	require.NoError(t, c.workers[2].cmd.Process.Kill())
	_, err := c.play(t.Context(), rounds[0], n, cli.NewProgress(io.Discard))
	assert.ErrorContains(t, err, "worker 3")
}

// A worker that was stopped for longer than its lease may wake up while the next one works.
func TestAWorkerThatComesTooLateWasInTheCriticalSectionNoLongerThanItsLease(t *testing.T) {
	t.Parallel()
	c, err := openCounter(filepath.Join(t.TempDir(), "counter"))
	require.NoError(t, err)
	t.Cleanup(c.close)
	require.NoError(t, c.write(0))
	until := time.Now().Add(-time.Minute)
	for _, ok := range []bool{false, true} {
		var out bytes.Buffer
		w := &worker{counter: c, out: json.NewEncoder(&out)}
		began := time.Now()
		require.NoError(t, w.raise(t.Context(), 0, func() (time.Time, bool) { return until, ok }))
		var enter, leave event
		told := json.NewDecoder(&out)
		require.NoError(t, told.Decode(&enter))
		require.NoError(t, told.Decode(&leave))
		if ok {
			assert.Equal(t, eventDone, leave.Kind)
			assert.GreaterOrEqual(t, leave.At, began.UnixNano())
		} else {
			assert.Equal(t, eventGivenUp, leave.Kind)
			assert.Equal(t, until.UnixNano(), leave.At)
		}
	}
	n, err := c.read()
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

func TestCounterIsNeverHalfWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counter")
	writer, err := openCounter(path)
	require.NoError(t, err)
	defer writer.close()
	reader, err := openCounter(path)
	require.NoError(t, err)
	defer reader.close()
	require.NoError(t, writer.write(0))
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		for n := 0; ctx.Err() == nil; n = 99999999 - n {
			if writer.write(n) != nil {
				return
			}
		}
	})
	for range 20000 {
		n, err := reader.read()
		require.NoError(t, err)
		require.Contains(t, []int{0, 99999999}, n)
	}
	stop()
	busy.Wait()
}
