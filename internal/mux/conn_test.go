package mux_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestEachCallerGetsItsOwnReplies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := share(t, s.Pool(), 2)
	var group sync.WaitGroup
	for g := range 200 {
		group.Go(func() {
			for i := range 100 {
				c, err := p.GetContext(t.Context())
				require.NoError(t, err)
				want := fmt.Sprintf("%d of %d", i, g)
				got, err := redis.String(within(c, time.Minute, "ECHO", want))
				assert.NoError(t, err)
				assert.Equal(t, want, got)
				if i%10 == 0 {
					pipeline(t, c, want)
				}
				c.Close()
			}
		})
	}
	group.Wait()
	if s.IsReal() {
		clients := strings.TrimSpace(string(s.Do("CLIENT", "LIST", "TYPE", "NORMAL").([]byte)))
		assert.Len(t, strings.Split(clients, "\n"), 3, "two that are shared, and the one that asks:\n%s", clients)
	}
}

// batch sends several commands as one batch.
func batch(t *testing.T, c redis.Conn, commands ...[]any) []any {
	t.Helper()
	var all conn.Batch = func(send func(string, ...any) error) error {
		for _, command := range commands {
			if err := send(command[0].(string), command[1:]...); err != nil {
				return err
			}
		}
		return nil
	}
	replies, err := redis.Values(within(c, time.Minute, "", all))
	require.NoError(t, err)
	return replies
}

// pipeline sends commands, every third of which fails.
func pipeline(t *testing.T, c redis.Conn, word string) {
	var commands [][]any
	for i := range 7 {
		if i%3 == 2 {
			commands = append(commands, []any{"NONSENSE", word})
		} else {
			commands = append(commands, []any{"ECHO", word + strconv.Itoa(i)})
		}
	}
	for i, reply := range batch(t, c, commands...) {
		if i%3 == 2 {
			var refused redis.Error
			assert.ErrorAs(t, reply.(error), &refused)
		} else {
			assert.Equal(t, word+strconv.Itoa(i), string(reply.([]byte)))
		}
	}
}

// A caller may reuse the slice of the last command's arguments for the next command.
func TestArgumentsAreWrittenAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := get(t, share(t, s.Pool(), 1))
	var all conn.Batch = func(send func(string, ...any) error) error {
		args := []any{"k", "value", "PX", int64(60_000)}
		err := send("SET", args...)
		args[0], args[1], args[3] = "other", "other", 0
		return err
	}
	reply, err := within(c, time.Minute, "", all)
	require.NoError(t, err)
	assert.Equal(t, []any{"OK"}, reply)
	assert.Equal(t, "value", s.Get("k"))
}

func TestAnOverdueReplyEndsTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		late, other, plain := get(t, p), get(t, p), get(t, p)
		release := w.hold()
		began := time.Now()
		var group sync.WaitGroup
		group.Go(func() {
			_, err := within(other, time.Minute, "ECHO", "other")
			assert.ErrorContains(t, err, "ended")
			assert.NotErrorIs(t, err, conn.ErrTimeout, "so that it is sent again over another")
			assert.Error(t, other.Err())
			assert.Less(t, time.Since(began), nodeTimeout+50*time.Millisecond)
		})
		group.Go(func() {
			_, err := plain.DoContext(until(time.Minute, "DEL", "k"), "SET", "k", "v")
			assert.ErrorIs(t, err, conn.ErrTimeout, "so that it is not sent again, before its undo is executed")
		})
		_, err := within(late, nodeTimeout, "ECHO", "late")
		assert.Equal(t, nodeTimeout, time.Since(began))
		assert.ErrorIs(t, err, conn.ErrTimeout)
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		group.Wait()
		release()
		assert.True(t, works(p), "it was replaced")
		dials := w.counted()
		assert.Equal(t, 2, dials)
	})
}

func TestAReplyAfterTheDeadlineOfItsCallerIsThrownAwayAndTheConnectionKept(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]struct{ waits, comes time.Duration }{
		"a moment after the node timeout":                     {nodeTimeout, nodeTimeout + 10*time.Millisecond},
		"within the node timeout, whose caller has less time": {50 * time.Millisecond, nodeTimeout / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWire(t)
				p := share(t, w.pool(), 1)
				c := get(t, p)
				time.AfterFunc(d.comes, w.hold())
				_, err := within(c, d.waits, "ECHO", "late")
				require.ErrorIs(t, err, conn.ErrTimeout)
				got, err := redis.String(within(c, time.Minute, "ECHO", "next"))
				require.NoError(t, err)
				assert.Equal(t, "next", got)
				dials := w.counted()
				assert.Equal(t, 1, dials)
			})
		})
	}
}

// Calls that are cancelled before they are written leave nothing to write.
func TestACancelledCallEndsNoConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := share(t, s.Pool(), 1)
	c := get(t, p)
	for range 2000 {
		ctx, cancel := context.WithCancel(until(time.Minute))
		go cancel()
		do(ctx, c, "PING") //nolint:errcheck // it may be cancelled
	}
	assert.NoError(t, c.Err())
}

func TestAReplyThatComesAtTheDeadlineGoesToNobodyElse(t *testing.T) {
	t.Parallel()
	p := share(t, redistest.Start(t).Pool(), 2)
	var group sync.WaitGroup
	var late, inTime atomic.Int64
	for g := range 50 {
		group.Go(func() {
			for i := range 1000 {
				want := fmt.Sprintf("%d of %d", i, g)
				got, err := redis.String(within(get(t, p), time.Duration(1+rand.IntN(5000))*time.Microsecond, "ECHO", want))
				if err != nil {
					late.Add(1)
					continue
				}
				inTime.Add(1)
				assert.Equal(t, want, got)
			}
		})
	}
	group.Wait()
	assert.Positive(t, late.Load())
	assert.Positive(t, inTime.Load())
}

func TestWhatIsLateIsUndoneOrNeverDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		release := w.hold()
		var group sync.WaitGroup
		// While the first reply is held back, the embedded server blocks on one of the next replies. Then the writer blocks on
		// a command, and all later commands wait.
		const tries = 20
		for i := range tries {
			c, key := get(t, p), fmt.Sprintf("key:%02d", i)
			group.Go(func() {
				time.Sleep(time.Duration(i))
				_, err := c.DoContext(until(100*time.Millisecond, "RENAME", key, "undone:"+key), "SET", key, "v")
				assert.ErrorIs(t, err, conn.ErrTimeout)
			})
			synctest.Wait()
		}
		group.Wait()
		release()
		require.True(t, works(p))
		keys := w.server.Keys()
		for _, key := range keys {
			assert.Contains(t, key, "undone:")
		}
		assert.NotEmpty(t, keys)
		assert.Less(t, len(keys), tries, "those that were not written never are")

		_, err := get(t, p).DoContext(until(time.Second, "DEL", "kept"), "SET", "kept", "v")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.True(t, w.server.Exists("kept"), "what is in time is not undone")
	})
}

// The writer is stuck on the command before.
func TestTheNextCommandIsNotWrittenWhenItsCallerHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		p := share(t, &redis.Pool{Dial: func() (redis.Conn, error) { return redis.NewConn(ours, 0, 0), nil }}, 1)
		c := get(t, p)
		var group sync.WaitGroup
		group.Go(func() {
			_, err := within(c, nodeTimeout/2, "PING")
			assert.ErrorIs(t, err, conn.ErrTimeout)
		})
		synctest.Wait()
		_, err := within(c, nodeTimeout/4, "SET", "k", "v")
		require.ErrorIs(t, err, conn.ErrTimeout)
		var written bytes.Buffer
		group.Go(func() { io.Copy(&written, theirs) }) //nolint:errcheck // until it is closed
		time.Sleep(nodeTimeout / 2)
		theirs.Close()
		group.Wait()
		assert.Contains(t, written.String(), "PING")
		assert.NotContains(t, written.String(), "SET")
	})
}

// The writer is stuck until the reply is overdue.
func TestAnUndoThatIsNotWrittenInTimeIsWrittenBeforeTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		p := share(t, &redis.Pool{Dial: func() (redis.Conn, error) { return redis.NewConn(ours, 0, 0), nil }}, 1)
		c := get(t, p)
		var group sync.WaitGroup
		group.Go(func() {
			_, err := c.DoContext(until(nodeTimeout/2, "DEL", "k"), "SET", "k", "v")
			assert.ErrorIs(t, err, conn.ErrTimeout)
		})
		written := make([]byte, 1000)
		n, err := theirs.Read(written)
		require.NoError(t, err)
		assert.Contains(t, string(written[:n]), "SET")
		group.Go(func() {
			_, err := within(c, time.Minute, "PING")
			assert.ErrorContains(t, err, "ended")
		})
		time.Sleep(nodeTimeout + nodeTimeout/10)
		assert.Error(t, c.Err())
		rest, err := io.ReadAll(theirs)
		assert.NoError(t, err)
		assert.Contains(t, string(rest), "DEL")
		group.Wait()
	})
}

// A caller may reuse the slice of the last undo for the next. The race detector finds an undo that is read too late.
func TestAnUndoIsThatOfItsCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := share(t, s.Pool(), 1)
	require.True(t, works(p))
	var group sync.WaitGroup
	for g := range 20 {
		group.Go(func() {
			undo := []any{"DEL", ""}
			for i := range 300 {
				key := fmt.Sprintf("%d of %d", i, g)
				undo[1] = key
				c := get(t, p)
				if _, err := c.DoContext(until(rand.N(2*time.Millisecond), undo...), "SET", key, "v"); err == nil {
					_, err = within(c, time.Minute, "DEL", key)
					assert.NoError(t, err)
				}
				undo[1] = "of no command"
			}
		})
	}
	group.Wait()
	require.True(t, works(p))
	assert.Empty(t, s.Keys())
}

func TestWhatIsCancelledEndsAtOnceAndIsUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		release := w.hold()
		ctx, cancel := context.WithCancel(until(time.Minute, "RENAME", "k", "undone"))
		time.AfterFunc(time.Millisecond, cancel)
		began := time.Now()
		for range 2 {
			_, err := get(t, p).DoContext(ctx, "SET", "k", "v")
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.Equal(t, time.Millisecond, time.Since(began))
		release()
		n, err := redis.Int(within(get(t, p), time.Minute, "EXISTS", "undone"))
		require.NoError(t, err)
		assert.Equal(t, 1, n)
	})
}

// until returns a ctx with a deadline and an undo that never ends: the connection has to keep the deadline by itself.
func until(d time.Duration, undo ...any) context.Context {
	return deadline{context.WithValue(context.Background(), conn.Undo, undo), time.Now().Add(d)}
}

type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }
