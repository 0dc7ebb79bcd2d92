package entrants

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
)

// Requests counts the commands that a process sends to the server, on all its connections. It reads
// them off the wire: the server's own statistics do not tell what a client has asked for from
// what a script has called.
type Requests struct{ n atomic.Int64 }

// Count returns how many have been sent.
func (r *Requests) Count() int64 { return r.n.Load() }

// Dial opens a connection that is counted.
func (r *Requests) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: c, requests: r}, nil
}

// A countedConn has one writer at a time, as every user of a connection takes care of.
type countedConn struct {
	net.Conn
	requests *Requests
	frames   frames
}

// SyscallConn makes it look like what it is, a connection of the system: go-redis looks there whether the server has hung
// up, and ours leaves a deadline of it as it is while that will do.
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

// Frames takes the stream of a client apart: commands are arrays of strings, *N and then N times $LENGTH
// and that many bytes. See https://redis.io/docs/latest/develop/reference/protocol-spec/.
type frames struct {
	kind byte // of the line that we are in; 0 at its start
	num  int  // its number so far
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
