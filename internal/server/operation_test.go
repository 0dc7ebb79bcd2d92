package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
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

// A snare is a pool that hangs until it is opened.
type snare struct {
	*redis.Pool
	open          atomic.Pointer[chan struct{}] // close the channel to open the snare
	inside, worst atomic.Int32                  // how many calls hang: now, and at most so far
}

func (p *snare) Get() redis.Conn {
	if n := p.inside.Add(1); n > p.worst.Load() {
		p.worst.Store(n)
	}
	<-*p.open.Load()
	p.inside.Add(-1)
	return p.Pool.Get()
}

// shut makes calls hang until the channel is closed.
func (p *snare) shut() chan struct{} {
	open := make(chan struct{})
	p.open.Store(&open)
	return open
}

// GetContext hides that of the embedded pool: a snare is not a pool of this library.
func (p *snare) GetContext(context.Context) (redis.Conn, error) { return p.Get(), nil }

// snared returns a Server over a snare that is shut. Closing stuck opens the snare.
func snared(t *testing.T) (p *snare, stuck chan struct{}, s *server.Server) {
	_, pool := redistest.Virtual(t)
	p = &snare{Pool: pool}
	return p, p.shut(), open(t, p)
}

func TestOperationsThatAreStuckAreFew(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{1, 100} {
		synctest.Test(t, func(t *testing.T) {
			p, stuck, s := snared(t)
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for range 200 {
						q := request("k")
						q.Timeout = 50 * time.Millisecond
						began := time.Now()
						failed(t, acquire(s, q))
						assert.LessOrEqual(t, time.Since(began), q.Timeout)
					}
				})
			}
			all.Wait()
			assert.LessOrEqual(t, p.worst.Load(), int32(16), "%d callers", callers)
			close(stuck)
			time.Sleep(time.Minute)
			done(t, acquire(s, request("k")))
		})
	}
}

// As many operations may run as have come back in time before. Only a burst shows that, and only until one comes back late.
func TestAsManyOperationsMayRunAsHaveComeBackInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, stuck, s := snared(t)
		var all sync.WaitGroup
		begin := func(ctx context.Context, n int, timeout time.Duration) {
			stuck = p.shut()
			for range n {
				all.Go(func() {
					q := request("k")
					q.Timeout = timeout
					s.InUse(ctx, q.lock())
				})
			}
			synctest.Wait()
		}
		end := func() {
			all.Wait()
			close(stuck)
			time.Sleep(time.Minute)
		}
		burst := func() int32 {
			p.worst.Store(0)
			begin(t.Context(), 100, 10*time.Second)
			close(stuck)
			all.Wait()
			return p.worst.Load()
		}
		begin(t.Context(), 16+5, 10*time.Second)
		time.Sleep(5 * time.Second)
		before := stuck
		stuck = p.shut()
		close(before) // five are left, whose turn came late
		end()
		assert.Greater(t, burst(), int32(16))
		many := burst()
		assert.Greater(t, many, int32(32))

		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			begin(ctx, 10, 10*time.Second)
			cancel()
			end()
		}
		assert.GreaterOrEqual(t, burst(), many, "that few callers gave up")

		begin(t.Context(), 16, 10*time.Second) // these are in time, as far as the Server knows
		q := request("k")
		q.Timeout = time.Second
		failed(t, s.InUse(t.Context(), q.lock())) // and this one is not
		assert.ErrorContains(t, s.InUse(t.Context(), q.lock()).Err, "too many operations are stuck")
		end()
		for range 200 { // operations one after the other prove nothing about many at once
			s.InUse(t.Context(), request("k").lock())
		}
		assert.Equal(t, int32(16), burst(), "after one that was late")
	})
}

// A diallingSnare hangs only in the pool. Its dials work.
type diallingSnare struct{ *snare }

func (p diallingSnare) Dial() (redis.Conn, error) { return p.Pool.Dial() }

// While one of them tries the pool, the others dial.
func TestOneAtATimeTriesAPoolWhereAsManyAsMayAreStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		p := diallingSnare{&snare{Pool: pool}}
		stuck, s := p.shut(), open(t, p)
		const callers = 20
		var keys atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() { failed(t, acquire(s, request(fmt.Sprint(keys.Add(1))))) })
		}
		all.Wait()
		for more := 5; more > 0; {
			was := p.inside.Load()
			if was >= 80 { // 80 are stuck at most
				more--
			}
			for range callers {
				all.Go(func() { acquire(s, request(fmt.Sprint(keys.Add(1)))) })
			}
			all.Wait()
			require.LessOrEqual(t, p.inside.Load(), min(was+1, 80))
		}
		close(stuck)
		time.Sleep(time.Minute)
		assert.Zero(t, p.inside.Load())
		stuck = p.shut()
		go acquire(s, request(fmt.Sprint(keys.Add(1))))
		synctest.Wait()
		assert.EqualValues(t, 1, p.inside.Load(), "the pool is good again")
		close(stuck)
	})
}

func TestOperationsThatFailWithoutAnAnswerAreNoReasonForMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, stuck, s := snared(t)
		p.Pool.Close()
		for range 3 {
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() { failed(t, acquire(s, request(fmt.Sprint(i)))) })
			}
			synctest.Wait()
			assert.EqualValues(t, 16, p.inside.Load())
			close(stuck)
			all.Wait()
			stuck = p.shut()
		}
		close(stuck)
	})
}

// A cancelled caller can't know whether the operation that it leaves behind would have come back in time.
func TestCallersThatCancelLeaveFewOperationsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, stuck, s := snared(t)
		var all sync.WaitGroup
		for range 100 { // a hundred come back in time
			all.Go(func() {
				for range 3 {
					s.InUse(t.Context(), request("k").lock())
				}
			})
		}
		for range 300 {
			time.Sleep(time.Millisecond)
			close(stuck)
			stuck = p.shut()
		}
		all.Wait()
		p.worst.Store(0)
		for range 300 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			failed(t, s.InUse(ctx, request("k").lock()))
		}
		assert.LessOrEqual(t, p.worst.Load(), int32(17))
		close(stuck)
		time.Sleep(time.Minute)
		done(t, acquire(s, request("k")))
	})
}

// Otherwise the renewals of a process with many callers would starve, although the server answers at once.
func TestOperationsOfANodeComeInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, getter(b.Get))
		done(t, acquire(s, request("warm")))
		var mu sync.Mutex
		var order []string
		b.Set(func(command redistest.Command) (any, error) {
			mu.Lock()
			order = append(order, fmt.Sprint(command.Args[2]))
			mu.Unlock()
			time.Sleep(time.Millisecond)
			return command.Run()
		})
		var all sync.WaitGroup
		var arrived []string
		for i := range 300 {
			q := request(fmt.Sprint(i))
			arrived = append(arrived, q.Key)
			all.Go(func() { done(t, acquire(s, q)) })
			time.Sleep(time.Microsecond)
		}
		all.Wait()
		for i, key := range arrived {
			assert.InDelta(t, i, slices.Index(order, key), 100, key) // those that run together may overtake each other
		}
	})
}

// inARound makes 500 tries in a Round that is decided while they wait. They still count as votes. But if the server is silent,
// those that are too many leave. before is called ahead of each try.
func inARound(t *testing.T, b *redistest.Between, s *server.Server, silent bool, before func(key string)) {
	t.Helper()
	b.Set(func(command redistest.Command) (any, error) {
		if silent {
			time.Sleep(time.Minute)
			return nil, redistest.ErrCut
		}
		time.Sleep(10 * time.Millisecond)
		return command.Run()
	})
	var won, left atomic.Int64
	var all sync.WaitGroup
	if silent {
		q := request("first")
		all.Go(func() { assert.Error(t, acquire(s, q).Err) })
		time.Sleep(time.Second)
	}
	r := &server.Round{Context: context.Background(), Over: make(chan struct{}), Dropped: make(chan struct{})}
	for i := range 500 {
		q := request(fmt.Sprint(i))
		q.Timeout = time.Minute
		before(q.Key)
		all.Go(func() {
			if q.claim(s).Try(r, q.Try).Verdict == server.Done {
				won.Add(1)
			} else {
				left.Add(1)
			}
		})
	}
	synctest.Wait()
	assert.Zero(t, left.Load())
	close(r.Over)
	synctest.Wait()
	if silent {
		assert.Greater(t, left.Load(), int64(200))
	}
	all.Wait()
	if !silent {
		assert.Equal(t, int64(500), won.Load())
	}
}

func TestOperationsOfRoundsThatAreOverCollectAtANodeOnlyWhereItAnswers(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{true, false} {
		virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			done(t, acquire(s, request("warm")))
			inARound(t, b, s, silent, func(string) {})
		})
	}
}

// Each try waits for the release of the lock before it.
func TestTriesOfRoundsThatAreOverCollectBehindReleasesOnlyWhereTheServerAnswers(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{true, false} {
		virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			locks := make(map[string]*server.Claim)
			for i := range 500 {
				q := request(fmt.Sprint(i))
				q.TTL = time.Minute // where the server is silent, the releases end with it
				locks[q.Key] = q.claim(s)
				done(t, locks[q.Key].Try(t.Context(), q.Try))
			}
			inARound(t, b, s, silent, func(key string) { locks[key].ReleaseLater(time.Time{}) })
		})
	}
}

// The reply that no caller waited for any longer was a win.
func TestALateWinIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			warm := request("k")
			done(t, acquire(s, warm))
			done(t, release(s, warm))
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(10*time.Millisecond, cancel)
			q := request("k")
			var taken atomic.Bool
			b.Set(func(command redistest.Command) (any, error) {
				b.Set(func(command redistest.Command) (any, error) {
					if command.Name == "EVALSHA" && !taken.Load() {
						return nil, redistest.ErrCut // the first undos fail
					}
					return command.Run()
				})
				time.Sleep(q.Timeout / 2)
				reply, err := command.Run()
				taken.Store(m.Exists("k"))
				return reply, err
			})
			q.Try.Plain = plain
			c := q.claim(s)
			got := c.Try(ctx, q.Try)
			c.ReleaseLater(time.Time{})
			failed(t, got)
			require.ErrorIs(t, got.Err, context.Canceled)
			assert.NotNil(t, c.Away(), "it may still be executed")
			time.Sleep(q.Timeout)
			synctest.Wait()
			assert.True(t, taken.Load(), "plain %v: nothing was tried", plain)
			assert.False(t, m.Exists("k"), "plain %v: a lock that has no owner", plain)
		})
	}
}

// Otherwise a cache could get an old value long after it was changed.
func TestWhatWasNotSentInTimeNeverIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, slowPool{b, time.Minute})
		q := request("k")
		var c counter
		b.Set(c.count)
		failed(t, acquire(s, q))
		_, err := s.Session(t.Context(), time.Second, "k").Do("SET", "k", "old")
		assert.Error(t, err)
		time.Sleep(5 * time.Minute)
		assert.Empty(t, c.take())
	})
}

// A nomad is a pool of a cluster. Its slot moves after the caller has gone.
type nomad struct {
	redis.Conn
	leave context.CancelFunc
	sets  *atomic.Int32
}

func (n nomad) Get() redis.Conn      { return n }
func (n nomad) Bind(...string) error { return nil }
func (n nomad) Err() error           { return nil }
func (n nomad) Close() error         { return nil }

func (n nomad) Do(command string, _ ...any) (any, error) {
	if command != "SET" {
		return nil, redis.Error("ERR unknown command")
	}
	n.sets.Add(1)
	n.leave()
	time.Sleep(time.Second)
	return nil, redis.Error("MOVED 1 127.0.0.1:1")
}

func TestWhatHasMovedIsNotFollowedWhenTheCallerHasGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := nomad{leave: cancel, sets: new(atomic.Int32)}
		_, err := open(t, n).Session(ctx, time.Minute, "k").Do("SET", "k", "old")
		assert.ErrorIs(t, err, context.Canceled)
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, n.sets.Load())
	})
}

// A slowPool takes d to give a connection.
type slowPool struct {
	server.Pool
	d time.Duration
}

func (p slowPool) Get() redis.Conn {
	time.Sleep(p.d)
	return p.Pool.Get()
}

func TestALockThatIsHeldIsNotChangedLate(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]server.Try{"handed over": {Olds: []string{"before"}}, "downgraded": {Downgrades: true}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
				for _, key := range []string{"warm", "late"} { // the first round makes the script known
					holder, next := request(key), request(key)
					holder.Kind, holder.Want, holder.Token = server.Writer, "w", "before"
					if try.Downgrades {
						next.Kind, next.Want, next.Token = holder.Kind, holder.Want, holder.Token
					}
					done(t, acquire(s, holder))
					next.Try = try
					if key == "warm" {
						done(t, acquire(s, next))
						continue
					}
					holdUp(b, next.Timeout+time.Millisecond)
					failed(t, acquire(s, next))
					time.Sleep(time.Second)
					value, _ := m.Get(key)
					assert.Equal(t, "before", value)
				}
			})
		})
	}
}
