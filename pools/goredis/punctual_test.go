package goredis_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

// serve answers OK to each command, and from the command silent on nothing.
func serve(c net.Conn, silent string, closed chan<- struct{}) {
	defer close(closed)
	for r := bufio.NewReader(c); ; {
		words, err := command(r)
		if err != nil {
			return
		}
		if words[0] == silent {
			io.Copy(io.Discard, r) //nolint:errcheck // until the other end is closed
			return
		}
		io.WriteString(c, "+OK\r\n") //nolint:errcheck // the next read tells
	}
}

func command(r *bufio.Reader) (words []string, err error) {
	var n, size int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	for range n {
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, nil
}

// The clock is virtual, so the time is exact, and a goroutine that stays makes the test fail.
func TestEveryPhaseEndsWithTheContext(t *testing.T) {
	for _, phase := range []string{"dial", "credentials", "HELLO", "SELECT", "PING"} {
		t.Run(phase, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed := make(chan struct{})
				client := redis.NewClient(&redis.Options{
					Addr: "127.0.0.1:1",
					DB:   3,
					Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
						if phase == "dial" {
							close(closed)
							<-ctx.Done()
							return nil, ctx.Err()
						}
						ours, theirs := net.Pipe()
						go serve(theirs, phase, closed)
						return ours, nil
					},
					CredentialsProviderContext: func(ctx context.Context) (string, string, error) {
						if phase == "credentials" {
							<-ctx.Done()
							return "", "", ctx.Err()
						}
						return "locks", pooltest.Secret, nil
					},
				})
				pool := open(t, client).(*redigo.Pool)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				err := pooltest.Ping(ctx, pool)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, time.Second, time.Since(began).Truncate(20*time.Millisecond))
				<-closed
				assert.Zero(t, pool.ActiveCount())
				client.Close()
			})
		})
	}
}

// Without a context, such as in a cluster, the timeout for dialling bounds each of the two steps.
func TestALoginWithoutAContextEndsByTheTimeoutForDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		client := redis.NewClient(&redis.Options{
			Addr:        "127.0.0.1:1",
			ReadTimeout: -1,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go serve(theirs, "HELLO", closed)
				return ours, nil
			},
		})
		pool := open(t, client).(*redigo.Pool)
		began := time.Now()
		_, err := pooltest.Ask(pool, "PING")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 5*time.Second, time.Since(began))
		<-closed
		client.Close()
	})
}

// The dialer of go-redis does the handshake without its context; ours is in its place.
func TestAHandshakeOfTLSEndsWithTheContext(t *testing.T) {
	front := redistest.NewTLSFront(t, redistest.Real(t))
	front.Hang(redistest.AtHandshake)
	pool := single(t, &redis.Options{Addr: front.Addr(), TLSConfig: front.TLS(), DialTimeout: time.Hour})
	for range 40 { // more than may be left behind
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		err := pooltest.Ping(ctx, pool)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	front.Lift()
	require.NoError(t, pooltest.Ping(t.Context(), pool))
}
