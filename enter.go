package redimutex

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/gate"
)

// enter waits for our turn among the goroutines of this process.
func (m *Mutex) enter(ctx context.Context) (attempt, error) {
	if ctx.Err() != nil {
		return attempt{mutex: m}, ended(ctx, m.key, nil)
	}
	c := m.client
	line, err := m.join()
	if err != nil {
		return attempt{mutex: m}, err
	}
	a := attempt{mutex: m, line: line, began: epoch.Add(time.Since(epoch))} // half of what time.Now takes
	if line.TryEnter() {
		a.fresh = line.pause.IsZero()
		return a, nil
	}
	w := line.Join(m.config)
	c.counters.waiting.Add(1)
	called := false
	defer func() {
		c.counters.waiting.Add(-1)
		if !called { // also when a function of the caller's has panicked
			line.quit(w)
			c.part(m.key, line)
		}
	}()
	if m.traced() {
		m.tell(stepWaiting, Event{Context: ctx})
	}
	err = a.queue(ctx, w)
	called = err == nil
	return a, err
}

// queue waits until it is w's turn. With WithMaxAttempts, each wait between two tries that passes
// here counts as a try that found the lock held.
func (a *attempt) queue(ctx context.Context, w *gate.Waiter) error {
	m := a.mutex
	var passed <-chan time.Time
	var timer *time.Timer
	switch {
	case m.config.maxAttempts > 0:
		timer = time.NewTimer(m.pause(1))
		defer timer.Stop()
		passed = timer.C
	case ctx.Done() == nil: // a select among more channels takes twice as long
		<-w.Turn()
		return a.called(ctx, w)
	}
	for {
		select {
		case <-w.Turn():
			return a.called(ctx, w)
		case <-ctx.Done():
			return ended(ctx, m.key, m.standing(a.line))
		case <-passed:
			if a.tries++; a.tries >= m.config.maxAttempts {
				return m.standing(a.line)
			}
			timer.Reset(m.pause(a.tries + 1))
		}
	}
}

// called returns whether w, who was called, has the turn and still wants it.
func (a *attempt) called(ctx context.Context, w *gate.Waiter) error {
	switch {
	case w.Shut():
		return closedError(a.mutex.key)
	case ctx.Err() != nil: // cancellation wins ties
		return ended(ctx, a.mutex.key, a.mutex.standing(a.line))
	}
	return nil
}

// tryEnter takes our turn among the goroutines of this process, if nobody has it.
func (m *Mutex) tryEnter(ctx context.Context) (attempt, error) {
	a := attempt{mutex: m, single: true}
	if ctx.Err() != nil {
		return a, ended(ctx, m.key, nil)
	}
	line, err := m.join()
	if err != nil {
		return a, err
	}
	a.line, a.began = line, time.Now()
	if !line.TryEnter() {
		defer m.client.part(m.key, line)
		return a, m.standing(line)
	}
	return a, nil
}
