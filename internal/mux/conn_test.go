package mux_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/punctual"
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

// batch sends commands as one.
func batch(t *testing.T, c redis.Conn, commands ...[]any) []any {
	t.Helper()
	ctx := context.WithValue(t.Context(), punctual.Batch, func(send func(string, ...any) error) error {
		for _, command := range commands {
			if err := send(command[0].(string), command[1:]...); err != nil {
				return err
			}
		}
		return nil
	})
	replies, err := redis.Values(do(ctx, c, ""))
	require.NoError(t, err)
	return replies
}

// pipeline sends commands of which every third fails.
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

// number is an argument that a caller may change.
type number struct{ n int }

func (n *number) RedisArg() any { return n.n }

func TestArgumentsAreWrittenAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := get(t, share(t, s.Pool(), 1))
	ctx := context.WithValue(t.Context(), punctual.Batch, func(send func(string, ...any) error) error {
		args := []any{"k", []byte("value"), "PX", &number{60_000}}
		err := send("SET", args...)
		args[0] = "other"
		args[1].([]byte)[0] = '-'
		args[3].(*number).n = 0
		return err
	})
	reply, err := c.DoContext(ctx, "")
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

func TestCommandsOfABatchTravelInOnePacket(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	c := get(t, share(t, w.pool(), 1))
	_, before := w.counted()
	pings := make([][]any, 100)
	for i := range pings {
		pings[i] = []any{"PING"}
	}
	assert.Len(t, batch(t, c, pings...), 100)
	_, after := w.counted()
	assert.LessOrEqual(t, after-before, 2)
}
