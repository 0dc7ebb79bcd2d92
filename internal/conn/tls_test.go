package conn_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
)

// A wrapped connection hides the connection below it, as many dial functions do.
type wrapped struct{ net.Conn }

// secured are the ways in which a dial function of the user adds TLS without redigo's knowledge.
var secured = map[string]func(*tls.Conn) net.Conn{
	"TLS":         func(c *tls.Conn) net.Conn { return c },
	"wrapped TLS": func(c *tls.Conn) net.Conn { return wrapped{c} },
}

// dialTLS returns an option with a dial function that dials p, with TLS.
func dialTLS(p *peer, serve func(*peer, net.Conn), hide func(*tls.Conn) net.Conn) redis.DialOption {
	return redis.DialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go serve(p, theirs)
		c := tls.Client(ours, &tls.Config{InsecureSkipVerify: true})
		return hide(c), c.HandshakeContext(ctx)
	})
}

func TestAConnectionWithTLSOfItsOwnEndsWithTheContext(t *testing.T) {
	for name, hide := range secured {
		for kind, ending := range endings {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &peer{secure: secure(t), silentAt: "STOP"}
					c := dial(t, conn.NewDialer("tcp", "peer:6379", dialTLS(p, (*peer).serve, hide)))
					ctx, cancel := ending.after(context.WithValue(t.Context(), conn.Undo, []any{"UNDO"}), time.Second)
					defer cancel()
					began := time.Now()
					_, err := c.DoContext(ctx, "STOP")
					require.ErrorIs(t, err, ending.err)
					c.Close()
					assert.LessOrEqual(t, time.Since(began), time.Second+grace)
					synctest.Wait()
					assert.Equal(t, []string{"STOP", "UNDO"}, p.commands())
					assert.Equal(t, 1, p.closed())
				})
			})
		}
	}
}

// The goodbye of TLS may take 5 s if the peer reads nothing.
func TestCloseWaitsForNobody(t *testing.T) {
	for name, dialer := range map[string]func(*peer, func(*peer, net.Conn)) *conn.Dialer{
		"redigo's": func(p *peer, serve func(*peer, net.Conn)) *conn.Dialer {
			return p.dialer(redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go serve(p, theirs)
				return ours, nil
			}))
		},
		"its own": func(p *peer, serve func(*peer, net.Conn)) *conn.Dialer {
			return conn.NewDialer("tcp", "peer:6379", dialTLS(p, serve, secured["TLS"]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := make(chan struct{})
				c := dial(t, dialer(&peer{secure: secure(t)}, func(p *peer, c net.Conn) { p.serve(&clogged{c, p, stop}) }))
				require.NoError(t, c.Send("STOP"))
				require.NoError(t, c.Flush())
				began := time.Now()
				c.Close()
				assert.LessOrEqual(t, time.Since(began), grace)
				close(stop)
			})
		})
	}
}

// handOver passes a function on, as code in another package may do between the method and the pool.
//
//go:noinline
func handOver[F any](f F) F { return f }

type embedsDialer struct{ *conn.Dialer }

type dialler interface {
	DialContext(context.Context) (redis.Conn, error)
}

func TestAPoolIsPunctualOnlyByTheMethodsOfADialer(t *testing.T) {
	d := conn.NewDialer("tcp", "localhost:1")
	hand := handOver(d.DialContext)
	for name, p := range map[string]*redis.Pool{
		"method":        {DialContext: d.DialContext},
		"other dialer":  {DialContext: conn.NewDialer("unix", "/s").DialContext},
		"with a test":   {DialContext: d.DialContext, TestOnBorrowContext: d.TestIdle},
		"handed over":   {DialContext: hand, TestOnBorrowContext: handOver(d.TestIdle)},
		"limits":        {DialContext: d.DialContext, Wait: true, MaxActive: 1, IdleTimeout: 1, MaxConnLifetime: 1},
		"and Dial":      {DialContext: d.DialContext, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", "localhost:1") }},
		"embedded":      {DialContext: embedsDialer{d}.DialContext}, // the compiler takes the method of the field
		"by expression": {DialContext: func() func(context.Context) (redis.Conn, error) { e := d; return e.DialContext }()},
	} {
		assert.True(t, conn.Of(p).Punctual, name)
	}
	for name, p := range map[string]*redis.Pool{
		"nil":             nil,
		"empty":           {},
		"Dial":            {Dial: func() (redis.Conn, error) { return d.DialContext(t.Context()) }},
		"wrapper":         {DialContext: func(ctx context.Context) (redis.Conn, error) { return d.DialContext(ctx) }},
		"expression":      {DialContext: func(ctx context.Context) (redis.Conn, error) { return (*conn.Dialer).DialContext(d, ctx) }},
		"by an interface": {DialContext: dialler(d).DialContext},
		"redigo":          {DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", "localhost:1") }},
		"TestOnBorrow":    {DialContext: d.DialContext, TestOnBorrow: func(redis.Conn, time.Time) error { return nil }},
		"another test":    {DialContext: d.DialContext, TestOnBorrowContext: func(context.Context, redis.Conn, time.Time) error { return nil }},
		"wrapped test":    {DialContext: d.DialContext, TestOnBorrowContext: func(ctx context.Context, c redis.Conn, used time.Time) error { return d.TestIdle(ctx, c, used) }},
	} {
		assert.False(t, conn.Of(p).Punctual, name)
	}
}
