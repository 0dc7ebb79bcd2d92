package redistest

import (
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// A Relay is the common part of everything that stands between a client and a server. It listens, serves each connection, and
// ends with the test.
type Relay struct {
	listener net.Listener
	running  sync.WaitGroup
	ending   chan struct{}

	mu      sync.Mutex
	conns   map[net.Conn]bool
	down    bool
	ended   bool
	filling []net.Conn    // connections that fill the queue of the listener
	resume  chan struct{} // closed when connections are accepted again; nil while they are accepted
}

// NewRelay listens on addr, or on its own port if addr is "". It runs serve for every connection, each on its own goroutine.
// When serve returns, the connection is closed.
func NewRelay(t testing.TB, addr string, serve func(r *Relay, client net.Conn)) *Relay {
	t.Helper()
	l, err := listen(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: l, ending: make(chan struct{}), conns: make(map[net.Conn]bool)}
	r.running.Go(func() {
		for {
			client, err := l.Accept()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				r.awaitResume()
				continue
			}
			if err != nil {
				return
			}
			if r.keep(client) {
				r.running.Go(func() {
					defer r.Drop(client)
					serve(r, client)
				})
			}
		}
	})
	t.Cleanup(r.close)
	return r
}

func listen(t testing.TB, addr string) (l net.Listener, err error) {
	if addr != "" {
		return net.Listen("tcp", addr)
	}
	for range 10 { // a program that is no test may take the port after claimAddr looked
		addr, c := claimAddr(t)
		if l, err = net.Listen("tcp", addr); err == nil {
			t.Cleanup(c.release)
			return l, nil
		}
		c.release()
	}
	return nil, err
}

// Addr returns host and port of the clients' end.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Ending is closed when the relay ends, so that nothing in it goes on waiting.
func (r *Relay) Ending() <-chan struct{} { return r.ending }

// Go runs f on a goroutine. The relay does not end before f has returned.
func (r *Relay) Go(f func()) { r.running.Go(f) }

// Dial opens a connection to a server. The caller has to Drop it.
func (r *Relay) Dial(addr string) (*net.TCPConn, error) {
	c, err := net.DialTimeout("tcp", addr, askTimeout)
	if err != nil {
		return nil, err
	}
	if !r.keep(c) {
		return nil, net.ErrClosed
	}
	return c.(*net.TCPConn), nil //nolint:forcetypeassert // what a dial of tcp returns
}

// Drop closes a connection.
func (r *Relay) Drop(c net.Conn) {
	c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// keep registers a connection, or closes it if none are allowed now.
func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.down {
		c.Close()
		return false
	}
	r.conns[c] = true
	return true
}

// Cut breaks all connections and refuses new ones, until Heal.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
	for c := range r.conns {
		c.Close()
	}
}

// Heal ends Cut.
func (r *Relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

// stopAccepting leaves the listener with a full queue, so that the system ignores every new dial.
func (r *Relay) stopAccepting() error {
	l := r.listener.(*net.TCPListener) //nolint:forcetypeassert // what a listener of tcp is
	r.mu.Lock()
	r.resume = make(chan struct{})
	r.mu.Unlock()
	l.SetDeadline(time.Now()) //nolint:errcheck // it is open
	if err := setBacklog(l, 0); err != nil {
		return err
	}
	for range 10 {
		c, err := net.DialTimeout("tcp", r.Addr(), 100*time.Millisecond)
		if err != nil {
			return nil //nolint:nilerr // the queue is full
		}
		r.mu.Lock()
		r.filling = append(r.filling, c)
		r.mu.Unlock()
	}
	return errors.New("the queue of the listener is never full, so that dialling does not hang")
}

// acceptAgain ends stopAccepting.
func (r *Relay) acceptAgain() {
	l := r.listener.(*net.TCPListener) //nolint:forcetypeassert // what a listener of tcp is
	setBacklog(l, 1024)                //nolint:errcheck // it has worked before
	l.SetDeadline(time.Time{})         //nolint:errcheck // it is open
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.filling {
		c.Close()
	}
	close(r.resume)
	r.filling, r.resume = nil, nil
}

func (r *Relay) awaitResume() {
	r.mu.Lock()
	resume := r.resume
	r.mu.Unlock()
	if resume != nil {
		select {
		case <-resume:
		case <-r.ending:
		}
	}
}

// close ends all connections, and waits for the goroutines of the relay.
func (r *Relay) close() {
	r.mu.Lock()
	r.ended, r.resume = true, nil
	for c := range r.conns {
		c.Close()
	}
	for _, c := range r.filling {
		c.Close()
	}
	r.mu.Unlock()
	close(r.ending)
	r.listener.Close()
	r.running.Wait()
}
