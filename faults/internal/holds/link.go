package holds

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A link is the path between a client and a server. It can be cut, or swallow everything without
// a word, as a network does that drops packets.
type link struct {
	listener net.Listener
	server   string
	over     sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	closed   bool          // no connection passes
	deaf     chan struct{} // closed when nothing is swallowed any more; nil: nothing is
	answered instant       // when the last request was passed on that the server has answered
}

// connect opens a link to a server, until the end of the test.
func connect(t testing.TB, server string) *link {
	t.Helper()
	l := &link{server: server, conns: make(map[net.Conn]bool)}
	var err error
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	l.over.Go(l.accept)
	t.Cleanup(func() {
		l.listener.Close()
		l.hear()
		l.cut()
		l.over.Wait()
	})
	return l
}

func (l *link) addr() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil {
			client.Close()
			continue
		}
		if !l.add(client, server) {
			continue
		}
		var asked atomic.Int64 // when the last request was passed on
		l.over.Go(func() { l.pass(server, client, func() { asked.Store(int64(now())) }) })
		l.over.Go(func() { l.pass(client, server, func() { l.answer(instant(asked.Load())) }) })
	}
}

func (l *link) add(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.closed {
			c.Close()
		} else {
			l.conns[c] = true
		}
	}
	return !l.closed
}

func (l *link) answer(asked instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = max(l.answered, asked)
}

// lastAnswered returns when the last request was passed on that the server has answered, so that it
// can't have been executed before that.
func (l *link) lastAnswered() instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

// pass copies until one end closes, and closes both.
func (l *link) pass(to, from net.Conn, seen func()) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, to)
		delete(l.conns, from)
		to.Close()
		from.Close()
	}()
	buffer := make([]byte, 1<<14)
	for {
		n, err := from.Read(buffer)
		if err != nil && (err == io.EOF || n == 0) {
			return
		}
		l.mu.Lock()
		deaf := l.deaf
		l.mu.Unlock()
		if deaf != nil {
			<-deaf // what comes while nothing passes is delivered late, as TCP does
		}
		seen()
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut breaks all connections, and new ones until mend.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.conns {
		c.Close()
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = false
}

// swallow lets nothing pass until hear, and breaks nothing.
func (l *link) swallow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf == nil {
		l.deaf = make(chan struct{})
	}
}

func (l *link) hear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf != nil {
		close(l.deaf)
		l.deaf = nil
	}
}
