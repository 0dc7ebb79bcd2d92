package quorum_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// five returns five real servers, and a Quorum over them that is closed at the end of the test.
func five(t *testing.T) ([]*redistest.Server, *quorum.Quorum) {
	t.Helper()
	var real []*redistest.Server
	var servers []*server.Server
	for range 5 {
		r := redistest.Real(t)
		real, servers = append(real, r), append(servers, server.New(r.Pool()))
	}
	q := quorum.New(servers)
	t.Cleanup(func() { q.Close(20 * time.Second) })
	return real, q
}

func noKeys(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	redistest.Wait(t, "no key is left on any server", func() bool {
		for _, s := range servers {
			if len(s.Keys()) > 0 {
				return false
			}
		}
		return true
	})
}

func TestPausedServersDoNotPileUpGoroutines(t *testing.T) {
	servers, q := five(t)
	pair := func() bool {
		k := try("k")
		k.Timeout = 10 * time.Second // a slow machine is not a silent server
		g, failure := q.Acquire(t.Context(), k, nil)
		if failure == nil {
			_, failure = q.Release(t.Context(), releaseOf(k), g)
		}
		return failure == nil
	}
	for range 20 {
		if !pair() {
			t.Log("warming up: the machine is slow")
		}
	}
	idle := runtime.NumGoroutine()
	servers[1].Pause()
	servers[3].Pause()
	most, good := 0, 0
	for range 1000 {
		if pair() {
			good++
		}
		most = max(most, runtime.NumGoroutine()-idle)
	}
	assert.Greater(t, good, 900)
	assert.Less(t, most, 500, "goroutines pile up")
	t.Logf("%d of 1000 pairs, at most %d more goroutines", good, most)
	servers[1].Resume()
	servers[3].Resume()
	noKeys(t, servers)
}

func TestRealServersThatPauseInTurnNeverMakeOurOwnReleaseStandInOurWay(t *testing.T) {
	t.Parallel()
	servers, q := five(t)
	var tail *quorum.Tail
	for i := range 100 {
		hang := servers[i%5]
		hang.Pause()
		k := try("k")
		k.Timeout = 10 * time.Second
		g, failure := q.Acquire(t.Context(), k, tail)
		won(t, failure)
		hang.Resume()
		released, failure := q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		tail = released
	}
	noKeys(t, servers)
}

// One of three is down, which is known at once, and one is slow: it is asked all the same.
func TestARealServerThatIsDownLeavesTheOthersTheirMajority(t *testing.T) {
	t.Parallel()
	dead := redistest.FreeAddr(t)
	down := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", dead) }}
	a, b := redistest.Start(t), redistest.Start(t)
	late := redistest.NewBetween(b.Pool())
	late.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
		<-time.After(80 * time.Millisecond)
		return run()
	})
	q := quorum.New([]*server.Server{server.New(down), server.New(a.Pool()), server.New(late)})
	defer q.Close(20 * time.Second)
	for range 10 {
		k := try("k")
		k.Timeout = 10 * time.Second
		g, failure := q.Acquire(t.Context(), k, nil)
		won(t, failure)
		x, out := extending(k)
		x.Timeout = 10 * time.Second
		q.Extend(t.Context(), []*quorum.Extension{x})
		won(t, out.Failure)
		rel := releaseOf(k)
		_, failure = q.Release(t.Context(), rel, g)
		won(t, failure)
		_, failure = q.Release(t.Context(), rel, quorum.Grant{})
		failed(t, failure, quorum.Missing)
	}
}
