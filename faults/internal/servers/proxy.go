package servers

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A proxy stands between a client and a server, and does to what passes what it is told.
type proxy struct {
	listener net.Listener
	server   dialer
	faults   atomic.Int64 // done so far

	mu     sync.Mutex
	treat  func(reply bool) treatment
	conns  map[net.Conn]bool
	closed bool
	over   sync.WaitGroup
}

// A treatment is what happens to one packet: a request, or a reply.
type treatment struct {
	kind  kind
	delay time.Duration // with delayed
	until chan struct{} // with held
}

type kind int

const (
	passed    kind = iota
	delayed        // it arrives later, and so does what follows
	held           // it arrives, and what follows, when until is closed
	cut            // the connection is reset instead
	halved         // half of it arrives, and the connection is reset
	swallowed      // neither it nor anything that follows in its direction arrives
)

// newProxy starts a proxy that lets everything pass. It ends with the test.
func newProxy(t testing.TB, server dialer) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: server, conns: map[net.Conn]bool{}}
	p.tell(nil)
	p.over.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// tell sets what happens to each packet from now on; nil lets everything pass. Several connections
// call it at once.
func (p *proxy) tell(treat func(reply bool) treatment) {
	if treat == nil {
		treat = func(bool) treatment { return treatment{} }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.treat = treat
}

// dial is the way to the server through the proxy.
func (p *proxy) dial(ctx context.Context) (net.Conn, error) {
	return toward(p.listener.Addr().String())(ctx)
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		s, err := p.server(context.Background())
		if err != nil {
			c.Close()
			continue
		}
		if !p.keep(c, s) {
			return
		}
		p.over.Go(func() { p.pass(c, s, false) })
		p.over.Go(func() { p.pass(s, c, true) })
	}
}

// keep notes the two ends of a connection, unless the proxy is closed, which closes them.
func (p *proxy) keep(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range ends {
		if p.closed {
			c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !p.closed
}

func (p *proxy) decide(reply bool) treatment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.treat(reply)
}

// pass copies packets until the connection ends, in either way.
func (p *proxy) pass(from, to net.Conn, reply bool) {
	defer p.drop(from, to)
	buf := make([]byte, 64<<10)
	silent := false
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if silent {
			continue
		}
		what := p.decide(reply)
		if what.kind != passed {
			p.faults.Add(1)
		}
		switch what.kind {
		case passed:
		case delayed:
			timer := time.NewTimer(what.delay)
			<-timer.C
		case held:
			<-what.until
		case cut:
			reset(from, to)
			return
		case halved:
			_, _ = to.Write(buf[:n/2])
			reset(from)
			return
		case swallowed:
			silent = true
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// reset closes connections in a way that the other side hears as a reset.
func reset(conns ...net.Conn) {
	for _, c := range conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
}

func (p *proxy) drop(ends ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range ends {
		c.Close()
		delete(p.conns, c)
	}
}

// close ends all connections, and waits for what the proxy runs.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	if err := p.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		panic(err)
	}
	p.over.Wait()
}
