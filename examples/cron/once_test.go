package cron

import (
	"bytes"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestOneMachineRunsTheTick(t *testing.T) {
	s := redistest.Start(t)
	var runs, ticks atomic.Int64
	var struck sync.WaitGroup
	for range 3 {
		client := redimutex.NewClient([]redimutex.Pool{s.Pool()})
		defer client.Close()
		m := client.Mutex("cron:report", redimutex.WithMinHold(time.Minute), redimutex.WithTTL(time.Minute))
		struck.Add(1)
		first := sync.OnceFunc(struck.Done)
		c := cron.New(cron.WithSeconds())
		_, err := c.AddJob("* * * * * *", cron.NewChain(
			func(j cron.Job) cron.Job {
				return cron.FuncJob(func() {
					defer first()
					ticks.Add(1)
					j.Run()
				})
			}, Once(m)).Then(cron.FuncJob(func() { runs.Add(1) })))
		require.NoError(t, err)
		c.Start()
		defer func() { <-c.Stop().Done() }()
	}
	struck.Wait()
	assert.EqualValues(t, 1, runs.Load(), "of %d machines and ticks, all within the minimum hold", ticks.Load())
}

func TestATickThatNoServerAnswersForIsLogged(t *testing.T) {
	s := redistest.Start(t)
	var log bytes.Buffer
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	defer client.Close()
	var runs int
	job := cron.NewChain(Once(client.Mutex("cron:report"))).Then(cron.FuncJob(func() { runs++ }))
	other := client.Mutex("cron:report")
	require.True(t, other.TryLock())
	job.Run()
	assert.Empty(t, log.String(), "another machine runs it")
	other.Unlock()

	s.Kill()
	job.Run()
	assert.Contains(t, log.String(), "too few servers answered")
	assert.Zero(t, runs)
}
