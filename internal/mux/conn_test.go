package mux_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/mux"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestEverybodyGetsHisOwnReplies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := share(t, s.Pool(), 2)
	var group sync.WaitGroup
	for g := range 200 {
		group.Go(func() {
			for i := range 100 {
				c := p.Get()
				want := fmt.Sprintf("%d of %d", i, g)
				got, err := redis.String(c.Do("ECHO", want))
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

// pipeline sends commands of which every third fails, and leaves one without receiving its reply.
func pipeline(t *testing.T, c redis.Conn, word string) {
	for i := range 7 {
		if i%3 == 2 {
			assert.NoError(t, c.Send("NONSENSE", word))
		} else {
			assert.NoError(t, c.Send("ECHO", word+strconv.Itoa(i)))
		}
	}
	assert.NoError(t, c.Flush())
	for i := range 6 {
		got, err := redis.String(c.Receive())
		if i%3 == 2 {
			var refused redis.Error
			assert.ErrorAs(t, err, &refused)
		} else {
			assert.NoError(t, err)
			assert.Equal(t, word+strconv.Itoa(i), got)
		}
	}
}

func TestAConnBehavesAsOneOfRedigo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, pool := range map[string]mux.Source{"redigo": s.Pool(), "ours": share(t, s.Pool(), 1)} {
		c := pool.Get()
		defer c.Close()
		require.NoError(t, c.Err(), name)

		reply, err := c.Do("")
		assert.NoError(t, err, name)
		assert.Nil(t, reply, name)

		for _, word := range []string{"a", "b"} {
			require.NoError(t, c.Send("ECHO", word), name)
		}
		reply, err = c.Do("")
		assert.NoError(t, err, name)
		assert.Equal(t, []any{[]byte("a"), []byte("b")}, reply, name)

		require.NoError(t, c.Send("NONSENSE"), name)
		reply, err = c.Do("ECHO", "last")
		assert.ErrorContains(t, err, "unknown command", name)
		assert.Equal(t, []byte("last"), reply, name)

		require.NoError(t, c.Send("NONSENSE"), name)
		reply, err = c.Do("")
		assert.NoError(t, err, name)
		assert.ErrorContains(t, reply.([]any)[0].(error), "unknown command", name)

		require.NoError(t, c.Send("ECHO", "x"), name)
		require.NoError(t, c.Flush(), name)
		reply, err = redis.DoContext(c, t.Context(), "ECHO", "y")
		assert.NoError(t, err, name)
		assert.Equal(t, []byte("y"), reply, name)

		require.NoError(t, c.Send("ECHO", "z"), name)
		require.NoError(t, c.Flush(), name)
		reply, err = redis.ReceiveContext(c, t.Context())
		assert.NoError(t, err, name)
		assert.Equal(t, []byte("z"), reply, name)

		require.NoError(t, c.Send("SET", "left", name), name)
		require.NoError(t, c.Close(), name)
		redistest.Wait(t, "what was sent is executed", func() bool { return s.Get("left") == name })

		_, err = c.Do("PING")
		assert.Error(t, err, name)
		_, err = c.Receive()
		assert.Error(t, err, name)
		assert.Error(t, c.Err(), name)
		assert.Error(t, c.Send("PING"), name)
		assert.Error(t, c.Flush(), name)
		assert.NoError(t, c.Close(), name)
	}
}

func TestReceiveWithoutSendIsAnErrorAndNoHang(t *testing.T) {
	t.Parallel()
	c := get(t, share(t, redistest.Start(t).Pool(), 1))
	_, err := c.Receive()
	assert.Error(t, err)
	require.NoError(t, c.Send("PING"))
	_, err = c.Receive()
	assert.Error(t, err, "without Flush")
}

// number is an argument that a caller may change.
type number struct{ n int }

func (n *number) RedisArg() any { return n.n }

func TestArgumentsCanBeUsedAgainAfterSend(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := get(t, share(t, s.Pool(), 1))
	args := []any{"k", []byte("value"), "PX", &number{60_000}}
	require.NoError(t, c.Send("SET", args...))
	args[0] = "other"
	args[1].([]byte)[0] = '-'
	args[3].(*number).n = 0
	reply, err := c.Do("")
	require.NoError(t, err)
	assert.Equal(t, []any{"OK"}, reply)
	assert.Equal(t, "value", s.Get("k"))
	var d time.Duration = 5
	for i, arg := range []any{true, false, nil, 1.5, uint8(7), d} {
		got, err := redis.String(c.Do("ECHO", arg))
		require.NoError(t, err)
		assert.Equal(t, []string{"1", "0", "", "1.5", "7", "5ns"}[i], got)
	}
}

func TestCommandsOfAPipelineTravelInOnePacket(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	c := get(t, share(t, w.pool(), 1))
	for range 100 {
		require.NoError(t, c.Send("PING"))
	}
	_, before := w.counted()
	reply, err := c.Do("")
	require.NoError(t, err)
	assert.Len(t, reply, 100)
	_, after := w.counted()
	assert.LessOrEqual(t, after-before, 2)
}

func TestOneGoroutineMaySendWhileAnotherReceives(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := share(t, s.Pool(), 1)
	for range 200 {
		c := p.Get()
		require.NoError(t, c.Send("ECHO", "first"))
		require.NoError(t, c.Flush())
		var sending sync.WaitGroup
		sending.Go(func() {
			assert.NoError(t, c.Send("INCR", "n"))
			assert.NoError(t, c.Flush())
		})
		got, err := redis.String(c.Receive())
		require.NoError(t, err)
		assert.Equal(t, "first", got)
		sending.Wait()
		require.NoError(t, c.Close())
	}
	redistest.Wait(t, "all are executed, though nobody received the replies", func() bool { return s.Get("n") == "200" })
}

func TestCommandsThatWouldHarmOthersAreRefused(t *testing.T) {
	t.Parallel()
	c := get(t, share(t, redistest.Start(t).Pool(), 1))
	for _, line := range []string{
		"WAIT 1 0", "BLPOP k 0", "blmove a b LEFT LEFT 0", "BZPOPMIN k 0",
		"MULTI", "EXEC", "WATCH k", "SELECT 1", "Auth x", "HELLO 3", "RESET", "QUIT",
		"SUBSCRIBE c", "psubscribe c", "MONITOR",
		"XREAD COUNT 1 BLOCK 0 STREAMS s $", "XREADGROUP GROUP g c block 0 STREAMS s >",
		"CLIENT REPLY OFF", "client tracking ON", "CLIENT SETNAME x", "SCRIPT DEBUG YES",
	} {
		words := strings.Fields(line)
		args := make([]any, len(words)-1)
		for i, word := range words[1:] {
			if args[i] = word; i%2 == 1 {
				args[i] = []byte(word)
			}
		}
		var refused mux.RefusedError
		_, err := c.Do(words[0], args...)
		require.ErrorAs(t, err, &refused, line)
		assert.ErrorContains(t, err, strings.ToUpper(words[0]))
		require.ErrorAs(t, c.Send(words[0], args...), &refused, line)
	}
	for _, line := range []string{"CLIENT ID", "SCRIPT FLUSH", "XREAD COUNT 1 STREAMS BLOCK 0", "PING"} {
		words := strings.Fields(line)
		args := make([]any, len(words)-1)
		for i, word := range words[1:] {
			args[i] = word
		}
		_, err := c.Do(words[0], args...)
		var refused mux.RefusedError
		assert.NotErrorAs(t, err, &refused, line)
	}
	require.NoError(t, c.Err())
}
