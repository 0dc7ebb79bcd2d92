package server_test

import (
	"fmt"
	"strings"
	"sync"
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

// virtual runs test in a bubble of virtual time, with a server and a Between before it.
func virtual(t *testing.T, test func(*testing.T, *miniredis.Miniredis, *redistest.Between, *server.Server)) {
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		test(t, m, b, open(t, b))
		time.Sleep(5 * time.Minute) // for operations that were left behind
	})
}

// virtualAndDials is virtual with a pool that can dial.
func virtualAndDials(t *testing.T, test func(*testing.T, *miniredis.Miniredis, *redistest.Between, *server.Server)) {
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		test(t, m, b, open(t, diallingBetween{b, pool}))
		time.Sleep(5 * time.Minute)
	})
}

type diallingBetween struct {
	*redistest.Between
	pool *redis.Pool
}

func (b diallingBetween) Dial() (redis.Conn, error) { return b.pool.Dial() }

// A counter counts the commands that pass.
type counter struct {
	mu    sync.Mutex
	names []string
}

func (c *counter) count(command redistest.Command) (any, error) {
	c.mu.Lock()
	c.names = append(c.names, command.Name)
	c.mu.Unlock()
	return command.Run()
}

// take returns the commands since its last call.
func (c *counter) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := strings.Join(c.names, " ")
	c.names = nil
	return names
}

// holdUp delays the next command for d on its way to the server.
func holdUp(b *redistest.Between, d time.Duration) {
	b.Set(func(command redistest.Command) (any, error) {
		if command.Name != "TIME" {
			b.Set(nil)
			time.Sleep(d)
		}
		return command.Run()
	})
}

func TestATryThatIsExecutedLateTakesNothing(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			if skew != 0 {
				m.SetTime(time.Now().Add(skew))
			}
			fenced := request("k")
			fenced.Fence = server.NextFence
			for _, q := range []*hold{request("k"), fenced, queued("k"), waiting("k", "w", "x")} {
				done(t, acquire(s, q))
				done(t, release(s, q))
				b.Set(func(command redistest.Command) (any, error) {
					b.Set(nil)
					time.Sleep(q.Timeout + time.Millisecond)
					if skew != 0 {
						m.SetTime(time.Now().Add(skew)) // a clock that was set stands still until it is set again
					}
					return command.Run()
				})
				failed(t, acquire(s, q))
				time.Sleep(time.Second)
				assert.False(t, m.Exists("k"), "skew %v: a late try took the lock", skew)
				assert.False(t, m.Exists(server.QueueKey("k")), "skew %v: a late try came into the queue", skew)
			}
		})
	}
}

func TestAnExtensionThatIsExecutedLateDoesNothing(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		done(t, one(s, q)) // now the server knows the script
		q.Replicas = replicas(q.Timeout)
		holdUp(b, q.Timeout+time.Millisecond)
		q.TTL = time.Hour
		got := one(s, q)
		failed(t, got)
		require.ErrorContains(t, got.Err, "too late")
		assert.LessOrEqual(t, m.TTL("k"), 10*time.Minute)
	})
}

// The deadline of a try, converted to the server's clock, is never later than ours. It is earlier at most by the time that the
// fastest answer so far took.
func TestTheServersClockIsKnownAsWellAsTheFastestAnswerTells(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		fastest := time.Hour
		for _, rtt := range []time.Duration{80, 200, 10, 4, 300, 100} {
			rtt *= time.Millisecond
			began := time.Now()
			b.Set(func(command redistest.Command) (any, error) {
				if command.Name == "EVALSHA" && fastest < time.Hour {
					early := began.Add(time.Minute).UnixMicro() - command.Args[5].(int64)
					assert.GreaterOrEqual(t, early, int64(0), "the deadline on the server is later than ours")
					assert.LessOrEqual(t, early, fastest.Microseconds())
				}
				time.Sleep(rtt / 2)
				defer time.Sleep(rtt / 2)
				return command.Run()
			})
			q := request("k" + request("").Token)
			q.Timeout = time.Minute
			done(t, acquire(s, q))
			fastest = min(fastest, rtt)
		}
	})
}

// The server's clock is set forwards or backwards. At most one try is refused, and it is repeated at once.
func TestAClockThatJumpsCostsOneRetry(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 365 * 24 * time.Hour} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			var c counter
			q := request("k")
			q.TTL = 3 * 365 * 24 * time.Hour // miniredis expires keys when its clock is set
			for range 2 {
				done(t, acquire(s, q))
				done(t, one(s, q))
				done(t, release(s, q))
			}
			b.Set(c.count)

			m.SetTime(time.Now().Add(jump))
			done(t, acquire(s, q))
			want := "EVALSHA"
			if jump > 0 {
				want = "EVALSHA EVALSHA"
			}
			assert.Equal(t, want, c.take())
			done(t, one(s, q))
			assert.Equal(t, "EVALSHA", c.take(), "the jump was not learnt")

			m.SetTime(time.Now().Add(2 * jump))
			done(t, one(s, q))
			assert.Equal(t, want, c.take())
			done(t, release(s, q))
			b.Set(nil)

			// After the jump, late tries are refused by the new clock.
			if jump > 0 {
				holdUp(b, 0)
				m.SetTime(time.Now().Add(2*jump + q.Timeout + time.Second))
				done(t, acquire(s, q)) // late by the server's clock, but our deadline has not passed
			}
		})
	}
}

// A server whose clock makes no sense must not be asked again and again.
func TestATryThatIsTooLateBySeveralClocksIsRepeatedOnce(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("other"))) // the clock and the script are known
		asked := 0
		b.Set(func(redistest.Command) (any, error) {
			asked++
			time.Sleep(time.Millisecond)
			return []any{int64(4), time.Now().Add(time.Duration(asked) * time.Hour).UnixMicro()}, nil
		})
		assert.ErrorContains(t, acquire(s, request("k")).Err, "too late")
		assert.Equal(t, 2, asked)
	})
}

// The very first try does not know the server's clock yet. A server that does not tell its time gets no command that it could
// execute late.
func TestWithoutAClockNothingIsTried(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		for _, reply := range []any{nil, []any{int64(1)}, []any{[]byte("x"), []byte("y")}, redis.Error("LOADING")} {
			b.Set(func(command redistest.Command) (any, error) {
				require.Equal(t, "TIME", command.Name)
				if reply == nil {
					time.Sleep(time.Minute)
					return nil, redistest.ErrCut
				}
				if e, ok := reply.(redis.Error); ok {
					return nil, e
				}
				return reply, nil
			})
			failed(t, acquire(s, request("k")))
			failed(t, one(s, request("k")))
			assert.False(t, m.Exists("k"))
		}
	})
}

func TestAReplyThatMakesNoSenseIsNoLock(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		for _, reply := range []any{nil, "OK", int64(1), []byte("1"), []any{}, []any{int64(1)}, []any{nil, int64(3)}, []any{"x", "y", "z"}} {
			b.Set(func(command redistest.Command) (any, error) {
				if command.Name == "EVALSHA" {
					return reply, nil
				}
				return command.Run()
			})
			failed(t, acquire(s, request("k")))
		}
	})
}

func TestAfterASilenceNothingIsTriedBeforeTheServerAnswers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	monitor := s.Monitor()
	srv := server.New(s.Pool())
	defer srv.Close(time.Second)
	n := 0
	ask := func(token string, limit time.Duration) server.Reply {
		n++ // a failed try is undone in the background, so each try has a token of its own
		return acquire(srv, ask(fmt.Sprint(token, n), limit))
	}
	const soon = 50 * time.Millisecond
	redistest.Wait(t, "the first try", func() bool { return ask("before", time.Second).Verdict == server.Done })
	s.Do("DEL", "k")
	s.Pause()
	require.Equal(t, server.Failed, ask("unheard", time.Second).Verdict)
	for range 3 {
		require.Equal(t, server.Failed, ask("untried", soon).Verdict, "the answer could come from a server with another clock")
	}
	s.Resume()
	redistest.Wait(t, "a try after it", func() bool { return ask("after", soon).Verdict == server.Done })
	assert.Equal(t, fmt.Sprint("after", n), s.Get("k"))
	heard := strings.Join(monitor.Lines(), "\n")
	assert.Contains(t, heard, `"unheard`)
	assert.NotContains(t, heard, `"untried`)
}

// After a failover, the answer of the old server arrives after answers of the new one.
func TestALateReplyTeachesNoClockOfTheServerBefore(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"EVALSHA", "TIME"} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			m.SetTime(time.Now().Add(5 * time.Second)) // the old primary is ahead
			done(t, acquire(s, request("warm")))
			if late == "TIME" {
				swallow(b, "EVALSHA")
				failed(t, acquire(s, request("unheard"))) // so that the next try asks for the time
			}
			let, come := make(chan struct{}), make(chan struct{})
			b.Set(func(command redistest.Command) (any, error) {
				if command.Name != late {
					return command.Run()
				}
				b.Set(nil)
				close(come)
				<-let // the command hangs, and there is a failover
				m.SetTime(time.Now().Add(5 * time.Second))
				return command.Run()
			})
			q := request("a")
			q.Timeout = time.Second
			failed(t, acquire(s, q))
			<-come
			m.SetTime(time.Now()) // the new primary
			done(t, acquire(s, request("b")))
			close(let) // the old primary goes on, and answers
			time.Sleep(time.Millisecond)
			m.SetTime(time.Now())
			late := request("k")
			late.Timeout = time.Second
			b.Set(func(command redistest.Command) (any, error) {
				if command.Name != "EVALSHA" {
					return command.Run()
				}
				b.Set(nil)
				time.Sleep(2 * time.Second)
				m.SetTime(time.Now())
				return command.Run()
			})
			failed(t, acquire(s, late))
			time.Sleep(2 * time.Second)
			assert.False(t, m.Exists("k"), "a late try took the lock")
		})
	}
}

// The time that the server has told is kept for the next try. Otherwise each try would ask for the time, and then be too late.
func TestAServerThatIsFarGetsItsTryInTheEnd(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		b.Set(func(command redistest.Command) (any, error) {
			defer time.Sleep(30 * time.Millisecond)
			time.Sleep(30 * time.Millisecond)
			return command.Run()
		})
		q := request("k")
		q.Timeout = 100 * time.Millisecond
		c := q.claim(s)
		for range 5 {
			if c.Try(t.Context(), server.Try{}).Verdict == server.Done {
				break
			}
		}
		done(t, c.Try(t.Context(), server.Try{}))
		c.ReleaseLater(time.Time{})
		time.Sleep(time.Minute)
	})
}
