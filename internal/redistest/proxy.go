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

// A Proxy is a network between clients and a server. Every byte takes the same time each way, and what
// passes can be held back. Order is kept on each connection, and what was sent before a connection was
// closed still arrives, however late.
type Proxy struct {
	t      testing.TB
	target string
	oneWay time.Duration
	listen net.Listener
	team   sync.WaitGroup

	mu     sync.Mutex
	held   map[Part]chan struct{} // closed when the part is let go
	links  []*link
	closed bool

	replies atomic.Int64
}

// A Part is some of what passes a Proxy.
type Part int

// Hold(Requests, Replies, Messages) holds everything.
const (
	Requests Part = iota // what clients send
	Replies              // what the server sends on connections that have never subscribed
	Messages             // what it sends on those that have
)

// Proxy returns a network with a delay in front of the server, which needs not be real.
func (s *Server) Proxy(oneWay time.Duration) *Proxy {
	s.t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	p := &Proxy{t: s.t, target: s.addr, oneWay: oneWay, listen: listen, held: make(map[Part]chan struct{})}
	p.team.Go(p.accept)
	s.t.Cleanup(func() {
		listen.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Cut()
		p.Release()
		p.team.Wait()
	})
	return p
}

// Addr returns host and port of the clients' end.
func (p *Proxy) Addr() string { return p.listen.Addr().String() }

// Pool returns a plain pool for the server behind the proxy, as Server.Pool does.
func (p *Proxy) Pool(opts ...redis.DialOption) *redis.Pool {
	pool := &redis.Pool{MaxIdle: 100, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", p.Addr(), opts...) }}
	p.t.Cleanup(func() { pool.Close() })
	return pool
}

// Hold keeps the parts back from now on, until they are released.
func (p *Proxy) Hold(parts ...Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range parts {
		if p.held[part] == nil {
			p.held[part] = make(chan struct{})
		}
	}
}

// Release lets the parts pass, or everything if none is named. What was held back goes on its way first.
func (p *Proxy) Release(parts ...Part) {
	if len(parts) == 0 {
		parts = []Part{Requests, Replies, Messages}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range parts {
		if released := p.held[part]; released != nil {
			close(released)
			delete(p.held, part)
		}
	}
}

// Cut breaks all connections. What is on its way, or held back, is lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	links := slices.Clone(p.links)
	p.links = nil
	p.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}

// Replied returns how often something of the Replies has reached a client.
func (p *Proxy) Replied() int64 { return p.replies.Load() }

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		l := &link{proxy: p, client: client, server: server, broken: make(chan struct{})}
		p.mu.Lock()
		late := p.closed
		p.links = append(p.links, l)
		p.mu.Unlock()
		if late {
			l.cut()
		}
		var ways sync.WaitGroup
		ways.Go(func() { l.pass(server, client, func() Part { return Requests }) })
		ways.Go(func() { l.pass(client, server, l.reply) })
		p.team.Go(func() {
			ways.Wait()
			l.cut()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.links = slices.DeleteFunc(p.links, func(other *link) bool { return other == l })
		})
	}
}

// passes waits until the part is not held back, or the link is broken.
func (p *Proxy) passes(part Part, broken <-chan struct{}) bool {
	for {
		p.mu.Lock()
		released := p.held[part]
		p.mu.Unlock()
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

// A link is one connection through a Proxy.
type link struct {
	proxy          *Proxy
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
			n, err := from.Read(buf)
			if from == l.client && bytes.Contains(bytes.ToUpper(buf[:n]), []byte("\r\nSUBSCRIBE\r\n")) {
				l.subscribed.Store(true)
			}
			select {
			case way <- parcel{buf[:n], time.Now().Add(l.proxy.oneWay)}:
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
	if !l.proxy.passes(what, l.broken) {
		return false
	}
	if len(p.bytes) == 0 {
		return true
	}
	if _, err := to.Write(p.bytes); err != nil {
		return false
	}
	if what == Replies {
		l.proxy.replies.Add(1)
	}
	return true
}
