package conn_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A peer is a server at the other end of pipes; its clock may be virtual. It answers OK to every command until the one at
// which it falls silent.
type peer struct {
	silentAt string        // the name of a command, "TLS" for the handshake, "" for never
	late     time.Duration // before each reply
	says     string        // the reply to every command; "": OK
	secure   *tls.Config   // not nil: it speaks TLS

	mu    sync.Mutex
	heard []string // the commands
	ended int      // connections whose other end was closed
}

// dialer returns a Dialer for the peer, with every option that sends a command at the beginning.
func (p *peer) dialer(opts ...redis.DialOption) *conn.Dialer {
	all := []redis.DialOption{
		redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go p.serve(theirs)
			return ours, nil
		}),
		redis.DialPassword("secret"), redis.DialClientName("us"), redis.DialDatabase(3),
		redis.DialUseTLS(p.secure != nil), redis.DialTLSSkipVerify(true), redis.DialTLSHandshakeTimeout(0),
	}
	return conn.NewDialer("tcp", "peer:6379", append(all, opts...)...)
}

func (p *peer) serve(raw net.Conn) {
	c := raw
	if p.silentAt == "TLS" {
		p.swallow(raw)
		return
	}
	if p.secure != nil {
		c = tls.Server(raw, p.secure)
	}
	r := bufio.NewReader(c)
	silent := false
	for {
		_, words, err := redistest.ReadValue(r)
		if err != nil {
			break
		}
		p.mu.Lock()
		p.heard = append(p.heard, strings.Join(words, " "))
		p.mu.Unlock()
		if silent = silent || words[0] == p.silentAt; silent {
			continue
		}
		if p.late > 0 {
			time.Sleep(p.late)
		}
		if _, err := io.WriteString(c, cmp.Or(p.says, "+OK")+"\r\n"); err != nil {
			break
		}
	}
	p.swallow(raw)
}

// swallow reads until the other end is closed.
func (p *peer) swallow(raw net.Conn) {
	io.Copy(io.Discard, raw) //nolint:errcheck // it ends with an error or without
	raw.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
}

func (p *peer) commands() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heard)
}

func (p *peer) closed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// secure returns what a server needs for TLS.
func secure(t testing.TB) *tls.Config {
	server, _ := redistest.SelfSigned(t)
	return server
}

// dial dials, and closes the connection at the end of the test.
func dial(t testing.TB, d *conn.Dialer) *conn.Conn {
	t.Helper()
	c, err := d.DialContext(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*conn.Conn)
}

// An until is a ctx with a deadline and no timer of its own.
type until struct {
	context.Context
	deadline time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }
