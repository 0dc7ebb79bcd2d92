package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestATryWhoseReplyIsLostIsRolledBack(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		b.Set(func(run func() (any, error), command string, _ []any) (any, error) {
			if command == "TIME" {
				return run()
			}
			if _, err := run(); err != nil { // NOSCRIPT, the first time
				return nil, err
			}
			b.Set(nil)
			assert.True(t, m.Exists("k"))
			return nil, context.DeadlineExceeded
		})
		failed(t, acquire(s, q))
		synctest.Wait()
		assert.False(t, m.Exists("k"))
	})
}

// The server has not got to the try when its caller gives up. What it then takes, within the
// deadline that the try carries, is given back after that, although a first release found nothing.
func TestATryThatIsExecutedAfterItsRollBackIsRolledBackAgain(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		warm := request("k")
		done(t, acquire(s, warm))
		done(t, release(s, warm))
		q := request("k")
		b.Set(func(_ func() (any, error), command string, args []any) (any, error) {
			b.Set(nil)
			args = slices.Clone(args)
			go func() {
				time.Sleep(q.Timeout / 2)
				c := b.Get()
				defer c.Close()
				_, err := c.Do(command, args...)
				assert.NoError(t, err)
				assert.True(t, m.Exists("k"))
			}()
			return nil, context.DeadlineExceeded
		})
		failed(t, acquire(s, q))
		time.Sleep(q.Timeout + 2*time.Second)
		synctest.Wait()
		assert.False(t, m.Exists("k"), "a lock that nobody owns")
	})
}

func TestAReleaseThatDidNotGetThroughIsRepeated(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q, kept := request("k"), request("kept")
		kept.Keep = 20 * time.Second
		done(t, acquire(s, q))
		done(t, acquire(s, kept))
		b.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		failed(t, release(s, q))
		failed(t, release(s, kept))
		time.Sleep(10 * time.Second)
		require.True(t, m.Exists("k"))
		b.Set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.False(t, m.Exists("k"))
		assert.LessOrEqual(t, m.TTL("kept"), 20*time.Second)
		assert.True(t, m.Exists("kept"))
	})
}

// Attempts on a server that does not answer become rare, and end when the lock has expired.
func TestTheUndoerIsPatientAndStopsWhenTheLockHasExpired(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		attempts := 0
		b.Set(func(func() (any, error), string, []any) (any, error) {
			attempts++
			return nil, redistest.ErrCut
		})
		failed(t, release(s, q))
		time.Sleep(q.TTL + q.Timeout + 2*time.Second)
		synctest.Wait()
		assert.Greater(t, attempts, 20)
		assert.Less(t, attempts, 120)
		seen := attempts
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, seen, attempts, "it goes on after the lock has expired")
		assert.False(t, m.Exists("k"))
	})
}

func TestTheUndoerLeavesAnotherHoldersLockAlone(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		mine, other := request("k"), request("k")
		b.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		failed(t, acquire(s, mine))
		b.Set(nil)
		done(t, acquire(s, other))
		undo(s, mine)
		time.Sleep(time.Minute / 2)
		got, err := m.Get("k")
		require.NoError(t, err)
		assert.Equal(t, other.Token, got)
	})
}

func TestARefusalForGoodIsNotRepeated(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		attempts := 0
		b.Set(func(func() (any, error), string, []any) (any, error) {
			attempts++
			return nil, redis.Error("NOPERM this user has no permissions")
		})
		undo(s, request("k"))
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 1, attempts)
	})
}

func TestAnUndoOnALoadingServerIsDoneWhenItHasLoaded(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		b.Set(func(func() (any, error), string, []any) (any, error) {
			return nil, redis.Error("LOADING Redis is loading the dataset in memory")
		})
		undo(s, q)
		time.Sleep(5 * time.Second)
		require.True(t, m.Exists("k"))
		b.Set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.False(t, m.Exists("k"))
	})
}

func TestManyUndosTakeFewRoundTrips(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		b.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		for i := range 1000 {
			q := request(fmt.Sprint("k", i))
			require.NoError(t, m.Set(q.Key, q.Token))
			undo(s, q)
		}
		time.Sleep(5 * time.Second)
		b.Set(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Empty(t, m.Keys())
	})
}

// A pool that hangs, however little it should, does not hold up Close.
type hungPool struct{ open chan struct{} }

func (p hungPool) Get() redis.Conn {
	<-p.open
	return struct{ redis.Conn }{brokenConn{}}
}

type brokenConn struct{ redis.Conn }

func (brokenConn) Err() error   { return redistest.ErrCut }
func (brokenConn) Close() error { return nil }

func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := hungPool{make(chan struct{})}
		s := server.New(p)
		undo(s, request("k"))
		synctest.Wait()
		began := time.Now()
		s.Close(3 * time.Second)
		assert.Equal(t, 3*time.Second, time.Since(began))
		s.Close(3 * time.Second)
		close(p.open)
		synctest.Wait()
	})
}

func TestCloseMakesOneLastAttempt(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		b.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		failed(t, release(s, q))
		time.Sleep(10 * time.Second) // the next attempt would be a second away
		b.Set(nil)
		began := time.Now()
		s.Close(3 * time.Second)
		assert.Zero(t, time.Since(began), "Close waited for the next turn")
		assert.False(t, m.Exists("k"))

		undo(s, q) // without effect, and without a goroutine
	})
}

func TestAnUndoOnAPausedServerIsDoneWhenItResumes(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	s := open(t, r.Pool())
	for i := range 5 {
		held, tried := request(fmt.Sprint("held", i)), request(fmt.Sprint("tried", i))
		done(t, acquire(s, held))
		held.Timeout, tried.Timeout = 20*time.Millisecond, 20*time.Millisecond
		r.Pause()
		failed(t, release(s, held))
		failed(t, acquire(s, tried))
		r.Resume()
		redistest.Wait(t, "both locks are gone", func() bool { return len(r.Keys()) == 0 })
	}
}

func TestARestartedServerEndsTheUndo(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	s := open(t, r.Pool())
	q := request("k")
	done(t, acquire(s, q))
	r.Kill()
	failed(t, release(s, q))
	r.Restart()
	other := request("k")
	got := undoneThen(t, s, other)
	done(t, got)
	s.Close(30 * time.Second)
	assert.Equal(t, other.Token, r.Get("k"))
}

func TestUndoingRacesWithClose(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	pool := r.Pool()
	for range 50 {
		s := server.New(pool)
		var stop atomic.Bool
		over := make(chan struct{})
		go func() {
			defer close(over)
			for !stop.Load() {
				undo(s, request("k"))
			}
		}()
		s.Close(10 * time.Second)
		stop.Store(true)
		<-over
		s.Close(10 * time.Second)
	}
}

// The lock was extended before its server went down.
func TestAnUndoGoesOnForAsLongAsTheKeyMayLive(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		long := *q
		long.TTL = time.Hour
		done(t, one(s, &long))
		b.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		end := q.ending()
		end.Until = time.Now().Add(time.Hour)
		failed(t, s.Release(t.Context(), end))
		time.Sleep(30 * time.Minute)
		require.True(t, m.Exists("k"))
		b.Set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.False(t, m.Exists("k"))
	})
}

// What fails while the Server is closed is given back as well.
func TestCloseWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		done(t, release(s, q))
		b.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			b.Set(nil)
			time.Sleep(time.Second)
			_, err := run()
			assert.NoError(t, err)
			return nil, context.DeadlineExceeded
		})
		over := make(chan struct{})
		go func() {
			defer close(over)
			failed(t, acquire(s, q))
		}()
		synctest.Wait()
		s.Close(10 * time.Second)
		assert.False(t, m.Exists("k"))
		<-over
	})
}

// What was won while the server was being closed has nobody in the background any more who gives it back.
func TestWhatIsUndoneAfterCloseIsUndoneAtOnce(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, _ *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		s.Close(time.Second)
		undo(s, q)
		assert.False(t, m.Exists("k"), "a lock that nobody owns")
	})
}

// Whoever wants the lock again waits for an attempt, which comes whatever else is undone, and whatever ends.
func TestAnUndoSaysWhenItWasTried(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		end := q.ending()
		<-s.Undo(&end)
		assert.False(t, m.Exists("k"))

		b.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		began := time.Now()
		<-s.Undo(&end)
		<-s.Undo(&end)
		assert.LessOrEqual(t, time.Since(began), 2*q.Timeout, "an attempt, whatever came of it")
		b.Set(func(func() (any, error), string, []any) (any, error) {
			time.Sleep(time.Second)
			return nil, redistest.ErrCut
		})
		one := s.Undo(&end)
		synctest.Wait()
		other := s.Undo(&end)
		past := end
		past.Token, past.Until = "another", time.Now().Add(time.Nanosecond)
		late := s.Undo(&past)
		s.Close(10 * time.Second)
		<-one
		<-other
		<-late
		<-s.Undo(&end)
	})
}

// The pause between two attempts grows to a second. Nobody waits for so long: a release keeps the node timeout.
func TestWhoWaitsForAnUndoWaitsForNoPause(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q, other := request("k"), request("other")
		trying := make(chan struct{})
		b.Set(func(func() (any, error), string, []any) (any, error) {
			select {
			case trying <- struct{}{}:
			default:
			}
			time.Sleep(q.Timeout / 2)
			return nil, redistest.ErrCut
		})
		end := q.ending()
		s.Undo(&end)
		time.Sleep(5 * time.Second)
		<-trying
		began := time.Now()
		end = other.ending()
		<-s.Undo(&end)
		assert.LessOrEqual(t, time.Since(began), q.Timeout)
	})
}
