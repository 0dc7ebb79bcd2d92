package redistest

import (
	"bytes"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Network stands between clients and a server. Every byte takes the same time each way, and what
// passes can be held back. Order is kept on each connection, and what was sent before a connection was
// closed still arrives, however late.
type Network struct {
	t      testing.TB
	target string
	oneWay time.Duration
	relay  *Relay

	mu     sync.Mutex
	held   map[Part]chan struct{} // closed when the part is let go
	links  []*link
	closed bool

	replies atomic.Int64
}

// A Part is some of what passes a Network.
type Part int

// Hold(Requests, Replies, Messages) holds everything.
const (
	Requests Part = iota // what clients send
	Replies              // what the server sends on connections that have never subscribed
	Messages             // what it sends on those that have
)

// Network returns a network with a delay in front of the server, which needs not be real.
func (s *Server) Network(oneWay time.Duration) *Network {
	s.t.Helper()
	n := &Network{t: s.t, target: s.addr, oneWay: oneWay, held: make(map[Part]chan struct{})}
	n.relay = NewRelay(s.t, "127.0.0.1:0", n.connect)
	s.t.Cleanup(func() {
		n.mu.Lock()
		n.closed = true
		n.mu.Unlock()
		n.Cut()
		n.Release()
	})
	return n
}

// Addr returns host and port of the clients' end.
func (n *Network) Addr() string { return n.relay.Addr() }

// Pool returns a plain pool for the server behind the network, as Server.Pool does.
func (n *Network) Pool(opts ...redis.DialOption) *redis.Pool {
	pool := &redis.Pool{MaxIdle: 100, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", n.Addr(), opts...) }}
	n.t.Cleanup(func() { pool.Close() })
	return pool
}

// Hold keeps the parts back from now on, until they are released.
func (n *Network) Hold(parts ...Part) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, part := range parts {
		if n.held[part] == nil {
			n.held[part] = make(chan struct{})
		}
	}
}

// Release lets the parts pass, or everything if none is named. What was held back goes on its way first.
func (n *Network) Release(parts ...Part) {
	if len(parts) == 0 {
		parts = []Part{Requests, Replies, Messages}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, part := range parts {
		if released := n.held[part]; released != nil {
			close(released)
			delete(n.held, part)
		}
	}
}

// Cut breaks all connections. What is on its way, or held back, is lost.
func (n *Network) Cut() {
	n.mu.Lock()
	links := slices.Clone(n.links)
	n.links = nil
	n.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}

// Replied returns how often something of the Replies has reached a client.
func (n *Network) Replied() int64 { return n.replies.Load() }

// connect makes a link of a client's connection, and keeps it until both ends have hung up.
func (n *Network) connect(r *Relay, client net.Conn) {
	server, err := r.Dial(n.target)
	if err != nil {
		return
	}
	defer r.Drop(server)
	l := &link{network: n, client: client, server: server, broken: make(chan struct{})}
	defer l.cut()
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return
	}
	n.links = append(n.links, l)
	n.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { l.pass(server, client, func() Part { return Requests }) })
	ways.Go(func() { l.pass(client, server, l.reply) })
	ways.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = slices.DeleteFunc(n.links, func(other *link) bool { return other == l })
}

// passes waits until the part is not held back, or the link is broken.
func (n *Network) passes(part Part, broken <-chan struct{}) bool {
	for {
		n.mu.Lock()
		released := n.held[part]
		n.mu.Unlock()
		if released == nil {
			return true
		}
		select {
		case <-released:
		case <-broken:
			return false
		}
	}
}

// A link is one connection through a Network.
type link struct {
	network        *Network
	client, server net.Conn
	subscribed     atomic.Bool
	once           sync.Once
	broken         chan struct{}
}

func (l *link) cut() {
	l.once.Do(func() {
		close(l.broken)
		l.client.Close()
		l.server.Close()
	})
}

// reply tells which part it is that the server sends.
func (l *link) reply() Part {
	if l.subscribed.Load() {
		return Messages
	}
	return Replies
}

// A parcel is what was read at once; empty, the end of what is sent.
type parcel struct {
	bytes []byte
	due   time.Time
}

// pass carries what it reads from one end to the other, after the delay and when its part may pass.
func (l *link) pass(to, from net.Conn, part func() Part) {
	way := make(chan parcel, 1<<12)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(way)
		for {
			buf := make([]byte, 1<<14)
			size, err := from.Read(buf)
			if from == l.client && bytes.Contains(bytes.ToUpper(buf[:size]), []byte("\r\nSUBSCRIBE\r\n")) {
				l.subscribed.Store(true)
			}
			select {
			case way <- parcel{buf[:size], time.Now().Add(l.network.oneWay)}:
			case <-l.broken:
				return
			}
			if err != nil {
				return
			}
		}
	})
	defer reading.Wait()
	for p := range way {
		if !l.deliver(to, p, part) {
			l.cut()
			return
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // if it fails, the other end has gone as well
	}
}

func (l *link) deliver(to io.Writer, p parcel, part func() Part) bool {
	if wait := time.Until(p.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.broken:
			return false
		}
	}
	what := part()
	if !l.network.passes(what, l.broken) {
		return false
	}
	if len(p.bytes) == 0 {
		return true
	}
	if _, err := to.Write(p.bytes); err != nil {
		return false
	}
	if what == Replies {
		l.network.replies.Add(1)
	}
	return true
}
