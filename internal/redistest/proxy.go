package redistest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Proxy is the network between a client and a server. It passes packets on after a delay. It can catch a packet by its
// content, hold parts of the traffic back, or damage packets. Each connection keeps its order, so a caught packet is overtaken
// only by what the client sends on other connections. As in a real network, what a client has sent arrives even if the client
// has hung up since.
type Proxy struct {
	t      testing.TB
	relay  *Relay
	server string
	oneWay time.Duration
	sent   atomic.Int64 // packets of the Replies that were passed on

	mu       sync.Mutex
	catches  []*Caught
	held     map[Part]chan struct{} // closed when the part is released
	treat    func(reply bool) Treatment
	treated  int
	answered time.Time
}

// A Part is one kind of traffic.
type Part int

const (
	Requests Part = iota // what clients send
	Replies              // what the server sends on connections that never subscribed
	Messages             // what the server sends on connections that did subscribe
)

// A Treatment is what a Proxy does to a packet, a request or a reply. The zero Treatment lets it pass.
type Treatment struct {
	Delay time.Duration // it arrives later, and so does what follows it
	Harm  Harm

	until <-chan struct{} // it arrives when this is closed; nil: at once
}

// A Harm is what happens to a packet that does not arrive.
type Harm int

const (
	None    Harm = iota
	Reset        // the connection is reset instead
	Halved       // half of it arrives, then the connection is reset
	Silence      // neither it nor anything after it in its direction arrives
)

// Proxy starts a proxy in front of s. It ends with the test.
func (s *Server) Proxy() *Proxy {
	s.t.Helper()
	return NewProxy(s.t, s.addr)
}

// Far starts a proxy in front of s through which every packet takes oneWay in each direction. It ends with the test.
func (s *Server) Far(oneWay time.Duration) *Proxy {
	s.t.Helper()
	return newProxy(s.t, s.addr, oneWay)
}

// NewProxy starts a proxy in front of the server at addr. It ends with t, perhaps before the server does.
func NewProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	return newProxy(t, addr, 0)
}

func newProxy(t testing.TB, addr string, oneWay time.Duration) *Proxy {
	t.Helper()
	p := &Proxy{t: t, server: addr, oneWay: oneWay, held: make(map[Part]chan struct{})}
	made := make(chan struct{})
	p.relay = NewRelay(t, "127.0.0.1:0", func(r *Relay, client net.Conn) {
		<-made // a client that takes the port for its own may connect already
		p.serve(r, client)
	})
	close(made)
	return p
}

// Addr returns the address at which clients find the server behind the proxy.
func (p *Proxy) Addr() string { return p.relay.Addr() }

// URL returns the address as a URL.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Pool returns a plain pool for the server behind the proxy, as [Server.Pool] does.
func (p *Proxy) Pool(opts ...redis.DialOption) *redis.Pool { return poolOf(p.t, p.Addr(), opts) }

// Cut breaks all connections and refuses new ones, until Heal.
func (p *Proxy) Cut() { p.relay.Cut() }

// Heal ends Cut.
func (p *Proxy) Heal() { p.relay.Heal() }

// Break breaks all connections. Packets on their way or held back are lost. Clients can connect again at once.
func (p *Proxy) Break() {
	p.Cut()
	p.Heal()
}

// Caught is a packet on its way to the server that the proxy holds back, with everything that follows on its connection.
type Caught struct {
	words   []string
	arrived chan struct{} // closed when there is such a packet
	let     chan struct{} // closed when it may go on
	release func()
}

// Catch makes the proxy hold back the next packet to the server that contains all the words.
func (p *Proxy) Catch(words ...string) *Caught {
	c := &Caught{words: words, arrived: make(chan struct{}), let: make(chan struct{})}
	c.release = sync.OnceFunc(func() { close(c.let) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.catches = append(p.catches, c)
	return c
}

// Arrived is closed once the packet is held.
func (c *Caught) Arrived() <-chan struct{} { return c.arrived }

// Release lets the packet go on to the server. If it has not come yet, it will pass.
func (c *Caught) Release() { c.release() }

func (c *Caught) matches(packet []byte) bool {
	for _, w := range c.words {
		if !bytes.Contains(packet, []byte(w)) {
			return false
		}
	}
	return true
}

// Hold keeps these parts back until Release, or all parts if none is named. Then they arrive late, as over TCP.
func (p *Proxy) Hold(parts ...Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range orAll(parts) {
		if p.held[part] == nil {
			p.held[part] = make(chan struct{})
		}
	}
}

// Release ends Hold for these parts, or for all.
func (p *Proxy) Release(parts ...Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range orAll(parts) {
		if held := p.held[part]; held != nil {
			close(held)
			delete(p.held, part)
		}
	}
}

func orAll(parts []Part) []Part {
	if len(parts) == 0 {
		return []Part{Requests, Replies, Messages}
	}
	return parts
}

// Treat makes treat decide what happens to each packet from now on; nil lets everything pass. It is called for one packet at a
// time.
func (p *Proxy) Treat(treat func(reply bool) Treatment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.treat = treat
}

// Treated returns how many packets Treat did not let pass.
func (p *Proxy) Treated() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.treated
}

// Answered returns when the last request that the server has answered was passed on. The server can't have executed it before
// that.
func (p *Proxy) Answered() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// Replied returns how often a packet of the Replies was passed on to a client.
func (p *Proxy) Replied() int64 { return p.sent.Load() }
