package redistest

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A Proxy is the network between a client and a server: it hands packets on, and can catch one by what is
// in it. Every connection is on its own, so what is caught on one is overtaken by what the client sends on
// another. As in a network, what a client has sent arrives also when the client has hung up meanwhile.
type Proxy struct {
	t        testing.TB
	listener net.Listener
	server   string
	over     sync.WaitGroup

	mu      sync.Mutex
	catches []*Caught
	down    bool
	conns   map[net.Conn]bool
	closed  bool
}

// Proxy starts a proxy in front of s. It ends with the test.
func (s *Server) Proxy() *Proxy {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	p := &Proxy{t: s.t, listener: l, server: s.addr, conns: make(map[net.Conn]bool)}
	p.over.Go(p.accept)
	s.t.Cleanup(p.close)
	return p
}

// Addr is where clients find the server behind the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the address as a URL.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Pool returns a plain pool for the server behind the proxy, as [Server.Pool] does.
func (p *Proxy) Pool(opts ...redis.DialOption) *redis.Pool {
	pool := &redis.Pool{MaxIdle: 100, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", p.Addr(), opts...) }}
	p.t.Cleanup(func() { pool.Close() })
	return pool
}

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
	if p.closed {
		c.release()
	}
	p.catches = append(p.catches, c)
	return c
}

// Arrived is closed once the packet is held.
func (c *Caught) Arrived() <-chan struct{} { return c.arrived }

// Release lets the packet go on to the server, or a packet that has not come yet pass.
func (c *Caught) Release() { c.release() }

// Cut breaks all connections and refuses new ones, until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		c.Close()
	}
}

// Mend ends Cut.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		if !p.keep(client, server) {
			continue
		}
		p.over.Go(func() { p.pass(client, server) })
	}
}

// keep notes the two ends of a connection, or closes them if there may be none.
func (p *Proxy) keep(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused := p.closed || p.down
	for _, c := range ends {
		if refused {
			c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !refused
}

// pass hands on what both ends send until both have nothing more to send.
func (p *Proxy) pass(client, server net.Conn) {
	var replies sync.WaitGroup
	replies.Go(func() {
		p.copy(server, client, func([]byte) {})
		client.Close()
	})
	p.copy(client, server, p.hold)
	_ = server.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // what Dial returns
	replies.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{client, server} {
		c.Close()
		delete(p.conns, c)
	}
}

// copy hands on one direction. Who does not read any more gets nothing, and the other's packets go on.
func (p *Proxy) copy(from, to net.Conn, before func(packet []byte)) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		before(buf[:n])
		_, _ = to.Write(buf[:n])
	}
}

// hold waits while a packet that is wanted is held back.
func (p *Proxy) hold(packet []byte) {
	p.mu.Lock()
	var caught *Caught
	for i, c := range p.catches {
		if c.matches(packet) {
			caught = c
			p.catches = append(p.catches[:i:i], p.catches[i+1:]...)
			break
		}
	}
	p.mu.Unlock()
	if caught == nil {
		return
	}
	close(caught.arrived)
	select {
	case <-caught.let:
	case <-p.t.Context().Done(): // ends just before the Cleanup that waits for us
	}
}

func (c *Caught) matches(packet []byte) bool {
	for _, w := range c.words {
		if !bytes.Contains(packet, w) {
			return false
		}
	}
	return true
}

// close ends all connections, and waits for what the proxy runs.
func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.listener.Close()
	p.over.Wait()
}
