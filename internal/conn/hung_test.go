package conn_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
)

// grace is how long after its ctx an operation may end, in the worst case.
const grace = 10 * time.Millisecond

// endings are the ways in which a ctx ends after d, with its error.
var endings = map[string]struct {
	after func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	err   error
}{
	"deadline": {context.WithTimeout, context.DeadlineExceeded},
	"deadline that only the clock tells": {func(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		return until{parent, time.Now().Add(d)}, func() {}
	}, context.DeadlineExceeded},
	"cancellation": {func(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(parent)
		timer := time.AfterFunc(d, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	}, context.Canceled},
}

// The clock is virtual, so that the time is exact; and a goroutine that is left makes synctest fail.
func TestEveryPhaseEndsWithTheContext(t *testing.T) {
	for _, phase := range []string{"TLS", "AUTH", "CLIENT", "SELECT", "PING", "PING over TLS", "SELECT over TLS"} {
		for name, ending := range endings {
			t.Run(phase+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &peer{silentAt: phase}
					if word, over := cutTLS(phase); over {
						p.silentAt, p.secure = word, secure(t)
					}
					d := p.dialer()
					pool := &redis.Pool{MaxIdle: 1, DialContext: d.DialContext, TestOnBorrowContext: d.TestIdle}
					defer pool.Close()
					ctx, cancel := ending.after(t.Context(), time.Second)
					defer cancel()
					began := time.Now()
					err := func() error {
						c, err := pool.GetContext(ctx)
						if err != nil {
							return err
						}
						defer c.Close()
						_, err = redis.DoContext(c, ctx, "PING")
						return err
					}()
					require.ErrorIs(t, err, ending.err)
					assert.GreaterOrEqual(t, time.Since(began), time.Second)
					assert.LessOrEqual(t, time.Since(began), time.Second+grace)
					synctest.Wait()
					assert.Equal(t, 1, p.closed(), "the connection is closed")
					assert.Zero(t, pool.ActiveCount())
				})
			})
		}
	}
}

func cutTLS(phase string) (word string, over bool) {
	switch phase {
	case "TLS":
		return "TLS", true
	case "PING over TLS":
		return "PING", true
	case "SELECT over TLS":
		return "SELECT", true
	}
	return phase, false
}

// An unknown version of redigo is used as it is.
func TestNoPoolIsPunctualWithARedigoThatIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{silentAt: "STOP"}
		conn.WithoutKnowing(func() {
			goOn := make(chan struct{})
			d := p.dialer(redis.DialNetDial(func(string, string) (net.Conn, error) {
				<-goOn
				ours, theirs := net.Pipe()
				go p.serve(theirs)
				return ours, nil
			}), redis.DialPassword(""), redis.DialClientName(""), redis.DialDatabase(0))
			assert.False(t, conn.Of(&redis.Pool{DialContext: d.DialContext}).Punctual)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := d.DialContext(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			close(goOn)
			synctest.Wait()
			assert.Equal(t, 1, p.closed())
			c, err := d.DialContext(t.Context())
			require.NoError(t, err)
			_, err = redis.DoContext(c, t.Context(), "PING")
			require.NoError(t, err)
			c.Close()
		})
	})
}

// A peer that has stopped reading delays neither a write nor a Close.
func TestAPeerThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for i := range 4 {
					p := &peer{silentAt: "STOP"}
					if i%2 > 0 {
						p.secure = secure(t)
					}
					stop := make(chan struct{})
					d := p.dialer(redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
						ours, theirs := net.Pipe()
						go p.serve(&clogged{theirs, p, stop})
						return ours, nil
					}))
					c, err := d.DialContext(t.Context())
					require.NoError(t, err)
					ctx, cancel := ending.after(t.Context(), time.Second)
					defer cancel()
					began := time.Now()
					ctx = context.WithValue(ctx, conn.Undo, []any{"UNDO"})
					if i/2 > 0 { // the peer does not even read the command
						require.NoError(t, c.Send("STOP"))
						require.NoError(t, c.Flush())
						_, err = redis.DoContext(c, ctx, "PING")
					} else {
						_, err = redis.DoContext(c, ctx, "STOP")
					}
					require.ErrorIs(t, err, ending.err)
					c.Close()
					assert.LessOrEqual(t, time.Since(began), time.Second+2*grace)
					close(stop)
				}
			})
		})
	}
}

// A clogged connection stops reading at the command STOP.
type clogged struct {
	net.Conn
	peer *peer
	stop chan struct{}
}

func (c *clogged) Read(p []byte) (int, error) {
	if n := c.peer.commands(); len(n) > 0 && n[len(n)-1] == "STOP" {
		<-c.stop
	}
	return c.Conn.Read(p)
}
