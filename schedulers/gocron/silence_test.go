package redimutexgocron_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexgocron "github.com/redimutex/redimutex/schedulers/gocron"
)

// A log is what was logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *log) option() redimutex.Option {
	return redimutex.WithLogger(slog.New(slog.NewTextHandler(l, nil)))
}

func TestJobsThatStopBecauseRedisIsAwayAreLoggedAndTold(t *testing.T) {
	t.Parallel()
	away := redistest.FreeAddr(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", away) }}
	client := locktest.Client(t, pool)
	var log log
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(redimutexgocron.NewLocker(client, "p:", time.Minute, log.option())))
	require.NoError(t, err)
	told := make(chan error, 100)
	_, err = s.NewJob(gocron.DurationJob(50*time.Millisecond), gocron.NewTask(func() { t.Error("it runs without a lock") }),
		gocron.WithName("bill"), gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { told <- err })))
	require.NoError(t, err)
	s.Start()
	require.ErrorIs(t, <-told, redimutex.ErrUnavailable)
	require.NoError(t, s.Shutdown())
	assert.Contains(t, log.String(), "key=p:bill")
	assert.Contains(t, log.String(), away)
}

func TestAJobThatIsDueWhileTheSchedulerShutsDownIsNotLogged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log log
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := redimutexgocron.NewLocker(locktest.Client(t, server.Pool()), "p:", time.Minute, log.option()).Lock(ctx, "bill")
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, log.String())
}

func TestAMinimumHoldThatExceedsTheTimeBetweenTicksIsLogged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log log
	winner := redimutexgocron.NewLocker(locktest.Client(t, server.Pool()), "p:", time.Minute, log.option())
	loser := redimutexgocron.NewLocker(locktest.Client(t, server.Pool()), "p:", time.Minute, log.option())
	lock, err := winner.Lock(t.Context(), "bill")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	_, err = loser.Lock(t.Context(), "bill")
	require.ErrorIs(t, err, redimutex.ErrLocked)
	assert.Empty(t, log.String(), "the other machine comes too late to the same tick")

	for range 3 {
		_, err = winner.Lock(t.Context(), "bill")
		require.ErrorIs(t, err, redimutex.ErrLocked)
	}
	assert.Contains(t, log.String(), "minimum hold")
	assert.Contains(t, log.String(), "key=p:bill")
	assert.Equal(t, 1, bytes.Count([]byte(log.String()), []byte("\n")), "once, until the job runs again")
}

func TestALockThatWasLostWhileTheJobRanIsLogged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log log
	lock, err := redimutexgocron.NewLocker(locktest.Client(t, server.Pool()), "p:", time.Minute, log.option()).Lock(t.Context(), "bill")
	require.NoError(t, err)
	server.Do("DEL", "p:bill")
	require.ErrorIs(t, lock.Unlock(t.Context()), redimutex.ErrLost)
	assert.Contains(t, log.String(), "p:bill")
}

func TestAJobWhoseLockCannotHaveItsNameIsAnError(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, redistest.Start(t).Pool())
	var log log
	for name, prefix := range map[string]string{"redimutex:job": "", "mutex:job": "redi", "": ""} {
		_, err := redimutexgocron.NewLocker(client, prefix, time.Minute, log.option()).Lock(t.Context(), name)
		require.ErrorContains(t, err, "reserved")
	}
	assert.Contains(t, log.String(), "redimutex:job")
}

func TestAServerThatHangsKeepsAJobForThreeSecondsWhateverTheMinimumHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := redimutexgocron.NewLocker(locktest.Client(t, server.Pool()), "p:", 12*time.Hour)
	server.Pause()
	late, began := redistest.MeasureLateness(), time.Now()
	_, err := locker.Lock(t.Context(), "bill")
	assert.Less(t, time.Since(began), 4*time.Second+late.Stop())
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	server.Resume()
}
