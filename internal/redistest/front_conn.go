package redistest

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"time"
)

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
