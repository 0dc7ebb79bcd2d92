package holds

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/crew"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// role is the name of the worker processes.
const role = "holds"

// A job is what a worker process does.
type job struct {
	Kit  kit
	Keys []string

	// One of these says what to do.
	Resource string // obey orders about the first key, and write to the server at this address
	Keep     bool   // lock all keys, and keep them
	History  *pattern

	Number int // the number under which the process writes
}

// A message goes from a worker to the row, or is an order from the row to a worker.
type message struct {
	What   string
	Looked evidence.Instant `json:",omitempty"` // with sayLost: just before the look that found the hold lost
	Error  string           `json:",omitempty"`
	Event  *event           `json:",omitempty"`
}

// What the messages and orders say.
const (
	sayReady    = "ready"
	sayLock     = "lock"
	sayHeld     = "held"
	sayWork     = "work" // write again and again while the hold is valid
	sayWrite    = "write"
	sayWritten  = "written"
	sayLost     = "lost"
	sayUnlock   = "unlock"
	sayUnlocked = "unlocked"
	sayEvent    = "event"
)

// Main is the main function of the worker processes. A program that uses this package must call it first. It returns only in
// processes that are no workers.
func Main() {
	crew.Main(role, func(p *crew.Post) error { return (&worker{Post: p}).work() })
}

type worker struct {
	*crew.Post
	job     job
	library peers.Library
}

// hear returns the next order, and false when there are no more.
func (w *worker) hear() (what string, ok bool) {
	var m message
	ok = w.Hear(&m)
	return m.What, ok
}

func (w *worker) work() (err error) {
	if !w.Hear(&w.job) {
		return errors.New("there is no job")
	}
	if w.library, err = w.job.Kit.open(); err != nil {
		return err
	}
	w.Say(message{What: sayReady})
	switch {
	case w.job.Keep:
		return w.keep()
	case w.job.Resource != "":
		return w.obey()
	case w.job.History != nil:
		w.history()
	}
	return nil
}

// keep holds all keys until the process is told to end, or is killed.
func (w *worker) keep() error {
	for _, key := range w.job.Keys {
		if _, err := lock(context.Background(), w.library, key); err != nil {
			return err
		}
	}
	w.Say(message{What: sayHeld})
	w.hear()
	return nil
}

// obey does what the row orders.
func (w *worker) obey() error {
	ctx := context.Background()
	resource, err := redis.Dial("tcp", w.job.Resource)
	if err != nil {
		return err
	}
	defer resource.Close()
	var held peers.Slot
	for {
		order, ok := w.hear()
		if !ok {
			return nil
		}
		switch order {
		case sayLock:
			if held, err = lock(ctx, w.library, w.job.Keys[0]); err != nil {
				return err
			}
			w.Say(message{What: sayHeld})
		case sayWork:
			err = w.writeOn(resource, held)
		case sayWrite:
			err = w.write(resource, held, evidence.Now())
			w.Say(message{What: sayWritten})
		case sayUnlock:
			m := message{What: sayUnlocked}
			if err := held.Unlock(ctx); err != nil {
				m.Error = err.Error()
			}
			w.Say(m)
		}
		if err != nil {
			return err
		}
	}
}

// effort is the time between the look at the lease and the write. A careful program has such a gap too, but a shorter one.
const effort = 10 * time.Millisecond

// writeOn writes while the hold is valid. By itself a program can do no more than look at its lease before each write. That
// does not help a process that is paused between the two.
func (w *worker) writeOn(resource redis.Conn, held peers.Slot) error {
	for {
		looked := evidence.Now()
		if !held.Valid() {
			w.Say(message{What: sayLost, Looked: looked})
			return nil
		}
		evidence.Sleep(context.Background(), effort)
		if err := w.write(resource, held, looked); err != nil { // refused or not: the next look at the lease ends it
			return err
		}
	}
}

// write asks the resource for a write.
func (w *worker) write(resource redis.Conn, held peers.Slot, looked evidence.Instant) error {
	_, err := writing.Do(resource, highest, notes, w.job.Number, held.Fence(), int64(looked))
	return err
}
