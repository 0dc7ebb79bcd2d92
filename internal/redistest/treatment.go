package redistest

import (
	"net"
	"time"
)

// A Treatment is what a Proxy does to a packet: to a request, or a reply. The zero one lets it pass.
type Treatment struct {
	Delay time.Duration // it arrives later, and so does what follows
	Harm  Harm

	until <-chan struct{} // it arrives when this is closed; nil: at once
}

// A Harm is what becomes of a packet that does not arrive.
type Harm int

const (
	None    Harm = iota
	Reset        // the connection is reset instead
	Halved       // half of it arrives, and the connection is reset
	Silence      // neither it nor anything that follows in its direction arrives
)

// Treat has treat decide what happens to each packet from now on; nil lets everything pass. It is called for one
// packet at a time.
func (p *Proxy) Treat(treat func(reply bool) Treatment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.treat = treat
}

// Treated returns how many packets Treat has not let pass.
func (p *Proxy) Treated() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.treated
}

func (p *Proxy) decide(packet []byte, reply bool) Treatment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !reply {
		for i, c := range p.catches {
			if c.matches(packet) {
				p.catches = append(p.catches[:i:i], p.catches[i+1:]...)
				close(c.arrived)
				return Treatment{until: c.let}
			}
		}
	}
	if p.held != nil {
		return Treatment{until: p.held}
	}
	if p.treat == nil {
		return Treatment{}
	}
	what := p.treat(reply)
	if what != (Treatment{}) {
		p.treated++
	}
	return what
}

// wait returns when a packet is due.
func (p *Proxy) wait(what Treatment) {
	until := what.until
	if what.Delay > 0 {
		timer := time.NewTimer(what.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.relay.Ending():
		}
	}
	if until != nil {
		select {
		case <-until:
		case <-p.t.Context().Done(): // ends just before the Cleanups, of which some may wait for the packet
		case <-p.relay.Ending():
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
