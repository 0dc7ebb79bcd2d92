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

	heard   uint64    // replies
	overdue time.Time // when a call was given up that has not been answered since; zero: none
	before  uint64    // heard at that time

	used   bool      // since it was last idle
	rested time.Time // when it was found idle; zero: it was not
}

const (
	// patience is how long a connection may stay silent after a reply was overdue. A server that is
	// slow is better off if it need not deal with new connections as well.
	patience = time.Second
	// maxIdle is the time after which a connection that nobody uses is closed, or up to twice that.
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
	late, next := l.expire(now)
	reason := l.judge(now, &next)
	var orphans []*call
	if reason != nil {
		orphans = l.end(reason)
	}
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
	if reason != nil {
		l.bury(orphans)
	}
}

// expire takes out the calls whose deadline has passed, and returns when the next one does: in a
// long time, if there is none.
func (l *link) expire(now time.Time) (late []*call, next time.Time) {
	next = now.Add(maxIdle)
	expired := func(c *call) bool {
		switch {
		case c.over || c.deadline.IsZero():
			return false
		case !c.deadline.After(now):
			return true
		case c.deadline.Before(next):
			next = c.deadline
		}
		return false
	}
	for _, c := range l.flying.all() {
		if expired(c) {
			c.over, c.err = true, errLate
			late = append(late, c)
			if c.undo != nil {
				l.undo(c)
			}
		}
	}
	if len(late) > 0 && l.overdue.IsZero() {
		l.overdue, l.before = now, l.heard
		l.silent.Store(true)
	}
	kept := l.queue[:0]
	for _, c := range l.queue {
		switch {
		case expired(c):
			c.over, c.err = true, errUnsent
			late = append(late, c)
		default: // also what nobody waits for: it was given away to be executed
			kept = append(kept, c)
		}
	}
	clear(l.queue[len(kept):])
	l.queue = kept
	return late, next
}

// judge returns why the link should end, or nil. It moves next to the moment when it has to judge again.
func (l *link) judge(now time.Time, next *time.Time) error {
	if !l.overdue.IsZero() && l.heard != l.before {
		l.overdue = time.Time{}
		l.silent.Store(false)
	}
	if !l.overdue.IsZero() {
		if end := l.overdue.Add(patience); !now.Before(end) {
			return errSilent
		} else if end.Before(*next) {
			*next = end
		}
	}
	if len(l.flying.all()) > 0 || len(l.queue) > 0 {
		l.rested = time.Time{}
		return nil
	}
	if l.used || l.rested.IsZero() {
		l.used, l.rested = false, now
	}
	end := l.rested.Add(maxIdle)
	if !now.Before(end) {
		return errIdle
	}
	if end.Before(*next) {
		*next = end
	}
	return nil
}
