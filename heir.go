package redimutex

import (
	"time"

	"github.com/redimutex/redimutex/internal/gate"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// An heir is a place in the queue for whoever of this process waits next, which the release of the
// one before has taken in the same command. So a hold costs the process one request, not two.
//
// Invariant: an heir in line.heir belongs to the turn. Whoever takes the turn has to use it or to
// drop it, and if nobody takes it, whoever left it does.
type heir struct {
	mutex *Mutex
	place *place
}

// waiting stands for the answer that an heir would have got, had he asked.
var waiting = &quorum.Failure{Kind: quorum.Contended}

// appoint puts an heir into the release req, if somebody waits who would queue on the same terms.
func (t *tenure) appoint(req *server.Request, now time.Time) *heir {
	m, c := t.mutex, t.mutex.client
	if !m.config.queue || m.config.replicas > 0 || m.config.maxAttempts > 0 || req.Keep > 0 || c.quorum.Size() > 1 {
		return nil
	}
	if next, _ := t.line.Next().(*config); next != m.config || !c.hub().Listening() {
		return nil
	}
	h := &heir{m, &place{name: m.config.token(), looked: now}}
	h.place.waiter = c.hub().Join(h.place.name)
	req.Channel, req.Heir = c.hub().Channel(), &server.Heir{Name: h.place.name}
	return h
}

// settle leaves the heir at the line, if the release that ended with err has put him into the queue.
func (h *heir) settle(t *tenure, req *server.Request, err error) {
	p := h.place
	p.arrived = req.Heir.Arrived.Load()
	switch {
	case p.arrived != 0 && err == nil:
		p.seen = p.arrived - 1 // he may have been given the lock at once
		t.line.heir = h
	case p.arrived == 0 && err == nil:
		p.waiter.Leave() // there was no room for him
	default: // he may be in the queue, or be put there yet
		p.cut = true
		h.drop()
	}
}

// drop takes the heir out of the queue, and gives back what he was given there.
func (h *heir) drop() {
	h.place.waiter.Leave()
	h.place.sweep(h.mutex, h.place.name)
}

// takeHeir makes the attempt the heir, if there is one and it can be.
func (a *attempt) takeHeir() bool {
	h := a.line.heir
	if h == nil {
		return false
	}
	a.line.heir = nil
	if a.single || h.mutex.config != a.mutex.config {
		h.drop()
		return false
	}
	a.place, a.token, a.tries = h.place, h.place.name, 1
	a.line.failure.Store(waiting)
	return true
}

// leave passes the turn on. The caller has it. The time of a kept tenure may have ended during the turn,
// and then nobody else could give it back; so that is looked at after the turn.
func (l *line) leave() {
	orphan, kept := l.heir != nil, l.kept
	if !l.Leave() && (orphan || kept != nil && kept.spent()) {
		l.tidy()
	}
}

// quit ends the waiting of w, who may have the turn already.
func (l *line) quit(w *gate.Waiter) {
	if w.Quit() {
		l.tidy()
	}
}

// tidy gives back what must not be left at the line while nobody has the turn: an heir, and a kept
// tenure whose time is over. If somebody has the turn by now, both are his.
func (l *line) tidy() {
	if !l.TryEnter() {
		return
	}
	if h := l.heir; h != nil {
		l.heir = nil
		h.drop()
	}
	if t := l.kept; t != nil && t.spent() {
		l.kept = nil
		t.drop()
	}
	l.leave()
}
