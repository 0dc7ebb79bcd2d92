package redistest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

func (p *Proxy) decide(packet []byte, part Part) Treatment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if part == Requests {
		for i, c := range p.catches {
			if c.matches(packet) {
				p.catches = append(p.catches[:i:i], p.catches[i+1:]...)
				close(c.arrived)
				return Treatment{until: c.let}
			}
		}
	}
	if held := p.held[part]; held != nil {
		return Treatment{until: held}
	}
	if p.treat == nil {
		return Treatment{}
	}
	what := p.treat(part != Requests)
	if what != (Treatment{}) {
		p.treated++
	}
	return what
}

// pause waits for d, and until the channel is closed.
func (p *Proxy) pause(d time.Duration, until <-chan struct{}) {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.relay.Ending():
		}
	}
	if until != nil {
		select {
		case <-until:
		case <-p.t.Context().Done(): // ends just before the Cleanups, some of which may wait for the packet
		case <-p.relay.Ending():
		}
	}
}

// A path is one connection through a Proxy.
type path struct {
	proxy      *Proxy
	subscribed atomic.Bool

	mu    sync.Mutex
	asked time.Time // when the last request was passed on
}

// serve passes on what both ends send, until neither has more to send.
func (p *Proxy) serve(r *Relay, client net.Conn) {
	server, err := r.Dial(p.server)
	if err != nil {
		return
	}
	defer r.Drop(server)
	way := &path{proxy: p}
	var replies sync.WaitGroup
	replies.Go(func() {
		way.carry(server, client, true)
		client.Close()
	})
	way.carry(client, server, false)
	_ = server.CloseWrite()
	replies.Wait()
}

// A packet is what one Read returned.
type packet struct {
	bytes []byte
	due   time.Time
}

// carry passes on one direction. If to does not read any more, its packets are dropped, and the other direction goes on.
func (w *path) carry(from, to net.Conn, reply bool) {
	packets := make(chan packet, 1<<12)
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() {
		defer close(packets)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			if !reply && bytes.Contains(bytes.ToUpper(buf[:n]), []byte("\r\nSUBSCRIBE\r\n")) {
				w.subscribed.Store(true)
			}
			select {
			case packets <- packet{buf[:n], time.Now().Add(w.proxy.oneWay)}:
			case <-w.proxy.relay.Ending():
				return
			}
		}
	})
	for silent := false; ; {
		next, ok := <-packets
		if !ok {
			return
		}
		if silent {
			continue
		}
		w.proxy.pause(time.Until(next.due), nil)
		part := Requests
		switch {
		case reply && w.subscribed.Load():
			part = Messages
		case reply:
			part = Replies
		}
		what := w.proxy.decide(next.bytes, part)
		w.proxy.pause(what.Delay, what.until)
		switch what.Harm {
		case None:
			w.passing(part)
			_, _ = to.Write(next.bytes)
			if part == Replies {
				w.proxy.sent.Add(1)
			}
		case Reset:
			reset(from, to)
		case Halved:
			_, _ = to.Write(next.bytes[:len(next.bytes)/2])
			reset(from)
		case Silence:
		}
		silent = what.Harm != None
	}
}

// passing notes that a packet is passed on now.
func (w *path) passing(part Part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if part == Requests {
		w.asked = time.Now()
		return
	}
	w.proxy.mu.Lock()
	defer w.proxy.mu.Unlock()
	if w.asked.After(w.proxy.answered) {
		w.proxy.answered = w.asked
	}
}

// reset closes connections so that the other side gets a reset.
func reset(conns ...net.Conn) {
	for _, c := range conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
}
