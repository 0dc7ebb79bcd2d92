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

// batch sends commands as one.
func batch(t *testing.T, c redis.Conn, commands ...[]any) []any {
	t.Helper()
	ctx := context.WithValue(until(time.Minute), punctual.Batch, func(send func(string, ...any) error) error {
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

// A caller lays out the arguments of the next command where those of the last one were.
func TestArgumentsAreWrittenAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := get(t, share(t, s.Pool(), 1))
	ctx := context.WithValue(until(time.Minute), punctual.Batch, func(send func(string, ...any) error) error {
		args := []any{"k", "value", "PX", int64(60_000)}
		err := send("SET", args...)
		args[0], args[1], args[3] = "other", "other", 0
		return err
	})
	reply, err := c.DoContext(ctx, "")
	require.NoError(t, err)
	assert.Equal(t, []any{"OK"}, reply)
	assert.Equal(t, "value", s.Get("k"))
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
