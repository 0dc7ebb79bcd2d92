package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// workerFlag makes a process a worker. It is told everything else by orders on its standard
// input: URLs may contain passwords, which a command line would show to everybody.
const workerFlag = "worker"

// A demoJob is what a worker has to know once.
type demoJob struct {
	Worker int
	URLs   servers.URLs
	Key    string
	File   string
}

// An order is what the demo tells a worker; each worker gets a job first.
type order struct {
	Job    *demoJob `json:",omitempty"`
	Start  *start   `json:",omitempty"`
	Linger bool     `json:",omitempty"` // the next holder stops halfway, until it is killed
	Stop   bool     `json:",omitempty"` // end the round
}

// A start begins a round.
type start struct {
	Lock    bool
	Updates int // of each goroutine
}

// An event is what a worker tells the demo. Times are of the machine's clock, which all processes
// share, in ns.
type event struct {
	Kind      string
	Goroutine int    `json:",omitempty"`
	At        int64  `json:",omitempty"`
	Text      string `json:",omitempty"`
}

const (
	eventReady   = "ready"
	eventEnter   = "enter"   // in the critical section
	eventLinger  = "linger"  // the same, and stays until it is killed
	eventDone    = "done"    // the update was written: from now on it is acknowledged
	eventGivenUp = "givenup" // out of the critical section without having written
	eventOver    = "over"    // this worker's round is over
	eventError   = "error"   // an update was not even begun
)

// What a goroutine does with its time.
const (
	lockLimit = demoTTL * 3 / 2       // for getting the lock; a killed holder takes less
	thinkMin  = 20 * time.Millisecond // between reading and writing
	thinkMax  = 30 * time.Millisecond
	restMax   = 500 * time.Millisecond // between two updates
)

// A demoHand is the worker process: its goroutines, and the counter that they raise.
type demoHand struct {
	mutex   *redimutex.Mutex
	counter *counter

	mu     sync.Mutex // of all below
	out    *json.Encoder
	linger bool
	end    context.CancelFunc // of the round
	round  sync.WaitGroup
}

// demoWorker is the main function of a worker. It returns when its standard input ends, which the
// demo does by closing it, or by dying.
func demoWorker(in io.Reader, out io.Writer) int {
	signal.Ignore(syscall.SIGINT) // a Ctrl-C reaches all processes, and the demo decides
	h := &demoHand{out: json.NewEncoder(out), end: func() {}}
	defer func() {
		h.stop()
		h.round.Wait()
	}()
	for orders := json.NewDecoder(in); ; {
		var o order
		if err := orders.Decode(&o); err != nil {
			return cli.OK
		}
		if err := h.obey(&o); err != nil {
			h.tell(event{Kind: eventError, Text: err.Error()})
			return cli.Failure
		}
	}
}

func (h *demoHand) obey(o *order) error {
	switch {
	case o.Job != nil:
		return h.take(o.Job)
	case o.Start != nil:
		h.start(o.Start)
	case o.Linger:
		h.mu.Lock()
		h.linger = true
		h.mu.Unlock()
	case o.Stop:
		h.stop()
	}
	return nil
}

// take sets the worker up for its job.
func (h *demoHand) take(j *demoJob) error {
	nodes, err := servers.Find(j.URLs, demoTTL/4)
	if err != nil {
		return err
	}
	c, err := openCounter(j.File)
	if err != nil {
		return err
	}
	h.counter = c
	h.mutex = demoClient(nodes, fmt.Sprintf("demo worker %d, process %d", j.Worker, os.Getpid())).Mutex(j.Key)
	h.tell(event{Kind: eventReady})
	return nil
}

func (h *demoHand) start(s *start) {
	ctx, cancel := context.WithCancel(context.Background())
	h.mu.Lock()
	h.linger, h.end = false, cancel
	h.mu.Unlock()
	var team sync.WaitGroup
	for g := range demoGoroutines {
		team.Go(func() {
			for range s.Updates {
				rest(ctx, rand.N(restMax))
				if err := h.update(ctx, s.Lock, g); err != nil && ctx.Err() == nil {
					h.tell(event{Kind: eventError, Text: err.Error()})
				}
			}
		})
	}
	h.round.Go(func() {
		team.Wait()
		cancel()
		h.tell(event{Kind: eventOver})
	})
}

func (h *demoHand) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end()
}

// update raises the counter by one, under the lock or without.
func (h *demoHand) update(ctx context.Context, lock bool, goroutine int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !lock {
		return h.raise(ctx, goroutine, func() (time.Time, bool) { return time.Now(), true })
	}
	if err := h.mutex.LockContext(ctx, lockLimit); err != nil {
		return err
	}
	// A lock that can't be given back expires.
	defer h.mutex.UnlockContext(ctx) //nolint:errcheck // see above
	held := h.mutex.Lease()
	// A process that was paused for longer than its lease finds out before it writes, and does not.
	return h.raise(held.Context(ctx), goroutine, func() (time.Time, bool) { return held.Until(), held.Err() == nil })
}

// raise is the critical section: it reads, thinks, and writes if it still may.
func (h *demoHand) raise(ctx context.Context, goroutine int, may func() (until time.Time, ok bool)) error {
	kind := eventEnter
	lingers := h.lingers()
	if lingers {
		kind = eventLinger
	}
	h.tell(event{Kind: kind, Goroutine: goroutine, At: time.Now().UnixNano()})
	n, err := h.counter.read()
	if err != nil {
		return err
	}
	if lingers {
		<-ctx.Done()
	} else {
		rest(context.WithoutCancel(ctx), thinkMin+rand.N(thinkMax-thinkMin))
	}
	e := event{Kind: eventGivenUp, Goroutine: goroutine}
	until, ok := may()
	if ok && !lingers {
		if err := h.counter.write(n + 1); err != nil {
			return err
		}
		e.Kind, until = eventDone, time.Now()
	}
	e.At = min(until.UnixNano(), time.Now().UnixNano()) // one that gives up was there no longer than its lease
	h.tell(e)
	return nil
}

// lingers reports whether the caller is the one who has to linger.
func (h *demoHand) lingers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.linger
	h.linger = false
	return was
}

func (h *demoHand) tell(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.out.Encode(e) //nolint:errcheck // no reader is left: the end of the input says so as well
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
