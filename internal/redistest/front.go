package redistest

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Front is a proxy before a real server. It reads what clients send, command by command, and can fall
// silent in a chosen phase of their connections, hold a command back, or answer it in the server's place.
type Front struct {
	t                  testing.TB
	target             string
	listener           *net.TCPListener
	tls                *tls.Config // nil: plain
	trust              *tls.Config // what its clients need
	accepting, running sync.WaitGroup

	mu       sync.Mutex
	phase    Phase
	hook     func(command []string) Fate
	conns    map[*frontConn]bool
	most     int           // open at once
	hung     int           // commands and handshakes that got no answer
	filling  []net.Conn    // what fills the queue of the listener
	resume   chan struct{} // closed when connections are accepted again; nil while they are
	finished bool
}

// A Phase is where a Front falls silent.
type Phase int

const (
	Nowhere     Phase = iota
	AtDial            // the handshake of TCP is never completed
	AtHandshake       // connections are accepted, and that is all
	AtAuth
	AtSelect
	AtCommand  // at every other command
	AtReply    // the server executes the command, and its reply never comes
	OnOldConns // connections that are open now are silent, and new ones work
)

// A Fate is what happens to a command.
type Fate struct {
	Delay time.Duration // before it goes on to the server; other connections may overtake
	Reply string        // sent in the server's place, as it is on the wire, such as "-ERR no\r\n"
}

// NewFront starts a Front of s, until the end of the test.
func NewFront(t testing.TB, s *Server) *Front { return newFront(t, s, nil, nil) }

// NewTLSFront starts a Front of s that speaks TLS to its clients.
func NewTLSFront(t testing.TB, s *Server) *Front {
	server, client := selfSigned(t)
	return newFront(t, s, server, client)
}

func newFront(t testing.TB, s *Server, server, client *tls.Config) *Front {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{t: t, target: s.addr, listener: l.(*net.TCPListener), tls: server, trust: client, conns: make(map[*frontConn]bool)}
	f.accepting.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

// Addr returns host and port that clients dial.
func (f *Front) Addr() string { return f.listener.Addr().String() }

// TLS returns the configuration with which clients trust it.
func (f *Front) TLS() *tls.Config { return f.trust }

// On has hook decide about each command from now on; nil lets all pass. It is called on the goroutine
// of the command's connection, which may wait there.
func (f *Front) On(hook func(command []string) Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Hang falls silent in phase p. Where that is a phase of new connections the open ones are cut, as by a
// server that went away.
func (f *Front) Hang(p Phase) {
	f.t.Helper()
	f.mu.Lock()
	f.phase = p
	for c := range f.conns {
		switch p {
		case AtDial, AtHandshake, AtAuth, AtSelect:
			c.raw.Close()
		case OnOldConns:
			c.old = true
		}
	}
	f.mu.Unlock()
	if p == AtDial {
		f.stopAccepting()
	}
}

// Lift ends the silence. Connections that met it are cut.
func (f *Front) Lift() {
	f.mu.Lock()
	dialling := f.phase == AtDial
	f.phase = Nowhere
	for c := range f.conns {
		if c.silent || c.old {
			c.raw.Close()
		}
	}
	f.mu.Unlock()
	if dialling {
		f.acceptAgain()
	}
}

// Hung returns how many commands and TLS handshakes met the silence.
func (f *Front) Hung() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hung
}

// Most returns how many connections were open at once, at most.
func (f *Front) Most() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// stopAccepting leaves the listener with a full queue, so that the system ignores whoever dials.
func (f *Front) stopAccepting() {
	f.mu.Lock()
	f.resume = make(chan struct{})
	f.mu.Unlock()
	f.listener.SetDeadline(time.Now()) //nolint:errcheck // it is open
	if err := setBacklog(f.listener, 0); err != nil {
		f.t.Fatal(err)
	}
	for range 10 {
		c, err := net.DialTimeout("tcp", f.Addr(), 100*time.Millisecond)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.filling = append(f.filling, c)
		f.mu.Unlock()
	}
	f.t.Error("the queue of the listener is never full, so that dialling does not hang")
}

func (f *Front) acceptAgain() {
	setBacklog(f.listener, 1024)        //nolint:errcheck // it has worked before
	f.listener.SetDeadline(time.Time{}) //nolint:errcheck // it is open
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.filling {
		c.Close()
	}
	f.filling = nil
	close(f.resume)
	f.resume = nil
}

func (f *Front) accept() {
	for {
		client, err := f.listener.Accept()
		f.mu.Lock()
		resume, finished := f.resume, f.finished
		if err != nil {
			f.mu.Unlock()
			switch {
			case finished:
				return
			case resume != nil:
				<-resume
			}
			continue
		}
		c := &frontConn{front: f, raw: client, client: client, gone: make(chan struct{})}
		f.conns[c] = true
		f.most = max(f.most, len(f.conns))
		f.running.Go(c.serve)
		f.mu.Unlock()
	}
}

func (f *Front) close() {
	f.mu.Lock()
	f.finished = true
	for _, c := range f.filling {
		c.Close()
	}
	if f.resume != nil {
		close(f.resume)
		f.resume = nil
	}
	f.mu.Unlock()
	f.listener.Close()
	f.accepting.Wait()
	f.mu.Lock()
	for c := range f.conns {
		c.raw.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}

// hangs reports whether c falls silent at a command of phase p, and remembers it.
func (f *Front) hangs(c *frontConn, p Phase) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase != p && !c.old {
		return false
	}
	f.hung++
	c.silent = true
	return true
}

func (f *Front) decide(command []string) Fate {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook == nil {
		return Fate{}
	}
	return hook(command)
}

func phaseOf(command string) Phase {
	switch strings.ToUpper(command) {
	case "AUTH", "HELLO":
		return AtAuth
	case "SELECT":
		return AtSelect
	}
	return AtCommand
}

// A frontConn is a connection of a client, and the one to the server behind it.
type frontConn struct {
	front  *Front
	raw    net.Conn
	client net.Conn      // raw, or TLS over it
	gone   chan struct{} // closed when the client has gone

	streaming bool // it has subscribed: the server speaks when it wants to

	old, silent bool // front.mu protects them
}

// serve ends when the client has gone, or was cut.
func (c *frontConn) serve() {
	commands := make(chan request, 1024)
	if c.handshake() {
		c.front.running.Go(func() { c.relay(commands) })
		for in := newWire(c.client); ; {
			r, err := in.request()
			if err != nil {
				break
			}
			commands <- r
		}
	}
	c.raw.Close()
	c.front.mu.Lock()
	delete(c.front.conns, c)
	c.front.mu.Unlock()
	close(c.gone)
	close(commands)
}

func (c *frontConn) handshake() bool {
	if c.front.tls == nil {
		return true
	}
	if c.front.hangs(c, AtHandshake) {
		io.Copy(io.Discard, c.raw) //nolint:errcheck // it ends with the connection
		return false
	}
	secure := tls.Server(c.raw, c.front.tls)
	c.client = secure
	return secure.Handshake() == nil
}

// relay has the server execute the commands one by one, and passes its replies on. What was sent before
// the client went is executed too, as it is without a proxy.
func (c *frontConn) relay(commands <-chan request) {
	server, err := net.Dial("tcp", c.front.target)
	if err != nil {
		c.raw.Close()
		for range commands { //nolint:revive // until serve ends
		}
		return
	}
	defer server.Close()
	stop := make(chan struct{})
	c.front.running.Go(func() {
		select {
		case <-c.gone:
			server.SetReadDeadline(time.Now()) //nolint:errcheck // it is open
		case <-stop:
		}
	})
	replies := newWire(server)
	for r := range commands {
		if !c.execute(r, server, replies) {
			c.raw.Close()
		}
	}
	close(stop)
	<-c.gone
	server.(*net.TCPConn).CloseWrite()                  //nolint:errcheck // nor does it matter
	server.SetReadDeadline(time.Now().Add(time.Second)) //nolint:errcheck // it is open
	io.Copy(io.Discard, server)                         //nolint:errcheck // an unread reply would reset the connection
}

// execute reports whether the connection goes on.
func (c *frontConn) execute(r request, server io.Writer, replies *wire) bool {
	if c.front.hangs(c, phaseOf(r.words[0])) {
		<-c.gone
		return false
	}
	fate := c.front.decide(r.words)
	time.Sleep(fate.Delay) // also when the client goes meanwhile: the command is on its way
	if fate.Reply != "" {
		_, err := io.WriteString(c.client, fate.Reply)
		return err == nil
	}
	if _, err := server.Write(r.raw); err != nil {
		return false
	}
	if !c.streaming && strings.HasSuffix(strings.ToUpper(r.words[0]), "SUBSCRIBE") {
		c.streaming = true
		c.front.running.Go(func() { io.Copy(c.client, replies.in) }) //nolint:errcheck // it ends with the connection
	}
	if c.streaming {
		return true
	}
	reply, err := replies.reply()
	if err != nil {
		return false
	}
	if phaseOf(r.words[0]) == AtCommand && c.front.hangs(c, AtReply) {
		<-c.gone
		return false
	}
	_, err = c.client.Write(reply)
	return err == nil
}
