package entrants

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
)

// Requests counts the commands that a process sends to the server, on all its connections. It counts what is written to them,
// because the server's own statistics do not separate commands of clients from those that a script calls. It is safe for
// concurrent use.
type Requests struct{ n atomic.Int64 }

// Count returns how many commands were sent.
func (r *Requests) Count() int64 { return r.n.Load() }

// Dial opens a connection that is counted.
func (r *Requests) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: c, requests: r}, nil
}

// A countedConn counts the commands that are written to it. One goroutine at a time may write, as the clients make sure.
type countedConn struct {
	net.Conn
	requests *Requests
	frames   frames
}

// SyscallConn gives access to the system's connection. go-redis uses it to check whether the server has hung up.
func (c *countedConn) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn() //nolint:forcetypeassert // all that we dial are
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if commands := c.frames.feed(b[:n]); commands > 0 {
		c.requests.n.Add(int64(commands))
	}
	return n, err
}

// frames parses the stream of a client. A command is an array of strings: *N, and then N times $LENGTH and that many bytes.
// See https://redis.io/docs/latest/develop/reference/protocol-spec/.
type frames struct {
	kind byte // of the current line; 0 at the start of a line
	num  int  // the number in the current line, so far
	skip int  // bytes of a string that are still to come
}

// feed takes the next piece of the stream, and returns how many commands begin in it.
func (f *frames) feed(b []byte) (commands int) {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		c := b[0]
		b = b[1:]
		switch {
		case f.kind == 0:
			f.kind, f.num = c, 0
		case c >= '0' && c <= '9':
			f.num = 10*f.num + int(c-'0')
		case c == '\n':
			if f.kind == '*' {
				commands++
			} else if f.kind == '$' {
				f.skip = f.num + len("\r\n")
			}
			f.kind = 0
		}
	}
	return commands
}
