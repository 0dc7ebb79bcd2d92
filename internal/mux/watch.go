package mux

import (
	"errors"
	"time"
)

// A watch is the timer of a link. It keeps the deadlines of all calls, so that none of them needs a
// timer of its own: it is set for one of them, and when it fires, for the earliest of those that are
// there then. All of it is protected by link.mu.
type watch struct {
	timer *time.Timer
	armed time.Time // when it fires; zero: not set

	used   bool      // since it was last idle
	rested time.Time // when it was found idle; zero: it was not
}

const (
	// patience is how much later than its caller has waited for a reply may come. A caller may have had less time than
	// a node timeout.
	patience = 25 * time.Millisecond
	// maxIdle is the time after which a connection that no caller uses is closed, or up to twice that.
	// It is less than what some servers and firewalls allow.
	maxIdle = 2 * time.Minute
	// tickGap keeps many different deadlines from each having their own tick.
	tickGap = time.Millisecond
)

var (
	errSilent = errors.New("the server does not answer")
	errIdle   = errors.New("it was idle for long")
)

// arm has the timer fire at t, or before.
func (l *link) arm(t time.Time) {
	if l.err != nil || !l.armed.IsZero() && !t.Before(l.armed) {
		return
	}
	l.armed = t
	wait := max(time.Until(t), 0)
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.tick)
	} else {
		l.timer.Reset(wait)
	}
}

func (l *link) disarm() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// tick tells the callers whose time is over, and ends the link when it is silent or idle for too long.
func (l *link) tick() {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	now := time.Now()
	late, overdue, next := l.expire(now)
	var orphans []*call
	rested := l.rest(now, &next)
	switch {
	case overdue:
		orphans = l.giveUp(errSilent)
	case rested:
		orphans = l.end(errIdle)
	}
	ended := overdue || rested
	l.armed = time.Time{}
	if least := now.Add(tickGap); next.Before(least) {
		next = least
	}
	l.arm(next)
	asleep := l.asleep && len(l.queue) > 0
	l.asleep = l.asleep && !asleep
	l.mu.Unlock()
	if asleep {
		l.rouse()
	}
	for _, c := range late {
		c.done <- struct{}{}
	}
	if ended {
		l.bury(orphans)
	}
}

// expire takes out the calls whose deadline has passed, and reports whether the reply to one of them is overdue. It returns
// when the next one does: in a long time, if there is none.
func (l *link) expire(now time.Time) (late []*call, overdue bool, next time.Time) {
	next = now.Add(maxIdle)
	soonest := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for _, c := range l.flying.all() {
		if end := c.deadline.Add(patience); !now.Before(end) {
			overdue = true
		} else if c.over || !now.Before(c.deadline) {
			soonest(end)
		}
		switch {
		case c.over:
		case now.Before(c.deadline):
			soonest(c.deadline)
		default:
			c.over, c.err = true, errLate
			late = append(late, c)
			if c.undo != nil {
				l.undo(c)
			}
		}
	}
	kept := l.queue[:0]
	for _, c := range l.queue {
		switch {
		case c.over: // it is to be executed although no caller waits for it
		case now.Before(c.deadline):
			soonest(c.deadline)
		default:
			c.over, c.err = true, errUnsent
			late = append(late, c)
			continue
		}
		kept = append(kept, c)
	}
	clear(l.queue[len(kept):])
	l.queue = kept
	return late, overdue, next
}

// rest reports whether the link was idle for too long. It moves next to the moment when that is to be asked again.
func (l *link) rest(now time.Time, next *time.Time) bool {
	if !l.idle() {
		l.rested = time.Time{}
		return false
	}
	if l.used || l.rested.IsZero() {
		l.used, l.rested = false, now
	}
	end := l.rested.Add(maxIdle)
	if end.Before(*next) {
		*next = end
	}
	return !now.Before(end)
}
