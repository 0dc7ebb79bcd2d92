package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A frontConn is a connection of a client, together with the connection to the server behind it.
type frontConn struct {
	front  *Front
	raw    net.Conn
	client net.Conn      // raw, or TLS over it
	gone   chan struct{} // closed when the client has gone

	streaming bool // the client has subscribed: the server sends unasked

	old, silent bool // front.mu protects them
}

// A command is what a client has sent: raw, and split into words.
type command struct {
	raw   []byte
	words []string
}

// serve ends when the client has gone or was cut, and the server has executed everything that the client sent.
func (f *Front) serve(r *Relay, raw net.Conn) {
	c := &frontConn{front: f, raw: raw, client: raw, gone: make(chan struct{})}
	f.mu.Lock()
	f.conns[c] = true
	f.most = max(f.most, len(f.conns))
	f.mu.Unlock()
	commands := make(chan command, 1024)
	var executing sync.WaitGroup
	defer executing.Wait()
	if c.handshake() {
		executing.Go(func() { c.execute(r, commands) })
		for in := bufio.NewReader(c.client); ; {
			raw, words, err := ReadValue(in)
			if err != nil || len(words) == 0 {
				break
			}
			commands <- command{raw, words}
		}
	}
	raw.Close()
	f.mu.Lock()
	delete(f.conns, c)
	f.mu.Unlock()
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

// execute makes the server execute the commands one by one, and passes its replies on. Commands that were sent before the
// client went away are executed too, as they would be without a proxy.
func (c *frontConn) execute(r *Relay, commands <-chan command) {
	server, err := net.Dial("tcp", c.front.target) // the relay does not cut it
	if err != nil {
		c.raw.Close()
		for range commands { //nolint:revive // until serve ends
		}
		return
	}
	defer server.Close()
	executed := make(chan struct{})
	r.Go(func() {
		select {
		case <-c.gone:
			server.SetReadDeadline(time.Now()) //nolint:errcheck // it is open
		case <-executed:
		}
	})
	replies := bufio.NewReader(server)
	for next := range commands {
		if !c.pass(r, next, server, replies) {
			c.raw.Close()
		}
	}
	close(executed)
	<-c.gone
	server.(*net.TCPConn).CloseWrite()                  //nolint:errcheck // nor does it matter
	server.SetReadDeadline(time.Now().Add(time.Second)) //nolint:errcheck // it is open
	io.Copy(io.Discard, server)                         //nolint:errcheck // an unread reply would reset the connection
}

// pass handles one command. It reports whether the connection goes on.
func (c *frontConn) pass(r *Relay, next command, server io.Writer, replies *bufio.Reader) bool {
	phase := phaseOf(next.words)
	if c.front.hangs(c, phase) {
		<-c.gone
		return false
	}
	fate := c.front.decide(next.words)
	time.Sleep(fate.Delay) // even if the client goes away meanwhile: the command is on its way
	if fate.Reply != "" {
		_, err := io.WriteString(c.client, fate.Reply)
		return err == nil
	}
	if _, err := server.Write(next.raw); err != nil {
		return false
	}
	if !c.streaming && strings.HasSuffix(strings.ToUpper(next.words[0]), "SUBSCRIBE") {
		c.streaming = true
		r.Go(func() { io.Copy(c.client, replies) }) //nolint:errcheck // it ends with the connection
	}
	if c.streaming {
		return true
	}
	reply, _, err := ReadValue(replies)
	if err != nil {
		return false
	}
	if phase == AtCommand && c.front.hangs(c, AtReply) {
		<-c.gone
		return false
	}
	_, err = c.client.Write(reply)
	return err == nil
}

// ReadValue reads the next request or reply in wire format, and the strings in it:
// https://redis.io/docs/latest/develop/reference/protocol-spec/.
func ReadValue(in *bufio.Reader) (raw []byte, words []string, err error) {
	for open := 1; open > 0; open-- {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, nil, err
		}
		raw = append(raw, line...)
		size, err := strconv.Atoi(strings.TrimSpace(line[1:]))
		switch {
		case line[0] == '*' && err == nil:
			open += max(size, 0)
		case line[0] == '$' && err == nil && size >= 0:
			word := make([]byte, size+2)
			if _, err := io.ReadFull(in, word); err != nil {
				return nil, nil, err
			}
			raw, words = append(raw, word...), append(words, string(word[:size]))
		case strings.TrimSpace(line) == "" || strings.ContainsRune("*$", rune(line[0])) && err != nil:
			return nil, nil, errors.New("not the protocol of Redis")
		}
	}
	return raw, words, nil
}
