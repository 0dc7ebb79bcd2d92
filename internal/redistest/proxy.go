package redistest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Proxy is the network between a client and a server: it hands packets on, and can catch one by what is
// in it, hold all of them back, or treat them badly. Every connection is on its own, so what is caught on one
// is overtaken by what the client sends on another. As in a network, what a client has sent arrives also when
// the client has hung up meanwhile.
type Proxy struct {
	t      testing.TB
	relay  *Relay
	server string

	mu       sync.Mutex
	catches  []*Caught
	held     chan struct{} // closed when nothing is held back any more; nil: nothing is
	treat    func(reply bool) Treatment
	treated  int
	answered time.Time
}

// Proxy starts a proxy in front of s. It ends with the test.
func (s *Server) Proxy() *Proxy {
	s.t.Helper()
	return NewProxy(s.t, s.addr)
}

// NewProxy starts a proxy in front of the server at addr. It ends with t, which may be sooner than the server does.
func NewProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, server: addr}
	p.relay = NewRelay(t, "127.0.0.1:0", p.serve)
	return p
}

// Addr is where clients find the server behind the proxy.
func (p *Proxy) Addr() string { return p.relay.Addr() }

// URL returns the address as a URL.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Pool returns a plain pool for the server behind the proxy, as [Server.Pool] does.
func (p *Proxy) Pool(opts ...redis.DialOption) *redis.Pool {
	pool := &redis.Pool{MaxIdle: 100, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", p.Addr(), opts...) }}
	p.t.Cleanup(func() { pool.Close() })
	return pool
}

// Cut breaks all connections and refuses new ones, until Mend.
func (p *Proxy) Cut() { p.relay.Cut() }

// Mend ends Cut.
func (p *Proxy) Mend() { p.relay.Mend() }

// Caught is a packet on its way to the server that the proxy holds back, with all that follows on its
// connection.
type Caught struct {
	words   [][]byte
	arrived chan struct{} // closed when there is such a packet
	let     chan struct{} // closed when it may go on
	release func()
}

// Catch has the proxy hold back the next packet to the server that has all the words in it.
func (p *Proxy) Catch(words ...string) *Caught {
	c := &Caught{arrived: make(chan struct{}), let: make(chan struct{})}
	c.release = sync.OnceFunc(func() { close(c.let) })
	for _, w := range words {
		c.words = append(c.words, []byte(w))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.catches = append(p.catches, c)
	return c
}

// Arrived is closed once the packet is held.
func (c *Caught) Arrived() <-chan struct{} { return c.arrived }

// Release lets the packet go on to the server, or a packet that has not come yet pass.
func (c *Caught) Release() { c.release() }

func (c *Caught) matches(packet []byte) bool {
	for _, w := range c.words {
		if !bytes.Contains(packet, w) {
			return false
		}
	}
	return true
}

// Hold keeps back what passes, both ways, until Release, and reports nothing. Then it arrives late, as by TCP.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Release ends Hold.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// Answered returns when the last request was passed on that the server has answered, so that it can't have
// been executed before that.
func (p *Proxy) Answered() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// serve hands on what both ends send until both have nothing more to send.
func (p *Proxy) serve(r *Relay, client net.Conn) {
	server, err := r.Dial(p.server)
	if err != nil {
		return
	}
	defer r.Drop(server)
	var mu sync.Mutex
	var asked time.Time // when the last request was passed on
	var replies sync.WaitGroup
	replies.Go(func() {
		p.copy(server, client, true, func() {
			mu.Lock()
			at := asked
			mu.Unlock()
			p.mu.Lock()
			defer p.mu.Unlock()
			if at.After(p.answered) {
				p.answered = at
			}
		})
		client.Close()
	})
	p.copy(client, server, false, func() {
		mu.Lock()
		defer mu.Unlock()
		asked = time.Now()
	})
	_ = server.CloseWrite()
	replies.Wait()
}

// copy hands on one direction, and calls passed before each packet that it does. A side that does not read any more gets
// nothing, and the other's packets go on.
func (p *Proxy) copy(from, to net.Conn, reply bool, passed func()) {
	buf := make([]byte, 64<<10)
	for silent := false; ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if silent {
			continue
		}
		what := p.decide(buf[:n], reply)
		p.wait(what)
		switch what.Harm {
		case None:
			passed()
			_, _ = to.Write(buf[:n])
		case Reset:
			reset(from, to)
			return
		case Halved:
			_, _ = to.Write(buf[:n/2])
			reset(from)
			return
		case Silence:
			silent = true
		}
	}
}
