package redistest

import (
	"crypto/tls"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Front is a proxy in front of a real server. It reads what clients send, command by command. It can fall silent in a chosen
// phase of their connections, hold a command back, or answer it in place of the server.
type Front struct {
	t      testing.TB
	target string
	relay  *Relay
	tls    *tls.Config // nil: plain
	trust  *tls.Config // what its clients need

	mu    sync.Mutex
	phase Phase
	hook  func(command []string) Fate
	conns map[*frontConn]bool
	most  int // open at once
	hung  int // commands and handshakes that got no answer
}

// A Phase is where a Front falls silent.
type Phase int

const (
	Nowhere     Phase = iota
	AtDial            // the TCP handshake is never completed
	AtHandshake       // connections are accepted, and nothing more happens
	AtAuth
	AtSelect
	AtCommand  // at every other command
	AtReply    // the server executes the command, but its reply never comes
	OnOldConns // connections that are open now fall silent, and new ones work
	AtAccept   // connections are accepted, and no command is ever answered, in whatever phase
	Everywhere // open connections fall silent, and dialling hangs: a path that swallows everything
)

func (p Phase) dialling() bool { return p == AtDial || p == Everywhere }

// phaseOf returns the phase of a command.
func phaseOf(command []string) Phase {
	switch strings.ToUpper(command[0]) {
	case "AUTH", "HELLO":
		return AtAuth
	case "SELECT":
		return AtSelect
	}
	return AtCommand
}

// A Fate is what happens to a command.
type Fate struct {
	Delay time.Duration // before it goes on to the server; other connections may overtake it
	Reply string        // sent in place of the server, in wire format, such as "-ERR no\r\n"
}

// Bulk returns a string as a server sends it, for a Fate.
func Bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

// NewFront starts a Front of s. It ends with the test.
func NewFront(t testing.TB, s *Server) *Front { return newFront(t, s, nil, nil) }

// NewTLSFront starts a Front of s that speaks TLS to its clients.
func NewTLSFront(t testing.TB, s *Server) *Front {
	server, client := SelfSigned(t)
	return newFront(t, s, server, client)
}

func newFront(t testing.TB, s *Server, server, client *tls.Config) *Front {
	f := &Front{t: t, target: s.addr, tls: server, trust: client, conns: make(map[*frontConn]bool)}
	f.relay = NewRelay(t, "127.0.0.1:0", f.serve)
	return f
}

// Addr returns host and port that clients dial.
func (f *Front) Addr() string { return f.relay.Addr() }

// Pool returns a plain pool for the server behind the Front, as [Server.Pool] does.
func (f *Front) Pool(opts ...redis.DialOption) *redis.Pool { return poolOf(f.t, f.Addr(), opts) }

// TLS returns the configuration with which clients trust the Front.
func (f *Front) TLS() *tls.Config { return f.trust }

// On makes hook decide about each command from now on; nil lets all pass. hook is called on the goroutine of the command's
// connection, which may wait in it.
func (f *Front) On(hook func(command []string) Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Hang makes the Front fall silent in phase p. If p is a phase of new connections, the open ones are cut, as if the server had
// gone away.
func (f *Front) Hang(p Phase) {
	f.t.Helper()
	f.mu.Lock()
	f.phase = p
	for c := range f.conns {
		switch p {
		case AtDial, AtHandshake, AtAuth, AtSelect, AtAccept:
			c.raw.Close()
		case OnOldConns, Everywhere:
			c.old = true
		}
	}
	f.mu.Unlock()
	if p.dialling() {
		if err := f.relay.stopAccepting(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// Lift ends the silence. Connections that met it are cut.
func (f *Front) Lift() {
	f.mu.Lock()
	dialling := f.phase.dialling()
	f.phase = Nowhere
	for c := range f.conns {
		if c.silent || c.old {
			c.raw.Close()
		}
	}
	f.mu.Unlock()
	if dialling {
		f.relay.acceptAgain()
	}
}

// Hung returns how many commands and TLS handshakes met the silence.
func (f *Front) Hung() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hung
}

// Most returns the largest number of connections that were open at the same time.
func (f *Front) Most() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// hangs reports whether c falls silent at phase p, and remembers it.
func (f *Front) hangs(c *frontConn, p Phase) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase != p && f.phase != AtAccept && !c.old {
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
