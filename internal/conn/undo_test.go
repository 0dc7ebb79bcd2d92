package conn_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestTheUndoIsWrittenBehindWhatWasCutShort(t *testing.T) {
	for name, ending := range endings {
		for _, over := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/TLS %v", name, over), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &peer{silentAt: "SET"}
					if over {
						p.secure = secure(t)
					}
					c := dial(t, p.dialer(redis.DialReadTimeout(time.Minute), redis.DialWriteTimeout(time.Minute)))
					ctx, cancel := ending.after(t.Context(), time.Second)
					defer cancel()
					ctx = context.WithValue(ctx, conn.Undo, []any{"DEL", "k", 1})
					_, err := c.DoContext(ctx, "PING")
					require.NoError(t, err)
					_, err = c.DoContext(ctx, "SET", "k", "v")
					require.ErrorIs(t, err, ending.err)
					synctest.Wait()
					assert.Equal(t, []string{"PING", "SET k v", "DEL k 1"}, p.commands()[3:])
					assert.Error(t, c.Err())
					assert.Equal(t, 1, p.closed(), "without waiting for anybody")
				})
			})
		}
	}
}

func TestNoUndoBehindWhatWasAnsweredOrNeverWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{silentAt: "GET"}
		c := dial(t, p.dialer(redis.DialReadTimeout(time.Second)))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), conn.Undo, []any{"UNDO"}))
		_, err := c.DoContext(ctx, "PING")
		require.NoError(t, err)
		cancel()
		_, err = c.DoContext(ctx, "SET", "k", "v")
		require.ErrorIs(t, err, context.Canceled)
		assert.NoError(t, c.Err(), "nothing was sent, so nothing is wrong with it")
		synctest.Wait()
		assert.Equal(t, []string{"PING"}, p.commands()[3:])
		_, err = c.DoContext(context.WithValue(t.Context(), conn.Undo, []any{"UNDO"}), "PING")
		assert.NoError(t, err)
		_, err = c.Do("GET", "k")
		assert.ErrorContains(t, err, "timeout")
		assert.Equal(t, []string{"PING", "PING", "GET k"}, p.commands()[3:], "that was for another command")
	})
}

func TestAnUndoIsNotWrittenBehindTheNextCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{silentAt: "GET"}
		c := dial(t, p.dialer())
		_, err := c.DoContext(context.WithValue(t.Context(), conn.Undo, []any{"UNDO"}), "SET", "k", "v")
		require.NoError(t, err)
		_, err = c.DoContext(until{t.Context(), time.Now().Add(time.Second)}, "GET", "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Equal(t, []string{"SET k v", "GET k"}, p.commands()[3:])
		_, err = c.DoContext(t.Context(), "PING")
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "that was another ctx")
	})
}

// A slow network connection takes 2 ms to write an undo.
type slow struct {
	net.Conn
	undone atomic.Bool
}

func (c *slow) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("UNDO")) {
		time.Sleep(2 * time.Millisecond)
		defer c.undone.Store(true)
	}
	return c.Conn.Write(p)
}

// The reply arrives while the undo is being written. The caller may use the connection as soon as DoContext returns.
func TestACallerIsNotBackBeforeTheUndoIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, network := &peer{late: time.Second}, new(slow)
		c := dial(t, p.dialer(redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go p.serve(theirs)
			network.Conn = ours
			return network, nil
		})))
		ctx := until{t.Context(), time.Now().Add(p.late - time.Millisecond)}
		_, err := c.DoContext(context.WithValue(ctx, conn.Undo, []any{"UNDO"}), "SET", "k", "v")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, network.undone.Load())
		c.Close()
		time.Sleep(time.Minute) // until the peer has ended
	})
}

// Other code that shares the pool sends pipelines over the connection. redigo's pools end each use with a Do, which receives
// all replies that are still due.
func TestTheUndoIsWrittenAfterAPipelineOfAnotherUser(t *testing.T) {
	for name, end := range map[string]func(*conn.Conn) (any, error){
		"Do":            func(c *conn.Conn) (any, error) { return c.Do("") },
		"DoWithTimeout": func(c *conn.Conn) (any, error) { return c.DoWithTimeout(time.Second, "") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &peer{silentAt: "SET"}
				c := dial(t, p.dialer())
				require.NoError(t, c.Send("PING"))
				_, err := end(c)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), conn.Undo, []any{"UNDO"}), time.Second)
				defer cancel()
				_, err = c.DoContext(ctx, "SET", "k", "v")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				synctest.Wait()
				assert.Equal(t, []string{"PING", "SET k v", "UNDO"}, p.commands()[3:])
			})
		})
	}
}

// The reply arrives exactly at the deadline.
func TestWhatIsUndoneIsNeverReportedAsDone(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			p := &peer{late: time.Second}
			c := dial(t, p.dialer())
			ctx := context.WithValue(until{t.Context(), time.Now().Add(p.late)}, conn.Undo, []any{"UNDO"})
			_, err := c.DoContext(ctx, "SET", "k", "v")
			synctest.Wait()
			if err == nil {
				assert.NotContains(t, p.commands(), "UNDO")
			}
			c.Close()
			time.Sleep(time.Minute) // until the peer has ended
		})
	}
}

// Contexts are cancelled at the moment when the reply arrives. If the connection is still good, its next command must not be
// cut short.
func TestAnInterruptionNeverHitsALaterCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := conn.NewDialer("tcp", s.Addr())
	pool := &redis.Pool{MaxIdle: 4, DialContext: d.DialContext}
	defer pool.Close()
	good, bad := 0, 0
	for i := range 5000 {
		c, err := pool.GetContext(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			for end := time.Now().Add(time.Duration(i%100) * time.Microsecond); time.Now().Before(end); {
			}
			cancel()
		})
		reply, err := redis.String(redis.DoContext(c, ctx, "ECHO", fmt.Sprint("first ", i)))
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.Equal(t, fmt.Sprint("first ", i), reply)
		}
		if c.Err() != nil {
			bad++
		} else {
			good++
			reply, err = redis.String(redis.DoContext(c, t.Context(), "ECHO", i))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(i), reply)
		}
		c.Close()
		group.Wait()
	}
	t.Logf("%d connections were as good as before, %d broken", good, bad)
}

func TestAConnectionBehavesAsOneOfRedigo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := conn.NewDialer("tcp", s.Addr())
	for name, pool := range map[string]*redis.Pool{"redigo": s.Pool(), "ours": {DialContext: d.DialContext}} {
		c := pool.Get()
		require.NoError(t, c.Send("ECHO", "a"), name)
		require.NoError(t, c.Send("NONSENSE"), name)
		reply, err := redis.Values(redis.DoContext(c, t.Context(), ""))
		require.NoError(t, err, name)
		require.Len(t, reply, 2, name)
		assert.Equal(t, []byte("a"), reply[0], name)
		assert.ErrorContains(t, reply[1].(error), "unknown command", name)
		_, err = redis.DoContext(c, t.Context(), "NONSENSE")
		assert.ErrorContains(t, err, "unknown command", name)
		assert.NoError(t, c.Err(), name)
		require.NoError(t, c.Send("ECHO", "z"), name)
		require.NoError(t, c.Flush(), name)
		last, err := redis.ReceiveContext(c, t.Context())
		assert.NoError(t, err, name)
		assert.Equal(t, []byte("z"), last, name)
		_, err = redis.DoWithTimeout(c, 10*time.Millisecond, "BLPOP", "k", 0)
		assert.ErrorContains(t, err, "i/o timeout", name)
		assert.Error(t, c.Err(), name)
		_, err = c.Do("PING")
		assert.Error(t, err, name)
		c.Close()
		assert.Zero(t, pool.ActiveCount(), name)
	}
}

func TestTheTimeoutsOfTheDialCountWithoutAContextAndTheDeadlineInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{late: 3 * time.Second}
		d := p.dialer(redis.DialReadTimeout(5 * time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		dialled, err := d.DialContext(ctx)
		require.NoError(t, err)
		c := dialled.(*conn.Conn)
		p.late = 10 * time.Second
		ctx, cancel = context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		_, err = c.DoContext(ctx, "PING")
		require.NoError(t, err, "the ctx has more time than the option, and that of the dial is over")
		for range 3 {
			p.late = 3 * time.Second
			_, err = c.Do("PING")
			require.NoError(t, err, "the deadline of an operation is over with it")
		}
		p.late = 10 * time.Second
		began := time.Now()
		_, err = c.DoContext(t.Context(), "PING")
		assert.ErrorContains(t, err, "timeout")
		assert.Equal(t, 5*time.Second, time.Since(began))
		time.Sleep(time.Minute)
	})
}

func TestWhatNobodyHasTimeToReceiveBreaksTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{silentAt: "SET"}
		pool := &redis.Pool{MaxIdle: 1, DialContext: p.dialer().DialContext}
		defer pool.Close()
		c := pool.Get()
		require.NoError(t, c.Send("SET", "k", "v"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := redis.DoContext(c, ctx, "")
		require.ErrorIs(t, err, context.Canceled)
		assert.Error(t, c.Err())
		c.Close() // which would wait for the reply
		assert.Zero(t, pool.ActiveCount())
	})
}

// A subscriber sends from one goroutine while another receives.
func TestOneGoroutineMaySendWhileAnotherReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{late: 2 * time.Second}
		c := dial(t, p.dialer())
		var group sync.WaitGroup
		group.Go(func() {
			time.Sleep(time.Second)
			assert.NoError(t, c.Send("SUBSCRIBE", "channel"))
			assert.NoError(t, c.Flush())
		})
		_, err := c.ReceiveContext(until{t.Context(), time.Now().Add(3500 * time.Millisecond)})
		require.NoError(t, err)
		group.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.ReceiveContext(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Error(t, c.Err())
	})
}

// A caller counts the contexts that are registered with it.
type caller struct {
	context.Context
	registered atomic.Int32
}

func (c *caller) AfterFunc(f func()) func() bool {
	c.registered.Add(1)
	stop := context.AfterFunc(c.Context, f)
	return func() bool {
		c.registered.Add(-1)
		return stop()
	}
}

// Value hides the inner ctx, with which package context would register directly.
func (c *caller) Value(any) any { return nil }

func TestACallerThatLivesLongHoldsNoConnectionThatHasAnotherOrIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, (&peer{}).dialer())
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		long := &caller{Context: parent}
		var kept []int32 // registrations after each operation
		for range 50 {
			made := context.WithValue(long, conn.Caller, long) // for one operation
			_, err := c.DoContext(made, "PING")
			require.NoError(t, err)
			kept = append(kept, long.registered.Load())
		}
		assert.Zero(t, kept[0], "a ctx that was made for one operation starts no goroutine when it ends")
		assert.EqualValues(t, 1, kept[len(kept)-1])
		assert.IsNonDecreasing(t, kept)
		_, err := c.DoContext(t.Context(), "PING")
		require.NoError(t, err)
		assert.Zero(t, long.registered.Load(), "another caller")
		for range 50 {
			_, err = c.DoContext(long, "PING")
			require.NoError(t, err)
		}
		require.EqualValues(t, 1, long.registered.Load())
		c.Close()
		assert.Zero(t, long.registered.Load(), "closed")
	})
}

func TestACancellationIsNoticedHoweverOftenItsContextWasUsedBefore(t *testing.T) {
	for used := range 20 {
		for _, between := range []int{0, 1, 3, 20} { // operations without a ctx that can end
			synctest.Test(t, func(t *testing.T) {
				c := dial(t, (&peer{silentAt: "GET"}).dialer(redis.DialReadTimeout(time.Hour)))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range used {
					_, err := c.DoContext(ctx, "PING")
					require.NoError(t, err)
					for range between {
						_, err = c.DoContext(context.WithoutCancel(ctx), "PING")
						require.NoError(t, err)
					}
				}
				began := time.Now()
				time.AfterFunc(time.Second, cancel)
				_, err := c.DoContext(ctx, "GET", "k")
				require.ErrorIs(t, err, context.Canceled, "%d, %d between", used, between)
				require.Equal(t, time.Second, time.Since(began))
			})
		}
	}
}

// Operations leave the timer of the connection running.
func TestEachOperationEndsAtItsOwnDeadlineWhateverTheOneBeforeHad(t *testing.T) {
	for name, before := range map[string][]time.Duration{
		"none": nil, "an earlier one": {time.Second}, "a later one": {time.Hour}, "the same": {time.Minute},
		"many": {time.Hour, time.Millisecond, time.Minute, time.Second},
	} {
		for _, pause := range []time.Duration{0, time.Second, 2 * time.Hour} { // the timer fires between the operations, or not
			t.Run(fmt.Sprint(name, " before, ", pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := dial(t, (&peer{silentAt: "GET"}).dialer(redis.DialReadTimeout(24*time.Hour)))
					for _, d := range before {
						_, err := c.DoContext(until{t.Context(), time.Now().Add(d)}, "PING")
						require.NoError(t, err)
						time.Sleep(pause)
					}
					began := time.Now()
					_, err := c.DoContext(until{t.Context(), began.Add(time.Minute)}, "GET", "k")
					require.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Equal(t, time.Minute, time.Since(began))
				})
			})
		}
	}
}

func TestAClosedConnectionIsFreedBeforeItsLastDeadline(t *testing.T) {
	t.Parallel()
	dialled, err := conn.NewDialer("tcp", redistest.Start(t).Addr()).DialContext(t.Context())
	require.NoError(t, err)
	c := weak.Make(dialled.(*conn.Conn))
	_, err = redis.DoContext(dialled, until{t.Context(), time.Now().Add(time.Hour)}, "PING")
	require.NoError(t, err)
	dialled.Close()
	redistest.Wait(t, "no timer holds the connection", func() bool { runtime.GC(); return c.Value() == nil })
}

func TestACancellationBetweenOperationsDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{silentAt: "STOP"}
		c := dial(t, p.dialer(redis.DialReadTimeout(time.Minute)))
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := c.DoContext(ctx, "PING")
			require.NoError(t, err)
			cancel()
			synctest.Wait()
			require.NoError(t, c.Err())
			p.late = time.Second
			_, err = c.Do("PING")
			require.NoError(t, err)
			p.late = 0
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.DoContext(ctx, "PING")
		require.NoError(t, err)
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err = c.DoContext(ctx, "STOP")
		require.ErrorIs(t, err, context.Canceled, "while one is under way")
		assert.LessOrEqual(t, time.Since(began), time.Second+grace)
	})
}

func TestOnlyWhatAServerQuotesOfALoginIsMasked(t *testing.T) {
	for said, want := range map[string]string{
		"ERR max number of clients reached":                                    "",
		"ERR unknown command 'AUTH'":                                           "",
		"NOPERM no permissions to run the 'client|setname' command":            "",
		"DENIED send the command 'CONFIG SET protected-mode no' over loopback": "",
		"ERR unknown command 'AUTH secret'":                                    "ERR unknown command '***'",
		"ERR unknown command `AUTH`, with args beginning with: `secret`, ":     "ERR unknown command `AUTH`",
		`ERR what is "secret"?`:                                                `ERR what is "***"?`,
		`ERR what are 'AUTH' and 'a secret that's "quoted" itself'?`:           `ERR what are '***'?`,
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := (&peer{says: "-" + said}).dialer().DialContext(t.Context())
			assert.Equal(t, redis.Error(cmp.Or(want, said)), err)
			synctest.Wait()
		})
	}
}

func TestAPipelineThatIsTooLateToBeginLeavesTheConnectionAsItWas(t *testing.T) {
	t.Parallel()
	c, err := conn.NewDialer("tcp", redistest.Start(t).Addr()).DialContext(t.Context())
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	var batch conn.Batch = func(func(string, ...any) error) error { return assert.AnError }
	_, err = redis.DoContext(c, ctx, "", batch)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.NoError(t, c.Err())
}
